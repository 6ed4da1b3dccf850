"""The seeds' phases by example: repeats, exemptions, final score, trust, and filters of the hot lane."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.retrieval.contract import Candidate, Row
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.recall.turn import Factors, History
from lab.systems.openclaw.seed.score import importance_prior, novelty, recency, relevance, repeat_factor, scope_match

ASK = "anything about the gateway that I ought to recall before lunch"


def factor(turn: Any, key: str) -> Factors:
    found: Factors = turn.factors[engine_id(key)]
    return found


def pair(kit: Any, **fields: Any) -> list[Row]:
    """Two memories, both injected at every turn."""
    return [kit.row("a", "gateway alpha", **fields), kit.row("b", "gateway beta", **fields)]


def repeats(talk: Any, turns: int, key: str = "a", **prompt: Any) -> list[float]:
    """Return the repeat factor of a memory, turn by turn."""
    return [factor(talk.say(ASK, **prompt), key).repeat for _ in range(turns)]


# --- 16.2: repeat suppression


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ("compounding", [1.0, 0.6, 0.36, 0.216, 0.216]),
        ("linear", [1.0, 1 - 0.4 / 3, 1 - 0.8 / 3, 0.6, 0.6]),
        ("once", [1.0, 0.6, 0.6, 0.6, 0.6]),
        ("literal", [1.0, 0.4, 0.4, 0.4, 0.4]),
    ],
)
def test_repeat_factor_follows_the_count_within_the_window(kit: Any, decay: str, expected: list[float]) -> None:
    knobs = {"repeat_window_turns": 3, "repeat_penalty": 0.4}
    talk = kit.Talk(pair(kit), kit.flow(recall=knobs, phases={"repeat_decay": decay}))
    assert repeats(talk, 5) == pytest.approx(expected)


@given(st.integers(0, 50), st.floats(0, 1), st.integers(1, 50), st.sampled_from(("compounding", "linear", "once")))
@settings(max_examples=80)
def test_repeat_factor_never_rises_and_stays_within_bounds(times: int, penalty: float, window: int, decay: str) -> None:
    times = min(times, window)
    now = repeat_factor(times, penalty, window, decay)
    assert 0.0 <= now <= 1.0 == repeat_factor(0, penalty, window, decay)
    assert now <= repeat_factor(max(0, times - 1), penalty, window, decay)


@pytest.mark.parametrize(("between", "expected"), [(0, 0.65), (2, 0.65), (3, 1.0)])
def test_repeat_counts_a_turn_within_the_window(kit: Any, between: int, expected: float) -> None:
    talk = kit.Talk(
        [*pair(kit), kit.row("w", "work gateway", scope="work")], kit.flow(recall={"repeat_window_turns": 3})
    )
    talk.say(ASK, scope="work")
    for _ in range(between):
        talk.say(ASK)
    assert factor(talk.say(ASK, scope="work"), "w").repeat == expected


def test_repeat_window_of_0_suppresses_nothing(kit: Any) -> None:
    assert repeats(kit.Talk(pair(kit), kit.flow(recall={"repeat_window_turns": 0})), 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("history", "expected"), [("session", 1.0), ("conversation", 0.65)])
def test_repeat_history_restarts_per_session_unless_per_conversation(kit: Any, history: str, expected: float) -> None:
    talk = kit.Talk(pair(kit), kit.flow(phases={"repeat_history": history}))
    talk.say(ASK, session="s1")
    assert factor(talk.say(ASK, session="s2"), "a").repeat == expected
    assert factor(talk.say(ASK, session="s1"), "a").repeat == pytest.approx(0.65 * expected)


@pytest.mark.parametrize(("counts", "expected"), [("recall_turns", 0.65), ("all_user_turns", 1.0)])
@pytest.mark.parametrize("passed_over", ["ok", "   ", "/status"])
def test_skipped_prompts_count_only_with_all_user_turns(
    kit: Any, counts: str, expected: float, passed_over: str
) -> None:
    talk = kit.Talk(pair(kit), kit.flow(recall={"repeat_window_turns": 2}, phases={"repeat_counts": counts}))
    talk.say(ASK)
    for _ in range(2):
        assert talk.say(passed_over).context == ""
    assert factor(talk.say(ASK), "a").repeat == expected


def test_query_outside_any_session_neither_sees_nor_leaves_history(kit: Any) -> None:
    talk = kit.Talk(pair(kit), kit.flow(phases={"repeat_history": "conversation"}))
    talk.say(ASK)
    assert repeats(talk, 3, session=None) == [1.0, 1.0, 1.0]
    # A query within a session that is not remembered sees the history and leaves none.
    assert repeats(talk, 3, remembered=False) == [0.65, 0.65, 0.65]
    assert repeats(talk, 2) == pytest.approx([0.65, 0.65**2])


def test_memories_dropped_by_the_budget_do_not_count_as_injected(kit: Any) -> None:
    rows = [kit.row("old", "gateway " + "alpha " * 40, days=9), kit.row("new", "gateway beta", days=1)]
    talk = kit.Talk(rows, kit.flow(budget={"max_chars": 300}))
    assert talk.keys(talk.say(ASK)) == ["new"]
    turn = talk.say(ASK)
    assert (factor(turn, "old").repeat, factor(turn, "new").repeat) == (1.0, 0.65)


def test_repeated_memory_yields_to_the_next_but_stays_if_alone(kit: Any) -> None:
    rows = [kit.row("a", "gateway recall lunch"), kit.row("b", "gateway recall")]
    talk = kit.Talk(rows, kit.flow(recall={"max_items": 1}, phases={"score": ()}))
    # Of two ranks, one injection costs .35 and the second rank .5: the first one is injected twice as often.
    assert [talk.hot(talk.say(ASK)) for _ in range(4)] == [["a"], ["a"], ["b"], ["a"]]
    flat = kit.Talk(rows, kit.flow(recall={"max_items": 1}, phases={"score": (), "relevance": "rrf"}))
    assert [flat.hot(flat.say(ASK)) for _ in range(4)] == [["a"], ["b"], ["a"], ["b"]]
    alone = kit.Talk(rows[:1], kit.flow(recall={"max_items": 1, "repeat_penalty": 1.0}))
    assert [alone.hot(alone.say(ASK)) for _ in range(3)] == [["a"]] * 3


# --- exemptions


@pytest.mark.parametrize(
    ("text", "prompt", "rule"),
    [
        ("the gateway listens on port 8443", "why is port 8443 busy again today", "identifier"),
        ("we keep tabs here", 'is "keep tabs" still the rule for new files', "phrase"),
        ("退款流程改了一次", "退款流程改了 怎麼辦", "phrase"),
        ("rotate the signing token monthly", "rotate signing token", "terms"),
    ],
)
def test_exact_hit_is_not_suppressed(kit: Any, text: str, prompt: str, rule: str) -> None:
    config = kit.flow(recall={"max_items": 2, "repeat_penalty": 0.9})
    talk = kit.Talk([kit.row("hit", text), kit.row("b", "gateway beta")], config)
    turns = [talk.say(prompt) for _ in range(3)]
    assert [factor(turn, "hit").repeat for turn in turns] == [1.0, 1.0, 1.0]
    assert [turn.exempt for turn in turns] == [{}, {engine_id("hit"): rule}, {engine_id("hit"): rule}]
    assert [turn.receipt["decisions"][engine_id("hit")] for turn in turns] == ["nice_quota"] * 3
    exempt = {"count": 1, "rules": {engine_id("hit"): rule}}
    assert [turn.receipt.get("repeatExempt") for turn in turns] == [None, exempt, exempt]
    assert factor(turns[2], "b").repeat == pytest.approx(0.01)


@pytest.mark.parametrize("why", ["hard rule", "in the Working Set"])
def test_pinned_memory_or_hard_rule_in_the_hot_lane_is_not_suppressed(kit: Any, why: str) -> None:
    fields = {"hard_rule": True} if why == "hard rule" else {"category": "decision"}
    config = kit.flow(recall={"dedupe_backbone": False}, working_set={"enabled": True})
    talk = kit.Talk([kit.row("a", "gateway alpha", **fields), kit.row("b", "gateway beta")], config)
    turns = [talk.say(ASK) for _ in range(3)]
    assert all(
        set(talk.hot(turn)) == {"a", "b"} and turn.built_working_set.pinned == (engine_id("a"),) for turn in turns
    )
    assert [factor(turn, "a").repeat for turn in turns] == [1.0, 1.0, 1.0]
    assert factor(turns[2], "b").repeat == pytest.approx(0.65**2)


def test_hard_rule_of_another_searched_scope_is_not_suppressed(kit: Any) -> None:
    rows = [*pair(kit), kit.row("rule", "gateway gamma", hard_rule=True, scope="work")]
    talk = kit.Talk(rows, kit.flow(scopes={"fallback_scopes": ("work",)}))
    turns = [talk.say(ASK) for _ in range(3)]
    assert all("rule" in talk.hot(turn) for turn in turns)
    assert [factor(turn, "rule").repeat for turn in turns] == [1.0, 1.0, 1.0]
    off = kit.Talk(rows, kit.changed(talk.config, phases={"hard_rules": False}))
    assert [factor(off.say(ASK), "rule").repeat for _ in range(2)] == [1.0, 0.65]


@given(data=st.data())
@settings(max_examples=40)
def test_suppressed_by_repeat_lists_what_would_be_selected_without_it(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores(least=6))
    drawn = kit.changed(data.draw(kit.knobs()), phases={"repeat": True}, receipts={"max_items": 10})
    talk = kit.Talk(rows, drawn)
    for prompt in data.draw(st.lists(kit.texts(), min_size=1, max_size=3)):
        talk.say(prompt)
    prompt = data.draw(kit.texts())
    # Queried once without being remembered, and once more with the phase switched off.
    turn = talk.say(prompt, remembered=False)
    free = talk.say(
        prompt, remembered=False, config=kit.changed(drawn, phases={"repeat": False, "score": scores(drawn)})
    )
    found = turn.receipt["suppressedByRepeat"]
    expected = [
        pick.candidate.id for pick in free.hits if pick.candidate.id not in {hit.candidate.id for hit in turn.hits}
    ]
    assert (found["count"], found["ids"]) == (len(expected), expected)
    assert found["penalized"] == sum(factors.repeat < 1.0 for factors in turn.factors.values())


def scores(config: Any) -> tuple[str, ...]:
    """Return the factors without repeats: if there are none, the scale alone is the score."""
    return config.phases.score or ("relevance",)


def test_history_counts_turns_per_session_and_keeps_all_for_novelty() -> None:
    history = History()
    for ids in (["x", "y"], [], ["x"]):
        history.remember("one", ids)
    history.remember("two", ["x"])
    assert dict(history.recent("one", 2)) == {"x": 1}
    assert dict(history.recent("one", 3)) == {"x": 2, "y": 1}
    assert (dict(history.recent("none", 3)), dict(history.recent("one", 0))) == ({}, {})
    assert novelty(history.times("x")) == pytest.approx(1 / (1 + 0.15 * math.log(4)))
    assert novelty(history.times("unseen")) == 1.0


# --- 16.3: the final score


@pytest.mark.parametrize(
    ("name", "of_a", "of_b"),
    [
        ("relevance", 1.0, 11 / 12),
        ("scope_match", 1.0, 1.0),
        ("recency", 1.0, 0.75 + 0.25 / 2),
        ("importance_prior", 1.0, 1.10),
        ("novelty", 1.0, 1.0),
    ],
)
def test_score_factor_works_alone(kit: Any, name: str, of_a: float, of_b: float) -> None:
    rows = [kit.row("a", "recall lunch gateway", days=0), kit.row("b", "gateway", kit.MUST, days=120)]
    turn = kit.Talk(rows, kit.flow(phases={"score": (name,), "repeat": False})).say(ASK)
    # Each tier has its own first rank, so for relevance both must be in one tier.
    same = [rows[0], kit.row("b", "gateway", days=120)]
    turn = (
        kit.Talk(same, kit.flow(phases={"score": (name,), "repeat": False})).say(ASK) if name == "relevance" else turn
    )
    assert factor(turn, "a")._asdict()[name] == pytest.approx(of_a)
    assert factor(turn, "b")._asdict()[name] == pytest.approx(of_b)
    others = [factor(turn, key)._replace(**{name: 1.0}) for key in "ab"]
    assert others == [Factors(), Factors()]


def test_novelty_falls_with_every_injection(kit: Any) -> None:
    talk = kit.Talk(pair(kit), kit.flow(phases={"score": ("novelty",), "repeat": False}))
    found = [factor(talk.say(ASK, session=f"s{at}"), "a").novelty for at in range(3)]
    assert found == pytest.approx([1.0, 1 / (1 + 0.15 * math.log(2)), 1 / (1 + 0.15 * math.log(3))])


def test_factors_computed_by_hand(kit: Any) -> None:
    now = kit.NOW
    assert [scope_match(index) for index in range(4)] == [1.0, 0.9, 0.8, 0.8]
    labels = (kit.MUST, kit.NICE, kit.UNKNOWN, kit.IGNORE)
    assert [importance_prior(kit.row("k", "", label)) for label in labels] == [1.10, 1.00, 0.95, 0.95]
    for category, days in (("preference", 365), ("decision", 180), ("fact", 120), ("todo", 30), ("other", 30)):
        assert recency(kit.row("k", "", category=category, days=days), now) == pytest.approx(0.875)
    # A memory from the future counts as new, not as newer.
    assert recency(kit.row("k", "", days=-5), now) == 1.0
    assert Factors(0.5, 0.9, 0.8, 1.1, 0.7, 0.65, 0.001).product == pytest.approx(0.5 * 0.9 * 0.8 * 1.1 * 0.7 * 0.65e-3)


@pytest.mark.parametrize(
    ("scale", "fts", "vec", "distance", "expected"),
    [
        ("rrf", 1, 1, 0.0, 1.0),
        ("rrf", None, 1, 0.0, 0.5),
        ("reciprocal", 1, 4, 0.5, 0.625),
        ("reciprocal", None, 2, 0.5, 0.25),
        ("similarity", None, 1, 0.5, 0.75),
        ("similarity", 2, 1, 0.5, 0.75 + 0.25 * 0.25),
        ("similarity", 1, None, 0.0, 0.5),
        ("similarity", None, 3, 3.0, 0.0),
    ],
)
def test_relevance_scales(scale: str, fts: int | None, vec: int | None, distance: float, expected: float) -> None:
    score = sum(1 / (60 + rank) for rank in (fts, vec) if rank)
    assert relevance(Candidate("x", score, 0, fts, vec, distance), scale) == pytest.approx(expected)


def test_candidates_without_factors_keep_the_order_of_fusion(kit: Any) -> None:
    rows = kit.pool(10, kit.NICE)
    still = kit.flow(phases={"score": (), "repeat": False, "recent_days": 0})
    turn = kit.Talk(rows, still).say(ASK)
    fused = turn.tiers.unrecorded().fused(turn_plan(), "global")
    assert [pick.candidate for pick in turn.hits] == fused[:6]


def test_equal_scores_are_sorted_by_newest_then_id(kit: Any) -> None:
    rows = [kit.row(f"k{at}", "gateway " * at, days=1 + at // 3) for at in range(1, 6)]
    turn = kit.Talk(rows, kit.flow(phases={"score": ("importance_prior",), "repeat": False})).say(ASK)
    ages = {row.id: -row.created_at for row in rows}
    assert [pick.candidate.id for pick in turn.hits] == sorted(ages, key=lambda identity: (ages[identity], identity))


def turn_plan() -> Any:
    from lab.systems.openclaw.select.outcome import recall_plans

    return recall_plans()[1]


# --- 16.7 and 20.16: filters of the hot lane


def test_soft_trust_ranks_untrusted_last_and_excludes_quarantined(kit: Any) -> None:
    rows = [
        kit.row("bad", "gateway recall lunch", trust_tier="quarantined"),
        kit.row("odd", "gateway recall lunch", trust_tier="untrusted"),
        *(kit.row(f"k{at}", "gateway", days=90) for at in range(3)),
    ]
    every = kit.Talk(rows, kit.flow(phases={"trust": "off"}))
    assert set(every.hot(every.say(ASK))) == {"bad", "odd", "k0", "k1", "k2"}
    talk = kit.Talk(rows, kit.flow(phases={"trust": "soft", "recent_days": 0}, recall={"max_items": 3}))
    assert sorted(talk.hot(talk.say(ASK))) == ["k0", "k1", "k2"]
    wide = kit.Talk(rows, kit.flow(phases={"trust": "soft", "recent_days": 0}))
    assert wide.hot(wide.say(ASK))[-1] == "odd"
    assert "bad" not in wide.hot(wide.say(ASK))


def test_quarantined_memories_are_selected_only_if_nothing_else_is(kit: Any) -> None:
    rows = [kit.row(f"k{at}", f"gateway {at}", trust_tier="quarantined") for at in range(3)]
    talk = kit.Talk(rows, kit.flow(phases={"trust": "soft"}, recall={"max_items": 2}, receipts={"max_items": 10}))
    first, second = talk.say(ASK), talk.say(ASK)
    assert len(talk.hot(first)) == 2
    lost = set(talk.hot(first)) - set(talk.hot(second))
    assert second.receipt["suppressedByRepeat"]["ids"] == [engine_id(key) for key in lost]


def test_quarantined_memories_are_not_pinned(kit: Any) -> None:
    rows = [
        kit.row("rule", "[HARD] never ask", category="decision", trust_tier="quarantined", hard_rule=True),
        kit.row("must", "must not ask", category="decision", trust_tier="quarantined"),
        kit.row("fine", "gateway is fine", category="decision"),
    ]
    config = kit.flow(working_set={"enabled": True}, phases={"trust": "soft"})
    turn = kit.Talk(rows, config).say(ASK)
    assert turn.built_working_set.pinned == (engine_id("fine"),)
    assert (turn.hard, turn.hits) == ([], [])
    assert set(kit.Talk(rows, kit.changed(config, phases={"trust": "off"})).say(ASK).built_working_set.pinned) == {
        engine_id(key) for key in ("rule", "must", "fine")
    }


def test_min_relevance_drops_distant_hits_without_a_text_match(kit: Any) -> None:
    rows = [kit.row("near", ASK), kit.row("word", "gateway " + "x y z " * 9), kit.row("far", "zebra quilt")]
    talk = kit.Talk(rows, kit.flow(phases={"min_relevance": 0.5}))
    assert sorted(talk.hot(talk.say(ASK))) == ["near", "word"]
    assert sorted(talk.hot(talk.say(ASK, config=kit.flow()))) == ["far", "near", "word"]


def test_recency_window_drops_older_hits_but_no_hard_rule(kit: Any) -> None:
    rows = [
        kit.row("edge", "gateway one", days=10),
        kit.row("old", "gateway two", days=10.001),
        kit.row("rule", "gateway three", days=99, hard_rule=True),
        kit.row("other", "gateway four", days=99, hard_rule=True, scope="work"),
    ]
    config = kit.flow(phases={"recency_window_days": 10}, scopes={"fallback_scopes": ("work",)})
    talk = kit.Talk(rows, config)
    assert talk.keys(talk.say(ASK)) == ["rule", "edge", "other"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["must_remember", "nice_to_have", "unknown", "ignore"], "must+nice"),
        (["must_remember", "unknown", "ignore"], "must+nice+unknown"),
        (["must_remember", "ignore"], "must+nice+unknown+ignore"),
        (["unknown"], "must+nice+unknown"),
        (["ignore"], "must+nice+unknown+ignore"),
        ([], "must+nice"),
    ],
)
def test_policy_loop_extends_while_slots_remain_and_reports_the_tier(
    kit: Any, labels: list[str], expected: str
) -> None:
    rows = [kit.row(label, f"gateway {label}", label) for label in labels]
    talk = kit.Talk(rows, kit.flow(phases={"tier_mode": "loop_v0"}, recall={"max_items": 2}))
    turn = talk.say(ASK)
    assert turn.receipt["policyTier"] == expected
    assert talk.hot(turn) == labels[:2]
    assert set(turn.receipt["decisions"].values()) <= {"must_quota", "nice_quota", "unknown_fill", "ignore_fill"}
    assert "policyTier" not in talk.say(ASK, config=kit.flow(phases={"tier_mode": "live"})).receipt


@pytest.mark.parametrize("label", ["unknown", "ignore"])
def test_policy_loop_fills_its_slots_and_no_more(kit: Any, label: str) -> None:
    rows = [kit.row("m", "gateway", kit.MUST), *kit.pool(5, label)]
    talk = kit.Talk(rows, kit.flow(phases={"tier_mode": "loop_v0"}, recall={"max_items": 3}))
    turn = talk.say(ASK)
    assert [pick.decision for pick in turn.hits] == ["must_quota", f"{label}_fill", f"{label}_fill"]


def test_policy_loop_over_scopes_counts_no_fill_as_wildcard(kit: Any) -> None:
    rows = [*kit.pool(5, kit.UNKNOWN), kit.row("w", "gateway", kit.NICE, scope="work")]
    config = kit.flow(phases={"tier_mode": "loop_v0"}, scopes={"fallback_scopes": ("work",)}, recall={"max_items": 4})
    turn = kit.Talk(rows, config).say(ASK)
    assert [pick.decision for pick in turn.hits] == ["unknown_fill", "nice_quota", "unknown_fill", "unknown_fill"]
    assert turn.receipt["quota"]["wildcardUsed"] == 0
