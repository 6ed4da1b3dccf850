"""Logs and ledgers for the tests of ``lab memory ledger``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.memory.ledger import ledger
from lab.memory.ledger.ingest import ingest
from lab.memory.ledger.ledger import Observation

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def write_log(path: Path, observations: Iterable[dict[str, Any]], *, append: bool = False) -> Path:
    """Write observations as JSON Lines; those without a time get one second each."""
    lines = [
        json.dumps({"ts": f"2026-11-20T09:{number // 60:02d}:{number % 60:02d}Z", **observation}, ensure_ascii=False)
        for number, observation in enumerate(observations)
    ]
    with path.open("a" if append else "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def filled(path: Path, observations: Iterable[dict[str, Any]], **options: Any) -> Path:
    """Return a ledger of observations."""
    ingest(path, write_log(path.with_suffix(".jsonl"), observations), now=NOW, **options)
    return path


def rows(path: Path) -> list[Observation]:
    """Return all observations of a ledger."""
    with ledger.open_ledger(path) as connection:
        return list(ledger.observations(connection))
