"""A league over two small sets, run once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.report.league import write_page
from lab.runs.request import ReplayRequest
from lab.studies.league.arms import entrants_of
from lab.studies.league.league import League, run_league, write_outputs
from lab.studies.league.sets import parse_sets
from lab.systems.registry import BUILT_IN

ARMS = ("random", "bm25", "hybrid", "seed_full", "oracle")
BUDGETS = (64, 256)
# Beside the systems of the lab: see tests/studies/league/systems.py.
OWN = ("plain", "mute", "failing", "modelled")


@pytest.fixture
def own_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the systems of the tests."""
    for name in OWN:
        monkeypatch.setitem(BUILT_IN, name, "tests.studies.league.systems:make")


def run(
    out: Path, sets: Sequence[str], arms: Sequence[str] = ARMS, jobs: int = 1, slides: bool = False, **options: Any
) -> League:
    """Run a league, and write its files."""
    shared = ReplayRequest("", "", (), **{"embedder": "hashing"} | options)
    league = run_league(
        parse_sets(sets, None), entrants_of(arms, shared), BUDGETS, shared, out, jobs=jobs, command="lab study league"
    )
    write_outputs(league, out)
    write_page(league, out, slides=slides)
    return league


@pytest.fixture(scope="session")
def sets(operators: Path) -> tuple[str, str]:
    """Two conversations, and one among memories of others."""
    return f"one={operators}:lab:limit=1", f"two={operators}:lab:haystack=20:conversation=harbor-release"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the league."""
    return tmp_path_factory.mktemp("league")


@pytest.fixture(scope="session")
def league(folder: Path, sets: tuple[str, str]) -> League:
    """The league."""
    return run(folder / "out", sets, slides=True)
