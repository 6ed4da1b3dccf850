"""Readings of repeats and exact hits as knobs (decision 9), by example."""

from __future__ import annotations

from typing import Any

import pytest

from lab.retrieval.contract import Candidate
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.seed.score import rank_relevance, relevance, repeat_factor

ASK = "anything about the gateway that I ought to recall before lunch"


def test_one_injection_costs_ranks_and_is_no_ban() -> None:
    once = repeat_factor(1, 0.35, 6)
    by_rank = [rank_relevance(rank, 12) for rank in range(1, 13)]
    assert by_rank[5] < once * by_rank[0] < by_rank[4]
    # By the literal product over the fused score, the first of both lanes falls behind the twelfth of both.
    fused = [relevance(Candidate("x", 2 / (60 + rank), 0, rank, rank, 0.0), "rrf") for rank in range(1, 13)]
    assert once * fused[0] < fused[11]


@pytest.mark.parametrize(("scale", "returns"), [("rank", True), ("rrf", False)])
def test_repeated_memory_returns_within_the_window_by_rank_only(kit: Any, scale: str, returns: bool) -> None:
    rows = [
        kit.row("first", "gateway recall lunch"),
        *(kit.row(f"k{at}", f"gateway recall case{chr(97 + at)}") for at in range(11)),
    ]
    phases = {"score": ("relevance",), "relevance": scale}
    talk = kit.Talk(rows, kit.flow(recall={"max_items": 2, "tier_search_multiplier": 6}, phases=phases))
    turns = [talk.hot(talk.say(ASK)) for _ in range(5)]
    assert "first" in turns[0]
    assert any("first" in turn for turn in turns[1:]) is returns


@pytest.mark.parametrize(("history", "expected"), [("conversation", 0.65), ("session", 1.0)])
def test_window_runs_over_sessions_by_default(kit: Any, history: str, expected: float) -> None:
    config = kit.flow() if history == "conversation" else kit.flow(phases={"repeat_history": history})
    talk = kit.Talk([kit.row("a", "gateway alpha")], config)
    talk.say(ASK, session="s1")
    assert talk.say(ASK, session="s2").factors[engine_id("a")].repeat == expected


@pytest.mark.parametrize(("reading", "factor"), [("names", 0.65), ("numbers", 1.0)])
def test_year_exempts_no_memory_unless_numbers_count(kit: Any, reading: str, factor: float) -> None:
    rows = [kit.row(f"m{at}", f"in 2026 the gateway case{chr(97 + at)}", kit.MUST) for at in range(5)]
    talk = kit.Talk(rows, kit.flow(phases={"exact_hit": reading}))
    prompts = ["what about 2026", "and what of the budget in 2026"]
    first, second = (talk.say(prompt) for prompt in prompts)
    injected = {pick.candidate.id for pick in first.hits}
    assert {second.factors[identity].repeat for identity in injected} == {factor}
    assert bool(second.receipt.get("repeatExempt")) == (reading == "numbers")


def test_exact_boost_lifts_an_exact_hit(kit: Any) -> None:
    rows = [*kit.pool(8, kit.NICE), kit.row("exact", "unit ERR-1042 of the boiler", days=90)]
    prompt = "gateway deploy queue cache and staging after ERR-1042"
    plain = kit.Talk(rows, kit.flow()).say(prompt)
    boosted = kit.Talk(rows, kit.flow(phases={"exact_boost": 3.0})).say(prompt)
    assert [turn.factors[engine_id("exact")].exact for turn in (plain, boosted)] == [1.0, 3.0]
    assert boosted.hits[0].candidate.id == engine_id("exact") != plain.hits[0].candidate.id
    assert {turn.factors[engine_id("nice_to_have0")].exact for turn in (plain, boosted)} == {1.0}
    # A boost exempts nothing that was not injected before.
    assert "repeatExempt" not in boosted.receipt


def test_novelty_spares_what_the_penalty_spares(kit: Any) -> None:
    rows = [kit.row("exact", "unit ERR-1042 of the gateway"), kit.row("b", "gateway beta")]
    talk = kit.Talk(rows, kit.flow())
    turns = [talk.say("gateway ERR-1042 again") for _ in range(3)]
    assert [turn.factors[engine_id("exact")].novelty for turn in turns] == [1.0] * 3
    assert turns[2].factors[engine_id("b")].novelty < turns[1].factors[engine_id("b")].novelty < 1.0


@pytest.mark.parametrize(("fields", "rule"), [({"category": "decision"}, "pinned"), ({"hard_rule": True}, "pinned")])
def test_receipt_names_the_rule_of_an_exemption(kit: Any, fields: dict[str, Any], rule: str) -> None:
    config = kit.flow(recall={"dedupe_backbone": False}, working_set={"enabled": True})
    talk = kit.Talk([kit.row("a", "gateway alpha", **fields), kit.row("b", "gateway beta")], config)
    turns = [talk.say(ASK) for _ in range(2)]
    exempt = turns[1].receipt["repeatExempt"]
    assert exempt == {"count": 1, "rules": {engine_id("a"): rule}}
    assert (
        turns[1].receipt["decisions"][engine_id("a")] == turns[0].receipt["decisions"][engine_id("a")] == "nice_quota"
    )
