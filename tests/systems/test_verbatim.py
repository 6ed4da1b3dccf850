"""``verbatim`` captures every turn unchanged: on real recordings it equals ``hybrid`` over memories of turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.recordings.model import Memory, Recording, Turn
from lab.replay.loop import TurnWrites
from lab.replay.receipts import receipts_table
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.contract import Stored
from tests.playing import arms_named, keys_of, played

COMPARED = ("turn", "seq", "probe", "injected", "item_key", "item_score", "item_fts_rank", "item_vec_rank")


def probes_of(run: RunDirectory) -> list[dict[str, Any]]:
    rows = [row for name in run.conversations for row in read_table(run.receipts(name)).to_pylist()]
    return [{name: row[name] for name in COMPARED} for row in rows if row["probe"]]


@pytest.mark.parametrize("stage", ["seed", "upstream"])
def test_verbatim_finds_its_captures_like_memories_of_turns(locomo: Path, tmp_path: Path, stage: str) -> None:
    options = {"memories": "turns", "embedder": "hashing", "limit": 1, "profile": stage}
    runs = [
        run_replay(ReplayRequest(str(locomo), "locomo", (arm,), source=source, **options), tmp_path / arm).run
        for arm, source in (("verbatim", "captured"), ("hybrid", "given"))
    ]
    captured, given = map(probes_of, runs)
    assert len(given) > 150
    for ours, theirs in zip(captured, given, strict=True):
        assert ours == theirs
    assert all(row["item_key"] for row in given)
    wrote = [row for name in runs[0].conversations for row in read_table(runs[0].writes(name)).to_pylist()]
    assert [row["what"] for row in wrote] == ["created"] * len(wrote)
    assert len(wrote) > 350
    assert not any("writes" in path.name for path in runs[1].path.iterdir())


TURNS = (
    Turn("c/s/t1", 0, "s", "user", "said in full", 1000, "shop", said="said", index_text="searched pears"),
    Turn("c/s/t2", 1, "s", "assistant", "pears are ripe", 1010, "farm"),
    Turn("c/s/t3", 2, "s", "tool", "pears: 7", 1020),
    Turn("c/s/t4", 3, "s", "user", "  ", 1030),
    Turn("c/s/t5", 4, "s", "user", "pears", 1040, "shop"),
)
# Memories of the recording with the keys of captured turns: one is forgotten, one never exists.
MEMORIES = (
    Memory("c/s/t1#0", "given", "given", 1, 1, visible_until=2),
    Memory("c/s/t2#0", "given, too", "given, too", 9, 2),
)
RECORDING = Recording("c", TURNS, MEMORIES)


def test_verbatim_stores_turns_as_said_and_searches_index_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    wrote: list[TurnWrites] = []
    outcome = played(RECORDING, arms_named("verbatim"), source="captured", on_writes=wrote.append)
    # Neither a tool's turn nor a blank one.
    assert [written.writes.created for written in wrote] == [
        (Stored("c/s/t1#0", "said", ("c/s/t1",)),),
        (Stored("c/s/t2#0", "pears are ripe", ("c/s/t2",)),),
        (Stored("c/s/t5#0", "pears", ("c/s/t5",)),),
    ]
    assert [set(keys_of(turn)) for turn in outcome] == [set(), {"c/s/t1#0"}, *[{"c/s/t1#0", "c/s/t2#0"}] * 3]
    assert "said" in outcome[1].recall.context
    (first,) = outcome[1].recall.items
    assert (first.signals.fts_rank, first.signals.vec_rank, first.signals.scope) == (1, 1, "shop")
    # Its own capture stays, whatever happens to a memory of the recording with that key.
    assert receipts_table(outcome, RECORDING, {})["future"].to_pylist() == [0] * 5


def test_verbatim_stores_turns_of_its_roles_and_given_memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    config = tmp_path / "tools.json"
    config.write_text('{"lab": {"arm": "verbatim"}, "roles": ["tool"]}')
    outcome = played(RECORDING, arms_named(f"tools={config}"), source="captured")
    assert [keys_of(turn) for turn in outcome] == [[], [], [], ["c/s/t3#0"], ["c/s/t3#0"]]
    outcome = played(RECORDING, arms_named("verbatim"))
    assert [keys_of(turn) for turn in outcome] == [[], ["c/s/t1#0"], [], [], []]


@pytest.mark.parametrize("scoping", ["given", "open"])
def test_verbatim_search_stays_in_the_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scoping: str) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    outcome = played(RECORDING, arms_named("verbatim"), source="captured", scoping=scoping)
    assert set(keys_of(outcome[-1])) == ({"c/s/t1#0"} if scoping == "given" else {"c/s/t1#0", "c/s/t2#0"})
