"""The turn loop: what is visible when, in which scope, and what arms share."""

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
from lab.replay.recall_points import recall_points
from lab.retrieval.contract import Filter, Lanes
from lab.retrieval.exact import ExactView
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.query_context import QueryContext, Retrieval
from lab.retrieval.retrievers import STORES, StoreRetriever
from lab.retrieval.row import Row
from lab.systems.contract import Arm
from lab.systems.fixed import FixedArm
from lab.systems.kit import Rows
from tests.playing import Make, arms_named, keys_of, play, played

# The first turn that can recall each memory: several at once, gaps, one after the last turn, one never.
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
def test_a_memory_is_visible_exactly_from_its_visible_from(store: str, arm: str) -> None:
    """All of these arms return whatever there is: it says pears, it is gold, or it is simply there."""
    found = answers(store, arms_named(arm), scoping="open")
    assert len(found) == len(TURNS) + 1
    for answer in found:
        seq = answer.point.seq
        there = {memory.key for memory in MEMORIES if memory.visible_from <= seq}
        assert answer.visible == len(there)
        if arm == "oracle" and answer.point.probe is None:
            assert keys_of(answer) == []
        else:
            assert sorted(keys_of(answer)) == sorted(there)
    assert {memory.visible_from for memory in MEMORIES if memory.key not in keys_of(found[-1])} == {9}


@pytest.mark.parametrize("store", STORES)
def test_tiered_arms_reach_what_is_visible_and_graded_and_nothing_else(store: str) -> None:
    for answer in answers(store, arms_named("tier_first_v1", "tier_quota_v1"), scoping="open"):
        there = {one.key for one in MEMORIES if one.visible_from <= answer.point.seq and one.label != "ignore"}
        assert set(keys_of(answer)) <= there
        assert len(keys_of(answer)) == min(6, len(there))


@pytest.mark.parametrize("store", STORES)
def test_an_enforced_scope_leaves_only_memories_of_the_scope_of_the_turn(store: str) -> None:
    for answer in answers(store, arms_named("vector", "recency", "oracle"), scoping="given"):
        # A probe from outside has no scope of its own, so it reaches all.
        scope = answer.point.scope
        there = [one for one in MEMORIES if one.visible_from <= answer.point.seq and one.scope == (scope or one.scope)]
        assert answer.visible == len(there)
        assert answer.visible_nice == sum(one.label == "nice_to_have" for one in there)
        assert answer.recall.receipt["scope"] == (scope or "global")
        if answer.arm != "oracle" or answer.point.probe:
            assert sorted(keys_of(answer)) == sorted(one.key for one in there)
            assert {item.signals.scope for item in answer.recall.items} <= ({scope} if scope else set(SCOPES))


def crossed(found: Sequence[Answered]) -> set[str | None]:
    """Scopes of items other than the turn's own."""
    scopes = [(one.point.scope, item.signals.scope) for one in found if one.point.scope for item in one.recall.items]
    return {other for own, other in scopes if other != own}


@pytest.mark.parametrize("arm", EVERY_ARM)
def test_no_arm_crosses_an_enforced_scope_and_without_one_all_do(arm: str) -> None:
    enforced = answers("exact", arms_named(arm), scoping="given")
    inside = [one for one in enforced if one.point.scope]
    assert {
        item.signals.scope for one in inside for item in one.recall.items if item.signals.scope != one.point.scope
    } == set()
    free = answers("exact", arms_named(arm), scoping="open")
    assert crossed(free) == (set() if arm in ("none", "oracle") else set(SCOPES))
    assert {one.recall.receipt["scope"] for one in free} == {"global"}


@pytest.mark.parametrize("scoping", ["open", "given"])
def test_both_stores_answer_alike(scoping: str) -> None:
    exact, lance = (answers(store, arms_named(*EVERY_ARM), scoping=scoping) for store in ("exact", "lancedb"))
    assert [(one.arm, one.point, keys_of(one), one.recall.context) for one in exact] == [
        (one.arm, one.point, keys_of(one), one.recall.context) for one in lance
    ]


def test_visible_nice_counts_the_nice_ones_among_the_visible() -> None:
    for answer in answers("exact", arms_named("none"), scoping="open"):
        there = [one for one in MEMORIES if one.visible_from <= answer.point.seq]
        assert answer.visible_nice == sum(one.label == "nice_to_have" for one in there)


def test_an_arm_answers_the_same_alone_and_among_others() -> None:
    together = answers("exact", arms_named(*EVERY_ARM), scoping="open")
    assert [one.arm for one in together] == list(EVERY_ARM) * (len(TURNS) + 1)
    reverse = answers("exact", arms_named(*EVERY_ARM[::-1]), scoping="open")
    for name in EVERY_ARM:
        alone = [(one.point, one.recall.items, one.recall.receipt) for one in reverse if one.arm == name]
        assert [(one.point, one.recall.items, one.recall.receipt) for one in together if one.arm == name] == alone
        single = answers("exact", arms_named(name), scoping="open")
        assert [(one.point, one.recall.items, one.recall.receipt) for one in single] == alone


def test_an_arm_with_a_past_starts_every_conversation_without_one() -> None:
    arms = arms_named("quota_repeat", "seed_full")
    first, again = (answers("exact", arms, scoping="open") for _ in range(2))
    receipts = [one.recall.receipt for one in first]
    assert receipts == [one.recall.receipt for one in again]
    assert any(one["suppressedByRepeat"]["penalized"] for one in receipts if not one["skipped"])


class Watched(StoreRetriever):
    """Remembers what it was fed and asked."""

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
    """The retrievers that were made, by what they were made for; two for one setting are a failure."""
    return {}


@pytest.fixture
def watching(made: dict[Retrieval, Watched]) -> Any:
    """Makes retrievers that are watched."""

    def watch(live: Make) -> Make:
        def make(retrieval: Retrieval) -> StoreRetriever:
            assert retrieval not in made
            made[retrieval] = Watched(live(retrieval))
            return made[retrieval]

        return make

    return watch


def test_candidates_are_found_once_a_turn_for_arms_that_share_their_retrieval(
    tmp_path: Path, made: dict[Retrieval, Watched], watching: Any
) -> None:
    config = tmp_path / "every-word.json"
    config.write_text('{"lab": {"arm": "bm25", "textLane": {"stopWords": "none"}}}')
    arms = arms_named("tier_first_v1", "hybrid", f"other={config}", "bm25")
    happening = list(recall_points(RECORDING, [AFTER], "all"))
    found = played(RECORDING, arms, [AFTER], make=watching)
    assert list(made) == [arms[0].retrieval, arms[2].retrieval]
    for one in made.values():
        assert [row.key for row in one.observed] == [f"c/s#{number}" for number in range(9)]
        assert one.asked == [(point.text, sum(birth <= point.seq for birth in BIRTHS)) for point in happening]
        assert one.closed == 1
    # Each arm is booked what finding its candidates would have taken it alone: equal for those that share them.
    for at in range(0, len(found), 4):
        first, second, other, third = (one.recall.timings["retrieve"] for one in found[at : at + 4])
        assert first == second == third > 0
        assert other > 0
    assert len({one.recall.timings["retrieve"] for one in found[::4]}) > 1


def test_every_retriever_is_closed_when_an_arm_raises_and_when_nobody_reads_on(
    made: dict[Retrieval, Watched], watching: Any
) -> None:
    raising = FixedArm("raising", {turn.key: RuntimeError("no") for turn in TURNS})
    found = played(RECORDING, [*arms_named("recency"), raising], make=watching)
    assert [one.recall.status for one in found if one.arm == "raising"] == ["failed"] * len(TURNS)
    assert {one.recall.status for one in found if one.arm == "recency"} == {"ok"}
    assert [one.closed for one in made.values()] == [1]
    made.clear()
    reading = replay(play(RECORDING, make=watching), arms_named("recency"))
    next(reading)
    assert [one.closed for one in made.values()] == [0]
    reading.close()
    assert [one.closed for one in made.values()] == [1]


def test_gold_is_handed_to_the_oracle_with_its_grades() -> None:
    wanted = (Judgement("c/s#2", 1), Judgement("c/s#0", 2), Judgement("c/s#9", 2))
    probe = Probe("c/s/4", "c", "c/s/4", None, wanted)
    happening = [one for one in recall_points(RECORDING, [probe], "all") if one.seq == 4]
    (found,) = played(RECORDING, arms_named("oracle"), happening=happening)
    assert [(item.id, item.score) for item in found.recall.items] == [("c/s#0", 2.0), ("c/s#2", 1.0)]


def test_gold_is_told_to_nobody_who_does_not_need_it() -> None:
    heard: list[Any] = []
    played(RECORDING, [FixedArm()], [AFTER], heard=heard.append)
    (system,) = {id(one.system): one.system for one in heard}.values()
    assert len(system.asked) == len(TURNS) + 1
    assert [dict(one.grades) for one in system.asked] == [{}] * len(system.asked)


def test_rows_stand_in_order_of_birth_with_the_labels_that_were_handed_in() -> None:
    rows = Rows().of(MEMORIES)
    assert [row.key for row in rows] == [memory.key for memory in MEMORIES]
    must = [replace(memory, label="must_remember") for memory in MEMORIES]
    assert {row.importance_label for row in Rows().of(must)} == {"must_remember"}
    assert {row.importance_label for row in Rows().of([replace(one, label=None) for one in MEMORIES])} == {"unknown"}
    assert [(row.text, row.scope, row.created_at, row.importance_label) for row in rows] == [
        (memory.text, memory.scope, memory.created_at, memory.label) for memory in MEMORIES
    ]


def test_a_rule_is_hard_if_it_was_recorded_so_or_is_tagged_so() -> None:
    tagged = replace(MEMORIES[2], text="[HARD] no pears")
    rows = Rows().of((replace(MEMORIES[0], hard_rule=True), MEMORIES[1], tagged, *MEMORIES[3:]))
    assert [row.key for row in rows if row.hard_rule] == ["c/s#0", "c/s#2"]


def test_a_turn_that_is_passed_over_has_no_rule_to_keep(desk: Any) -> None:
    rule = ("Never write to the attic", {"hard_rule": True})
    desk.say("a", ("global", [("user", "the attic is full", rule), ("user", "ok"), ("user", "what of the attic")]))
    rows = desk.rows(desk.run("seed_full"))
    assert [(row["turn"], row["hard_rules"], row["hard_kept"]) for row in rows[1:]] == [
        ("a/s1/t2", 0, 0),
        ("a/s1/t3", 1, 1),
    ]


def test_the_time_of_a_search_is_no_time_of_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ExactView.search

    def slowly(self: ExactView, where: Filter, limit: int) -> Lanes:
        time.sleep(0.02)
        return plain(self, where, limit)

    monkeypatch.setattr(ExactView, "search", slowly)
    happening = list(recall_points(RECORDING, (), "all"))[:2]
    for found in played(RECORDING, arms_named("tier_first_v1"), happening=happening):
        assert found.recall.timings["select"] < 20_000_000
