"""The turn loop: what is visible when, in which scope, and what arms share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.systems.arms import make_arm, parse_arms

from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.golden.model import Judgement, Probe
from lab.recordings.model import LABELS, Memory, Recording, Turn
from lab.replay.loop import Answered, replay, rows_of
from lab.replay.moments import moments
from lab.retrieval.contract import Filter, Lanes
from lab.retrieval.exact import ExactView
from lab.retrieval.retrievers import STORES, StoreRetriever, make_store
from lab.retrieval.row import Row
from lab.retrieval.tokens import words_under
from lab.systems.contract import Request, Retrieval, Selector
from lab.systems.openclaw.recall.turn import Memories

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
ROWS = rows_of(RECORDING, {memory.key: str(memory.label) for memory in MEMORIES})
EVERY_ARM = ("tier_first_v1", "tier_quota_v1", "vector", "bm25", "hybrid", "recency", "random", "none", "oracle")
EVERY_ARM += ("quota_flow", "seed_full", "engine")


def arms_named(*names: str) -> list[Selector]:
    return [make_arm(spec, profile="seed", max_items=6, depth=50, seed=0) for spec in parse_arms(names)]


@pytest.fixture
def retriever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a retriever for ``(store, settings)`` with everything that is said here embedded and tokenised."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))

    def make(store: str, retrieval: Retrieval) -> StoreRetriever:
        settings = retrieval.text
        texts = [turn.text for turn in TURNS] + [memory.index_text for memory in MEMORIES] + ["pears"]
        embedder = HashingEmbedder()
        vectors, words = Vectors(embedder), words_under(settings)
        vectors.prepare(texts)
        words.prepare(texts)
        return StoreRetriever(make_store(store, embedder.dimension, settings), vectors, words)

    return make


def answers(retriever: Any, store: str, arms: Sequence[Selector], *, scoping: str) -> list[Answered]:
    happening = list(moments(RECORDING, [AFTER], "all"))
    return list(replay(RECORDING, ROWS, happening, arms, lambda one: retriever(store, one), scoping=scoping))


def keys(answer: Answered) -> list[str]:
    return [item.key for item in answer.recall.items]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("arm", ["vector", "bm25", "hybrid", "recency", "random", "oracle"])
def test_a_memory_is_visible_exactly_from_its_visible_from(retriever: Any, store: str, arm: str) -> None:
    """All of these arms return whatever there is: it says pears, it is gold, or it is simply there."""
    found = answers(retriever, store, arms_named(arm), scoping="open")
    assert len(found) == len(TURNS) + 1
    for answer in found:
        seq = answer.moment.seq
        there = {memory.key for memory in MEMORIES if memory.visible_from <= seq}
        assert answer.visible == len(there)
        if arm == "oracle" and answer.moment.probe is None:
            assert keys(answer) == []
        else:
            assert sorted(keys(answer)) == sorted(there)
    assert {memory.visible_from for memory in MEMORIES if memory.key not in keys(found[-1])} == {9}


@pytest.mark.parametrize("store", STORES)
def test_tiered_arms_reach_what_is_visible_and_graded_and_nothing_else(retriever: Any, store: str) -> None:
    for answer in answers(retriever, store, arms_named("tier_first_v1", "tier_quota_v1"), scoping="open"):
        there = {one.key for one in MEMORIES if one.visible_from <= answer.moment.seq and one.label != "ignore"}
        assert set(keys(answer)) <= there
        assert len(keys(answer)) == min(6, len(there))


@pytest.mark.parametrize("store", STORES)
def test_an_enforced_scope_leaves_only_memories_of_the_scope_of_the_turn(retriever: Any, store: str) -> None:
    for answer in answers(retriever, store, arms_named("vector", "recency", "oracle"), scoping="given"):
        # A probe from outside has no scope of its own, so it reaches all.
        scope = answer.moment.scope
        there = [one for one in MEMORIES if one.visible_from <= answer.moment.seq and one.scope == (scope or one.scope)]
        assert answer.visible == len(there)
        assert answer.visible_nice == sum(one.label == "nice_to_have" for one in there)
        assert answer.recall.receipt["scope"] == (scope or "global")
        if answer.arm.name != "oracle" or answer.moment.probe:
            assert sorted(keys(answer)) == sorted(one.key for one in there)
            assert {item.scope for item in answer.recall.items} <= ({scope} if scope else set(SCOPES))


@pytest.mark.parametrize("arm", EVERY_ARM)
def test_no_arm_crosses_an_enforced_scope_and_without_one_all_do(retriever: Any, arm: str) -> None:
    enforced = answers(retriever, "exact", arms_named(arm), scoping="given")
    inside = [one for one in enforced if one.moment.scope]
    assert {item.scope for one in inside for item in one.recall.items if item.scope != one.moment.scope} == set()
    free = answers(retriever, "exact", arms_named(arm), scoping="open")
    crossed = {
        item.scope for one in free if one.moment.scope for item in one.recall.items if item.scope != one.moment.scope
    }
    assert crossed == (set() if arm in ("none", "oracle") else set(SCOPES))
    assert {one.recall.receipt["scope"] for one in free} == {"global"}


@pytest.mark.parametrize("scoping", ["open", "given"])
def test_both_stores_answer_alike(retriever: Any, scoping: str) -> None:
    exact, lance = (
        answers(retriever, store, arms_named(*EVERY_ARM), scoping=scoping) for store in ("exact", "lancedb")
    )
    assert [(one.arm.name, one.moment, keys(one), one.recall.context) for one in exact] == [
        (one.arm.name, one.moment, keys(one), one.recall.context) for one in lance
    ]


def test_visible_nice_counts_the_nice_ones_among_the_visible(retriever: Any) -> None:
    for answer in answers(retriever, "exact", arms_named("none"), scoping="open"):
        there = [one for one in MEMORIES if one.visible_from <= answer.moment.seq]
        assert answer.visible_nice == sum(one.label == "nice_to_have" for one in there)


def test_an_arm_answers_the_same_alone_and_among_others(retriever: Any) -> None:
    together = answers(retriever, "exact", arms_named(*EVERY_ARM), scoping="open")
    assert [one.arm.name for one in together] == list(EVERY_ARM) * (len(TURNS) + 1)
    reverse = answers(retriever, "exact", arms_named(*EVERY_ARM[::-1]), scoping="open")
    for name in EVERY_ARM:
        alone = [(one.moment, one.recall.items, one.recall.receipt) for one in reverse if one.arm.name == name]
        assert [(one.moment, one.recall.items, one.recall.receipt) for one in together if one.arm.name == name] == alone
        single = answers(retriever, "exact", arms_named(name), scoping="open")
        assert [(one.moment, one.recall.items, one.recall.receipt) for one in single] == alone


def test_an_arm_with_a_past_starts_every_conversation_without_one(retriever: Any) -> None:
    arms = arms_named("quota_repeat", "seed_full")
    first, again = (answers(retriever, "exact", arms, scoping="open") for _ in range(2))
    receipts = [one.recall.receipt for one in first]
    assert receipts == [one.recall.receipt for one in again]
    assert any(one["suppressedByRepeat"]["penalized"] for one in receipts if not one["skipped"])


def test_candidates_are_found_once_a_turn_for_arms_that_share_their_retrieval(retriever: Any, tmp_path: Path) -> None:
    config = tmp_path / "every-word.json"
    config.write_text('{"lab": {"arm": "bm25", "textLane": {"stopWords": "none"}}}')
    arms = arms_named("tier_first_v1", "hybrid", f"other={config}", "bm25")
    made: list[Watched] = []

    class Watched(StoreRetriever):
        def __init__(self, settings: Retrieval) -> None:
            real = retriever("exact", settings)
            super().__init__(real.store, real.vectors, real.tokens)
            self.settings = settings
            self.observed: list[Row] = []
            self.asked: list[tuple[str, int]] = []
            self.closed = 0
            made.append(self)

        def observe(self, rows: Sequence[Row]) -> None:
            self.observed += rows
            super().observe(rows)

        def retrieve(self, request: Request) -> Memories:
            self.asked.append((request.key, len(self.observed)))
            return super().retrieve(request)

        def close(self) -> None:
            self.closed += 1
            super().close()

    happening = list(moments(RECORDING, [AFTER], "all"))
    found = list(replay(RECORDING, ROWS, happening, arms, Watched, scoping="open"))
    assert [one.settings for one in made] == [arms[0].retrieval, arms[2].retrieval]
    for one in made:
        assert [row.key for row in one.observed] == [f"c/s#{number}" for number in range(9)]
        assert one.asked == [(moment.key, sum(birth <= moment.seq for birth in BIRTHS)) for moment in happening]
        assert one.closed == 1
    timed = [(one.arm.name, "retrieve" in one.recall.timings) for one in found[:4]]
    assert timed == [("tier_first_v1", True), ("hybrid", False), ("other", True), ("bm25", False)]


def test_every_retriever_is_closed_when_an_arm_raises_and_when_nobody_reads_on(retriever: Any) -> None:
    closed: list[str] = []

    class Closing(StoreRetriever):
        def __init__(self, settings: Retrieval) -> None:
            real = retriever("exact", settings)
            super().__init__(real.store, real.vectors, real.tokens)

        def close(self) -> None:
            closed.append("closed")

    class Raising:
        name, retrieval = "raising", Retrieval()

        def fresh(self) -> Any:
            return self

        def select(self, request: Request, memories: Memories) -> None:
            raise RuntimeError("no")

    happening = list(moments(RECORDING, [], "all"))
    with pytest.raises(RuntimeError, match="no"):
        list(replay(RECORDING, ROWS, happening, [Raising()], Closing, scoping="open"))
    assert closed == ["closed"]
    reading = replay(RECORDING, ROWS, happening, arms_named("recency"), Closing, scoping="open")
    next(reading)
    reading.close()
    assert closed == ["closed", "closed"]


def test_gold_is_handed_to_the_oracle_with_its_grades(retriever: Any) -> None:
    wanted = (Judgement("c/s#2", 1), Judgement("c/s#0", 2), Judgement("c/s#9", 2))
    probe = Probe("c/s/4", "c", "c/s/4", None, wanted)
    happening = [one for one in moments(RECORDING, [probe], "all") if one.seq == 4]
    arms = arms_named("oracle")
    (found,) = replay(RECORDING, ROWS, happening, arms, lambda one: retriever("exact", one), scoping="open")
    assert [(item.key, item.score) for item in found.recall.items] == [("c/s#0", 2.0), ("c/s#2", 1.0)]


def test_rows_stand_in_order_of_birth_with_the_labels_that_were_handed_in() -> None:
    assert [row.key for row in ROWS] == [memory.key for memory in MEMORIES]
    labels = {memory.key: "must_remember" for memory in MEMORIES}
    assert {row.importance_label for row in rows_of(RECORDING, labels)} == {"must_remember"}
    assert [(row.text, row.scope, row.created_at) for row in ROWS] == [
        (memory.text, memory.scope, memory.created_at) for memory in MEMORIES
    ]


def test_a_rule_is_hard_if_it_was_recorded_so_or_is_made_one() -> None:
    memories = (replace(MEMORIES[0], hard_rule=True), *MEMORIES[1:])
    rows = rows_of(replace(RECORDING, memories=memories), {one.key: "unknown" for one in memories}, {"c/s#2"})
    assert [row.key for row in rows if row.hard_rule] == ["c/s#0", "c/s#2"]


def test_a_turn_that_is_passed_over_has_no_rule_to_keep(desk: Any) -> None:
    rule = ("Never write to the attic", {"hard_rule": True})
    desk.say("a", ("global", [("user", "the attic is full", rule), ("user", "ok"), ("user", "what of the attic")]))
    rows = desk.rows(desk.run("seed_full"))
    assert [(row["turn"], row["hard_rules"], row["hard_kept"]) for row in rows[1:]] == [
        ("a/s1/t2", 0, 0),
        ("a/s1/t3", 1, 1),
    ]


def test_the_time_of_a_search_is_no_time_of_selection(retriever: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ExactView.search

    def slowly(self: ExactView, where: Filter, limit: int) -> Lanes:
        time.sleep(0.02)
        return plain(self, where, limit)

    monkeypatch.setattr(ExactView, "search", slowly)
    happening = list(moments(RECORDING, (), "all"))[:2]
    arms = arms_named("tier_first_v1")
    for found in replay(RECORDING, ROWS, happening, arms, lambda one: retriever("exact", one), scoping="open"):
        assert found.recall.timings["select"] < 20_000_000
