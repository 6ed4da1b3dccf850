"""The trap clock-loft: limits that are met exactly, tags, and texts that nearly equal others (docs/design)."""

from __future__ import annotations

import pytest

from lab.systems.openclaw.memory import engine_id
from tests.traps import Turns, keys, receipt, replayed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Return the turns with their recorded scopes."""
    arms = ("seed_full", "fallback", "loose", "narrow", "brim", "tail", "wide")
    return replayed(tmp_path_factory.mktemp("recorded") / "run", "clock-loft", *arms)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Return the turns with the scopes of their prompts' tags."""
    return replayed(tmp_path_factory.mktemp("tags") / "run", "clock-loft", "seed_full", "narrow", scope="tags")


def test_todo_of_exactly_seven_days_is_not_stale(turns: Turns) -> None:
    assert "s02/t03#0" in keys(turns, "fallback", "s05/t03")
    # A turn later it is.
    assert "s02/t03#0" not in keys(turns, "fallback", "s05/t05")


def test_age_window_holds_a_memory_of_exactly_ten_days(turns: Turns) -> None:
    assert "s01/t05#0" in keys(turns, "loose", "s05/t05")
    assert "s01/t05#0" not in keys(turns, "loose", "s05/t07")


def test_one_hard_rule_keeps_a_slot_beside_the_nice_floor(turns: Turns) -> None:
    assert turns["narrow", "s05/t05"]["item_decision"] == ["hard_rule", "nice_quota"]
    assert receipt(turns, "narrow", "s05/t05")["hardRulesWaiting"]["count"] == 1


def test_nice_memories_of_a_fallback_limit_the_slots_of_rules(turns: Turns) -> None:
    decisions = turns["narrow", "s04/t03"]["item_decision"]
    assert decisions.count("hard_rule") == 1
    assert receipt(turns, "narrow", "s04/t03")["quota"]["niceMin"] == 2


def test_rule_in_capitals_is_not_injected_beside_its_line(turns: Turns) -> None:
    assert "s01/t03#0" in keys(turns, "fallback", "s05/t05")
    assert "s01/t03#0" not in keys(turns, "seed_full", "s05/t05")


def test_year_and_longer_number_are_no_exact_hits(turns: Turns) -> None:
    rules = receipt(turns, "seed_full", "s08/t05")["repeatExempt"]["rules"]
    assert rules == {engine_id("clock-loft/s08/t01#5"): "identifier"}


def test_long_copy_of_a_cut_line_is_a_duplicate(turns: Turns) -> None:
    assert keys(turns, "seed_full", "s10/t03") == ["s10/t01#2"]
    assert "s10/t01#1" in keys(turns, "fallback", "s10/t03")


def test_budget_keeps_both_rules_of_the_working_set(turns: Turns) -> None:
    row = turns["brim", "s04/t03"]
    assert (row["hard_rules"], row["hard_kept"]) == (2, 2)
    assert row["chars"] <= 500


def test_cut_of_an_escaped_text_uses_the_whole_budget(turns: Turns) -> None:
    assert keys(turns, "tail", "s07/t03") == ["s07/t01#0"]
    # No more than one escaped character is missing.
    assert 620 - len("&quot;") < turns["tail", "s07/t03"]["chars"] <= 620


def test_older_of_two_protected_memories_is_dropped_first(turns: Turns) -> None:
    assert keys(turns, "brim", "s07/t03") == ["s07/t01#1"]


def test_trivial_prompt_of_exactly_the_limit_and_folder_with_a_capital(turns: Turns) -> None:
    assert receipt(turns, "seed_full", "s05/t01")["skipReason"] == "trivial_prompt"
    assert receipt(turns, "seed_full", "s05/t07")["skipReason"] is None


@pytest.mark.parametrize(
    ("turn", "scope"),
    [("s09/t01", "sale"), ("s09/t03", "sale"), ("s09/t05", "workbench"), ("s09/t07", "global")],
)
def test_tags_after_a_block_twice_and_of_the_longest_name(tagged: Turns, turn: str, scope: str) -> None:
    assert receipt(tagged, "narrow", turn)["scope"] == scope


def test_invalid_tag_leaves_the_fallback_if_so_configured(tagged: Turns) -> None:
    assert receipt(tagged, "narrow", "s09/t07")["fallback"]["usedScopes"] == ["sale"]
    assert keys(tagged, "seed_full", "s09/t07") == []
