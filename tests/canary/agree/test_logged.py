"""Receipts of a log beside the turns at which they were made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.canary.agree.logged import LATEST, Logged, difference, placed, read_log, since_last_change, untangled
from lab.recordings.model import Recording, Turn

Receipt = Callable[..., dict[str, Any]]
Line = Callable[..., str]


def session(name: str, *times: int) -> Recording:
    turns = tuple(Turn(f"{name}/{at}", at, name, "user", "x", time) for at, time in enumerate(times))
    return Recording(name, turns, ())


def logged(time_ms: int, session: str | None = None, **receipt: Any) -> Logged:
    return Logged(time_ms, session, f"log:{time_ms}", receipt)


def test_a_recall_belongs_to_the_first_free_turn_that_follows() -> None:
    recalls = [logged(1_000), logged(1_050), logged(9_000), logged(500_000)]
    found = placed(recalls, [session("a", 1_100, 9_040), session("b", 1_200, 900_000)])
    assert {key: one.time_ms for key, one in found.at.items()} == {"a/0": 1_000, "b/0": 1_050, "a/1": 9_000}
    assert found.without == [recalls[3]]


def test_a_turn_before_its_recall_or_long_after_is_not_its_turn() -> None:
    found = placed([logged(10_000)], [session("a", 9_000, 10_001 + LATEST)])
    assert not found.at
    assert len(found.without) == 1


def test_a_line_that_names_a_session_has_a_turn_of_it() -> None:
    found = placed([logged(1_000, "b")], [session("a", 1_100), session("b", 1_200)])
    assert list(found.at) == ["b/0"]


def test_recalls_of_overlapping_turns_are_exchanged_only_if_both_then_fit() -> None:
    one, other = logged(1_000, count=1), logged(1_010, count=2)
    fits = {"a/0": 2, "b/0": 1}
    found, moved = untangled({"a/0": one, "b/0": other}, lambda key, it: it.receipt["count"] == fits[key])
    assert (found, moved) == ({"a/0": other, "b/0": one}, 2)
    found, moved = untangled({"a/0": one, "b/0": other}, lambda key, it: it.receipt["count"] == 2 == fits[key])
    assert (found, moved) == ({"a/0": one, "b/0": other}, 0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, None),
        ({"whyTheseIds": [{"id": "n1"}, {"id": "m1"}]}, "order"),
        ({"whyTheseIds": [{"id": "m1"}, {"id": "n2"}]}, "memories"),
        ({"whyTheseIds": [{"id": "m1"}]}, None),
        ({"injectedCount": 3}, "count"),
        ({"whySummary": {"byTier": {"must": 2, "nice": 0}}}, "tiers"),
        ({"budget": {"beforeChars": 900, "afterChars": 880, "droppedIds": []}}, "characters"),
        ({"skipped": True, "skipReason": "trivial_prompt"}, "skipped"),
    ],
)
def test_blocks_are_compared_by_what_receipts_tell(change: dict[str, Any], what: str | None) -> None:
    live = {
        "skipped": False,
        "skipReason": None,
        "whyTheseIds": [{"id": "m1"}, {"id": "n1"}],
        "injectedCount": 2,
        "whySummary": {"byTier": {"must": 1, "nice": 1}},
        "budget": {"beforeChars": 900, "afterChars": 900, "droppedIds": []},
    }
    assert difference(live, live | change) == what


def test_logs_are_read_in_order_of_time_and_damage_is_told(tmp_path: Path, receipt: Receipt, line: Line) -> None:
    early, late = line(receipt(["m1"]), at=0), line(receipt(["n1"]), at=600)
    (tmp_path / "b.log").write_text(early, "utf-8")
    (tmp_path / "a.log").write_text(late, "utf-8")
    log = read_log([tmp_path / "a.log", tmp_path / "b.log"])
    assert [one.receipt["whyTheseIds"][0]["id"] for one in log.recalls] == ["m1", "n1"]
    assert not log.notes
    (tmp_path / "b.log").write_text(early.replace('"injectedCount"', '"injected"'), "utf-8")
    assert read_log([tmp_path / "a.log", tmp_path / "b.log"]).notes == ["1 damaged line: left out"]
    with pytest.raises(UnusableInput, match=r"no usable recall receipt; 1 damaged line: left out\. Are receipts"):
        read_log([tmp_path / "b.log"])


def test_recalls_of_a_time_that_came_twice_are_left_out(tmp_path: Path, receipt: Receipt) -> None:
    def at(clock: str, *ids: str) -> str:
        return f"2026-03-01T{clock}Z openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt(list(ids)))}\n"

    file = tmp_path / "gateway.log"
    file.write_text(
        at("08:00:00.100", "m1") + at("09:00:00.100", "n1") + at("08:30:00.100", "u1") + at("09:30:00.100", "m2"),
        "utf-8",
    )
    log = read_log([file])
    assert [one.receipt["whyTheseIds"][0]["id"] for one in log.recalls] == ["m1", "m2"]
    assert log.notes == [f"{file}:3: the clock went back by 1800 s; the recalls that have a time of both are left out"]


def test_recalls_before_another_model_are_left_out(tmp_path: Path, receipt: Receipt) -> None:
    def started(clock: str, model: str) -> str:
        return f"2026-03-01T{clock}Z openclaw-mem-engine: registered (db=~/db, table=memories, model={model}, x=1)\n"

    def recall(clock: str) -> str:
        return f"2026-03-01T{clock}Z openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt(['m1']))}\n"

    file = tmp_path / "gateway.log"
    file.write_text(started("07:00:00.5", "one") + recall("08:00:00.5") + recall("08:10:00.5"), "utf-8")
    log = read_log([file])
    assert since_last_change(log) == (log.recalls, None)
    with file.open("a", encoding="utf-8") as more:
        more.write(started("09:00:00.5", "two") + recall("09:10:00.5"))
    log = read_log([file])
    kept, note = since_last_change(log)
    assert kept == log.recalls[2:]
    assert note == f"{file}:4: the engine got another model; 2 recalls before are left out"
    assert replace(log, engines=log.engines[:1]).recalls == log.recalls


def test_two_receipts_of_one_turn_are_one_recall_with_two_blocks(tmp_path: Path, receipt: Receipt, line: Line) -> None:
    log = tmp_path / "gateway.log"
    first, other = receipt(["m1"]), receipt(["m2"])
    lines = [line(first, at=0), line(first, at=1), line(other, at=30)]
    log.write_text("".join(f"{one}\n" for one in lines), "utf-8")
    assert [one.blocks for one in read_log([log]).recalls] == [2, 1]
