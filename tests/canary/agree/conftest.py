"""A made-up transcript of a gateway, whose engine must return must before nice, whatever the scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.runs.request import ReplayRequest
from lab.systems.openclaw.recall.block import wrap
from tests.recordings.openclaw.conftest import Log

IDS = {name: f"0b0e9a3c-1111-4000-8000-00000000000{number}" for number, name in enumerate(("rule", "gate", "mill"))}
TEXTS = {
    "rule": "Always close the orchard gate after lunch",
    "gate": "The gate of the orchard sticks in the rain",
    "mill": "The miller brings flour on Friday",
}
SCORES = {"rule": 0.9, "gate": 0.6, "mill": 0.6}
LABELS = {"rule": "must_remember", "gate": "nice_to_have", "mill": "nice_to_have"}
QUERY = "which orchard gate sticks in the rain"


def row(name: str, **fields: Any) -> dict[str, Any]:
    """A memory as a search of the live engine shows it."""
    shown = {"id": IDS[name], "text": TEXTS[name], "importance_label": LABELS[name], "scope": "global"}
    return shown | fields


def block(*names: str) -> str:
    """An injected block of these memories."""
    return wrap([("other", LABELS[name], TEXTS[name]) for name in names])


class Gateway(Log):
    """A transcript in which the agent stores, deletes and searches."""

    def keeps(self, name: str, **details: Any) -> None:
        """Store a memory."""
        call = f"call-{len(self.lines)}"
        self.calls("memory_store", call, {"text": TEXTS[name], "importance": SCORES[name]})
        made = {"action": "created", "id": IDS[name], "importance_label": LABELS[name]}
        self.answers(call, "memory_store", made | details)

    def deletes(self, name: str) -> None:
        """Delete a memory."""
        call = f"call-{len(self.lines)}"
        self.calls("memory_forget", call, {"memoryId": IDS[name]})
        self.answers(call, "memory_forget", {"action": "deleted", "id": IDS[name]})

    def searches(self, *rows: dict[str, Any], query: str = QUERY, limit: int = 3, **receipt: Any) -> None:
        """Search, with these memories as the recorded result."""
        call = f"call-{len(self.lines)}"
        self.calls("memory_recall", call, {"query": query, "limit": limit})
        self.answers(call, "memory_recall", {"count": len(rows), "memories": rows, "receipt": receipt})


@pytest.fixture
def gateway() -> Gateway:
    """A transcript in which a rule and two other memories were stored."""
    log = Gateway()
    log.says("user", "Please remember what I say about the orchard")
    for name in TEXTS:
        log.keeps(name)
    log.says("assistant", "Noted.")
    return log


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes a transcript, and returns the request to compare it."""

    def write(log: Log, config: dict[str, Any] | None = None, **options: Any) -> ReplayRequest:
        path, settings = tmp_path / "sessions" / "a.jsonl", tmp_path / "engine.json"
        path.parent.mkdir(exist_ok=True)
        # As ASCII, because half characters (lone surrogates) cannot be written otherwise.
        path.write_text("".join(f"{json.dumps(line)}\n" for line in log.lines), "utf-8")
        settings.write_text(json.dumps(config or {}), "utf-8")
        given = {"config": str(settings), "profile": "upstream", "scope": "tags", "embedder": "hashing"}
        return ReplayRequest(str(path.parent), "openclaw", (), **(given | options))

    return write


@pytest.fixture
def export(tmp_path: Path) -> Any:
    """Writes an export of a store from ids of memories and the fields that differ."""

    def write(**rows: dict[str, Any]) -> str:
        path = tmp_path / "store.jsonl"
        lines = [row(name, createdAt=0, trust_tier="user", category="other") | fields for name, fields in rows.items()]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        return str(path)

    return write
