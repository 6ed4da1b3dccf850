"""Every measure that a run has is known by its name, and so is one at another cutoff or level."""

from __future__ import annotations

import pytest

from lab.measures.names import is_measure
from lab.measures.score import score_run
from lab.replay.run_directory import RunDirectory


def test_every_measure_of_a_run_is_known(run: RunDirectory) -> None:
    scores = score_run(run)
    assert [name for name in scores.measures if not is_measure(name)] == []


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *((one, True) for one in ("R@7", "P(rel=2)@6", "AP@999", "Rprec", "RepeatRate(probes)", "GoldNice@4")),
        *((one, False) for one in ("R", "R@0", "R@", "R@x", "nDCG(rel=2)@6", "WrongScope@6", "hit@6", "", "@6", "R@²")),
    ],
)
def test_cutoffs_and_levels(name: str, known: bool) -> None:
    assert is_measure(name) == known
