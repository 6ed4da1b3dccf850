"""The trap glass-house: tags in code and in prompts, a deleted rule, symbols, and an export with odd fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.gate.selftest.sandbox import HERE, shipped_replays
from lab.replay.run import run_replay
from lab.runs.tables import read_table
from tests.traps import Turns, keys, receipt, replayed

pytestmark = pytest.mark.slow

VENTS = "glass-house/s01/t01#1"
# Ids of rows of the export.
WATERED, RINSE, LADDER, SOFT_WATER, VISITOR = (f"5f0e7d1c-4a20-4b6e-9c31-{row:012}" for row in (1, 6, 7, 9, 11))


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Return the turns with their recorded scopes."""
    arms = ("seed_full", "fallback", "tight", "tail", "brim")
    return replayed(tmp_path_factory.mktemp("recorded") / "run", "glass-house", *arms)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Return the turns with the scopes of their prompts' tags."""
    return replayed(tmp_path_factory.mktemp("tags") / "run", "glass-house", "seed_full", scope="tags")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Return the turns of the self-test's replay with the memories of an export."""
    replay = next(replay for replay in shipped_replays("hashing") if replay.name == "stored")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(HERE)
        run = run_replay(replay.asked, Path(tmp_path_factory.mktemp("stored")) / "run").run
    rows = read_table(run.receipts("glass-house")).to_pylist()
    return {(row["arm"], row["turn"].partition("/")[2]): row for row in rows}


def test_deleted_rule_is_no_longer_injected(turns: Turns) -> None:
    assert VENTS in turns["seed_full", "s01/t03"]["pinned"]
    assert VENTS not in turns["seed_full", "s01/t05"]["pinned"]
    assert (turns["seed_full", "s01/t03"]["hard_rules"], turns["seed_full", "s01/t05"]["hard_rules"]) == (3, 2)


def test_tags_in_code_make_no_hard_rules(turns: Turns) -> None:
    decided = dict(zip(keys(turns, "fallback", "s02/t03"), turns["fallback", "s02/t03"]["item_decision"], strict=True))
    assert "s01/t01#3" in decided
    assert [key for key, decision in decided.items() if decision == "hard_rule"] == ["s01/t01#0", "s01/t01#2"]


@pytest.mark.parametrize(("arm", "chars"), [("tight", 700), ("tail", 620), ("brim", 500)])
def test_budget_counts_both_units_of_a_symbol(turns: Turns, arm: str, chars: int) -> None:
    assert all(row["chars"] <= chars for (of, _), row in turns.items() if of == arm)
    assert receipt(turns, arm, "s01/t03")["budget"]["droppedCount"] > 0


def test_scope_without_memories_recalls_nothing(turns: Turns) -> None:
    assert [keys(turns, "seed_full", f"s04/t0{turn}") for turn in (1, 3, 5)] == [[], [], []]


def test_addressee_alone_triggers_a_recall(turns: Turns) -> None:
    assert receipt(turns, "seed_full", "s02/t05")["skipReason"] is None


def test_cut_line_is_a_duplicate_of_its_longer_note(turns: Turns) -> None:
    assert "s01/t01#11" not in keys(turns, "seed_full", "s05/t01")
    assert "s01/t01#11" in keys(turns, "fallback", "s05/t01")


@pytest.mark.parametrize(("turn", "scope"), [("s04/t01", "global"), ("s04/t03", "palms"), ("s04/t05", "attic")])
def test_tags_in_tildes_after_a_bullet_and_in_a_block(tagged: Turns, turn: str, scope: str) -> None:
    assert receipt(tagged, "seed_full", turn)["scope"] == scope


def test_stored_label_precedes_its_score(stored: Turns) -> None:
    assert WATERED in stored["seed_full", "s02/t03"]["item_key"]
    assert not any(VISITOR in row["item_key"] for row in stored.values())


def test_stored_rows_without_a_time_are_neither_stale_nor_lost(stored: Turns) -> None:
    assert RINSE in stored["seed_full", "s04/t01"]["pinned"]
    assert LADDER in stored["seed_full", "s01/t03"]["pinned"]


def test_fraction_of_max_items_is_cut_off(stored: Turns) -> None:
    # maxItems is 3.7, and the Working Set takes one slot.
    assert max(row["injected"] for (arm, _), row in stored.items() if arm == "grain") == 2


def test_silent_turn_consults_no_documents(stored: Turns) -> None:
    silent = [turn for (arm, turn) in stored if arm == "grain" and "low_relevance" in stored[arm, turn]["receipt"]]
    assert silent
    assert not any("coldLane" in receipt(stored, "grain", turn) for turn in silent)
    assert any("coldLane" in receipt(stored, "grain", turn) for arm, turn in stored if arm == "grain")


def test_turn_without_a_tag_is_searched_in_the_default_scope(stored: Turns) -> None:
    assert receipt(stored, "home", "s01/t03")["scope"] == "palms"
    assert receipt(stored, "home", "s01/t03")["fallback"]["usedScopes"] == ["global"]
