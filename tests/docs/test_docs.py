"""The pages: commands parse, links resolve, and the site loads nothing from other hosts."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from lab.cli.main import app
from lab.cli.sections import GATE
from lab.gate.shipped import shipped_policies
from lab.recordings.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "reports" / "example"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ROOT_COMMAND: Any = typer.main.get_command(app)
EXAMPLES = {"README.md", "extending.md"}


def _lines(text: str) -> Iterator[str]:
    """Yield all code: indented and fenced lines, and text between backticks."""
    text = text.replace("\\\n", " ")
    fenced = FENCE.findall(text)
    plain = FENCE.sub("", text)
    for block in fenced:
        yield from block.splitlines()[1:-1]
    yield from (line for line in plain.splitlines() if line.startswith("    "))
    prose = "\n".join(line for line in plain.splitlines() if not line.startswith("    "))
    yield from (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose))


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every command ``lab …``."""
    for line in _lines(text):
        if not re.search(r"(?:^|[\s/])lab ", line):
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        while words:
            end = next((index for index, word in enumerate(words) if word in ("|", "&&", "||", ">", ";")), len(words))
            command, words = words[:end], words[end + 1 :]
            if len(command) > 1 and (command[0] == "lab" or command[0].endswith("/lab")):
                yield command[1:]


def _problem(words: list[str]) -> str | None:
    """Return what is wrong with a command, or None."""
    command = ROOT_COMMAND
    rest = list(words)
    while rest and hasattr(command, "commands") and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):
        if GATE.default not in command.commands:
            known = {"--help", *(name for parameter in command.params for name in parameter.opts)}
            return None if not rest or rest[0] in known else f"no command {rest[0]}"
        command = command.commands[GATE.default]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in options | {"--help"}:
            return f"no option {word}"
    return None


def _values(words: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == option]


@pytest.fixture(scope="module")
def commands(pages: dict[str, str]) -> list[tuple[str, list[str]]]:
    texts = {**pages, "README.md": (ROOT / "README.md").read_text("utf-8")}
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        texts[path.name] = "\n\n".join("".join(cell["source"]) for cell in cells)
    return [(name, words) for name, text in texts.items() for words in _commands(text)]


def test_commands_in_code_and_prose_are_found() -> None:
    text = "See `lab score DIR\n-m X` and\n\n    journalctl | .venv/bin/lab canary audit - # well\n"
    text += "    pip install lab x\n"
    text += "\n```console\nlab replay a \\\n    --out b && lab score b\n```\n"
    commands = list(_commands(text))
    assert commands == [
        ["replay", "a", "--out", "b"],
        ["score", "b"],
        ["canary", "audit", "-"],
        ["score", "DIR", "-m", "X"],
    ]
    assert [_problem(words) for words in commands] == [None] * 4
    assert _problem(["scroe", "b"]) == "no command scroe"
    assert _problem(["cache", "sweep"]) == "no command sweep"
    assert _problem(["score", "b", "--loud"]) == "no option --loud"
    assert _problem(["gate", "DIR", "--policy", "x"]) is None
    assert _problem(["gate", "DIR", "--plicy=x"]) == "no option --plicy=x"


def test_commands_on_pages_parse(commands: list[tuple[str, list[str]]]) -> None:
    assert len(commands) > 80
    assert [(page, " ".join(words), problem) for page, words in commands if (problem := _problem(words))] == []


def test_formats_and_policies_on_pages_exist(commands: list[tuple[str, list[str]]]) -> None:
    recordings = [
        (page, value)
        for page, words in commands
        if page not in EXAMPLES
        and words[0] in ("replay", "sweep", "ablate", "saturation", "scale", "latency", "recordings")
        for value in _values(words, "--format")
    ]
    policies = [(page, value) for page, words in commands for value in _values(words, "--policy")]
    assert recordings
    assert policies
    assert [(page, name) for page, name in recordings if name not in FORMATS] == []
    # A TOML file is a policy of the reader.
    assert [
        (page, name) for page, name in policies if not name.endswith(".toml") and name not in shipped_policies()
    ] == []


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


def test_links_lead_to_existing_pages_and_headings(pages: dict[str, str]) -> None:
    texts = {ROOT / "docs" / name: text for name, text in pages.items()}
    texts[ROOT / "README.md"] = (ROOT / "README.md").read_text("utf-8")
    links = [(page, target) for page, text in texts.items() for target in LINK.findall(FENCE.sub("", text))]
    links = [(page, target) for page, target in links if not target.startswith("https://")]
    assert len(links) > 30
    broken = []
    for page, target in links:
        file, _, anchor = target.partition("#")
        where = (page.parent / file if file else page).resolve()
        if not where.is_file() or (anchor and anchor not in _anchors(where.read_text("utf-8"))):
            broken.append((page.name, target))
    assert broken == []


def _cells(text: str) -> dict[str, list[str]]:
    """Return the cells of the rows of Markdown tables by the first one, without escapes and signs of code."""
    rows = [line.strip("| ").split(" | ") for line in text.replace("\xa0", " ").splitlines() if line.startswith("| ")]
    return {first.replace("\\", "").strip("`"): cells for first, *cells in rows}


def test_example_report_shows_the_figures_of_the_readme() -> None:
    """The test of ``lab demo`` in tests/cli holds all of the example to a run; this one is cheap."""
    readme = _cells((ROOT / "README.md").read_text("utf-8").partition("## Where to go")[0])
    report = _cells((EXAMPLE / "report.md").read_text("utf-8").partition("## Arms")[2].partition("\n## ")[0])
    assert len(report) == 11, "nine arms, the heads and the rule below them"
    columns = [report["arm"].index(name) for name in readme["arm"][:5]]
    for arm in list(report)[2:]:
        shown = [None if cell == "–" else f"{100 * float(cell):.1f} %" for cell in readme[arm][:5]]
        assert shown == [None if report[arm][at] == "–" else report[arm][at] for at in columns], arm


def test_example_report_has_its_figures_and_no_path_of_a_machine() -> None:
    report = (EXAMPLE / "report.md").read_text("utf-8")
    named = LINK.findall(report)
    assert len(named) > 8
    assert sorted(named) == sorted(f"figures/{path.name}" for path in (EXAMPLE / "figures").iterdir())
    texts = [path.read_text("utf-8") for path in EXAMPLE.rglob("*") if path.is_file()]
    assert [
        path for path in (ROOT, Path.home(), Path(tempfile.gettempdir())) for text in texts if f"{path}/" in text
    ] == []


def test_every_page_is_in_the_navigation(pages: dict[str, str]) -> None:
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    assert listed == {*pages, *(f"reference/{name}.md" for name in ("cli", "measures", "knobs", "protocol"))}


class Loaded(HTMLParser):
    """The addresses that a page loads without a click."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.loaded += [values[name] or "" for name in ("src", "srcset", "data", "poster") if name in values]
        if tag == "link":
            self.loaded.append(values.get("href") or "")


@pytest.mark.process
def test_site_builds_without_warnings_and_loads_only_its_own_files(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed (dependency group docs)")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    files = sorted((tmp_path / "site").rglob("*.html"))
    assert len(files) > 12
    # Links to a page that is made with the site lead to it.
    guide = (tmp_path / "site" / "external.html").read_text("utf-8")
    assert 'href="reference/protocol.html"' in guide
    assert '<h2 id="lab-replay' in (tmp_path / "site" / "reference" / "cli.html").read_text("utf-8")
    loaded = {address for file in files for address in Loaded(file.read_text("utf-8")).loaded}
    assert any(address.endswith(".css") for address in loaded)
    assert [address for address in loaded if re.match(r"(?:\w+:)?//", address)] == []
    styles = "".join(file.read_text("utf-8") for file in (tmp_path / "site").rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)\"']*", styles) == []
    assert not list((tmp_path / "site").rglob("*.py"))
