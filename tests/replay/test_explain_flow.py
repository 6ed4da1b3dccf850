"""Explanations of arms that run the full flow: the effects of stages and of earlier turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.replay.explain import Explanation, explain
from lab.report.explanation import explanation_json, explanation_text
from lab.runs.tables import read_table

MUST, NICE = "must_remember", "nice_to_have"


def graded(text: str, label: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return text, {"importance_label": label, **fields}


def explain_turn(desk: Any, turn: str, arm: str, **changes: Any) -> Explanation:
    return explain(desk.run(arm, **changes).run, turn, arm)


def test_explain_stored_working_set_has_no_position(desk: Any) -> None:
    config = desk.home / "config.json"
    config.write_text('{"workingSet": {"enabled": true}}')
    said = [graded(f"jar {number} holds pears", MUST, category="decision") for number in range(5)]
    asking = [("user", f"which jar holds pears {number}") for number in range(3)]
    desk.say("c", ("global", [("user", "note the jars", *said), *asking]))
    desk.judge("c/s1/t1#0", turn="c/s1/t4")
    result = explain_turn(desk, "c/s1/t4", "engine", profile="upstream", config=str(config))
    assert result.explained.value["flow"]["digested"]
    assert any("working_set:global" in one for one in (json.dumps(result.recall.receipt),))
    assert set(result.explained.standings) == {f"c/s1/t1#{number}" for number in range(5)}
    assert sum(result.visible.values()) == 5
    assert set(result.explained.runners_up) <= set(result.explained.standings)


@pytest.mark.parametrize(
    ("arm", "prompt", "said", "config", "reason"),
    [
        *(
            (
                arm,
                "how many apples",
                graded("pears are for pies", NICE),
                {"lab": {"phases": {"minRelevance": 0.9}}},
                "its cosine is below minRelevance (0.9); text rank none, vector rank 2 in its tier",
            )
            for arm in ("quota_flow", "tier_quota_v1")
        ),
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
def test_explain_gold_names_the_stage_that_dropped_it(
    desk: Any, arm: str, prompt: str, said: tuple[str, Any], config: dict[str, Any], reason: str
) -> None:
    path = desk.home / "config.json"
    path.write_text(json.dumps(config))
    other = graded("plums are blue", NICE)
    nightly_runs = [("global", [])] * 2
    desk.say("c", ("global", [("user", "note this", said, other)]), *nightly_runs, ("global", [("user", prompt)]))
    desk.judge("c/s1/t1#0", turn="c/s4/t1")
    assert explain_turn(desk, "c/s4/t1", arm, config=str(path)).explained.reasons == {"c/s1/t1#0": reason}


def test_explain_gold_repeating_the_working_set_is_named(desk: Any) -> None:
    said = [graded("we always pick pears in autumn", MUST, category="decision")]
    said.append(graded("We always pick pears in autumn!", NICE))
    desk.say("c", ("global", [("user", "note this", *said), ("user", "when do we pick pears")]))
    desk.judge("c/s1/t1#1", turn="c/s1/t2")
    assert explain_turn(desk, "c/s1/t2", "quota_backbone").explained.reasons == {
        "c/s1/t1#1": "it duplicates the Working Set (same text)"
    }
    assert explain_turn(desk, "c/s1/t2", "quota_repeat", out="without").explained.reasons == {}


def test_explain_recently_injected_gold_gives_its_penalty(desk: Any) -> None:
    """One slot and two memories: the one injected before gives way."""
    config = desk.home / "config.json"
    config.write_text('{"autoRecall": {"maxItems": 1, "repeatPenalty": 0.6}}')
    said = [graded("pears in crate", NICE), graded("pears in sheds", NICE)]
    asking = [("user", f"tell me of pears in crate number {number}") for number in range(4)]
    desk.say("c", ("global", [("user", "note this", *said), *asking]))
    for turn in range(2, 6):
        desk.judge("c/s1/t1#0", "c/s1/t1#1", turn=f"c/s1/t{turn}")
    run = desk.run("quota_repeat", config=str(config)).run
    injected = [row["item_key"] for row in read_table(run.receipts("c")).to_pylist()[1:]]
    assert injected == [["c/s1/t1#0"], ["c/s1/t1#1"], ["c/s1/t1#0"], ["c/s1/t1#1"]]
    reasons = [list(explain(run, f"c/s1/t{turn}", "quota_repeat").explained.reasons.items()) for turn in (3, 4, 5)]
    lately = "it was injected recently: its score was multiplied by"
    assert reasons == [
        [("c/s1/t1#0", f"{lately} 0.400")],
        [("c/s1/t1#1", f"{lately} 0.400")],
        [("c/s1/t1#0", f"{lately} 0.160")],
    ]


def test_explain_names_media_with_texts_without_their_paths(desk: Any) -> None:
    media = {"media_refs": ["/home/ada/a.png", "b.png"], "media_kind": "image"}
    said = [graded("pears in crate", NICE, **media), graded("pears in sheds", NICE)]
    desk.say("c", ("global", [("user", "note this", *said), ("user", "how many pears in crate")]))
    result = explain_turn(desk, "c/s1/t2", "quota_backbone")
    text, value = explanation_text(result, with_text=True, full=True), explanation_json(result, with_text=True)
    assert [line.strip() for line in text.split("\n") if "media" in line] == ["media: image, 2"]
    assert value["media"] == {"c/s1/t1#0": "media: image, 2"}
    assert ".png" not in text + json.dumps(value)
    assert "media" not in explanation_text(result, with_text=False) + json.dumps(
        explanation_json(result, with_text=False)
    )


def test_explain_failing_lanes_are_named(desk: Any) -> None:
    desk.say(
        "lane", ("shop", [("user", "how many pears", ("pears in crate one", {"importance_label": "unknown"}))] * 3)
    )
    desk.judge("lane/s1/t1#0", turn="lane/s1/t3")
    at = "lane/s1/t3"
    run = desk.run("seed_full", faults=(f"fts_error={at}", f"vector_error={at}")).run
    result = explain(run, at, "seed_full")
    assert result.ask.faults == {"fts_error", "vector_error"}
    assert result.explained.reasons == {
        "lane/s1/t1#0": "no lane returned it, under the injected faults of this turn: fts_error, vector_error"
    }
    assert "faults in this turn: fts_error, vector_error" in explanation_text(result, with_text=False)
