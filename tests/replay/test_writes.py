"""Tables of writes: one row for each memory, without text, with alignment and echo."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.loop import Answered, TurnWrites
from lab.replay.receipts import listed, receipts_table
from lab.replay.writes import ECHO_CHARS, Alignment, Expected, alignments, is_echo, writes_table
from lab.runs.tables import read_table, write_table
from lab.systems.contract import Item, Stored, Writes
from lab.systems.fixed import FixedArm, recall_of
from tests.playing import played

TURNS = tuple(Turn(f"c/s/t{seq}", seq, "s", "user", f"plums {seq}", 1000 + seq) for seq in range(3))
MEMORIES = (
    Memory("c/s/t0#0", "Anna drinks tea at five", "x", 1, 1),
    Memory("c/s/t0#1", "Ben keeps bees behind the barn", "x", 1, 2),
    Memory("c/s/t1#0", "The train leaves at noon", "x", 2, 3),
)
RECORDING = Recording("c", TURNS, MEMORIES)
# The first memory is judged relevant, the second misleading; the third is not judged.
PROBES = (Probe("q", "c", None, "tea", (Judgement("c/s/t0#0"),), forbidden=(Judgement("c/s/t0#1"),)),)
SECRET = "the pass phrase of the vault is plum jam at midnight"
NOTHING_EXPECTED = Expected({}, (), frozenset())
TEA = Stored("m1", "Tea at five for Anna, says Anna", ("c/s/t0",))
BEES = Stored("m2", "Bees of Ben behind the barn", ("c/s/t0",))


def wrote(turn: int, writes: Writes, context: str = "", arm: str = "mine") -> TurnWrites:
    return TurnWrites(arm, TURNS[turn], writes, context)


def test_alignments_map_items_to_judged_memories() -> None:
    result = alignments(RECORDING, [wrote(0, Writes(created=(TEA, BEES))), wrote(0, Writes(created=(TEA,)), arm="b")])
    assert {key: (one.memory, one.rule) for key, one in result.items()} == {
        ("mine", "m1"): ("c/s/t0#0", "source"),
        ("mine", "m2"): ("c/s/t0#1", "source"),
        ("b", "m1"): ("c/s/t0#0", "source"),
    }
    assert alignments(RECORDING, []) == {}
    assert alignments(RECORDING, [wrote(2, Writes(created=(Stored("m", "Nobody said so", ("c/s/t2",)),)))]) == {}


def test_alignments_last_text_of_an_id_decides() -> None:
    first = wrote(0, Writes(created=(TEA,)))
    other = wrote(1, Writes(updated=(BEES._replace(id="m1"),)))
    nothing = wrote(2, Writes(updated=(Stored("m1", "Nobody said so", ("c/s/t2",)),)))
    assert alignments(RECORDING, [first, other])["mine", "m1"].memory == "c/s/t0#1"
    assert alignments(RECORDING, [first, other, nothing]) == {}


def test_writes_table_round_trip_keeps_every_write(tmp_path: Path) -> None:
    some = [
        wrote(0, Writes(created=(TEA, BEES)), "<b>\ntea at  five FOR Anna, says anna\n</b>"),
        wrote(1, Writes(updated=(Stored("m1", "茶\U0001f375", ()),), deleted=("m2",)), arm="other"),
    ]
    aligned = {
        ("mine", "m1"): Alignment("c/s/t0#0", "source", 0.5),
        ("other", "m2"): Alignment("c/s/t0#1", "text", 0.7),
    }
    table = writes_table(some, aligned, NOTHING_EXPECTED, 3)
    write_table(table, tmp_path / "w.parquet")
    assert read_table(tmp_path / "w.parquet").to_pylist() == table.to_pylist()
    counts = {b"turns": b"3", b"candidates": b"0", b"gold": b"0"}
    assert table.schema.metadata == {b"kind": b"lab.writes", b"schema_version": b"2"} | counts
    names = ["arm", "turn", "seq", "what", "id", "chars", "sources", "echo", "memory", "rule"]
    assert table.column_names == [*names, "score", "keep", "gold", "again", "leak", "receipt", "derived"]
    rows = table.to_pylist()
    assert [[row[name] for name in names] for row in rows] == [
        ["mine", "c/s/t0", 0, "created", "m1", 31, ["c/s/t0"], True, "c/s/t0#0", "source"],
        ["mine", "c/s/t0", 0, "created", "m2", 27, ["c/s/t0"], False, None, None],
        ["other", "c/s/t1", 1, "updated", "m1", 2, [], False, None, None],
        # A deleted item is not aligned.
        ["other", "c/s/t1", 1, "deleted", "m2", 0, [], False, None, None],
    ]
    assert [row["score"] for row in rows] == [0.5, None, None, None]
    assert "Anna" not in json.dumps(rows, ensure_ascii=False)


def test_writes_table_without_writes_has_the_same_columns() -> None:
    table = writes_table([], {}, NOTHING_EXPECTED, 3)
    assert table.num_rows == 0
    assert table.schema == writes_table([wrote(0, Writes(created=(TEA,)))], {}, NOTHING_EXPECTED, 3).schema


def judged_lines() -> list[dict[str, Any]]:
    """Rows of five writes under judgements: one memory to keep, one not to keep, one never to store."""
    judged = Expected.of(
        replace(RECORDING, memories=(*MEMORIES, Memory("c/s/t1#1", SECRET, "x", 2, 4))),
        GoldenSet(
            PROBES,
            captures=(
                Probe(
                    "capture c/s/t0",
                    "c",
                    "c/s/t0",
                    None,
                    (Judgement("c/s/t0#0", 2),),
                    irrelevant=("c/s/t0#1",),
                    capture=True,
                ),
                Probe("capture c/s/t1", "c", "c/s/t1", None, (), (Judgement("c/s/t1#1"),), capture=True),
            ),
        ),
    )
    again = Stored("m3", TEA.text.upper(), ("c/s/t1",))
    part = Stored("m4", SECRET[10:40], ("c/s/t1",))
    some = [
        wrote(0, Writes(created=(TEA, BEES), receipt={"storedCount": 2})),
        wrote(1, Writes(created=(again, part))),
        wrote(2, Writes(created=(TEA._replace(id="working_set"),)))._replace(derived=True),
        wrote(2, Writes(created=(TEA._replace(id="m5"),)), arm="other"),
    ]
    table = writes_table(some, alignments(RECORDING, some), judged, 3)
    assert (table.schema.metadata[b"candidates"], table.schema.metadata[b"gold"]) == (b"1", b"1")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_items_are_judged_by_the_candidate_that_they_are_aligned_to() -> None:
    rows = {row["id"]: row for row in judged_lines() if row["what"] == "created"}
    assert {name: row["keep"] for name, row in rows.items()} == {
        "m1": 2,
        "m2": 0,
        # Another turn than the candidate's.
        "m3": None,
        "m4": None,
        "working_set": 2,
        "m5": 2,
    }
    assert [name for name, row in rows.items() if row["gold"]] == ["m1", "working_set", "m5"]


def test_items_that_repeat_or_leak_are_marked() -> None:
    rows = judged_lines()
    # Another arm, and a row that a recall derived, repeat nothing.
    assert [row["id"] for row in rows if row["again"]] == ["m3"]
    assert [row["id"] for row in rows if row["leak"]] == ["m4"]
    assert [row["id"] for row in rows if row["derived"]] == ["working_set"]
    assert [row["receipt"] for row in rows if row["what"] == "receipt"] == ['{"storedCount":2}']
    assert SECRET not in json.dumps(rows)


@pytest.mark.parametrize(
    ("text", "context", "echo"),
    [
        ("the red lamp is in the attic", "1. [fact] The red  lamp is\nin the ATTIC", True),
        ("the red lamp is in the attic", "the red lamp is in the cellar", False),
        ("the red lamp is in the attic", "", False),
        ("", "the red lamp", False),
        # Short texts occur in other texts by chance.
        ("x" * ECHO_CHARS, "x" * ECHO_CHARS, True),
        ("x" * (ECHO_CHARS - 1), "x" * ECHO_CHARS, False),
        (" " * ECHO_CHARS + "lamp", "lamp", False),
    ],
)
def test_is_echo_ignores_case_and_spaces(text: str, context: str, echo: bool) -> None:
    assert is_echo(text, context) is echo


def test_receipts_table_names_the_aligned_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    twice, other = TEA._replace(id="m3"), Stored("m4", "of nothing", ("c/s/t2",))
    said = recall_of(*(Item(one.id, one.text) for one in (other, TEA, twice, BEES)))
    arm = FixedArm("mine", {"c/s/t1": said}, writes={"c/s/t0": Writes(created=(TEA, BEES, twice, other))})
    entries: list[TurnWrites] = []
    result: list[Answered] = played(RECORDING, [arm], PROBES, source="captured", on_writes=entries.append)
    aligned = alignments(RECORDING, entries)
    row = receipts_table(result, RECORDING, aligned).to_pylist()[1]
    # A second item aligned to the same memory, and an unaligned one, keep their own ids.
    assert row["item_key"] == ["own:m4", "c/s/t0#0", "own:m3", "c/s/t0#1"]
    assert row["item_id"] == ["m4", "m1", "m3", "m2"]
    assert listed(row, 1).key == "c/s/t0#0"
