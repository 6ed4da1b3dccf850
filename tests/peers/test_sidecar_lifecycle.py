"""States and decay beside the public sidecar: equal states, histories and candidates, but for revival (RT-2, RT-5)."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.ledger.search import state_of
from lab.memory.ledger.use import LEGAL, STATES, decay, move
from tests.memory.ledger.ledgers import filled, rows

KINDS = ("preference", "decision", "fact", "learning", "plan", "entity", "event", "note", "tool", "Fact ", "other")
# What the sidecar leaves and the lab removes when a memory is revived.
REVIVAL = ("archived_at", "archive_reason_code", "revived_at")


def comparable(detail: dict[str, Any]) -> dict[str, Any]:
    """Return a lifecycle without times, and without what revival treats otherwise."""
    lifecycle = {key: value for key, value in detail["lifecycle"].items() if key not in (*REVIVAL, "updated_at")}
    lifecycle["history"] = [{key: one[key] for key in one if key != "at"} for one in lifecycle["history"]]
    return lifecycle


def test_walk_through_states_equals_the_sidecars(sidecar_answer: Any, tmp_path: Path) -> None:
    ours, theirs = (filled(tmp_path / f"{name}.sqlite", [{"summary": "kettle"}]) for name in ("ours", "theirs"))
    draw = random.Random(15)
    refused = 0
    for number in range(40):
        to = draw.choice(STATES)
        before = state_of(rows(ours)[0].detail)
        code, receipt = sidecar_answer(
            *("db", "lifecycle", "--db", theirs, "set", "1", "--state", to), "--reason", f"r{number}", "--actor", "me"
        )
        if before != to and to not in LEGAL[before]:
            refused += 1
            assert code != 0
            with pytest.raises(UnusableInput):
                move(ours, [1], to, reason=f"r{number}", actor="me", write=True)
            continue
        assert code == 0
        (mine,) = move(ours, [1], to, reason=f"r{number}", actor="me", write=True).receipts
        assert {**mine, "at": 0} == {**{key: receipt[key] for key in mine}, "at": 0}
        assert comparable(rows(ours)[0].detail) == comparable(rows(theirs)[0].detail)
    assert 5 < refused < 35


def test_decay_recommends_what_the_sidecar_recommends(sidecar_answer: Any, tmp_path: Path) -> None:
    draw, now = random.Random(15), datetime.now(UTC)
    observations = []
    for number in range(120):
        lifecycle: dict[str, Any] = {}
        if draw.random() < 0.4:
            lifecycle["last_used_at"] = (now - timedelta(days=draw.randrange(120), hours=6)).isoformat()
        if draw.random() < 0.3:
            lifecycle["state"] = draw.choice(STATES)
        if draw.random() < 0.2:
            lifecycle["priority"] = draw.choice(["P0", "p1", "P2", "P9"])
        observations.append(
            {
                "ts": (now - timedelta(days=draw.randrange(200), hours=6)).isoformat(),
                "kind": draw.choice(KINDS),
                "tool_name": "chat",
                "summary": f"kettle {number}",
                "detail": {"lifecycle": lifecycle, "importance": draw.choice([0.3, 0.6, 0.9])},
            }
        )
    path = filled(tmp_path / "l.sqlite", observations)
    code, review = sidecar_answer("optimize", "evolution-review", "--db", path, "--limit", "1000", "--top", "500")
    assert code == 0
    archive = [item for item in review["items"] if item["action"] == "set_soft_archive_candidate"]
    unused = [item for item in archive if item["candidate_id"].startswith("use-decay-")]
    theirs = {
        (item["target"]["observationId"], item["evidence"]["priority"], item["evidence"]["age_days"]) for item in unused
    }
    found = {(one.row.id, one.priority, one.days) for one in decay(path, upstream=True, limit=1000).unused}
    assert theirs <= found
    # What the sidecar wants to archive for another reason, it does not list again.
    assert {one[0] for one in found - theirs} <= {item["target"]["observationId"] for item in archive}
    assert len(theirs) > 10
