"""Edge cases of the flow: stale TODOs, scopes and tags, a failing embedder, documents, the budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.base.utf16 import js_length
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.index import DocRow
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.recall.block import Budget, Slot, pack_well_formed

ASK = "anything about the gateway that I ought to recall before lunch"


def upstream(**raw: Any) -> Any:
    return resolve(raw, "upstream")


# --- 9: TODOs


def test_stale_todo_leaves_its_slot_to_another_memory(kit: Any) -> None:
    rows = [kit.row("todo", "recall lunch gateway", category="todo", days=8), kit.row("fact", "gateway")]
    talk = kit.Talk(rows, kit.flow(recall={"max_items": 1}, phases={"score": ()}))
    turn = talk.say(ASK)
    assert (talk.hot(turn), turn.stale) == (["fact"], [engine_id("todo")])
    marker = 'openclaw-mem-engine:todoGuardrail {"phase":"recall","reason":"ttl","dropped":1,"ttlDays":7}'
    assert ("info", marker) in turn.log
    # The public plugin selects first, so the slot stays empty.
    plugin = kit.Talk(rows, upstream(autoRecall={"maxItems": 1}))
    left = plugin.say(ASK)
    assert (plugin.hot(left), left.context, left.receipt["injectedCount"]) == ([], "", 0)
    assert ("info", marker) in left.log


@pytest.mark.parametrize(("days", "there"), [(7.0, True), (7.0001, False)])
@pytest.mark.parametrize("mode", ["tier_quota_v1", "tier_first_v1"])
def test_todo_is_injected_until_its_last_day(kit: Any, mode: str, days: float, there: bool) -> None:
    rows = [kit.row("todo", "gateway", category="todo", days=days)]
    assert bool(kit.Talk(rows, kit.flow(recall={"selection_mode": mode})).say(ASK).hits) is there


def test_hard_rule_in_a_todo_never_becomes_stale(kit: Any) -> None:
    rows = [kit.row("todo", "gateway", category="todo", days=99, hard_rule=True)]
    for enabled in (False, True):
        assert "gateway" in kit.Talk(rows, kit.flow(working_set={"enabled": enabled})).say(ASK).context


# --- 3.4, 7: scopes


def test_scope_tag_selects_the_scope_and_fallbacks_fill_the_rest(kit: Any) -> None:
    rows = [
        kit.row("w", "gateway one", scope="work"),
        kit.row("h", "gateway two", scope="home"),
        kit.row("g", "gateway three", scope="garden"),
        kit.row("x", "gateway four"),
    ]
    config = kit.flow(scopes={"fallback_scopes": ("home", "garden", "empty")}, receipts={"max_items": 10})
    talk = kit.Talk(rows, config)
    turn = talk.say(f"[SCOPE: Work] {ASK}", scoping="tags")
    assert (turn.scope, turn.scope_mode, talk.hot(turn)) == ("work", "inferred", ["w", "h", "g"])
    assert [factors.scope_match for factors in turn.factors.values()] == [1.0, 0.9, 0.8]
    assert [why["origin"] for why in turn.receipt["whyTheseIds"]] == ["primary", "fallback", "fallback"]
    assert turn.receipt["fallback"] == {
        "eligible": True,
        "consulted": True,
        "consultedScopes": ["home", "garden", "empty"],
        "usedScopes": ["home", "garden"],
        "contributed": 2,
        "suppressedReason": None,
    }
    full = talk.say(f"[SCOPE: work] {ASK}", scoping="tags", config=kit.changed(config, recall={"max_items": 1}))
    assert (talk.hot(full), full.receipt["fallback"]["consulted"]) == (["w"], False)


def test_fallback_for_an_empty_scope_alone(kit: Any) -> None:
    rows = [kit.row("w", "gateway one", scope="work"), kit.row("h", "gateway two", scope="home")]
    config = kit.flow(scopes={"fallback_scopes": ("home",)})
    talk = kit.Talk(rows, config)
    empty = kit.changed(config, scopes={"fallback_when": "empty"})
    for scope, expected, always in (("work", ["w"], ["w", "h"]), ("away", ["h"], ["h"])):
        assert talk.hot(talk.say(ASK, scope=scope, config=empty)) == expected
        assert talk.hot(talk.say(ASK, scope=scope)) == always


def test_invalid_scope_tag_has_no_fallback(kit: Any) -> None:
    rows = [kit.row("h", "gateway two", scope="home"), kit.row("x", "gateway four")]
    config = kit.flow(scopes={"fallback_scopes": ("home",)})
    talk = kit.Talk(rows, config)
    turn = talk.say(f"[SCOPE: my work!] {ASK}", scoping="tags")
    assert (turn.scope, turn.scope_invalid, talk.hot(turn)) == ("global", True, ["x"])
    assert turn.receipt["fallback"]["suppressedReason"] == "invalid_scope"
    assert any("scopeFallbackSuppressed" in text for _, text in turn.log)
    allowed = kit.changed(config, scopes={"skip_fallback_on_invalid": False})
    assert talk.hot(talk.say(f"[SCOPE: my work!] {ASK}", scoping="tags", config=allowed)) == ["x", "h"]


def test_open_scoping_searches_every_scope(kit: Any) -> None:
    rows = [kit.row("w", "gateway one", scope="work"), kit.row("x", "gateway four")]
    talk = kit.Talk(rows, kit.flow())
    assert sorted(talk.hot(talk.say(ASK, scoping="open"))) == ["w", "x"]
    assert talk.hot(talk.say(ASK, scope="nowhere")) == []


# --- 2.5: no vector


@pytest.mark.parametrize("reason", ["provider_unavailable", "embedding_input_too_long"])
@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_recall_without_a_vector_uses_words_and_reports_why(kit: Any, profile: str, reason: str) -> None:
    rows = [kit.row("a", "gateway", kit.MUST), kit.row("b", "zebra quilt", kit.MUST)]
    config = kit.flow(working_set={"enabled": True}) if profile == "seed" else upstream()
    talk = kit.Talk(rows, config, no_vector=reason)
    turn = talk.say(ASK)
    assert talk.hot(turn) == ["a"]
    assert reason in turn.receipt["rejected"]
    assert (turn.receipt["vecTop"], [why["signals"] for why in turn.receipt["whyTheseIds"]]) == ([], [["fts"]])
    # A skipped prompt was not embedded either, which is no failure.
    assert talk.say("ok").receipt["rejected"] == ["trivial_prompt"]


def test_disabled_engine_does_nothing(kit: Any) -> None:
    talk = kit.Talk([kit.row("a", "gateway")], kit.flow(recall={"enabled": False}))
    turn = talk.say(ASK)
    assert (turn.context, turn.receipt, turn.log, turn.kept) == ("", None, [], ())
    assert talk.say(ASK, config=kit.flow()).factors[engine_id("a")].repeat == 1.0


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_disabled_receipts_change_nothing_else(kit: Any, profile: str) -> None:
    rows = kit.pool(9, kit.MUST)
    config = kit.changed(kit.flow() if profile == "seed" else upstream(), budget={"max_chars": 300})
    quiet = kit.changed(config, receipts={"enabled": False, "verbosity": "high"})
    logging, silent = kit.Talk(rows, config).say(ASK), kit.Talk(rows, quiet).say(ASK)
    assert logging.context == silent.context
    assert (logging.receipt is None, silent.receipt) == (False, None)
    assert logging.log == silent.log
    assert "contextBudget" in silent.log[-1][1]


# --- 13.1: documents


class Index:
    """A fake index that answers with chunks one, two, … and records its queries."""

    def __init__(self) -> None:
        self.limits: list[int] = []

    def search(self, query: str, *, limit: int, **depths: Any) -> Any:
        self.limits.append(limit)
        return SimpleNamespace(
            rows=tuple(
                DocRow(f"doc:r:{at}.md#a:001", "r", f"{at}.md", "spec", "t", "h", f"chunk {at} <b>")
                for at in range(limit)
            )
        )


def test_documents_come_last_if_there_are_few_hot_items(kit: Any) -> None:
    settings = DocsSettings(enabled=True, min_hot_items=2, scope_mapping_strategy="none")
    lane = DocsLane(settings, Index())
    rows = [kit.row("a", "gateway"), kit.row("d", "use sqlite", category="decision")]
    talk = kit.Talk(rows, kit.flow(working_set={"enabled": True}), docs=lane)
    turn = talk.say(ASK)
    named = ["working_set:global", engine_id("a"), "docs:doc:r:0.md#a:001", "docs:doc:r:1.md#a:001"]
    assert [slot.id for slot in turn.kept] == named
    assert [slot.created_at for slot in turn.kept[2:]] == [kit.NOW, kit.NOW + 1]
    assert "3. [fact|unknown] [docs|operator|spec] chunk 0 &lt;b&gt; (doc:r:0.md#a:001)\n" in turn.context
    assert [turn.receipt["decisions"][identity] for identity in named] == ["pinned", "nice_quota", "docs", "docs"]
    assert turn.receipt["coldLane"]["returned"] == 2
    assert turn.receipt["injectedCount"] == 4
    # Cited documents are not recorded in the history.
    assert dict(talk.state.history.recent("", 9)) == {engine_id("a"): 1}
    # Two hot items are enough.
    more = kit.Talk([*rows, kit.row("b", "gateway two")], kit.flow(working_set={"enabled": True}), docs=lane)
    assert more.say(ASK).cold_lane is None


def test_failing_document_search_does_not_fail_the_turn(kit: Any) -> None:
    lane = DocsLane(DocsSettings(enabled=True), None)
    turn = kit.Talk([kit.row("a", "gateway")], kit.flow(), docs=lane).say(ASK)
    assert len(turn.kept) == 1
    assert turn.receipt["coldLane"]["error"] == "docs_search_failed"
    empty = kit.Talk([], kit.flow(), docs=lane).say(ASK)
    assert (empty.context, empty.receipt["injectedCount"], empty.receipt["decisions"]) == ("", 0, {})


# --- 8: the budget


def slot(key: str, created_at: float, units: int) -> Slot:
    return Slot(key, created_at, "fact", "unknown", "x" * (units - len("1. [fact|unknown] ")))


@pytest.mark.parametrize(
    ("action", "recent", "hard", "kept"),
    [
        ("truncate_oldest", 1, "", "bc"),
        ("truncate_tail", 1, "", "ac"),
        ("truncate_oldest", 0, "", "bc"),
        ("truncate_tail", 0, "", "ab"),
        ("truncate_oldest", 1, "a", "ac"),
        ("truncate_tail", 0, "b", "ab"),
        ("truncate_oldest", 3, "", "bc"),
        ("truncate_oldest", 3, "ab", "ab"),
        ("truncate_tail", 5, "a", "ab"),
        ("truncate_oldest", 3, "abc", "ab"),
    ],
)
def test_pack_drops_one_of_three_slots_in_order(action: str, recent: int, hard: str, kept: str) -> None:
    """Soft slots that are not protected, then protected ones in the same order, then hard ones from the last."""
    slots = [slot("a", 10, 100), slot("b", 20, 100), slot("c", 30, 100)]
    packed = pack_well_formed(slots, Budget(True, 330, recent, action), hard=frozenset(hard))
    assert "".join(slot.id for slot in packed.kept) == kept
    assert (packed.receipt["afterChars"], packed.receipt["droppedCount"]) == (js_length(packed.context), 1)
    newest = "cba"[:recent]
    assert packed.receipt["minRecentSlotsHonored"] is (set(newest) <= set(kept))


def test_newer_of_two_protected_slots_stays_longer() -> None:
    """Seed 001: ``truncate_oldest`` drops the oldest first, so that the newest of the protected slots go last."""
    slots = [slot(key, age, 390) for key, age in zip("caebd", (30, 10, 50, 20, 40), strict=True)]
    packed = pack_well_formed(slots, Budget(True, 1200, 4, "truncate_oldest"))
    assert "".join(one.id for one in packed.kept) == "ed"
    assert packed.receipt["droppedIds"] == ["a", "b", "c"]


def test_budget_drops_hard_rules_after_all_other_items(kit: Any) -> None:
    rows = [kit.row(f"r{at}", f"rule {at} " + "x" * 60, hard_rule=True, days=300) for at in range(2)]
    rows += [kit.row(f"k{at}", "gateway " * 9, days=0.1) for at in range(4)]
    for action in ("truncate_oldest", "truncate_tail"):
        budget = {"max_chars": 330, "min_recent_slots": 5, "overflow_action": action}
        talk = kit.Talk(rows, kit.flow(budget=budget))
        turn = talk.say(ASK)
        assert sorted(talk.keys(turn)) == ["r0", "r1"]
        assert turn.receipt["decisions"] == dict.fromkeys((slot.id for slot in turn.kept), "hard_rule")


def test_budget_keeps_memories_if_the_comment_does_not_fit(kit: Any) -> None:
    rows = kit.pool(6, kit.NICE)
    low, high = (kit.Talk(rows, kit.flow(receipts={"verbosity": verbosity})) for verbosity in ("low", "high"))
    logging = high.say(ASK)
    assert logging.context == low.say(ASK).context
    assert len(logging.kept) == 6
    spent = logging.receipt["budget"]
    assert spent["beforeChars"] > 1800 > spent["afterChars"] == js_length(logging.context)
    assert (spent["truncated"], spent["droppedCount"]) == (True, 0)
    wide = kit.Talk(rows, kit.flow(receipts={"verbosity": "high"}, budget={"max_chars": 6000})).say(ASK)
    assert wide.context.endswith(logging.context)
    assert wide.context.startswith("<!-- openclaw-mem-engine:autoRecall {")


def test_disabled_budget_drops_nothing(kit: Any) -> None:
    rows = [kit.row(f"k{at}", "gateway " * 200) for at in range(6)]
    turn = kit.Talk(rows, kit.flow(budget={"enabled": False, "max_chars": 300})).say(ASK)
    assert len(turn.kept) == 6
    assert (turn.receipt["budget"]["enabled"], turn.receipt["budget"]["truncated"]) == (False, False)
