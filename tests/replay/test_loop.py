"""The turn loop: visibility, scopes, and what arms share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.golden.model import Judgement, Probe
from lab.recordings.model import LABELS, Memory, Recording, Turn
from lab.replay.loop import Answered, replay
from lab.replay.timeline import recall_points
from lab.retrieval.contract import Filter, Lanes, Row
from lab.retrieval.exact import ExactView
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.retrievers import STORES, QueryContext, Retrieval, StoreRetriever
from lab.systems.contract import Arm
from lab.systems.fixed import FixedArm
from lab.systems.kit import Rows
from tests.playing import Make, arms_named, keys_of, play, played

# The first turn of each memory: several at once, gaps, one after the last turn, one never.
BIRTHS = (0, 0, 1, 3, 3, 3, 4, 7, 8, 9)
SCOPES = ("shop", "global", "lab")
TURNS = tuple(
    Turn(f"c/s/{seq}", seq, "s", "user", f"crate {seq} of pears", 1000 + seq, scope=SCOPES[seq % 3]) for seq in range(8)
)
MEMORIES = tuple(
    Memory(
        f"c/s#{number}",
        f"pears in crate {number}",
        f"pears in crate {number}",
        birth,
        number,
        scope=SCOPES[number % 3],
        label=LABELS[number % 4],
    )
    for number, birth in enumerate(BIRTHS)
)
RECORDING = Recording("c", TURNS, MEMORIES)
GOLD = tuple(Judgement(memory.key) for memory in MEMORIES)
AFTER = Probe("c/after", "c", None, "pears", GOLD)
EVERY_ARM = ("tier_first_v1", "tier_quota_v1", "vector", "bm25", "hybrid", "recency", "random", "none", "oracle")
EVERY_ARM += ("quota_flow", "seed_full", "engine")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def answers(store: str, arms: Sequence[Arm], *, scoping: str) -> list[Answered]:
    return played(RECORDING, arms, [AFTER], store=store, scoping=scoping)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("arm", ["vector", "bm25", "hybrid", "recency", "random", "oracle"])
def test_replay_memory_is_visible_from_its_first_turn(store: str, arm: str) -> None:
    """All of these arms return every memory: it mentions pears, is gold, or is visible."""
    result = answers(store, arms_named(arm), scoping="open")
    assert len(result) == len(TURNS) + 1
    for answer in result:
        seq = answer.point.seq
        there = {memory.key for memory in MEMORIES if memory.visible_from <= seq}
        assert answer.visible == len(there)
        if arm == "oracle" and answer.point.probe is None:
            assert keys_of(answer) == []
        else:
            assert sorted(keys_of(answer)) == sorted(there)
    assert {memory.visible_from for memory in MEMORIES if memory.key not in keys_of(result[-1])} == {9}


@pytest.mark.parametrize("store", STORES)
def test_replay_tiered_arms_reach_only_visible_graded_memories(store: str) -> None:
    for answer in answers(store, arms_named("tier_first_v1", "tier_quota_v1"), scoping="open"):
        there = {
            memory.key for memory in MEMORIES if memory.visible_from <= answer.point.seq and memory.label != "ignore"
        }
        assert set(keys_of(answer)) <= there
        assert len(keys_of(answer)) == min(6, len(there))


@pytest.mark.parametrize("store", STORES)
def test_replay_enforced_scope_recalls_only_that_scope(store: str) -> None:
    for answer in answers(store, arms_named("vector", "recency", "oracle"), scoping="given"):
        # A probe from outside has no scope, so it reaches all.
        scope = answer.point.scope
        there = [
            memory
            for memory in MEMORIES
            if memory.visible_from <= answer.point.seq and memory.scope == (scope or memory.scope)
        ]
        assert answer.visible == len(there)
        assert answer.visible_nice == sum(one.label == "nice_to_have" for one in there)
        assert answer.recall.receipt["scope"] == (scope or "global")
        if answer.arm != "oracle" or answer.point.probe:
            assert sorted(keys_of(answer)) == sorted(one.key for one in there)
            assert {item.signals.scope for item in answer.recall.items} <= ({scope} if scope else set(SCOPES))


def crossed(result: Sequence[Answered]) -> set[str | None]:
    """Return the scopes of items that differ from the turn's."""
    scopes = [(one.point.scope, item.signals.scope) for one in result if one.point.scope for item in one.recall.items]
    return {other for own, other in scopes if other != own}


@pytest.mark.parametrize("arm", EVERY_ARM)
def test_replay_scopes_are_crossed_only_if_not_enforced(arm: str) -> None:
    enforced = answers("exact", arms_named(arm), scoping="given")
    inside = [one for one in enforced if one.point.scope]
    assert {
        item.signals.scope for one in inside for item in one.recall.items if item.signals.scope != one.point.scope
    } == set()
    free = answers("exact", arms_named(arm), scoping="open")
    assert crossed(free) == (set() if arm in ("none", "oracle") else set(SCOPES))
    assert {one.recall.receipt["scope"] for one in free} == {"global"}


@pytest.mark.parametrize("scoping", ["open", "given"])
def test_replay_both_stores_give_equal_answers(scoping: str) -> None:
    exact, lance = (answers(store, arms_named(*EVERY_ARM), scoping=scoping) for store in ("exact", "lancedb"))
    assert [(one.arm, one.point, keys_of(one), one.recall.context) for one in exact] == [
        (one.arm, one.point, keys_of(one), one.recall.context) for one in lance
    ]


def test_replay_visible_nice_counts_visible_nice_memories() -> None:
    for answer in answers("exact", arms_named("none"), scoping="open"):
        there = [memory for memory in MEMORIES if memory.visible_from <= answer.point.seq]
        assert answer.visible_nice == sum(one.label == "nice_to_have" for one in there)


def test_replay_arm_alone_and_among_others_gives_equal_answers() -> None:
    together = answers("exact", arms_named(*EVERY_ARM), scoping="open")
    assert [one.arm for one in together] == list(EVERY_ARM) * (len(TURNS) + 1)
    reverse = answers("exact", arms_named(*EVERY_ARM[::-1]), scoping="open")
    for name in EVERY_ARM:
        alone = [(one.point, one.recall.items, one.recall.receipt) for one in reverse if one.arm == name]
        assert [(one.point, one.recall.items, one.recall.receipt) for one in together if one.arm == name] == alone
        single = answers("exact", arms_named(name), scoping="open")
        assert [(one.point, one.recall.items, one.recall.receipt) for one in single] == alone


def test_replay_stateful_arm_starts_each_conversation_afresh() -> None:
    arms = arms_named("quota_repeat", "seed_full")
    first, again = (answers("exact", arms, scoping="open") for _ in range(2))
    receipts = [one.recall.receipt for one in first]
    assert receipts == [one.recall.receipt for one in again]
    assert any(receipt["suppressedByRepeat"]["penalized"] for receipt in receipts if not receipt["skipped"])


class Watched(StoreRetriever):
    """Records the memories and queries that it receives."""

    def __init__(self, real: StoreRetriever) -> None:
        super().__init__(real.store, real.vectors, real.tokens)
        self.observed: list[Row] = []
        self.asked: list[tuple[str, int]] = []
        self.closed = 0

    def add(self, rows: Sequence[Row]) -> None:
        self.observed += rows
        super().add(rows)

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        self.asked.append((text, len(self.observed)))
        return super().retrieve(text, faults)

    def close(self) -> None:
        self.closed += 1
        super().close()


@pytest.fixture
def made() -> dict[Retrieval, Watched]:
    """The retrievers made, by settings; a second one for the same settings is an error."""
    return {}


@pytest.fixture
def watching(made: dict[Retrieval, Watched]) -> Any:
    """Return a function that wraps the making of retrievers, to record what they receive."""

    def watch(live: Make) -> Make:
        def make(retrieval: Retrieval) -> StoreRetriever:
            assert retrieval not in made
            made[retrieval] = Watched(live(retrieval))
            return made[retrieval]

        return make

    return watch


def test_replay_arms_sharing_a_retrieval_search_once_per_turn(
    tmp_path: Path, made: dict[Retrieval, Watched], watching: Any
) -> None:
    config = tmp_path / "every-word.json"
    config.write_text('{"lab": {"arm": "bm25", "textLane": {"stopWords": "none"}}}')
    arms = arms_named("tier_first_v1", "hybrid", f"other={config}", "bm25")
    happening = list(recall_points(RECORDING, [AFTER], "all"))
    result = played(RECORDING, arms, [AFTER], make=watching)
    assert list(made) == [arms[0].retrieval, arms[2].retrieval]
    for one in made.values():
        assert [row.key for row in one.observed] == [f"c/s#{number}" for number in range(9)]
        assert one.asked == [(point.text, sum(birth <= point.seq for birth in BIRTHS)) for point in happening]
        assert one.closed == 1
    # Arms that share candidates have equal retrieval times.
    for at in range(0, len(result), 4):
        first, second, other, third = (one.recall.timings["retrieve"] for one in result[at : at + 4])
        assert first == second == third > 0
        assert other > 0
    assert len({one.recall.timings["retrieve"] for one in result[::4]}) > 1


def test_replay_ended_early_closes_every_retriever(made: dict[Retrieval, Watched], watching: Any) -> None:
    raising = FixedArm("raising", {turn.key: RuntimeError("no") for turn in TURNS})
    result = played(RECORDING, [*arms_named("recency"), raising], make=watching)
    assert [one.recall.status for one in result if one.arm == "raising"] == ["failed"] * len(TURNS)
    assert {one.recall.status for one in result if one.arm == "recency"} == {"ok"}
    assert [one.closed for one in made.values()] == [1]
    made.clear()
    reading = replay(play(RECORDING, make=watching), arms_named("recency"))
    next(reading)
    assert [one.closed for one in made.values()] == [0]
    reading.close()
    assert [one.closed for one in made.values()] == [1]


def test_replay_oracle_receives_grades() -> None:
    expected = (Judgement("c/s#2", 1), Judgement("c/s#0", 2), Judgement("c/s#9", 2))
    probe = Probe("c/s/4", "c", "c/s/4", None, expected)
    happening = [one for one in recall_points(RECORDING, [probe], "all") if one.seq == 4]
    (result,) = played(RECORDING, arms_named("oracle"), happening=happening)
    assert [(item.id, item.score) for item in result.recall.items] == [("c/s#0", 2.0), ("c/s#2", 1.0)]


def test_replay_other_arms_receive_no_grades() -> None:
    calls: list[Any] = []
    played(RECORDING, [FixedArm()], [AFTER], on_recall=calls.append)
    (system,) = {id(call.system): call.system for call in calls}.values()
    assert len(system.asked) == len(TURNS) + 1
    assert [dict(one.grades) for one in system.asked] == [{}] * len(system.asked)


def test_rows_are_ordered_by_creation_with_given_labels() -> None:
    rows = Rows().of(MEMORIES)
    assert [row.key for row in rows] == [memory.key for memory in MEMORIES]
    must = [replace(memory, label="must_remember") for memory in MEMORIES]
    assert {row.importance_label for row in Rows().of(must)} == {"must_remember"}
    assert {row.importance_label for row in Rows().of([replace(one, label=None) for one in MEMORIES])} == {"unknown"}
    assert [(row.text, row.scope, row.created_at, row.importance_label) for row in rows] == [
        (memory.text, memory.scope, memory.created_at, memory.label) for memory in MEMORIES
    ]


def test_plan_hard_rule_is_recorded_or_tagged() -> None:
    tagged = replace(MEMORIES[2], text="[HARD] no pears")
    rows = Rows().of((replace(MEMORIES[0], hard_rule=True), MEMORIES[1], tagged, *MEMORIES[3:]))
    assert [row.key for row in rows if row.hard_rule] == ["c/s#0", "c/s#2"]


def test_replay_skipped_turn_has_no_hard_rules(desk: Any) -> None:
    rule = ("Never write to the attic", {"hard_rule": True})
    desk.say("a", ("global", [("user", "the attic is full", rule), ("user", "ok"), ("user", "what of the attic")]))
    rows = desk.rows(desk.run("seed_full"))
    assert [(row["turn"], row["hard_rules"], row["hard_kept"]) for row in rows[1:]] == [
        ("a/s1/t2", 0, 0),
        ("a/s1/t3", 1, 1),
    ]


def test_replay_search_time_is_not_selection_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ExactView.search

    def slowly(self: ExactView, where: Filter, limit: int) -> Lanes:
        time.sleep(0.02)
        return plain(self, where, limit)

    monkeypatch.setattr(ExactView, "search", slowly)
    happening = list(recall_points(RECORDING, (), "all"))[:2]
    for result in played(RECORDING, arms_named("tier_first_v1"), happening=happening):
        assert result.recall.timings["select"] < 20_000_000
