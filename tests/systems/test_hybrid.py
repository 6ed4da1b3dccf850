"""Seed 001's claim on real conversations: both lanes together recall better than vectors alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.compare.paired import paired_differences
from lab.measures.score import score_run
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest

pytestmark = pytest.mark.slow

ARMS = ("vector", "hybrid")
# Two of four personas: embedding all of them takes two minutes more.
PERSONAS = ("Kenta_Tanaka", "Lin_Wanyu")


def test_hybrid_ranks_better_than_vectors_alone_for_each_persona(realmem: Path, tmp_path: Path) -> None:
    request = ReplayRequest(str(realmem), "realmem", ARMS, recall_turns="none", max_items=6, conversation=PERSONAS)
    run = run_replay(request, tmp_path / "run").run
    scores = score_run(run)
    differences = paired_differences(scores, *ARMS, ())
    assert differences["nDCG@6"].n == 279
    assert differences["nDCG@6"].estimate.mean > 0.02
    assert differences["R@6"].estimate.mean > 0
    for number, persona in enumerate(scores.conversations):
        mine = scores.where(scores.conversation == number)
        assert paired_differences(mine, *ARMS, ())["nDCG@6"].estimate.mean > 0, persona


def test_hybrid_hits_more_often_on_the_shipped_set(operators: Path, tmp_path: Path) -> None:
    request = ReplayRequest(str(operators), "lab", ARMS, scope="recorded", recall_turns="none", max_items=6)
    differences = paired_differences(score_run(run_replay(request, tmp_path / "run").run), *ARMS, ())
    assert differences["Success@6"].n == 84
    assert all(differences[name].estimate.mean > 0 for name in ("Success@6", "R@6", "nDCG@6"))
