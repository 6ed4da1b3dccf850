"""States, uses and decay of observations in a ledger (RT-1 to RT-5)."""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.ledger import ledger
from lab.memory.ledger.grading import grade
from lab.memory.ledger.search import search, state_of
from lab.memory.ledger.use import HISTORY, LEGAL, STATES, Step, decay, move, moved, priority_of, use
from tests.memory.ledger.ledgers import NOW, filled, rows

STEP = Step("stale", "old", "me", "2026-11-23T12:00:00Z")


def aged(days: int, kind: str = "note", **detail: Any) -> dict[str, Any]:
    """Return an observation of so many days ago."""
    ts = (NOW - timedelta(days=days)).isoformat()
    return {"ts": ts, "kind": kind, "tool_name": "chat", "summary": f"kettle {days}", "detail": detail}


def details(path: Path) -> dict[int, dict[str, Any]]:
    return {row.id: row.detail for row in rows(path)}


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("to", STATES)
def test_transition_is_allowed_exactly_along_the_graph(before: str, to: str) -> None:
    detail = {"trust": "untrusted", "lifecycle": {"state": before, "used_count": 3}}
    step = STEP._replace(to=to)
    if to != before and to not in LEGAL[before]:
        with pytest.raises(UnusableInput, match=f"{before} cannot become {to}; allowed: {LEGAL[before][0]}"):
            moved(detail, step)
        return
    after = moved(detail, step)
    assert state_of(after) == to
    assert (after["trust"], after["lifecycle"]["used_count"]) == ("untrusted", 3)
    assert after["lifecycle"]["history"][-1]["changed"] == (before != to)
    assert ("archived_at" in after["lifecycle"]) == (before == "stale" and to == "soft-archived")
    assert detail == {"trust": "untrusted", "lifecycle": {"state": before, "used_count": 3}}


def test_history_keeps_the_last_entries() -> None:
    detail: dict[str, Any] = {"lifecycle": {"history": "none"}}
    for number in range(HISTORY + 5):
        detail = moved(detail, STEP._replace(to="active" if number % 2 else "stale", reason=str(number)))
    assert [entry["reason_code"] for entry in detail["lifecycle"]["history"]] == [str(n) for n in range(5, 25)]


def test_archived_observation_is_not_found_until_it_is_revived(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(1), aged(2)])

    def found() -> list[int]:
        with ledger.open_ledger(path) as connection:
            return sorted(hit.row.id for hit in search(connection, "kettle", now=NOW).hits)

    for state in ("stale", "soft-archived"):
        move(path, [1], state, reason="r", actor="a", write=True, now=NOW)
    assert found() == [2]
    assert "archived_at" in details(path)[1]["lifecycle"]
    receipt = move(path, [1], "active", reason="needed", actor="me", write=True, now=NOW).receipts[0]
    assert receipt | {"from": "soft-archived", "to": "active", "changed": True, "recordRef": "obs:1"} == receipt
    assert found() == [1, 2]
    assert "archived_at" not in details(path)[1]["lifecycle"]


def test_move_writes_all_or_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(1), aged(2, lifecycle={"state": "captured"})])
    before = rows(path)
    with pytest.raises(UnusableInput, match="observation 2: a memory that is captured cannot become stale"):
        move(path, [1, 2], "stale", reason="r", actor="a", write=True)
    with pytest.raises(UnusableInput, match="has no observation 7"):
        move(path, [1, 7], "stale", reason="r", actor="a", write=True)
    with pytest.raises(UnusableInput, match="unknown state 'old'; the states are captured"):
        move(path, [1], "old", reason="r", actor="a")
    with pytest.raises(UnusableInput, match="needs a reason"):
        move(path, [1], "stale", reason=" ", actor="a")
    assert move(path, [1], "stale", reason="r", actor="a").receipts[0]["changed"]
    assert rows(path) == before


def test_use_counts_each_reference_once_and_keeps_state_and_trust(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(3, trust="untrusted"), aged(2, lifecycle={"used_count": "x"}), aged(1)])
    refs = ["obs:1", " obs:1 ", "tail:1", "obs:2", "obs:9", "obs:0", "obs:x", ""]
    receipt = use(path, refs, write=True, now=NOW)
    assert receipt["status"] == "updated"
    assert (
        receipt["selection"]
        | {
            "pack_selected_refs": ["obs:1", "tail:1", "obs:2", "obs:9", "obs:0", "obs:x"],
            "refreshed_record_refs": ["obs:1", "obs:2"],
            "skipped_record_refs": ["tail:1", "obs:0", "obs:x"],
            "missing_record_refs": ["obs:9"],
        }
        == receipt["selection"]
    )
    use(path, ["obs:1"], write=True, now=NOW + timedelta(days=1))
    use(path, ["obs:1"], included=False, write=True, now=NOW + timedelta(days=2))
    found = details(path)
    assert found[1]["trust"] == "untrusted"
    assert found[1]["lifecycle"] == {
        "last_used_at": "2026-11-24T12:00:00Z",
        "used_count": 2,
        "last_retrieved_at": "2026-11-25T12:00:00Z",
    }
    assert found[2]["lifecycle"]["used_count"] == 1
    assert "lifecycle" not in found[3]
    assert "kettle" not in json.dumps(receipt)


def test_use_of_a_past_day_keeps_the_later_time(tmp_path: Path) -> None:
    path = filled(
        tmp_path / "l.sqlite", [aged(300), aged(300, lifecycle={"last_used_at": "0001-01-01T00:00:00+14:00"})]
    )
    for included, name in ((True, "last_used_at"), (False, "last_retrieved_at")):
        use(path, ["obs:1"], included=included, write=True, now=NOW)
        use(path, ["obs:1"], included=included, write=True, now=NOW - timedelta(days=200))
        assert details(path)[1]["lifecycle"][name] == "2026-11-23T12:00:00Z"
    assert details(path)[1]["lifecycle"]["used_count"] == 2
    # A time that UTC does not have is none.
    assert [(one.row.id, one.days) for one in decay(path, now=NOW).unused] == [(2, 300)]


def test_lone_surrogate_and_huge_count_do_not_stop_a_change(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(300), aged(300), aged(300)])
    cut, huge = '{"x": "\\ud83d cut 資料"}', f'{{"lifecycle": {{"used_count": {"9" * 401}}}}}'
    with sqlite3.connect(path) as connection:
        connection.executemany("UPDATE observations SET detail_json = ? WHERE id = ?", [(cut, 1), (huge, 2)])
    connection.close()
    use(path, ["obs:1", "obs:2"], write=True, now=NOW - timedelta(days=100))
    assert details(path)[1]["x"] == "\ud83d cut 資料"
    assert details(path)[2]["lifecycle"]["used_count"] == 2**53 + 1
    assert grade(path, write=True, now=NOW).receipt()["graded_filled"] == 3
    assert decay(path, write=True, now=NOW).receipt()["count"] == 3
    with ledger.open_ledger(path) as connection:
        assert len(search(connection, "kettle", now=NOW, include_archived=True).hits) == 3


def test_use_without_a_record_or_dry_writes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(1)])
    before = rows(path)
    assert use(path, ["tail:1"], write=True)["status"] == "no_observation_refs"
    assert use(path, ["obs:1"])["status"] == "dry_run"
    assert rows(path) == before
    many = use(path, [f"obs:{number}" for number in range(1, 200)])
    assert len(many["selection"]["pack_selected_refs"]) == 64


def test_priority_is_named_or_follows_importance_and_kind() -> None:
    must = {"importance": {"score": 0.9, "label": "must_remember"}}
    assert (priority_of("note", must), priority_of("note", must, upstream=True)) == ("P0", "P2")
    assert priority_of("Decision", {}) == priority_of("fact", {}) == "P1"
    assert priority_of(None, {}) == priority_of("tool", {"importance": 0.6}) == "P2"
    assert priority_of("note", {**must, "lifecycle": {"priority": "p1"}}) == "P1"
    assert priority_of("fact", {"lifecycle": {"priority": "P9"}}) == "P1"


def test_decay_archives_by_priority_and_reference_time(tmp_path: Path) -> None:
    recent = {"lifecycle": {"last_used_at": (NOW - timedelta(days=10)).isoformat()}}
    path = filled(
        tmp_path / "l.sqlite",
        [
            aged(89, "fact"),
            aged(90, "fact"),
            aged(30),
            aged(29),
            aged(400, importance=0.9),
            aged(400, **recent),
            aged(400, lifecycle={"state": "soft-archived"}),
            aged(400, lifecycle={"state": "captured"}),
            aged(31, lifecycle={"state": "stale"}, trust="trusted", importance=0.6),
            {**aged(40), "ts": "yesterday"},
        ],
    )
    before = details(path)
    dry = decay(path, now=NOW)
    assert [(one.row.id, one.priority, one.days) for one in dry.unused] == [(2, "P1", 90), (9, "P2", 31), (3, "P2", 30)]
    assert details(path) == before
    receipt = decay(path, write=True, now=NOW).receipt()
    assert receipt | {"count": 3, "protected_p0": 1, "without_time": 1, "by_priority": {"P1": 1, "P2": 2}} == receipt
    assert receipt["by_trust"] == {"trusted": 1, "untrusted": 0, "quarantined": 0, "unknown": 2}
    assert receipt["by_importance"] == {"must_remember": 0, "nice_to_have": 1, "ignore": 0, "unknown": 2}
    assert "kettle" not in json.dumps(receipt)
    after = details(path)
    assert [identity for identity in after if after[identity] != before[identity]] == [2, 3, 9]
    assert [entry["to"] for entry in after[2]["lifecycle"]["history"]] == ["stale", "soft-archived"]
    assert [entry["to"] for entry in after[9]["lifecycle"]["history"]] == ["soft-archived"]
    assert decay(path, write=True, now=NOW).unused == []


def test_revived_observation_is_kept_as_if_it_had_been_used(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(50)])
    decay(path, write=True, now=NOW)
    move(path, [1], "active", reason="needed", actor="me", write=True, now=NOW)
    assert decay(path, now=NOW + timedelta(days=29)).unused == []
    assert [one.days for one in decay(path, now=NOW + timedelta(days=30)).unused] == [30]
    # The sidecar would archive it again at once.
    assert [one.days for one in decay(path, now=NOW, upstream=True).unused] == [50]


def test_decay_of_the_newest_alone_never_sees_the_oldest(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(60), *(aged(1) for _ in range(5))])
    assert len(decay(path, now=NOW).unused) == 1
    assert decay(path, limit=5, now=NOW).unused == []


def test_decay_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [aged(60)])
    with pytest.raises(UnusableInput, match="only recommends"):
        decay(path, upstream=True, write=True)
    with pytest.raises(UnusableInput, match="at least 1 day"):
        decay(path, days={"P1": 0})
