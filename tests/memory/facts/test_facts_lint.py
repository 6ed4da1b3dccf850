"""The lint of facts: nothing in clean sets, and every code where its defect is seeded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.memory.facts.model import PREDICATES
from lab.memory.facts.sources import Sources
from lab.memory.facts.view import CODES, View, lint, receipt
from tests.memory.facts.seeded import clean, seeded
from tests.memory.facts.stores import NOW, Place, claim, place


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> list[Place]:
    return [clean(tmp_path_factory.mktemp(f"set{seed}"), seed) for seed in range(3)]


def test_lint_of_clean_facts_finds_nothing(sets: list[Place]) -> None:
    for here in sets:
        assert lint(here.view, here.sources) == []
        assert len(here.view) > 15


@pytest.mark.parametrize("code", CODES)
def test_lint_finds_a_seeded_defect(sets: list[Place], code: str) -> None:
    for seed, here in enumerate(sets):
        records, identity = seeded(here, code, seed)
        issues = lint(View(records), here.sources)
        assert (code, identity) in {(issue.code, issue.fact) for issue in issues}
        assert receipt(View(records), issues)["ok"] is (code == "stale_source")


def test_lint_without_a_ledger_does_not_judge_its_sources(sets: list[Place]) -> None:
    for here in sets:
        assert lint(here.view, Sources(None, here.root)) == []


def test_long_chain_of_supersession_is_no_cycle(tmp_path: Path) -> None:
    here, previous = place(tmp_path), ()
    for day in range(1, 28):
        previous = (here.add(claim(f"v{day}", f"2026-11-{day:02d}", supersedes=previous), now=NOW).id,)
    assert lint(here.view, here.sources) == []


def test_predicates_are_those_of_the_rules() -> None:
    rules = Path(__file__).parents[3] / "docs" / "design" / "facts.md"
    rows = re.findall(r"^\| `(\w+)` \| (one|many) \| (.+) \| (.+) \|$", rules.read_text("utf-8"), re.MULTILINE)
    assert sorted((name, number == "one", objects, aliases) for name, number, objects, aliases in rows) == sorted(
        (name, one.is_single, ", ".join(one.objects), ", ".join(one.aliases)) for name, one in PREDICATES.items()
    )
