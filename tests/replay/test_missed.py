"""Missed relevant memories by cause: the causes are those of `lab explain` and sum to all that was missed."""

from __future__ import annotations

from pathlib import Path
from shlex import split
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.base.errors import CannotMeasure, UnusableInput
from lab.cli.main import app
from lab.replay.explain import FILE, Counts, counts_in, explain, missed, write_missed
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table

ARMS = ("tier_first_v1", "tier_quota_v1", "seed_full", "hybrid", "random", "none")
MUST, NICE, IGNORE, UNKNOWN = "must_remember", "nice_to_have", "ignore", "unknown"


def test_missed_causes_sum_and_equal_those_of_explain(operators: Path, tmp_path: Path) -> None:
    request = ReplayRequest(
        str(operators), "lab", ARMS, embedder="hashing", scope="recorded", conversation=("two-desks", "tea-mountain")
    )
    run = run_replay(request, tmp_path / "run").run
    rows, counts = missed(run)
    relevant = sum(len(gold.grades) for gold in read_gold(run).values())
    for arm, count in counts.items():
        assert count.relevant == relevant
        assert count.injected + count.pinned + sum(count.causes.values()) == relevant
        # Counted again from the receipts.
        injected = 0
        for conversation in run.conversations:
            for row in read_table(run.receipts(conversation)).to_pylist():
                if row["arm"] == arm and row["probe"]:
                    present = {*row["item_key"][: row["injected"]], *row["pinned"]}
                    injected += len(present.intersection(read_gold(run)[row["probe"]].grades))
        assert count.missed == relevant - injected
    assert counts["none"].missed == relevant
    assert len(set(counts["seed_full"].causes)) >= 3
    assert missed(run, jobs=2)[0] == rows
    for row in rows[:: max(1, len(rows) // 12)]:
        assert explain(run, row.probe, row.arm).explained.causes[row.memory] == row.cause
    table = write_missed(rows, counts, run.path / FILE)
    assert counts_in(table) == counts_in(read_table(run.path / FILE)) == counts
    # What is advised can be run as it is printed.
    said = CliRunner().invoke(app, ["missed", str(run.path)]).stdout.replace("\\\n", "")
    assert "First at " in said
    words = split(next(line for line in said.splitlines() if "lab explain " in line).partition("lab ")[2])
    assert (words[:2], words[3]) == (["explain", str(run.path)], "--arm")
    assert explain(run, words[2], words[4]).explained.causes


@pytest.mark.parametrize(
    ("arm", "prepare", "cause"),
    [
        ("hybrid", {"gold": "c/s2/t1#0"}, "unborn"),
        ("hybrid", {"scope": "recorded"}, "scope"),
        ("seed_full", {"scope": "recorded"}, "scope"),
        ("tier_quota_v1", {"label": IGNORE}, "label"),
        ("tier_quota_v1", {"label": UNKNOWN, "others": (UNKNOWN, 14), "text": "wholly other words"}, "depth"),
        ("tier_first_v1", {"label": NICE, "others": (MUST, 6)}, "tier"),
        ("tier_quota_v1", {"label": MUST, "others": (MUST, 10), "text": "cold and dry"}, "slot"),
        ("seed_full", {"prompt": "thanks"}, "trivial"),
        ("none", {}, "nothing"),
    ],
)
def test_missed_names_the_cause(desk: Any, arm: str, prepare: dict[str, Any], cause: str) -> None:
    label, number = prepare.get("others", (NICE, 0))
    memory = (prepare.get("text", "pears are in the cellar"), {"importance_label": prepare.get("label", NICE)})
    others = [(f"pears are in crate {one}", {"importance_label": label}) for one in range(number)]
    desk.say(
        "c",
        ("shop", [("user", "we store pears", memory, *others)]),
        ("farm", [("user", prepare.get("prompt", "where are the pears"), "apples are red"), ("user", "bye then")]),
    )
    desk.judge(prepare.get("gold", "c/s1/t1#0"), turn="c/s2/t1")
    run = desk.run(arm, scope=prepare.get("scope", "none")).run
    rows, counts = missed(run)
    gold = prepare.get("gold", "c/s1/t1#0")
    assert [(row.arm, row.probe, row.memory, row.cause) for row in rows] == [(arm, "c/s2/t1", gold, cause)]
    assert counts[arm] == Counts(1, 0, 0, {cause: 1})


def test_missed_without_gold_says_what_to_do(desk: Any) -> None:
    desk.say("c", ("shop", [("user", "we store pears", "pears are red")]))
    with pytest.raises(UnusableInput, match=r"no probe with relevant memories; replay it with a golden set"):
        missed(desk.run("hybrid").run)


def test_missed_recall_that_differs_from_its_receipt_is_refused(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ReplayRequest(str(operators), "lab", ("tier_quota_v1",), embedder="hashing", conversation=("two-desks",))
    run = run_replay(request, tmp_path / "run").run
    monkeypatch.setattr("lab.systems.openclaw.finish.wrap", lambda slots: "another block")
    with pytest.raises(CannotMeasure, match=r"recalls something else than its receipt says.*replay the run again"):
        missed(run)
