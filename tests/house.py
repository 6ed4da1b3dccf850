"""Measure the size and the shape of the project: ``python -m tests.house [--json] [ROOT]``.

Lines and statements by package, modules between two packages, modules with one importer, repeated lines, commands,
and words of the documents. Statements are counted beside lines, so that packed lines gain nothing. Two checkouts are
compared by running it on each: ``python -m tests.house ../other``.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grimp

# Lines that two places must share to count as a duplicate.
WINDOW = 6
# Programs beside the evaluation lab, which have packages of their own.
OTHER_PROGRAMS = ("memory", "canary")
# The way from a recording to a verdict and its report.
FIRST, LAST = "lab.replay.run", "lab.report.build"


class Size(NamedTuple):
    """The size of some modules."""

    modules: int
    lines: int
    statements: int


def modules(root: Path, folder: str = "lab") -> dict[Path, str]:
    """Return the text of every Python file below a folder of a checkout."""
    return {path: path.read_text("utf-8") for path in sorted((root / folder).rglob("*.py"))}


def size_of(texts: Iterator[str] | list[str]) -> Size:
    """Return how many modules, lines and statements some texts have; a docstring is no statement."""
    count = lines = statements = 0
    for text in texts:
        count += 1
        lines += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            statements += isinstance(node, ast.stmt) and not docstring
    return Size(count, lines, statements)


def sizes(root: Path) -> dict[str, Size]:
    """Return the size of each package directly below ``lab/``; modules beside them count as ``(top)``."""
    grouped: dict[str, list[str]] = defaultdict(list)
    for path, text in modules(root).items():
        parts = path.relative_to(root / "lab").parts
        grouped[parts[0] if len(parts) > 1 else "(top)"].append(text)
    return {name: size_of(texts) for name, texts in sorted(grouped.items())}


def on_the_way(graph: grimp.ImportGraph) -> set[str]:
    """Return the modules that replaying, scoring, judging and reporting import, directly or not, without packages."""
    ends = (FIRST, "lab.measures.score", "lab.gate.verdict", LAST)
    return {*ends} | {each for end in ends if end in graph.modules for each in graph.find_upstream_modules(end)}


def with_one_importer(graph: grimp.ImportGraph, texts: dict[str, str]) -> list[str]:
    """Return the modules of under 40 lines that exactly one other module imports; a measure is a file of its own."""
    return sorted(
        name
        for name in graph.modules
        if 0 < texts.get(name, "").count("\n") < 40
        and not name.startswith("lab.measures.definitions.")
        and len(graph.find_modules_that_directly_import(name)) == 1
    )


def duplicates(texts: dict[Path, str]) -> tuple[int, int]:
    """Return how many windows of six lines stand in more than one place: literally, and with other names and values."""
    literal: Counter[int] = Counter()
    shape: Counter[int] = Counter()
    name = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'")
    for text in texts.values():
        lines = [line.strip() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
        lines = [line for line in lines if not line.startswith(("from ", "import "))]
        shapes = [name.sub("x", line) for line in lines]
        for counter, each in ((literal, lines), (shape, shapes)):
            windows = {hash(tuple(each[at : at + WINDOW])) for at in range(len(each) - WINDOW + 1)}
            counter.update(windows)
    return sum(count > 1 for count in literal.values()), sum(count > 1 for count in shape.values())


def commands() -> tuple[int, int]:
    """Return how many commands ``lab`` has, and how many names stand at its top; hidden ones are left out."""
    from typer.main import get_command

    from lab.cli.main import app

    def count(command: Any) -> int:
        below = getattr(command, "commands", None)
        return 1 if below is None else sum(count(each) for each in below.values() if not each.hidden)

    group: Any = get_command(app)
    return count(group), sum(not each.hidden for each in group.commands.values())


def words(root: Path) -> int:
    """Return how many words the documents have: README, CONTRIBUTING and the other pages at the top, and docs/."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return sum(len(page.read_text("utf-8").split()) for page in pages if page.name != "CHANGELOG.md")


def measure(root: Path) -> dict[str, Any]:
    """Return all figures of the checkout that holds the imported package ``lab``."""
    graph = grimp.build_graph("lab", exclude_type_checking_imports=False, cache_dir=None)
    texts = modules(root)
    named = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): text
        for path, text in texts.items()
    }
    rooms = sizes(root)
    evaluation = size_of(
        [text for name, text in named.items() if name.split(".")[1:2] not in [[p] for p in OTHER_PROGRAMS]]
    )
    literal, shape = duplicates(texts)
    tests = size_of(list(modules(root, "tests").values()))
    total, top = commands()
    return {
        "rooms": {name: size._asdict() for name, size in rooms.items()},
        "lab": size_of(list(texts.values()))._asdict(),
        "evaluation": evaluation._asdict(),
        "tests": tests._asdict(),
        "modules on the way": len(on_the_way(graph)),
        "modules under 40 lines with one importer": len(with_one_importer(graph, named)),
        "duplicates, literal": literal,
        "duplicates, by shape": shape,
        "commands": total,
        "names at the top": top,
        "words of documents": words(root),
    }


def main() -> None:
    """Print the figures as a table or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=str(__doc__).split("\n")[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent, help="a checkout")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    root = given.root.resolve()
    sys.path.insert(0, str(root))
    figures = measure(root)
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, size in figures.pop("rooms").items():
        print(f"{name:14}{size['modules']:>6} modules{size['lines']:>9,} lines{size['statements']:>9,} statements")
    for name, value in figures.items():
        shown = (
            ", ".join(f"{count:,} {what}" for what, count in value.items()) if isinstance(value, dict) else f"{value:,}"
        )
        print(f"{name}: {shown}")


if __name__ == "__main__":
    main()
