"""Tests of the cause of the first difference that only the ranking explains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.canary.agree.causes import CAUSES, Difference, Facts, Match, explained, first_difference, other_embedder
from lab.canary.agree.engine import Answer, Deletions, Given, Recorded
from lab.recordings.events import InjectedBlock, RecordedMemory, ToolEvent
from lab.recordings.model import Memory

STORE = {key: Memory(key, f"text of {key}", "", 0, 5, label="must_remember") for key in "abc"}
FACTS = Facts(Deletions({}, {}), STORE, "model", "model", auto_recall=True, upstream=True)
SEARCH = ToolEvent("memory_recall", 10, model="model", searched_scope="global", fts=2, vec=3)


def matched(keys: str, scores: tuple[float, ...] = (0.5, 0.4, 0.3), distance: float | None = None) -> list[Match]:
    return [
        Match(RecordedMemory(STORE[key].text, key, score=score, distance=distance), STORE[key])
        for key, score in zip(keys, scores, strict=False)
    ]


def answer(keys: str, scores: tuple[float, ...] = (0.5, 0.4, 0.3), **more: Any) -> Answer:
    given = tuple(Given(key, "must", score, 1.0) for key, score in zip(keys, scores, strict=False))
    return Answer(given, **({"scope": "global", "fts": 2, "vec": 3} | more))


def difference(
    matches: list[Match], lab: Answer, event: ToolEvent | InjectedBlock = SEARCH, facts: Facts = FACTS
) -> Difference | None:
    return first_difference(Recorded("c", "turn", 0, 10, event), matches, lab, facts)


def cause(*given: Any, **more: Any) -> str:
    found = difference(*given, **more)
    assert found is not None
    assert found.cause in CAUSES
    return found.cause


def test_equal_lists_have_no_difference() -> None:
    assert difference(matched("abc"), answer("abc")) is None


def test_difference_names_the_first_position_and_both_memories() -> None:
    found = difference(matched("abc"), answer("acb"))
    assert found is not None
    assert (found.position, found.recorded and found.recorded.memory, found.lab) == (2, STORE["b"], STORE["c"])


@pytest.mark.parametrize(
    ("live", "lab", "expected"),
    [
        (matched("ab"), answer("ba", (0.5, 0.5)), "tie"),
        (matched("ab"), answer("ba"), "other"),
        (matched("ab", distance=1.0), answer("ba"), "other"),
        (matched("ab", distance=1.5), answer("ba"), "embedder"),
        (matched("ab"), answer("ba", vec=4), "store"),
        (matched("ab"), answer("ba", fts=1), "store"),
        (matched("ab"), answer("ba", scope="farm"), "scope"),
        (matched("ab"), answer("ac", candidates=frozenset("ac")), "depth"),
        (matched("ab"), answer("ac", candidates=frozenset("abc")), "tie"),
        (matched("ab"), answer("ac", (0.5, 0.1), candidates=frozenset("abc")), "other"),
        (matched("ab"), answer("ac", scopes=("farm",)), "scope"),
        (matched("ab"), answer("abc"), "limit"),
        (matched("ab"), answer("a", candidates=frozenset("ab")), "limit"),
    ],
)
def test_cause_of_a_search(live: list[Match], lab: Answer, expected: str) -> None:
    assert cause(live, lab) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reasons": ("no_results_must", "provider_unavailable"), "vec": 0}, "provider_unavailable"),
        ({"reasons": ("embedding_input_too_long",), "vec": 0}, "embedding_input_too_long"),
        # Without a reason: the lane itself failed.
        ({"vec": 0}, "vector_lane_silent"),
        ({"reasons": ("index_timed_out",)}, "index_timed_out"),
        # What says nothing of the kind leaves the cause to the store.
        ({"reasons": ("no_results_must", "budget_cap"), "vec": 1}, "store"),
        ({"vec": 0, "fts": 0}, "store"),
    ],
)
def test_cause_is_the_reason_that_the_live_result_gives(changes: dict[str, Any], expected: str) -> None:
    event = replace(SEARCH, **changes)
    found = difference(matched("ab"), answer("ba", vec=4), event, replace(FACTS, model="another"))
    if expected == "store":
        found = difference(matched("ab"), answer("ba", vec=4), event)
    assert found is not None
    assert found.cause == expected
    assert explained(found.cause)


def test_memory_that_is_gone_is_the_cause_beside_an_outage() -> None:
    down = replace(SEARCH, reasons=("provider_unavailable",), vec=0)
    assert cause([Match(RecordedMemory("text", "z"), None)], answer("a"), down) == "absent"


def test_search_without_vectors_is_not_of_another_embedder() -> None:
    down = replace(SEARCH, reasons=("provider_unavailable",), vec=0, model="other")
    recorded = Recorded("c", "turn", 0, 10, down)
    assert other_embedder(recorded, matched("ab"), answer("ba"), FACTS) is False
    assert other_embedder(recorded._replace(event=replace(down, reasons=(), vec=3)), matched("ab"), answer("ba"), FACTS)


def test_cause_of_another_model_without_distances_is_the_embedder() -> None:
    assert cause(matched("ab"), answer("ba"), replace(SEARCH, model="other")) == "embedder"
    # Equal distances show that the vectors are the same, whatever the model is called.
    assert cause(matched("ab", distance=1.0), answer("ba"), replace(SEARCH, model="other")) == "other"


@pytest.mark.parametrize(
    ("reason", "expected"), [("depth", "depth"), ("cut", "pinned"), ("slot", "slot"), ("x", "other")]
)
def test_cause_of_a_block_is_the_engines_own_reason(reason: str, expected: str) -> None:
    assert cause(matched("ab"), answer("ac", reasons={"b": reason}), InjectedBlock()) == expected


@pytest.mark.parametrize(("reason", "expected"), [("trivial", "trivial"), ("todo", "todo"), ("depth", "embedder")])
def test_cause_that_needs_no_vector_comes_before_the_embedder(reason: str, expected: str) -> None:
    other = replace(FACTS, model="another")
    assert cause(matched("ab"), answer("ac", reasons={"b": reason}), InjectedBlock(), other) == expected


def test_cause_of_a_cut_block_is_the_budget() -> None:
    assert cause(matched("ab"), answer("abc"), InjectedBlock(cut=True)) == "budget"
    assert cause(matched("ab"), answer("abc"), InjectedBlock()) == "limit"


def test_cause_of_a_block_without_auto_recall_is_that_it_is_off() -> None:
    assert cause(matched("ab"), answer(""), InjectedBlock(), replace(FACTS, auto_recall=False)) == "off"


def test_cause_under_profile_seed_is_the_profile() -> None:
    seed = replace(FACTS, upstream=False)
    assert cause(matched("ab"), answer("ba", vec=4), facts=seed) == "profile"
    assert cause(matched("ab"), answer("ba", (0.5, 0.5)), facts=seed) == "tie"


def test_cause_of_a_stored_working_set_is_that_it_is_pinned() -> None:
    pinned = Match(RecordedMemory("constraints:", "working_set:global"), None)
    assert cause([pinned], answer("a")) == "pinned"


def test_docs_explain_every_cause() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "agree.md").read_text("utf-8")
    assert [cause for cause in CAUSES if f"`{cause}`" not in page] == []
