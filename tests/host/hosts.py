"""Invented homes of OpenClaw hosts, for tests: sessions at chosen times beside the recorded store, log and settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

# When the recorded store got its first memory and its last one, in epoch milliseconds.
FIRST, LAST = 1795360693147, 1795361904220
ASKED = ("Please tell me about the shed key now", "Where does the spare key hang today?")
ASKED_LATER = (
    "Please tell me about the shed key and the choir and the basil",
    "How do the attic window and the cactus do before the fair?",
)


def add_session(home: Path, name: str, start: int, said: Sequence[str], agent: str = "main") -> Path:
    """Write a transcript in which a user says something and is answered, from ``start`` (epoch milliseconds) on."""
    lines = [{"type": "session", "version": 3, "id": name, "timestamp": _iso(start), "cwd": "~/w"}]
    parent = None
    for number, text in enumerate([part for one in said for part in (one, f"Noted: {one}")], 1):
        at = start + number * 1000
        message = {
            "role": "user" if number % 2 else "assistant",
            "content": [{"type": "text", "text": text}],
            "timestamp": at,
        }
        entry = f"{name[:4]}{number:04d}"
        lines.append({"type": "message", "id": entry, "parentId": parent, "timestamp": _iso(at), "message": message})
        parent = entry
    file = home / "agents" / agent / "sessions" / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def make_host(shared: Callable[..., Path], home: Path, sessions: int = 3) -> Path:
    """Make a home with the recorded store, log and configuration, and sessions that see the first memory alone."""
    shutil.copytree(shared("live", "lancedb", "engine-2026.9.6"), home / "memory" / "lancedb")
    shutil.copy(shared("live", "logs", "gateway-2026.9.6.log"), home / "gateway.log")
    shutil.copy(shared("live", "config", "openclaw-2026.9.6.json"), home / "openclaw.json")
    for number in range(sessions):
        add_session(home, f"old{number}-aaaa", FIRST + 10_000 + number, [*ASKED, f"And what else? {number}"])
    return home


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
