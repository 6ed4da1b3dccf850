"""``verbatim`` captures every turn as it was said: over real recordings it is ``hybrid`` over memories of turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.replay.plan import Asked
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

COMPARED = ("turn", "seq", "probe", "injected", "item_key", "item_score", "item_fts_rank", "item_vec_rank")


def probes_of(run: RunDirectory) -> list[dict[str, Any]]:
    rows = [row for name in run.conversations for row in read_table(run.receipts(name)).to_pylist()]
    return [{name: row[name] for name in COMPARED} for row in rows if row["probe"]]


@pytest.mark.parametrize("stage", ["seed", "upstream"])
def test_what_it_captures_is_found_as_memories_of_turns_are(locomo: Path, tmp_path: Path, stage: str) -> None:
    asked = {"memories": "turns", "embedder": "hashing", "limit": 2, "profile": stage}
    runs = [
        run_replay(Asked(str(locomo), "locomo", (arm,), source=source, **asked), tmp_path / arm).run
        for arm, source in (("verbatim", "captured"), ("hybrid", "given"))
    ]
    captured, given = map(probes_of, runs)
    assert len(given) > 300
    for ours, theirs in zip(captured, given, strict=True):
        assert ours == theirs
    assert all(row["item_key"] for row in given)
    wrote = [row for name in runs[0].conversations for row in read_table(runs[0].writes(name)).to_pylist()]
    assert [row["what"] for row in wrote] == ["created"] * len(wrote)
    assert len(wrote) > 700
    assert not any("writes" in path.name for path in runs[1].path.iterdir())
