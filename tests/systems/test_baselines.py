"""The arms without tiers: rankings of one lane or both, and the lower and upper bound."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lab.base.draw import draw
from lab.recordings.model import Memory
from lab.retrieval.contract import Query, Row
from lab.retrieval.exact import ExactStore
from lab.retrieval.retrievers import QueryContext
from lab.systems.baselines.arm import BaselineArm
from lab.systems.contract import Ask, Detail, Item, Recall, Searches, SharedRetrieval, Signals
from lab.systems.openclaw.config.resolve import describe
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import engine_id
from lab.systems.registry import make_arm, systems
from lab.systems.spec import ArmSpec
from tests.playing import kit_for

LABELS = ("must_remember", "nice_to_have", "ignore", "unknown")
TIERS = {"must_remember": "must", "nice_to_have": "nice", "ignore": "ignore", "unknown": "unknown"}


def rows(count: int, created_at: Sequence[int] | None = None, scopes: Sequence[str] = ("global",)) -> list[Row]:
    """Rows ``k0, k1, …``; the words of a row are its number and, for even ones, ``even``."""
    return [
        Row(
            engine_id(f"k{number}"),
            f"k{number}",
            text := f"w{number}" + " even" * (number % 2 == 0),
            text,
            created_at[number] if created_at else number,
            "fact",
            LABELS[number % 4],
            scopes[number % len(scopes)],
        )
        for number in range(count)
    ]


def candidates(stored: Sequence[Row], words: str = "even w3", nearest: int = 1) -> QueryContext:
    """A real store that is queried with words, and with a vector near that of one row."""
    angles = np.arange(len(stored)) * 0.01
    store = ExactStore(2)
    store.add(
        stored, np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32), [row.text.split() for row in stored]
    )
    at = nearest * 0.01 + 0.001
    vector = np.asarray([np.cos(at), np.sin(at)], np.float32)
    return QueryContext(store.view(Query(words, words.split(), vector)), store.rows, {row.id: row for row in stored})


def request(scope: str | None = None, relevant: dict[str, int] | None = None, key: str = "c/s/0") -> Ask:
    return Ask(key, "asked", 0, scope, grades=relevant or {})


def ask(kind: str, stored: Sequence[Row], query: Ask | None = None, **changes: Any) -> Recall:
    """The recall of a baseline over rows, by default with six slots and without a seed."""
    arm = make_arm(ArmSpec(kind, kind, **changes))
    system: Any = arm.open(kit_for(arm))
    recall: Recall = system.select(query or request(), candidates(stored))
    return recall


def keys(recall: Recall) -> list[str]:
    return [item.id for item in recall.items]


def test_recency_ranks_the_newest_first() -> None:
    stored = rows(5, created_at=[30, 10, 50, 20, 40])
    recall = ask("recency", stored)
    assert keys(recall) == ["k2", "k4", "k0", "k3", "k1"]
    assert [item.score for item in recall.items] == [50.0, 40.0, 30.0, 20.0, 10.0]


def test_recency_with_equal_age_ranks_by_id() -> None:
    stored = rows(9, created_at=[5] * 9)
    assert [item.signals.id for item in ask("recency", stored).items] == sorted(row.id for row in stored)


def test_oracle_ranks_relevant_memories_by_grade_and_nothing_else() -> None:
    recall = ask("oracle", rows(8), request(relevant={"k1": 1, "k5": 3, "k2": 2, "not-born": 9}))
    assert [(item.id, item.score) for item in recall.items] == [("k5", 3.0), ("k2", 2.0), ("k1", 1.0)]
    assert recall.injected == 3


def test_oracle_with_equal_grade_ranks_by_id() -> None:
    grades = {f"k{number}": 1 for number in range(8)}
    assert [item.signals.id for item in ask("oracle", rows(8), request(relevant=grades)).items] == sorted(
        map(engine_id, grades)
    )


def test_oracle_without_relevant_memories_returns_nothing() -> None:
    assert ask("oracle", rows(8)).items == ()


def test_none_returns_nothing() -> None:
    recall = ask("none", rows(8), request(relevant={"k1": 1}))
    assert (recall.items, recall.injected, recall.context) == ((), 0, "")
    assert recall.receipt["finalCount"] == recall.receipt["injectedCount"] == 0


def test_random_depends_on_seed_and_keys_only() -> None:
    stored = rows(30)
    order = keys(ask("random", stored))
    assert sorted(order) == sorted(row.key for row in stored)
    # Neither the order of the rows nor the query changes it.
    assert keys(ask("random", stored[::-1])) == order
    assert keys(ask("random", stored, request(relevant={"k1": 1}), depth=30)) == order
    # Another turn or another seed gives another order.
    assert keys(ask("random", stored, request(key="c/s/1"))) != order
    assert keys(ask("random", stored, seed=1)) != order
    # An additional memory does not change the order of the others.
    assert [key for key in keys(ask("random", rows(31))) if key != "k30"] == order


def test_draw_is_below_one_and_evenly_distributed() -> None:
    drawn = [draw(0, f"key {number}") for number in range(4000)]
    assert all(0 <= number < 1 for number in drawn)
    assert len(set(drawn)) == 4000
    assert np.histogram(drawn, 4, (0, 1))[0].tolist() == pytest.approx([1000] * 4, rel=0.1)
    assert draw(0, "key 1") != draw(1, "key 1")
    # Labels and the random arm depend on this number, the first 56 bits of a hash.
    assert draw(0, "a") == int(hashlib.sha256(b"0\na").hexdigest()[:14], 16) / 16**14
    assert 0 <= draw(0, "\ud83d") < 1


def test_vector_ranks_by_distance() -> None:
    recall = ask("vector", rows(6))
    assert keys(recall) == ["k1", "k2", "k0", "k3", "k4", "k5"]
    assert [(item.signals.fts_rank, item.signals.vec_rank) for item in recall.items] == [
        (None, rank) for rank in range(1, 7)
    ]
    assert recall.receipt["ftsTop"][0]["id"] == engine_id("k3")


def test_bm25_ranks_by_score_and_excludes_rows_without_a_common_word() -> None:
    recall = ask("bm25", rows(6))
    evens = sorted(("k0", "k2", "k4"), key=engine_id)
    assert keys(recall) == ["k3", *evens]
    assert [(item.signals.fts_rank, item.signals.vec_rank) for item in recall.items] == [
        (rank, None) for rank in range(1, 5)
    ]


def test_hybrid_fuses_both_lanes() -> None:
    recall = ask("hybrid", rows(6))
    text, vector = ["k3", *sorted(("k0", "k2", "k4"), key=engine_id)], ["k1", "k2", "k0", "k3", "k4", "k5"]
    score = {key: sum(1 / (61 + lane.index(key)) for lane in (text, vector) if key in lane) for key in {*text, *vector}}
    assert keys(recall) == sorted(score, key=lambda key: (-score[key], engine_id(key)))
    assert [item.score for item in recall.items] == pytest.approx(sorted(score.values(), reverse=True), abs=1e-15)


def test_hybrid_fuses_lanes_of_depth_50_whatever_its_own_depth() -> None:
    stored = rows(120)
    recall = ask("hybrid", stored, depth=200)
    assert {item.signals.fts_rank for item in recall.items} - {None} == set(range(1, 51))
    assert {item.signals.vec_rank for item in recall.items} - {None} == set(range(1, 51))
    assert len(ask("vector", stored, depth=200).items) == 120


@pytest.mark.parametrize("kind", ["vector", "bm25", "hybrid", "recency", "random", "oracle"])
def test_every_baseline_stays_in_the_scope(kind: str) -> None:
    stored = rows(24, scopes=("work", "home"))
    grades = {row.key: 1 for row in stored}
    scopes = {item.signals.scope for item in ask(kind, stored, request("work", grades)).items}
    everything = {item.signals.scope for item in ask(kind, stored, request(None, grades)).items}
    assert (scopes, everything) == ({"work"}, {"work", "home"})
    assert ask(kind, stored, request("elsewhere", grades)).items == ()


@pytest.mark.parametrize("kind", ["vector", "bm25", "hybrid", "recency", "random", "oracle", "none"])
def test_baseline_ranks_to_its_depth_and_injects_the_first_items(kind: str) -> None:
    stored = rows(40)
    grades = {row.key: 1 for row in stored}
    recall = ask(kind, stored, request(relevant=grades), max_items=3, depth=10)
    full_ranking = ask(kind, stored, request(relevant=grades), max_items=3, depth=100)
    assert recall.items == full_ranking.items[:10]
    assert len(recall.items) == (0 if kind == "none" else 10)
    assert recall.injected == min(3, len(recall.items)) == recall.receipt["injectedCount"]
    assert recall.receipt["fusedTop"] == [item.signals.id for item in recall.items[:3]]
    assert recall.context.count("\n") == (0 if kind == "none" else 5)
    assert recall.context == full_ranking.context


@pytest.mark.parametrize("kind", ["vector", "bm25", "hybrid", "recency", "random", "oracle", "none"])
def test_baseline_without_memories_returns_nothing(kind: str) -> None:
    recall = ask(kind, [], request(relevant={"k1": 1}))
    assert (recall.items, recall.context) == ((), "")


def test_items_have_their_sources() -> None:
    stored = rows(4, scopes=("work",))
    items = ask("recency", stored).items
    assert items == tuple(
        Item(
            row.key,
            row.text,
            (row.key,),
            float(row.created_at),
            Signals(row.id, row.importance_label, "work", None, None, "ranked"),
            TIERS[row.importance_label],
        )
        for row in reversed(stored)
    )
    assert set(TIERS) == {item.signals.label for item in items}


def test_describe_has_a_seed_only_for_random() -> None:
    config = describe(EngineConfig())
    for system, name, seed, needs in (
        ("bm25", "bm25", None, False),
        ("random", "dice", 7, False),
        ("oracle",) * 2 + (None, True),
    ):
        info = make_arm(ArmSpec(name, system, depth=20, seed=7)).describe()
        assert (info.name, info.system, info.cutoff, info.at_most, info.depth) == (name, system, 6, 6, 20)
        assert (info.config, info.seed, info.needs_gold) == (config, seed, needs)
        assert (info.writes, info.stateful, info.labelled, info.inputs, info.embedder) == (
            False,
            False,
            False,
            {},
            None,
        )


# Systems that run a program outside of the lab need its command.
LOCAL = tuple(name for name in systems() if name not in ("external", "plugin"))


@pytest.mark.parametrize("order", [LOCAL, LOCAL[::-1]])
def test_arms_that_share_candidates_answer_as_each_alone(order: Sequence[str]) -> None:
    """What one arm caches for the next must not affect an arm with another number of slots."""
    stored, query = rows(60, scopes=("work", "home")), request("work", {"k4": 1})
    arms = [make_arm(ArmSpec(f"{system}/{slots}", system, max_items=slots)) for slots in (2, 6) for system in order]
    sharing = [arm for arm in arms if isinstance(arm, Searches) and arm.shares]
    # Systems that search what they write, or something else than memories, do not share.
    private = {
        *("verbatim", "memory_lancedb", "memory_core", "auto_recall", "rsclaw"),
        *("long_context", "placebo", "observations"),
    }
    assert {arm.describe().system for arm in arms} - {arm.describe().system for arm in sharing} == private
    shared = candidates(stored)
    for arm in sharing:
        together, alone = (opened(arm, stored).select(query, found) for found in (shared, candidates(stored)))
        assert (together.items, together.injected, together.context) == (alone.items, alone.injected, alone.context)
        assert together.receipt == alone.receipt


def opened(arm: Any, stored: Sequence[Row]) -> Any:
    """The system of an arm that shares its search or could, which was given the memories of the rows."""
    system = arm.open(kit_for(arm))
    assert isinstance(system, SharedRetrieval)
    system.remember([Memory(row.key, row.text, row.text, 0, row.created_at, scope=row.scope) for row in stored])
    return system


def test_explain_names_another_scope_or_rank_of_missed_memories() -> None:
    stored = rows(12, scopes=("work", "home"))
    arm = make_arm(ArmSpec("recency", "recency", max_items=2, depth=3))
    assert isinstance(arm, BaselineArm)
    system, found, query = arm.open(kit_for(arm)), candidates(stored), request("work")
    recall = system.select(query, found)
    assert keys(recall) == ["k10", "k8", "k6"]
    explanation = system.explain(query, found, recall, ["k10", "k6", "k4", "k11"], Detail())
    assert explanation.reasons == {
        "k6": "ranked 3; only the first 2 are injected",
        "k4": "not among the first 3 of this arm",
        "k11": "its scope is home; the scope of the turn is work",
    }
    assert explanation.runners_up == ("k6",)
