"""Fixtures that write small recordings and judgements, and replay them with a private cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.replay.run import Outcome, run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table


class Desk:
    """Recordings in ``folder`` and a golden set, both as JSON Lines in the lab's own format."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "recordings"
        self.golden = home / "golden.jsonl"
        self.folder.mkdir()

    def say(self, conversation: str, *sessions: tuple[str, Sequence[Any]], file: str | None = None) -> Path:
        """Write a conversation.

        A session is a scope and its turns ``(role, text, *memories)``; a memory is a text, or a text with further
        fields. Sessions are named s1, s2 …, their turns t1, t2 …
        """
        lines: list[dict[str, Any]] = [
            {"kind": "recording", "schema": "lab.recording.v1", "conversation": conversation, "language": "en"}
        ]
        for number, (scope, turns) in enumerate(sessions, 1):
            time = f"2026-03-{number:02}T09:00:00+00:00"
            lines.append({"kind": "session", "session": f"s{number}", "time": time, "scope": scope})
            for place, (role, text, *memories) in enumerate(turns, 1):
                lines.append({"kind": "turn", "turn": f"t{place}", "role": role, "text": text})
                for memory in memories:
                    words, fields = (memory, {}) if isinstance(memory, str) else memory
                    lines.append({"kind": "memory", "text": words, **fields})
        path = self.folder / (file or f"{len(list(self.folder.iterdir())):03}.jsonl")
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        return path

    def judge(self, *gold: str, **fields: Any) -> None:
        """Add a probe with relevant memories ``gold``; ``fields`` are its turn, or its id, conversation and query."""
        line = {"kind": "probe", **fields, "relevant": [{"memory": key, "grade": 1, "reason": "-"} for key in gold]}
        with self.golden.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(line, ensure_ascii=False) + "\n")

    def request(self, *arms: str, **changes: Any) -> ReplayRequest:
        """Return the request to replay these recordings."""
        golden = str(self.golden) if self.golden.exists() else None
        request = ReplayRequest(str(self.folder), "lab", arms or ("tier_first_v1",), golden=golden, embedder="hashing")
        return replace(request, **changes)

    def run(self, *arms: str, out: str = "run", jobs: int = 1, **changes: Any) -> Outcome:
        """Replay these recordings into the folder ``out``."""
        return run_replay(self.request(*arms, **changes), self.home / out, jobs=jobs)

    def rows(self, outcome: Outcome) -> list[dict[str, Any]]:
        """Return all receipts of a run, conversation by conversation."""
        run = outcome.run
        return [row for name in run.conversations for row in read_table(run.receipts(name)).to_pylist()]


def untimed(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a run without timings and their digests in the manifest."""
    result = {name: data for name, data in files.items() if not name.startswith("latency/")}
    manifest = json.loads(result["manifest.json"])
    del manifest["sha256"]
    manifest["files"] = {name: one for name, one in manifest["files"].items() if not name.startswith("latency/")}
    return result | {"manifest.json": json.dumps(manifest).encode()}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return an empty :class:`Desk` with a private cache beside it."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    return Desk(tmp_path)
