"""A league over two small sets, run once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.replay.plan import ReplayRequest
from lab.report.league import write_page
from lab.studies.league.arms import entrants_of
from lab.studies.league.league import League, run_league
from lab.studies.league.outputs import write_outputs
from lab.studies.league.sets import parse_sets
from lab.systems.registry import BUILT_IN

SETS = ("one=shipped:operators:limit=2:haystack=0", "two=shipped:operators:haystack=20:conversation=harbor-release")
ARMS = ("random", "bm25", "hybrid", "seed_full", "oracle")
BUDGETS = (64, 256)
# Beside the systems of the lab: see tests/studies/league/systems.py.
OWN = ("plain", "mute", "failing", "modelled")


@pytest.fixture
def own_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the systems of the tests."""
    for name in OWN:
        monkeypatch.setitem(BUILT_IN, name, "tests.studies.league.systems:make")


def run(out: Path, arms: Sequence[str] = ARMS, sets: Sequence[str] = SETS, jobs: int = 1, **options: Any) -> League:
    """Run a league, and write its files."""
    shared = ReplayRequest("", "", (), **{"embedder": "hashing"} | options)
    league = run_league(
        parse_sets(sets, None), entrants_of(arms, shared), BUDGETS, shared, out, jobs=jobs, command="lab study league"
    )
    write_outputs(league, out)
    write_page(league, out, slides=True)
    return league


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the league."""
    return tmp_path_factory.mktemp("league")


@pytest.fixture(scope="session")
def league(folder: Path) -> League:
    """The league."""
    return run(folder / "out")
