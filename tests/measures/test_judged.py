"""Tests of Judged@k and of what memories judged irrelevant change in the scores of a run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.golden.files import golden_bytes, read_golden
from lab.golden.model import GoldenSet, Probe
from lab.measures.judged import judged_shares
from lab.measures.score import score_run
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.receipts import read_receipts
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold

ARMS = ("hybrid", "vector", "bm25", "random")
CONVERSATION = "harbor-release"


def _run(operators: Path, golden: GoldenSet, folder: Path) -> RunDirectory:
    folder.mkdir()
    path = folder / "golden.jsonl"
    path.write_bytes(golden_bytes(golden.probes))
    request = ReplayRequest(
        str(operators / f"{CONVERSATION}.jsonl"), "lab", ARMS, embedder="hashing", golden=str(path), haystack=0
    )
    return run_replay(request, folder / "run").run


@pytest.fixture(scope="module")
def runs(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, RunDirectory]:
    """Runs of one conversation with the shipped judgements, and with every other of hybrid's memories irrelevant."""
    folder = tmp_path_factory.mktemp("judged")
    golden = GoldenSet(read_golden(operators.parents[1] / "golden" / operators.name).of(CONVERSATION))
    first = _run(operators, replace(golden, probes=_plain(golden)), folder / "sparse")
    receipts = read_receipts(first, CONVERSATION)
    rows = receipts.rows_of("hybrid")
    ranked = dict(zip(receipts.probe[rows], receipts.keys_of(rows), strict=True))
    dense = tuple(
        replace(
            probe,
            irrelevant=(
                *(key for key in ranked[probe.id][::2] if key not in _listed(first, probe.id)),
                "haystack:night-bakery/s01/t01#0",
            ),
        )
        for probe in _plain(golden)
    )
    return first, _run(operators, GoldenSet(dense), folder / "dense")


def _plain(golden: GoldenSet) -> tuple[Probe, ...]:
    return tuple(replace(probe, irrelevant=()) for probe in golden.probes)


def _listed(run: RunDirectory, probe: str) -> set[str]:
    return set(read_gold(run)[probe].judged)


def test_irrelevant_memories_raise_judged_and_change_no_other_measure(runs: tuple[RunDirectory, RunDirectory]) -> None:
    sparse, dense = (score_run(run) for run in runs)
    assert (sparse.measures, sparse.arms) == (dense.measures, dense.arms)
    judged = np.array([name.startswith("Judged@") for name in sparse.measures])[sparse.measure]
    np.testing.assert_array_equal(sparse.value[~judged], dense.value[~judged])
    assert (sparse.value[judged] <= dense.value[judged]).all()
    assert sparse.value[judged].mean() + 0.1 < dense.value[judged].mean()


def test_judged_equals_a_count_by_hand(runs: tuple[RunDirectory, RunDirectory]) -> None:
    run = runs[1]
    scores, gold = score_run(run), read_gold(run)
    lines = [json.loads(line) for line in (run.path / "golden.jsonl").read_text("utf-8").splitlines()]
    irrelevant = {line["probe"]: line.get("irrelevant", []) for line in lines}
    receipts = read_receipts(run, CONVERSATION)
    for arm in ARMS:
        rows = [
            row for row in receipts.rows_of(arm).tolist() if receipts.probe[row] and gold[receipts.probe[row]].grades
        ]
        expected = []
        for ranking, row in zip(receipts.keys_of(np.array(rows)), rows, strict=True):
            judgements = gold[receipts.probe[row]]
            known = {*judgements.grades, *judgements.forbidden, *irrelevant[receipts.probe[row]]}
            expected.append(sum(key in known for key in ranking[:6]) / max(len(ranking[:6]), 1))
        values = scores.all_of_arm(arm)["Judged@6"].value
        assert math.isclose(math.fsum(values), math.fsum(expected))
        assert len(values) == len(rows)


def test_judged_shares_of_a_later_judged_set_are_those_of_a_replay(runs: tuple[RunDirectory, RunDirectory]) -> None:
    sparse, dense = runs
    gold = read_gold(dense)
    with_gold = {probe for probe, judgements in gold.items() if judgements.grades}
    scores = score_run(dense)
    for k in (1, 6):
        shares = judged_shares(sparse, {probe: judgements.judged for probe, judgements in gold.items()}, with_gold, k)
        means = {arm: np.mean(scores.all_of_arm(arm)[f"Judged@{k}"].value) for arm in ARMS}
        assert {result.arm: result.share for result in shares} == pytest.approx(means)
    assert all(result.judged > 0 for result in shares)


def test_golden_of_a_run_lists_irrelevant_memories_that_exist(runs: tuple[RunDirectory, RunDirectory]) -> None:
    sparse, dense = (
        [json.loads(line) for line in (run.path / "golden.jsonl").read_text("utf-8").splitlines()] for run in runs
    )
    assert not any("irrelevant" in line for line in sparse)
    # The haystack of this replay is empty, so the judgement of its memory is dropped.
    assert all(not key.startswith("haystack:") for line in dense for key in line.get("irrelevant", ()))
    assert [line | {"irrelevant": None} for line in dense] == [line | {"irrelevant": None} for line in sparse]
    assert sum(len(line.get("irrelevant", ())) for line in dense) > 2 * len(dense)
