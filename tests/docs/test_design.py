"""The design pages: every cited id exists exactly once, and the files and tests that they name exist."""

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
# Prefixes of the rules of each page of docs/design: the engine, rsclaw, auto_recall, the host's own memory, external
# systems, the league, the ledger, writeback, retention, indexes and versions of a store, canaries, hosts and their
# configurations, packs,
# episodes, temporal facts, graphs, observations, plans, and rerankers.
ENGINE = ("E", "RS", "AR", "HB", "EX", "LG", "LD", "WB", "RT", "IX", "CN", "IN", "HC")
PREFIXES = (*ENGINE, "PK", "EP", "TF", "GR", "OB", "PL", "RR")
RULE = re.compile(rf"\b(?:{'|'.join(PREFIXES)})-[1-9]\d*\b")
CAPABILITY = re.compile(r"(?<![\w.-])00[0-4]-\d{2,3}(?![\w-])")
DOCUMENT = re.compile(r"\b[Ss]eed (\d{3})\b")
# References to sections of a text that is not in the repository.
PRIVATE = re.compile(r"\bspec \d|\bspec, Appendix|§|engine-spec|\.\./seeds", re.IGNORECASE)
PATHS = re.compile(r"`((?:lab|tests|docs|golden|datasets)/[^`\s:]*|\w+\.(?:txt|toml|md))(?:::(\w+))?`")


class Row(NamedTuple):
    """One row of the coverage table."""

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
    """Return each cited id with a file that cites it."""
    return {cited_id: name for name, text in files("lab", "tests", "docs") for cited_id in pattern.findall(text)}


def repeated(ids: list[str]) -> list[str]:
    return [item for item, times in Counter(ids).items() if times > 1]


@pytest.fixture(scope="module")
def rules() -> list[str]:
    headings = re.compile(r"^### ([A-Z]+-\d+) \S", re.MULTILINE)
    return [rule for page in sorted(DESIGN.glob("*.md")) for rule in headings.findall(page.read_text("utf-8"))]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    text = (DESIGN / "coverage.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\| 00\d-", line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split(" | "))) for line in lines]


def test_rule_ids_are_unique_and_consecutive(rules: list[str]) -> None:
    assert repeated(rules) == []
    assert {rule.partition("-")[0] for rule in rules} <= {*PREFIXES}
    for prefix in PREFIXES:
        numbers = sorted(int(rule.partition("-")[2]) for rule in rules if rule.startswith(f"{prefix}-"))
        assert numbers == list(range(1, len(numbers) + 1)), prefix
    assert len(rules) > 50


def test_cited_rules_exist(rules: list[str]) -> None:
    citations = cited(RULE)
    assert len(citations) > 50
    assert {rule: name for rule, name in citations.items() if rule not in rules} == {}


def test_code_cites_every_rule(rules: list[str]) -> None:
    # Functions of the plugin that no arm calls are compared with its recorded answers alone.
    code = {rule for _, text in files("lab", "tests/conformance") for rule in RULE.findall(text)}
    # Rules that several functions implement together are not cited by one docstring.
    assert {*rules} - code <= {"E-6", "E-45", "E-46", "E-49", "E-61", "E-64"}


def test_no_file_cites_sections_outside_the_repository() -> None:
    citations = {name: match.group() for name, text in files("lab", "tests", "docs") if (match := PRIVATE.search(text))}
    assert citations == {}


def test_capability_ids_are_unique(rows: list[Row]) -> None:
    assert repeated([row.id for row in rows]) == []


def test_cited_capabilities_and_documents_exist(rows: list[Row]) -> None:
    known = {row.id for row in rows}
    assert {key: name for key, name in cited(CAPABILITY).items() if key not in known} == {}
    documents = {key.partition("-")[0] for key in known}
    assert {key: name for key, name in cited(DOCUMENT).items() if key not in documents} == {}


def test_coverage_lists_as_many_capabilities_as_it_counts(rows: list[Row]) -> None:
    text = " ".join((DESIGN / "coverage.md").read_text("utf-8").split())
    named, done, partly, missing = (
        int(number) for number in re.findall(r"(\d+) (?:capabilities|are done|that are partly|that are missing)", text)
    )
    assert named == done + partly + missing
    states = Counter(row.state for row in rows)
    assert states == {"partly": partly, "missing": missing}


def test_missing_capabilities_name_no_evidence(rows: list[Row]) -> None:
    assert [row for row in rows if row.state == "missing" and row.shown_by != "–"] == []


def test_files_and_tests_named_on_design_pages_exist() -> None:
    named = [
        (page.name, path, test)
        for page in sorted(DESIGN.rglob("*.md"))
        for path, test in PATHS.findall(page.read_text("utf-8"))
    ]
    assert len(named) > 20
    assert [(page, path) for page, path, _ in named if not (ROOT / path).exists()] == []
    assert [(page, path, test) for page, path, test in named if test and test not in functions(ROOT / path)] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_files_named_for_contributors_exist(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    named = [path for path, _ in PATHS.findall(text)]
    linked = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("https://")]
    assert len(named) + len(linked) > 1
    assert [path for path in (*named, *linked) if "NAME" not in path and not (ROOT / path).exists()] == []


def test_ci_runs_existing_sessions_on_every_supported_python() -> None:
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


def test_decisions_are_numbered_and_have_every_section() -> None:
    pages = sorted((DESIGN / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    assert len(pages) >= 8
    for page in pages:
        text = page.read_text("utf-8")
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert titles == ["Context", "Decision", "Consequences"], page.name
