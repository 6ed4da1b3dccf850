"""Replay a user's own transcript over the user's own memories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.retrieval.quiet import import_lancedb, quiet_lance

Lab = Callable[..., Any]
ID = "6f0c7a5e-0000-4000-8000-000000000001"
KILN, RULE, LATER, DIGEST = (f"0b0e9a3c-1111-4000-8000-{number:012}" for number in (1, 2, 3, 4))
FIRST, SECOND, SILENT_TURN = (f"{ID}/{ID}/{entry}" for entry in ("a1", "a3", "a2"))


def _said(entry: str, parent: str | None, minute: int, role: str, text: str) -> dict[str, Any]:
    at = f"2026-04-02T01:{minute:02}:00Z"
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return {"type": "message", "id": entry, "parentId": parent, "timestamp": at, "message": message}


TRANSCRIPT = [
    {"type": "session", "version": 3, "id": ID, "timestamp": "2026-04-02T01:00:00Z", "cwd": "/srv"},
    _said("a1", None, 0, "user", "<relevant-memories>\nold\n</relevant-memories>\n\nWhich glaze does the kiln take?"),
    _said("a2", "a1", 1, "assistant", "The blue one."),
    _said("a3", "a2", 2, "user", "And which glaze did I buy later for the kiln?"),
]
NOON = 1775091600000  # the first turn


def _row(identity: str, text: str, created: int, label: str | None = "nice_to_have") -> dict[str, Any]:
    return {
        "id": identity,
        "text": text,
        "category": "fact",
        "importance": None,
        "importance_label": label,
        "scope": "global",
        "trust_tier": "user",
        "createdAt": float(created),
    }


ROWS = [
    _row(LATER, "Later a green glaze was bought for the kiln", NOON + 90_000),
    _row(KILN, "The kiln takes the blue glaze", NOON, None),
    _row(RULE, "[HARD] Never open the kiln when hot", NOON - 1, "must_remember"),
    _row(f"working_set:{ID}", "goal: the kiln", NOON - 1, "must_remember"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, write_lines: Callable[..., Path]) -> Path:
    """A folder with ``sessions``, an ``export.jsonl`` and the same memories as a LanceDB folder, ``db``."""
    folder = tmp_path_factory.mktemp("own")
    write_lines(folder / "sessions" / f"{ID}.jsonl", TRANSCRIPT)
    (folder / "sessions" / "sessions.json").write_text("{}")
    write_lines(folder / "export.jsonl", ROWS)
    with quiet_lance():
        database = import_lancedb().connect(str(folder / "db"))
        # Rows of one column's kind: a first row without a score would make a column of nothing.
        database.create_table("memories", [row | {"importance": 0.5, "vector": [0.1] * 4} for row in ROWS])
    return folder


def _replay(lab: Lab, place: Path, store: str, out: str, *more: str) -> Any:
    arms = ("--arm", "tier_quota_v1", "--arm", "recency", "--embedder", "hashing")
    return lab(
        *("replay", "sessions", "--format", "openclaw", *arms, "--memories-from", store, "--out", out, *more), cwd=place
    )


def _injected(run: Path) -> dict[tuple[str, str], set[str]]:
    import pyarrow.parquet as pq

    rows = pq.read_table(next((run / "receipts").iterdir())).to_pylist()
    return {(row["arm"], row["turn"]): set(row["item_key"][: row["injected"]]) for row in rows}


def test_turn_recalls_only_memories_stored_before(lab: Lab, place: Path) -> None:
    done = _replay(lab, place, "export.jsonl", "run")
    assert done.returncode == 0, done.stderr
    found = _injected(place / "run")
    assert found["recency", FIRST] == {KILN, RULE}
    assert found["recency", SECOND] == {KILN, RULE, LATER}
    assert ("recency", SILENT_TURN) not in found
    for note in (
        "removed from user messages: relevant-memories block 1",
        "rows without a label, which count as unknown: 1",
        "working-set rows, which only profile upstream searches: 1",
    ):
        assert note in done.stderr
    explained = lab("explain", "run", SECOND, "--arm", "tier_quota_v1", cwd=place)
    assert explained.returncode == 0, explained.stderr
    # A key that is too long for its line is shortened; --full shows it whole.
    assert LATER[-12:] in explained.stdout
    assert max(map(len, explained.stdout.splitlines())) <= 80
    full = lab("explain", "run", SECOND, "--arm", "tier_quota_v1", "--full", cwd=place)
    assert LATER in full.stdout


def test_validate_with_a_store_says_what_a_replay_says(lab: Lab, place: Path) -> None:
    command = ("recordings", "validate", "sessions", "--format", "openclaw", "--json")
    alone = lab(*command, cwd=place)
    assert "has no memory" in alone.stdout
    for store in ("export.jsonl", "db"):
        done = lab(*command, "--memories-from", store, cwd=place)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert [row["memories"] for row in report["conversations"]] == [3]
        assert "rows without a label, which count as unknown: 1" in " ".join(report["warnings"])
        assert "has no memory" not in done.stdout
    missing = lab(*command, "--memories-from", "nowhere", cwd=place)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("error: nowhere: ")


def test_table_and_export_give_equal_receipts(lab: Lab, place: Path) -> None:
    def digest(path: Path) -> dict[Path, str]:
        return {
            file: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(path.rglob("*")) if file.is_file()
        }

    before = digest(place / "db")
    for store, out in (("export.jsonl", "of-export"), ("db", "of-table")):
        done = _replay(lab, place, store, out)
        assert done.returncode == 0, done.stderr
    assert digest(place / "db") == before
    one, other = ([*(place / out / "receipts").iterdir()] for out in ("of-export", "of-table"))
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in other]


def test_stored_labels_can_be_replaced(lab: Lab, place: Path) -> None:
    done = _replay(lab, place, "export.jsonl", "graded", "--labels", "heuristic-v1", "--json")
    assert json.loads(done.stdout)["labels"] == {"mode": "heuristic-v1"}
    assert "2 of 3 memories are labelled ignore" in done.stderr


def test_invalid_store_is_bad_input(lab: Lab, place: Path) -> None:
    done = _replay(lab, place, "sessions", "bad")
    assert (done.returncode, done.stdout) == (2, "")
    assert "sessions: is not a LanceDB folder with a table 'memories'" in done.stderr
    assert not (place / "bad").exists()


def test_transcript_replays_without_a_store(lab: Lab, place: Path) -> None:
    done = lab("recordings", "validate", "sessions", "--format", "openclaw", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "removed from user messages: relevant-memories block 1" in " ".join((done.stdout + done.stderr).split())
