"""Rules of the architecture that no other tool checks."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "lab").rglob("*.py"))


def _commands() -> list[str]:
    """Return the names of all visible commands, with their group: ``replay``, ``runs rm``."""
    from lab.cli.main import app

    def walk(group: Any, path: tuple[str, ...]) -> Iterator[str]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, (*path, name))
            elif not command.hidden:
                yield " ".join((*path, name))

    return list(walk(typer.main.get_command(app), ()))


def test_files_have_at_most_600_lines() -> None:
    assert len(MODULES) > 50
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in [*MODULES, *(ROOT / "lab").rglob("*.j2"), *(ROOT / "tests").rglob("*.py")]
    }
    assert {name: length for name, length in lengths.items() if length > 600} == {}


def test_page_lists_every_package_in_the_order_of_the_layers() -> None:
    page = (ROOT / "docs" / "design" / "architecture.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `lab/")]
    listed = [re.findall(r"`lab/(\w+)(?:\.py)?`", row) for row in rows]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    layers = [name.strip().removeprefix("lab.") for row in contract["layers"] for name in row.split("|")]
    assert [name for row in listed for name in row] == layers
    packages = {path.name for path in (ROOT / "lab").iterdir() if (path / "__init__.py").exists()}
    assert packages == set(layers) - {"notebook"}


@pytest.mark.parametrize(
    "package", ["memory/episodes", "memory/facts", "memory/graph", "systems/observations", "systems/rerank.py"]
)
def test_package_reads_no_clock_randomness_or_environment(package: str) -> None:
    path = ROOT / "lab" / package
    modules = [path] if path.is_file() else sorted(path.glob("*.py"))
    reads = re.compile(r"\.(?:now|utcnow|today|time(?:_ns)?)\(|\bimport (?:random|uuid)\b|\b(?:environ|getenv)\b")
    assert len(modules) > 2 or path.is_file()
    assert [path.name for path in modules if reads.search(path.read_text("utf-8"))] == []


def test_every_module_has_a_docstring() -> None:
    # An empty __init__.py only marks its folder.
    undocumented = [
        str(path.relative_to(ROOT))
        for path in MODULES
        if (tree := ast.parse(path.read_text("utf-8"))).body and not (ast.get_docstring(tree) or "").strip()
    ]
    assert undocumented == []


def test_commands_lists_commands_and_groups() -> None:
    assert {"replay", "score", "compare", "explain", "report", "demo", "runs rm", "golden lint"} <= set(_commands())


def test_readme_names_no_unknown_command() -> None:
    # Between backticks, or at the start of an indented example.
    text = (ROOT / "README.md").read_text("utf-8")
    named = re.findall(r"(?:`|^ {4}(?:\S+/)?)lab ([a-z][a-z-]*(?: [a-z][a-z-]*){0,2})", text, re.MULTILINE)
    # `lab gate DIR` is short for `lab gate judge DIR`, and the words after a command are what it is given.
    known = {*_commands(), "gate"}
    assert named
    starts = {words: [" ".join(words.split()[:count]) for count in (1, 2, 3)] for words in named}
    assert [words for words, first in starts.items() if not known & {*first}] == []


def _options(name: str) -> set[str]:
    """Return the options of a command."""
    from lab.cli.main import app

    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_has_json() -> None:
    assert [name for name in _commands() if "--json" not in _options(name)] == []


def test_no_command_prints_its_json_by_hand() -> None:
    """Text and JSON are two views of one result, which :mod:`lab.cli.results` prints."""
    own = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        if path != ROOT / "lab" / "cli" / "results.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.arg) and node.arg == "as_json"
    ]
    assert own == []


def test_page_lists_every_command_that_needs_write() -> None:
    page = (ROOT / "docs/reference.md").read_text("utf-8")
    table = page.partition("## What a command changes")[2].partition("\n## ")[0]
    listed = {
        name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`lab ([a-z -]+)`", line)
    }
    assert listed == {name for name in _commands() if "--write" in _options(name)}


def test_no_other_option_says_whether_a_command_writes() -> None:
    others = {name: sorted(_options(name) & {"--yes", "--dry-run", "--force"}) for name in _commands()}
    assert {name: found for name, found in others.items() if found} == {
        "memory import": ["--dry-run"],
        "memory ledger writeback": ["--dry-run", "--force"],
    }


def test_messages_name_known_commands() -> None:
    """A sentence such as ``run lab memory ledger ingest`` must not outlive the command."""
    # "The lab replays" and the like are prose.
    named = re.compile(
        r"(?<![Tt]he )(?<![\w-])(?<!all )lab (?!for |stage|versions |reads )([a-z][a-z-]+(?: [a-z][a-z-]+){0,2})"
    )
    known = {" ".join(name.split()[:count]) for name in _commands() for count in (1, 2, 3)}
    texts = [
        (path, node.value)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    wrong = [
        f"{path.relative_to(ROOT)}: lab {words}"
        for path, text in texts
        for words in named.findall(text)
        if not {" ".join(words.split()[:count]) for count in (1, 2, 3)} & known
    ]
    assert wrong == []


def test_command_lists_are_not_truncated_at_80_columns() -> None:
    from lab.cli.main import app

    def walk(group: Any) -> Iterator[Any]:
        yield group
        for command in group.commands.values():
            if hasattr(command, "commands"):
                yield from walk(command)

    groups = list(walk(typer.main.get_command(app)))
    assert len(groups) > 5
    for group in groups:
        visible = {name: command for name, command in group.commands.items() if not command.hidden}
        # What typer leaves of 80 columns beside the longest name. It ends a line that it cut with dots.
        room = 72 - max(map(len, visible))
        lines = {name: command.get_short_help_str(room) for name, command in visible.items()}
        assert {name: line for name, line in lines.items() if not line or line.endswith("...")} == {}


def _runtime_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a tree imports when it runs; a block for type checkers alone is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        yield from _runtime_imports(node)


def test_only_the_slides_import_matplotlib() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if any(name.split(".")[0] == "matplotlib" for name in _runtime_imports(ast.parse(path.read_text("utf-8"))))
    ]
    assert users == ["lab/report/slides.py"]


def _names(path: Path) -> set[str]:
    """Return the names that a module defines or imports outside of its functions and classes."""
    names = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while nodes:
        for node in ast.iter_child_nodes(nodes.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            else:
                names |= {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
                nodes.append(node)
    return names


@pytest.mark.parametrize("folder", ["trials", "benchmarks", "peers"])
def test_scripts_run_by_hand_import_what_the_lab_has(folder: str) -> None:
    missing = []
    for script in sorted((ROOT / "tests" / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(script.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith(("lab.", "tests.")):
                continue
            place = ROOT / str(node.module).replace(".", "/")
            module = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
            known = _names(module) if module.exists() else set()
            submodules = {path.stem for path in place.iterdir()} if place.is_dir() else set()
            missing += [
                f"{script.name}: {node.module}.{alias.name}"
                for alias in node.names
                if alias.name not in known | submodules
            ]
    assert missing == []


@pytest.mark.parametrize("page", ["docs/design/architecture.md", "docs/extending.md", "CONTRIBUTING.md", "README.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    """A path may be short, such as ``seed/stages.py``; what the examples of a page add is left out."""
    text = (ROOT / page).read_text("utf-8")
    made = set(re.findall(r'title="([^"]+)"', text))
    known = {
        path.relative_to(ROOT).as_posix()
        for folder in ("lab", "tests", "docs")
        for path in (ROOT / folder).rglob("*.py")
    }
    named = set(re.findall(r"`([\w./]+/[\w.]+\.py)`", text)) - made
    assert named or page == "README.md"
    missing = {path for path in named if not any(f"/{one}".endswith(f"/{path}") for one in known)}
    assert {path for path in missing if "NAME" not in path} == set()


def _evaluated_on_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a module that its import evaluates: all but the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _evaluated_on_import(child)


def test_import_of_a_module_compiles_no_pattern() -> None:
    """A command loads hundreds of patterns and uses few: :func:`lab.base.regex.regex` compiles those."""
    compiling = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in _evaluated_on_import(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"
    }
    assert compiling == set()
