"""Scores of turns of the full flow, computed by hand: presence, duplication, hard rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.measures.score import score_run, summarise
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold

RULE, AGAIN, HARD, YARD = (f"desk/s1/t1#{place}" for place in range(4))
TURNS = [f"desk/s1/t{number}" for number in range(1, 5)]
SAID = (
    ("We always ship on Fridays", {"importance_label": "must_remember", "category": "decision"}),
    ("we always ship on fridays!", {"importance_label": "nice_to_have"}),
    ("Never put <glass> & steel into one box", {"importance_label": "must_remember", "hard_rule": True}),
    ("The yard closes at noon", {"importance_label": "nice_to_have"}),
)
# The Working Set pins the decision. The note repeats it, so the second arm drops it and the third does not.
ARMS = ("tier_quota_v1", "quota_backbone", "loose", "seed_full", "none")


def _run(folder: Path) -> tuple[dict[str, dict[str, float | None]], dict[tuple[str, str], dict[str, Any]]]:
    lines: list[dict[str, Any]] = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": "desk"},
        {"kind": "session", "session": "s1", "time": "2026-03-01T09:00:00+00:00"},
        {"kind": "turn", "turn": "t1", "role": "user", "text": "note a few things"},
        *({"kind": "memory", "text": text, **fields} for text, fields in SAID),
        {"kind": "turn", "turn": "t2", "role": "user", "text": "when do we ship parcels"},
        {"kind": "turn", "turn": "t3", "role": "user", "text": "thanks"},
        {"kind": "turn", "turn": "t4", "role": "user", "text": "what closes at noon today"},
    ]
    (folder / "desk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    wants: list[tuple[dict[str, Any], str]] = [({"turn": TURNS[1]}, RULE), ({"turn": TURNS[3]}, AGAIN)]
    wants.append(({"id": "after", "conversation": "desk", "query": "and glass?"}, HARD))
    probes = [{"kind": "probe", **where, "relevant": [{"memory": key, "grade": 1}]} for where, key in wants]
    (folder / "golden.jsonl").write_text("".join(json.dumps(probe) + "\n" for probe in probes))
    loose = folder / "loose.json"
    loose.write_text('{"lab": {"arm": "quota_backbone"}, "autoRecall": {"dedupeBackbone": false}}')
    arms = tuple(f"loose={loose}" if arm == "loose" else arm for arm in ARMS)
    golden = str(folder / "golden.jsonl")
    run = run_replay(
        ReplayRequest(str(folder / "desk.jsonl"), "lab", arms, golden=golden, embedder="hashing"), folder / "run"
    ).run
    scores = score_run(run)
    means = summarise(scores, read_gold(run), run.arms)["arms"]
    by_turn: dict[tuple[str, str], dict[str, Any]] = {}
    for score in scores:
        by_turn.setdefault((score.arm, score.measure), {})[score.at] = score.value
    return {arm: result["measures"] for arm, result in means.items()}, by_turn


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return means by arm, and values by arm and measure."""
    return _run(tmp_path_factory.mktemp("flow"))


@pytest.mark.parametrize(
    ("arm", "result", "there"),
    [
        ("tier_quota_v1", [1, 1, 1], [1, 1, 1]),
        # Pinned, so not an item; dropped as a duplicate of a pinned memory; an item.
        ("quota_backbone", [0, 0, 1], [1, 0, 1]),
        ("loose", [1, 1, 1], [1, 1, 1]),
        ("seed_full", [0, 0, 0], [1, 0, 1]),
        ("none", [0, 0, 0], [0, 0, 0]),
    ],
)
def test_score_present_counts_items_and_the_working_set(
    scored: Any, arm: str, result: list[float], there: list[float]
) -> None:
    means, by_turn = scored
    probes = (TURNS[1], TURNS[3], "after")
    assert [by_turn[arm, "Success@6"][at] for at in probes] == result
    assert [by_turn[arm, "Present@6"][at] for at in probes] == there
    assert set(by_turn[arm, "Present@6"]) == set(probes)
    assert means[arm]["Present@6"] == pytest.approx(sum(there) / 3)


@pytest.mark.parametrize(
    ("arm", "share"),
    # Items: the hard rule and the yard. Loose: the decision and its double besides. Full: the yard alone.
    [("tier_quota_v1", None), ("quota_backbone", 0 / 2), ("loose", 2 / 4), ("seed_full", 0 / 1), ("none", None)],
)
def test_score_duplication_needs_a_working_set(scored: Any, arm: str, share: float | None) -> None:
    means, by_turn = scored
    # The first turn has no Working Set, and thanks are skipped.
    assert [by_turn[arm, "BackboneDuplication"][turn] for turn in TURNS] == [None, share, None, share]
    assert means[arm]["BackboneDuplication"] == share


@pytest.mark.parametrize(
    ("arm", "kept"),
    [
        # An arm of selection alone recalls at every turn, thanks included.
        ("tier_quota_v1", [None, 1, 1, 1]),
        ("quota_backbone", [None, 1, None, 1]),
        ("seed_full", [None, 1, None, 1]),
        ("none", [None, 0, 0, 0]),
    ],
)
def test_score_hard_rule_may_be_an_item_or_in_the_working_set(scored: Any, arm: str, kept: list[float | None]) -> None:
    means, by_turn = scored
    assert [by_turn[arm, "HardRules"][turn] for turn in TURNS] == kept
    known = [one for one in kept if one is not None]
    assert means[arm]["HardRules"] == sum(known) / len(known)
