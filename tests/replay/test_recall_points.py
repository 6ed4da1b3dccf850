"""Recall points: turns, probes on turns, and probes after the last turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.golden.model import Probe
from lab.measures.score import score_run
from lab.recordings.model import Recording, Turn
from lab.recordings.readers import read_library
from lab.replay.timeline import RecallPoint, recall_points

ROLES = ("user", "assistant", "user", "tool", "system", "user", "assistant")
TURNS = tuple(
    Turn(f"c/s/{seq}", seq, "s", role, f"says {seq}", 1000 + 10 * seq, scope=f"scope{seq % 2}")
    for seq, role in enumerate(ROLES)
)
RECORDING = Recording("c", TURNS, ())
USER, ALL = [0, 2, 5], [0, 1, 2, 3, 4, 5, 6]


def on(turn: int) -> Probe:
    return Probe(f"c/s/{turn}", "c", f"c/s/{turn}", None, ())


def after(name: str, query: str = "what was said") -> Probe:
    return Probe(name, "c", None, query, ())


@pytest.mark.parametrize(("recall_turns", "recalled"), [("user", USER), ("all", ALL), ("none", [])])
@pytest.mark.parametrize("judged", [[], [0], [1, 5], ALL])
def test_recall_points_are_recall_turns_and_judged_turns(
    recall_turns: str, recalled: list[int], judged: list[int]
) -> None:
    probes = {turn: on(turn) for turn in judged}
    expected = [
        RecallPoint(
            turn.key, turn.seq, turn.text, turn.scope, turn.time_ms, turn.seq in recalled, probes.get(turn.seq), "s"
        )
        for turn in TURNS
        if turn.seq in recalled or turn.seq in probes
    ]
    assert list(recall_points(RECORDING, list(probes.values()), recall_turns)) == expected


def test_recall_points_do_not_depend_on_probe_order() -> None:
    probes = [on(5), on(0), on(3)]
    assert list(recall_points(RECORDING, probes, "user")) == list(recall_points(RECORDING, probes[::-1], "user"))


@pytest.mark.parametrize(("recall_turns", "recalled"), [("user", USER), ("all", ALL), ("none", [])])
def test_recall_points_probes_from_outside_follow_the_last_turn(recall_turns: str, recalled: list[int]) -> None:
    probes = [after("late", "where"), on(2), after("later", "when")]
    result = list(recall_points(RECORDING, probes, recall_turns))
    assert [point.key for point in result[:-2]] == [f"c/s/{turn}" for turn in sorted({*recalled, 2})]
    assert result[-2:] == [
        RecallPoint("late", 7, "where", None, 1061, False, probes[0]),
        RecallPoint("later", 7, "when", None, 1061, False, probes[2]),
    ]


def test_recall_points_time_never_decreases() -> None:
    times = [point.now_ms for point in recall_points(RECORDING, [after("x"), on(1)], "all")]
    assert times == sorted(times)
    assert times[-1] > TURNS[-1].time_ms


@pytest.mark.parametrize("recall_turns", ["users", "", "None"])
def test_recall_points_unknown_choice_names_known_ones(recall_turns: str) -> None:
    with pytest.raises(UnusableInput, match="known: user, all, none"):
        list(recall_points(RECORDING, [], recall_turns))


def test_recall_points_locomo_questions_follow_the_last_turn(locomo: Path) -> None:
    library = read_library(locomo, "locomo")
    assert library.format.recall_turns == "none"
    for recording in library.recordings:
        probes = library.golden.of(recording.conversation)
        result = list(recall_points(recording, probes, "none"))
        assert [point.probe for point in result] == list(probes)
        assert {(point.seq, point.is_recall_turn) for point in result} == {(len(recording.turns), False)}


def test_recall_points_realmem_queries_are_at_their_turns(realmem: Path) -> None:
    library = read_library(realmem, "realmem")
    for recording in library.recordings:
        probes = library.golden.of(recording.conversation)
        result = list(recall_points(recording, probes, "user"))
        assert {point.probe.id for point in result if point.probe} == {probe.id for probe in probes}
        assert len(result) == sum(turn.role == "user" for turn in recording.turns)
        assert all(point.is_recall_turn for point in result)


def test_replay_probe_from_outside_only_adds_its_row(desk: Any) -> None:
    turns = [("user", f"apples and pears number {turn}", f"pears are stored in shed {turn}") for turn in range(9)]
    desk.say("c", ("global", turns))
    desk.judge("c/s1/t2#0", turn="c/s1/t5")
    arms = ("tier_first_v1", "tier_quota_v1", "seed_full", "hybrid", "random")
    before = desk.run(*arms, out="before")
    desk.judge("c/s1/t1#0", id="c/ask-1", conversation="c", query="where are the pears")
    desk.judge("c/s1/t9#0", id="c/ask-2", conversation="c", query="apples")
    after_ = desk.run(*arms, out="after")
    rows, more = desk.rows(before), desk.rows(after_)
    assert [row for row in more if row["seq"] < 9] == rows
    added = [row for row in more if row["seq"] == 9]
    assert [(row["turn"], row["arm"]) for row in added] == [
        (key, arm) for key in ("c/ask-1", "c/ask-2") for arm in arms
    ]
    assert {(row["is_recall_turn"], row["visible"]) for row in added} == {(False, 9)}
    ids = {"c/ask-1", "c/ask-2"}
    assert [one for one in score_run(after_.run) if one.at not in ids] == list(score_run(before.run))


def test_replay_judged_turn_without_recall_leaves_no_trace(desk: Any) -> None:
    """Items injected only for a probe do not count as repeats at recall turns."""
    turns = [
        (role, f"pears number {turn}", f"pears are in shed {turn}")
        for turn in range(4)
        for role in ("user", "assistant")
    ]
    desk.say("c", ("global", turns))
    before = desk.rows(desk.run("seed_full", out="before"))
    desk.judge("c/s1/t1#0", turn="c/s1/t4")
    after_ = desk.rows(desk.run("seed_full", out="after"))
    assert [row["turn"] for row in after_ if not row["is_recall_turn"]] == ["c/s1/t4"]
    assert [row for row in after_ if row["is_recall_turn"]] == before
    # Earlier recall turns do count: the receipts show the penalty.
    assert '"penalized":0' not in before[-1]["receipt"]
