"""The trap tool-crib: each of its questions decides one rule on what may be selected (docs/design/engine.md)."""

from __future__ import annotations

import json

import pytest

from tests.traps import Turns, keys, receipt, replayed

pytestmark = pytest.mark.slow

ARMS = ("tier_quota_v1", "quota_flow", "seed_full", "fallback", "loose", "tight", "tail")


@pytest.fixture(scope="module", params=["exact", "cached", pytest.param("lancedb", marks=pytest.mark.full)])
def turns(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Return what each arm recalled at each turn: over the exact store, over cached candidates, over LanceDB."""
    folder = tmp_path_factory.mktemp("crib")
    store = "lancedb" if request.param == "lancedb" else "exact"
    turns = replayed(folder / "run", "tool-crib", *ARMS, store=store)
    # The second replay answers from the candidates that the first one cached.
    return replayed(folder / "again", "tool-crib", *ARMS) if request.param == "cached" else turns


def note(turn: str, *numbers: int) -> set[str]:
    return {f"{turn}#{number}" for number in numbers}


@pytest.mark.parametrize("arm", ["quota_flow", "seed_full", "tail"])
def test_fourteen_stale_todos_do_not_hide_four_fresh_notes(turns: Turns, arm: str) -> None:
    assert set(keys(turns, arm, "s03/t03")) == note("s03/t01", 0, 1, 2, 3)


def test_selection_alone_knows_no_todos(turns: Turns) -> None:
    assert any(key.startswith("s02/t01") for key in keys(turns, "tier_quota_v1", "s03/t03"))


def test_receipt_says_that_all_were_excluded(turns: Turns) -> None:
    assert receipt(turns, "quota_flow", "s12/t01")["rejected"] == ["no_results_must", "all_excluded"]
    assert receipt(turns, "quota_flow", "s11/t01")["rejected"] == ["no_results_must", "no_results_nice"]


def test_todo_marker_counts_what_would_have_been_injected(turns: Turns) -> None:
    def dropped(turn: str) -> list[int]:
        lines = [line for line in turns["quota_flow", turn]["log"] if "todoGuardrail" in line]
        return [json.loads(line.partition(" ")[2])["dropped"] for line in lines]

    # Twenty-seven are stale; six slots hold six of them.
    assert (dropped("s03/t03"), dropped("s12/t01"), dropped("s13/t03")) == ([6], [3], [])


def test_trusted_note_keeps_untrusted_ones_out(turns: Turns) -> None:
    assert keys(turns, "seed_full", "s04/t05") == ["s04/t01#0"]
    assert len(keys(turns, "quota_flow", "s04/t05")) == 6


def test_untrusted_note_is_better_than_none_and_a_quarantined_one_is_not(turns: Turns) -> None:
    assert keys(turns, "seed_full", "s05/t03") == ["s05/t01#0"]


def test_ignored_notes_are_recalled_only_where_nothing_else_is(turns: Turns) -> None:
    assert set(keys(turns, "seed_full", "s06/t03")) == note("s06/t01", 0, 1)
    assert receipt(turns, "seed_full", "s06/t03")["policyTier"] == "must+nice+unknown+ignore"
    assert keys(turns, "quota_flow", "s06/t03") == []


def test_quotas_hold_over_both_scopes(turns: Turns) -> None:
    picked = keys(turns, "fallback", "s08/t03")
    # One must note of the turn's scope, the four nice notes of the fallback, and only then a second must note.
    assert picked[0] in note("s08/t01", 0, 1, 2)
    assert set(picked[1:5]) == note("s07/t01", 0, 1, 2, 3)
    assert picked[5] in note("s08/t01", 0, 1, 2)
    said = receipt(turns, "fallback", "s08/t03")
    assert (said["quota"]["mustMax"], said["fallback"]["contributed"]) == (1, 4)
    assert [count["selected"] for count in said["tierCounts"]] == [2, 0, 0, 0, 4, 0]


def test_recent_note_takes_the_slot_of_an_unknown_one(turns: Turns) -> None:
    assert set(keys(turns, "seed_full", "s09/t03")) >= note("s09/t01", 0, 2, 3)
    decisions = turns["seed_full", "s09/t03"]["item_decision"]
    assert ("recent_quota" in decisions, "unknown_quota" in decisions) == (True, False)
    assert "unknown_quota" in turns["quota_flow", "s09/t03"]["item_decision"]


def test_nice_floor_asks_for_relevance(turns: Turns) -> None:
    answers, others = note("s10/t01", 0, 1, 2), note("s10/t01", 3, 4, 5)
    every, relevant = set(keys(turns, "seed_full", "s10/t03")), set(keys(turns, "loose", "s10/t03"))
    # Without a floor, notes on cake and parrots fill the slots; with one, only some of them pass (none with a model).
    assert every == answers | others
    assert answers <= relevant < every


def test_receipt_says_truthfully_whether_recent_slots_were_kept(turns: Turns) -> None:
    said = receipt(turns, "tail", "s13/t03")["budget"]
    assert (said["minRecentSlots"], said["droppedCount"], said["minRecentSlotsHonored"]) == (2, 2, False)
    assert receipt(turns, "tight", "s13/t03")["budget"]["minRecentSlotsHonored"] is True
    assert receipt(turns, "seed_full", "s13/t03")["budget"]["droppedCount"] == 0
