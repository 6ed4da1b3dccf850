"""The recall tool of an agent, and the receipt's summary of its lanes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.embedding.embedder import HashingEmbedder
from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.contract import Filter, Hit, Lanes, Query, Row
from lab.retrieval.exact import ExactStore
from lab.systems.openclaw.config.settings import DocsSettings, EngineConfig, ReceiptSettings
from lab.systems.openclaw.docs.index import DocRow, DocsIndex
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.memory import normal_row
from lab.systems.openclaw.near_duplicate import words_of
from lab.systems.openclaw.recall.receipt import LaneHit, lane_of
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.recall_tool import DARK, Recalled, agent_recall, memory_recall
from lab.systems.openclaw.select.outcome import TierPlan

QUERY = "the gateway"


class Answers:
    """A view that always returns the same hits."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes

    def search(self, where: Filter, limit: int) -> Lanes:
        return Lanes(self.lanes.fts[:limit], self.lanes.vec[:limit])


def recalled(rows: list[Row], query: str = QUERY, config: EngineConfig | None = None, **how: Any) -> Recalled:
    embedder = HashingEmbedder()
    store = ExactStore(embedder.dimension)
    store.add(rows, embedder.encode([row.text for row in rows]), [sorted(words_of(row.text)) for row in rows])
    dark, docs, by = how.pop("no_vector", None), how.pop("docs", None), how.pop("by", memory_recall)
    view = store.view(Query(query, sorted(words_of(query)), None if dark else embedder.encode([query])[0]))
    memories = Memories(view, store.rows, {row.id: row for row in rows}, no_vector=dark, docs=docs)
    answer: Recalled = by(query, config or EngineConfig(), memories, **how)
    return answer


PLUGIN = replace(EngineConfig(), profile="upstream")


def test_memory_recall_searches_tiers_in_order_with_ignore_last(kit: Any) -> None:
    rows = [row for label in (IGNORE, UNKNOWN, NICE, MUST) for row in kit.pool(1, label)]
    answer = recalled(rows, config=PLUGIN)
    assert [row.importance_label for _, row in answer.hits] == [MUST, NICE, UNKNOWN, IGNORE]
    assert answer.receipt["policyTier"] == "ignore"
    assert recalled(rows, limit=1, config=PLUGIN).receipt["policyTier"] == "must"


@pytest.mark.parametrize(
    ("limit", "labels", "tier"),
    [
        (2, {MUST, NICE}, "must+nice"),
        (3, {MUST, NICE, UNKNOWN}, "must+nice+unknown"),
        (4, {MUST, NICE, UNKNOWN, IGNORE}, "must+nice+unknown+ignore"),
    ],
)
def test_memory_recall_widens_the_tiers_in_seed(kit: Any, limit: int, labels: set[str], tier: str) -> None:
    rows = [row for label in (IGNORE, UNKNOWN, NICE, MUST) for row in kit.pool(1, label)]
    answer = recalled(rows, limit=limit)
    assert ({row.importance_label for _, row in answer.hits}, answer.receipt["policyTier"]) == (labels, tier)


def test_memory_recall_must_and_nice_compete_in_seed(kit: Any) -> None:
    rows = [kit.row("far", "plums", MUST), kit.row("near", "the gateway", NICE)]
    assert [row.key for _, row in recalled(rows).hits] == ["near", "far"]
    assert [row.key for _, row in recalled(rows, config=PLUGIN).hits] == ["far", "near"]


def test_memory_recall_of_an_empty_table_uses_no_tier() -> None:
    assert recalled([]).receipt["policyTier"] is None
    assert recalled([], config=PLUGIN).receipt["policyTier"] == "ignore"


def test_memory_recall_of_a_fallback_scope_names_the_tiers(kit: Any) -> None:
    policy = ScopePolicy(fallback_scopes=("work",))
    rows = [kit.row("w", "the gateway", UNKNOWN, scope="work")]
    answer = recalled(rows, config=EngineConfig(scope_policy=policy))
    assert (answer.receipt["policyTier"], answer.receipt["fallback"]["usedScopes"]) == ("must+nice+unknown", ["work"])


def test_memory_recall_stored_working_set_is_no_memory_in_seed(kit: Any) -> None:
    digest = replace(kit.row("d", "the gateway"), id="working_set:global")
    rows = [digest, kit.row("a", "the gateway too")]
    assert [row.key for _, row in recalled(rows).hits] == ["a"]
    assert {row.key for _, row in recalled(rows, config=PLUGIN).hits} == {"a", "d"}


def agent(rows: list[Row], config: EngineConfig) -> list[str]:
    """Return the keys of what the agent recalls."""
    return [row.key for _, row in recalled(rows, config=config, by=agent_recall).hits]


def test_agent_recall_prefers_trusted_memories_with_the_phases(kit: Any) -> None:
    untrusted = kit.row("u", "the gateway", trust_tier="untrusted")
    barred = kit.row("q", "the gateway", trust_tier="quarantined")
    trusted = kit.row("t", "plums")
    config = kit.flow()
    assert agent([untrusted, barred, trusted], config) == ["t"]
    assert agent([untrusted, barred], config) == ["u"]
    assert agent([barred], config) == []
    assert len(agent([untrusted, barred, trusted], PLUGIN)) == 3
    assert len(agent([untrusted, barred, trusted], EngineConfig())) == 3


class Found:
    """A documents index that finds one row for every search."""

    def search(self, query: str, **limits: Any) -> Any:
        row = DocRow("doc:local:a.md#root:001", "local", "a.md", "doc", "A", "A", "The port is 8443.", 0.016, ("fts",))
        return SimpleNamespace(rows=(row,))


@pytest.mark.parametrize(("upstream", "trust"), [(True, "operator"), (False, "trusted")])
def test_memory_recall_cites_documents_if_memories_are_few(kit: Any, upstream: bool, trust: str) -> None:
    lane = DocsLane(DocsSettings(enabled=True), cast("DocsIndex", Found()))
    config = PLUGIN if upstream else EngineConfig()
    answer = recalled([kit.row("a", "the gateway")], config=config, docs=lane)
    assert answer.text.endswith("Docs cold lane (1):\n1. [doc|operator] The port is 8443. (doc:local:a.md#root:001)")
    assert answer.text.startswith("Found 2 relevant items:\n\nMemories (1):\n1. ")
    (doc,) = answer.details["docs"]
    assert (doc["source_kind"], doc["trust_tier"]) == ("operator", trust)
    cold, lifecycle = answer.receipt["coldLane"], answer.receipt["lifecycle"]
    assert (cold["trigger"], cold["requested"], cold["returned"]) == ("insufficient_hot", 2, 1)
    assert (lifecycle["finalCount"], lifecycle["injectedCount"], lifecycle["coldLane"]) == (1, 2, cold)
    assert answer.log[-1].startswith("openclaw-mem-engine:docsColdLane.search {")


def test_memory_recall_with_enough_memories_cites_nothing(kit: Any) -> None:
    lane = DocsLane(DocsSettings(enabled=True), cast("DocsIndex", Found()))
    answer = recalled(kit.pool(3, MUST), docs=lane)
    assert (answer.details["docs"], "coldLane" in answer.receipt, answer.log) == ([], False, ())


@pytest.mark.parametrize(("limit", "deep"), [(1, 2), (5, 10), (25, 50), (30, 50), (50, 50)])
def test_memory_recall_searches_twice_the_limit_and_at_most_50(kit: Any, limit: int, deep: int) -> None:
    answer = recalled(kit.pool(60, MUST), limit=limit)
    assert (answer.receipt["vecCount"], answer.receipt["fusedCount"]) == (deep, limit)


@pytest.mark.parametrize(("skip", "keys"), [(True, []), (False, ["w"])])
def test_memory_recall_invalid_scope_uses_fallbacks_only_if_allowed(kit: Any, skip: bool, keys: list[str]) -> None:
    policy = ScopePolicy(fallback_scopes=("work",), skip_fallback_on_invalid=skip)
    answer = recalled(
        [kit.row("w", "the gateway", scope="work")], config=EngineConfig(scope_policy=policy), scope="no!"
    )
    assert [row.key for _, row in answer.hits] == keys
    assert answer.receipt["fallback"]["suppressedReason"] == ("invalid_scope" if skip else None)


def test_memory_recall_without_vectors_says_so_and_uses_words(kit: Any) -> None:
    answer = recalled([kit.row("a", "the gateway"), kit.row("b", "plums")], no_vector="provider_unavailable")
    assert [row.key for _, row in answer.hits] == ["a"]
    assert (
        answer.text
        == f"{DARK['provider_unavailable']}Found 1 relevant items:\n\nMemories (1):\n1. [fact] the gateway (2%)"
    )
    assert "provider_unavailable" in answer.receipt["lifecycle"]["rejected"]


def test_memory_recall_with_a_blank_query_returns_nothing(kit: Any) -> None:
    answer = recalled([kit.row("a", "the gateway")], " \n")
    assert (answer.hits, answer.text, answer.receipt["lifecycle"]["skipReason"]) == (
        (),
        "No recall query provided.",
        "no_query",
    )


NEAR = st.tuples(st.integers(0, 30), st.integers(-3, 3), st.booleans())


@given(st.lists(NEAR, max_size=40) | st.lists(NEAR, max_size=9, unique_by=lambda one: one[0]), st.integers(1, 6))
@settings(max_examples=80)
def test_lane_summaries_equal_those_of_all_hits(kit: Any, drawn: list[tuple[int, int, bool]], listed: int) -> None:
    """Scores are so close that rounding decides; clearly worse ones are not rounded at all."""
    rows = [kit.row(str(number), "-") for number in range(31)]
    # A row without an id takes no slot.
    rows[0] = replace(rows[0], id="")
    hits = [Hit(row, 0.5 + nudge * 4e-7 + 0.1 * up, 0.25) for row, nudge, up in drawn]
    tiers = Tiers(Answers(Lanes(hits, [])), rows, 50, {})
    tiers.fused(TierPlan("must", (MUST,)), None)
    answer, _ = tiers.lane_summaries(ReceiptSettings(max_items=listed))
    expected = lane_of([LaneHit(rows[hit.row].id, hit.score, hit.distance) for hit in hits], listed)
    assert answer == expected


def test_pool_is_ranked_to_depth_50() -> None:
    hits = [Hit(number, 1.0 - number / 100, number / 10) for number in range(60)]
    rows = [normal_row(str(number), "-", "-", 0, category=None, label=None, scope=None) for number in range(60)]
    answer = Tiers(Answers(Lanes(hits, hits)), rows, 8, {}).pool(None)
    assert list(answer.fts.values()) == list(range(1, 51))
    assert answer.vec[rows[49].id] == (50, 4.9)
    assert len(answer.vec) == 50
