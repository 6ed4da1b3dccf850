"""A short run of the simulations of docs/canary-watch.md, with the code of the long one."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from tests.trials import watch_simulations as simulations

pytestmark = pytest.mark.slow
SEEDS = range(15)


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> simulations.Traffic:
    """Return the traffic of a replay with drawn times: those that a busy machine measures would decide the test."""
    folder: Path = tmp_path_factory.mktemp("watch")
    measured, draw = simulations.traffic_of(folder, conversations=2), random.Random(0)
    sessions = [
        [turn._replace(milliseconds=draw.lognormvariate(math.log(50), 0.4)) for turn in session]
        for session in measured.sessions
    ]
    return measured._replace(sessions=sessions)


@pytest.mark.parametrize("figure", simulations.WITHIN)
def test_change_is_found(traffic: simulations.Traffic, figure: str) -> None:
    early, found = simulations.within(traffic, figure, SEEDS)
    soon = sum(recalls <= simulations.WITHIN[figure] for recalls in found)
    # 80 % in the long run; with so few, a share of 60 % would be a fault that no chance explains.
    assert soon >= 0.6 * len(found)
    assert early <= 0.2 * len(SEEDS)


def test_false_alarms_are_rare(traffic: simulations.Traffic) -> None:
    alarms = [len(simulations.month(traffic, seed)) for seed in range(2)]
    assert sum(alarms) <= 4


def test_lines_and_parsed_lines_give_the_same(traffic: simulations.Traffic) -> None:
    simulations.require_equal(traffic, range(1))
