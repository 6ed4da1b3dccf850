"""Replay one of the shipped traps, and read what each arm recalled at each turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.set_registry import shipped
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table

ARMS = Path(__file__).resolve().parents[1] / "lab" / "gate" / "selftest" / "arms"
# Rows of receipts by arm and turn, the latter without the conversation.
Turns = Mapping[tuple[str, str], Mapping[str, Any]]


def replayed(out: Path, trap: str, *arms: str, **options: Any) -> Turns:
    """Replay a trap into ``out``; an arm may be named after a configuration of the self-test."""
    configured = [f"{arm}={file}" if (file := ARMS / f"{arm}.json").is_file() else arm for arm in arms]
    options = {"scope": "recorded", "embedder": "hashing", "conversation": (trap,)} | options
    run = run_replay(ReplayRequest(str(shipped("datasets", "traps")), "lab", tuple(configured), **options), out).run
    rows = read_table(run.receipts(trap)).to_pylist()
    return {(row["arm"], row["turn"].partition("/")[2]): row for row in rows}


def keys(turns: Turns, arm: str, turn: str) -> list[str]:
    """Return the keys of the recalled memories, without the conversation."""
    return [key.partition("/")[2] for key in turns[arm, turn]["item_key"]]


def receipt(turns: Turns, arm: str, turn: str) -> dict[str, Any]:
    """Return the receipt of a recall."""
    value: dict[str, Any] = json.loads(turns[arm, turn]["receipt"])
    return value
