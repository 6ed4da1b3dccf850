"""The design pages: every id that is cited exists, once, and what the coverage cites as evidence is there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "docs" / "design"
SOURCES = (".py", ".toml", ".md", ".j2", ".yml")
RULE = re.compile(r"\bE-[1-9]\d*\b")
CAPABILITY = re.compile(r"(?<![\w.-])00[0-4]-\d{2,3}(?![\w-])")
DOCUMENT = re.compile(r"\b[Ss]eed (\d{3})\b")
# What a clone cannot follow: sections of a text that it does not hold.
PRIVATE = re.compile(r"\bspec \d|\bspec, Appendix|§|engine-spec|\.\./seeds", re.IGNORECASE)
PATHS = re.compile(r"`((?:lab|tests|docs|golden|datasets)/[^`\s]*|\w+\.(?:txt|toml|md))(?:::(\w+))?`")
STATES = ("done", "partly", "missing")


class Row(NamedTuple):
    """One line of the coverage."""

    id: str
    capability: str
    state: str
    where: str
    shown_by: str


@cache
def files(*folders: str) -> list[tuple[str, str]]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    read = [path for path in paths if path.suffix in SOURCES and path.is_file() and path != Path(__file__)]
    return [(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in read]


def cited(pattern: re.Pattern[str]) -> dict[str, str]:
    """Each id that is cited, with a file that cites it."""
    return {one: name for name, text in files("lab", "tests", "docs") for one in pattern.findall(text)}


def repeated(ids: list[str]) -> list[str]:
    return [one for one, times in Counter(ids).items() if times > 1]


@pytest.fixture(scope="module")
def rules() -> list[str]:
    return re.findall(r"^### (E-\d+) \S", (DESIGN / "engine.md").read_text("utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    text = (DESIGN / "coverage.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\| 00\d-", line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split(" | "))) for line in lines]


def test_rules_have_ids_that_are_unique_and_leave_no_gap(rules: list[str]) -> None:
    assert repeated(rules) == []
    numbers = sorted(int(one.removeprefix("E-")) for one in rules)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 50


def test_rules_that_are_cited_exist(rules: list[str]) -> None:
    found = cited(RULE)
    assert len(found) > 50
    assert {one: name for one, name in found.items() if one not in rules} == {}


def test_rules_are_cited_by_the_code(rules: list[str]) -> None:
    code = {one for _, text in files("lab") for one in RULE.findall(text)}
    # Rules that several functions keep together, and no docstring alone.
    assert {*rules} - code <= {"E-6", "E-45", "E-46", "E-49", "E-61", "E-64"}


def test_no_file_cites_sections_that_a_clone_lacks() -> None:
    found = {name: match.group() for name, text in files("lab", "tests", "docs") if (match := PRIVATE.search(text))}
    assert found == {}


def test_capabilities_have_ids_that_are_unique(rows: list[Row]) -> None:
    assert len(rows) > 250
    assert repeated([row.id for row in rows]) == []


def test_capabilities_and_documents_that_are_cited_exist(rows: list[Row]) -> None:
    known = {row.id for row in rows}
    assert {one: name for one, name in cited(CAPABILITY).items() if one not in known} == {}
    documents = {one.partition("-")[0] for one in known}
    assert {one: name for one, name in cited(DOCUMENT).items() if one not in documents} == {}


def test_capabilities_have_one_of_three_states(rows: list[Row]) -> None:
    assert [row for row in rows if row.state not in STATES or not row.capability] == []


def test_done_capabilities_name_a_file_and_a_test(rows: list[Row]) -> None:
    done = [row for row in rows if row.state == "done"]
    assert len(done) > 80
    for row in done:
        assert re.search(r"`(?:lab|golden|constraints)", row.where), row
        assert re.search(r"`tests/", row.shown_by), row


def test_missing_capabilities_name_no_evidence(rows: list[Row]) -> None:
    assert [row for row in rows if row.state == "missing" and row.shown_by != "–"] == []


def test_totals_of_the_coverage_are_those_of_its_lines(rows: list[Row]) -> None:
    text = (DESIGN / "coverage.md").read_text("utf-8")
    told = re.findall(r"^\| (?:seed )?(\d{3}|all) \|(.*)\|$", text, re.MULTILINE)
    counts = {name: [int(cell) for cell in cells.split("|")] for name, cells in told}
    assert {*counts} == {*{row.id[:3] for row in rows}, "all"}
    for name, numbers in counts.items():
        own = [row for row in rows if name in ("all", row.id[:3])]
        assert numbers == [*(sum(row.state == state for row in own) for state in STATES), len(own)], name


def test_files_and_tests_that_the_design_names_exist() -> None:
    found = [
        (page.name, path, name)
        for page in sorted(DESIGN.rglob("*.md"))
        for path, name in PATHS.findall(page.read_text("utf-8"))
    ]
    assert len(found) > 100
    assert [one for one in found if not (ROOT / one[1]).exists()] == []
    assert [one for one in found if one[2] and one[2] not in functions(ROOT / one[1])] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_files_that_contributors_are_sent_to_exist(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    named = [path for path, _ in PATHS.findall(text)]
    linked = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("https://")]
    assert len(named) + len(linked) > 1
    assert [one for one in (*named, *linked) if "NAME" not in one and not (ROOT / one).exists()] == []


def test_continuous_integration_runs_sessions_that_exist_on_every_supported_python() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    sessions = set(re.findall(r"nox -s (\w+)", text))
    assert sessions >= {"lint", "types", "tests", "docs"}
    defined = re.findall(r"^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE)
    assert sessions <= {*defined}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    matrix = re.search(r"^ +python-version: \[(.+)\]$", text, re.MULTILINE)
    assert matrix is not None
    assert re.findall(r"3\.\d+", matrix[1]) == re.findall(r"Python :: (3\.\d+)", project)


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}


def test_decisions_are_numbered_and_have_every_part() -> None:
    pages = sorted((DESIGN / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    assert len(pages) >= 8
    for page in pages:
        text = page.read_text("utf-8")
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert titles == ["Context", "Decision", "Consequences"], page.name
