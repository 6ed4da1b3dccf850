"""Why a memory has its place in a turn of an arm that runs the whole flow: what the stages and the past did to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.replay.explain import Explanation, explain
from lab.report.explanation import explanation_text
from lab.runs.tables import read_table

MUST, NICE = "must_remember", "nice_to_have"


def graded(text: str, label: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return text, {"importance_label": label, **fields}


def told(desk: Any, turn: str, arm: str, **changes: Any) -> Explanation:
    return explain(desk.run(arm, **changes).run, turn, arm)


def test_the_digest_that_the_plugin_keeps_among_the_memories_is_no_place(desk: Any) -> None:
    config = desk.home / "config.json"
    config.write_text('{"workingSet": {"enabled": true}}')
    said = [graded(f"jar {number} holds pears", MUST, category="decision") for number in range(5)]
    asking = [("user", f"which jar holds pears {number}") for number in range(3)]
    desk.say("c", ("global", [("user", "note the jars", *said), *asking]))
    desk.judge("c/s1/t1#0", turn="c/s1/t4")
    found = told(desk, "c/s1/t4", "engine", profile="upstream", config=str(config))
    assert found.told.value["flow"]["digested"]
    assert any("working_set:global" in one for one in (json.dumps(found.recall.receipt),))
    assert set(found.told.standings) == {f"c/s1/t1#{number}" for number in range(5)}
    assert sum(found.visible.values()) == 5
    assert set(found.told.runners_up) <= set(found.told.standings)


@pytest.mark.parametrize(
    ("arm", "asked", "said", "config", "reason"),
    [
        ("quota_flow", "thanks", graded("pears", NICE), {}, "the prompt was skipped: trivial_prompt"),
        (
            "quota_backbone",
            "how many pears",
            graded("pears are for pies", MUST, category="decision"),
            {},
            "it is in the Working Set, so it is not an item",
        ),
        (
            "quota_flow",
            "how many pears",
            graded("pears are to be picked", NICE, category="todo"),
            {"autoCapture": {"todoStaleTtlDays": 2}},
            "it is a TODO older than 2 days",
        ),
        (
            "quota_flow",
            "how many pears",
            graded("pears " * 300, NICE),
            {"budget": {"maxChars": 400, "minRecentSlots": 0}},
            "it was selected, and the budget dropped it",
        ),
    ],
)
def test_what_a_stage_of_the_flow_did_to_gold_is_told(
    desk: Any, arm: str, asked: str, said: tuple[str, Any], config: dict[str, Any], reason: str
) -> None:
    path = desk.home / "config.json"
    path.write_text(json.dumps(config))
    other = graded("plums are blue", NICE)
    nightly_runs = [("global", [])] * 2
    desk.say("c", ("global", [("user", "note this", said, other)]), *nightly_runs, ("global", [("user", asked)]))
    desk.judge("c/s1/t1#0", turn="c/s4/t1")
    assert told(desk, "c/s4/t1", arm, config=str(path)).told.reasons == {"c/s1/t1#0": reason}


def test_gold_that_says_what_the_working_set_says_is_told_so(desk: Any) -> None:
    said = [graded("we always pick pears in autumn", MUST, category="decision")]
    said.append(graded("We always pick pears in autumn!", NICE))
    desk.say("c", ("global", [("user", "note this", *said), ("user", "when do we pick pears")]))
    desk.judge("c/s1/t1#1", turn="c/s1/t2")
    assert told(desk, "c/s1/t2", "quota_backbone").told.reasons == {
        "c/s1/t1#1": "it duplicates the Working Set (same text)"
    }
    assert told(desk, "c/s1/t2", "quota_repeat", out="without").told.reasons == {}


def test_gold_that_was_injected_lately_is_told_by_its_factor(desk: Any) -> None:
    """One place and two memories: what was injected twice gives way, whatever it says."""
    config = desk.home / "config.json"
    config.write_text('{"autoRecall": {"maxItems": 1}}')
    said = [graded("pears in crate", NICE), graded("pears in sheds", NICE)]
    asking = [("user", f"tell me of pears in crate number {number}") for number in range(4)]
    desk.say("c", ("global", [("user", "note this", *said), *asking]))
    for turn in range(2, 6):
        desk.judge("c/s1/t1#0", "c/s1/t1#1", turn=f"c/s1/t{turn}")
    run = desk.run("quota_repeat", config=str(config)).run
    injected = [row["item_key"] for row in read_table(run.receipts("c")).to_pylist()[1:]]
    assert injected == [["c/s1/t1#0"], ["c/s1/t1#1"], ["c/s1/t1#0"], ["c/s1/t1#1"]]
    reasons = [list(explain(run, f"c/s1/t{turn}", "quota_repeat").told.reasons.items()) for turn in (3, 4, 5)]
    lately = "it was injected recently: its score was multiplied by"
    assert reasons == [
        [("c/s1/t1#0", f"{lately} 0.650")],
        [("c/s1/t1#1", f"{lately} 0.650")],
        [("c/s1/t1#0", f"{lately} 0.423")],
    ]


def test_failing_lanes_are_told(desk: Any) -> None:
    desk.say(
        "lane", ("shop", [("user", "how many pears", ("pears in crate one", {"importance_label": "unknown"}))] * 3)
    )
    desk.judge("lane/s1/t1#0", turn="lane/s1/t3")
    at = "lane/s1/t3"
    run = desk.run("seed_full", faults=(f"fts_error={at}", f"vector_error={at}")).run
    found = explain(run, at, "seed_full")
    assert found.ask.faults == {"fts_error", "vector_error"}
    assert found.told.reasons == {
        "lane/s1/t1#0": "no lane returned it, under the injected faults of this turn: fts_error, vector_error"
    }
    assert "faults of this turn: fts_error, vector_error" in explanation_text(found, with_text=False)
