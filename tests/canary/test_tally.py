"""What receipts come to, against figures counted by hand and the lab's own measures."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.canary.audit import SCHEMA, audit
from lab.canary.repeats import Repeats
from lab.canary.tally import Tally
from lab.canary.windows import Windows
from lab.errors import UnusableInput
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.repetition import selections_of

Make = Callable[..., dict[str, Any]]
FALLBACK = {
    "eligible": True,
    "consulted": True,
    "consultedScopes": ["global"],
    "usedScopes": ["global"],
    "contributed": 1,
    "suppressedReason": None,
}


@pytest.fixture
def told(receipt: Make, skip: dict[str, Any]) -> dict[str, Any]:
    """The figures of four recalls, a skip and a failure."""
    tally = Tally()
    tally.add(skip, None)
    tally.add(receipt(["m1", "m2", "n1", "n2", "u1", "m3"]), "a")
    tally.add(receipt(["m1", "n1", "n3"], candidates=(1, 2, 0)), "a")
    tally.add(receipt(["m1", "m2"], quota=None, dropped=1), "b")
    tally.add(
        receipt(["n1", "n2"], candidates=(0, 2, 0), homes={"n1": "global", "n2": "kitchen"}, fallback=FALLBACK), "b"
    )
    return tally.as_json(failures=1)


def test_recalls_and_errors(told: dict[str, Any]) -> None:
    assert told["recalls"] == {
        "receipts": 5,
        "skipped": 1,
        "failed": 0,
        "answered": 4,
        "empty": 0,
        "empty_rate": 0.0,
        "items_mean": 13 / 4,
        "injected_mean": 12 / 4,
    }
    assert told["errors"] == {"failed": 1, "attempts": 6, "rate": 1 / 6}
    assert told["skips"]["rate"] == 1 / 5
    assert told["skips"]["trivial_prompt"] == {"count": 1, "rate": 1 / 5}
    assert told["rejected"]["budget_cap"] == {"count": 4, "rate": 4 / 5}
    assert told["selection_mode"]["tier_quota_v1"] == {"count": 3, "rate": 3 / 4}
    assert told["policy_tier"]["unknown"] == {"count": 4, "rate": 1.0}


def test_tiers_quota_and_must(told: dict[str, Any]) -> None:
    assert told["tiers"]["must"] == {
        "searched": 4,
        "candidates": 7,
        "selected": 6,
        "empty_rate": 1 / 4,
        "final": 6,
        "final_share": 6 / 13,
    }
    assert told["quota"] == {
        "recalls": 3,
        "must_max_reached": 1 / 3,
        "must_max_exceeded": 1 / 3,
        "nice_there": 3,
        "nice_floor_met": 1.0,
        "wildcard_rate": 1 / 3,
        "wildcards_mean": 1 / 3,
        "overrun_rate": 0.0,
    }
    assert (told["must"]["share"], told["must"]["all_must_rate"], told["must"]["windows"]) == (6 / 13, 1 / 4, 0)


def test_scope_repeat_budget_and_lanes(told: dict[str, Any]) -> None:
    assert (told["scope"]["items"], told["scope"]["outside"], told["scope"]["unexplained"]) == (13, 2, 1)
    assert (told["scope"]["outside_rate"], told["scope"]["fallback_used_rate"]) == (1 / 4, 1 / 4)
    # m1 and n1 of m1, n1, n3; nothing of the second turn of b.
    assert (told["repeat"]["rate"], told["repeat"]["turns"]) == (2 / 3 / 2, 2)
    assert told["repeat"]["by"] == {"session": 4, "scope": 0}
    assert told["budget"] == {
        "recalls": 4,
        "truncated_rate": 1 / 4,
        "cut_rate": 0.0,
        "dropped_mean": 1 / 4,
        "over": 0,
        "cut": 0,
        "bare": 0,
        "bare_rate": 0.0,
    }
    assert (told["lanes"]["items"], told["lanes"]["fts_share"]) == (13, 8 / 13)
    assert told["lanes"]["neither_share"] == 3 / 13


def test_nothing_measured_is_null_and_no_zero() -> None:
    told = Tally().as_json(0)
    shares = {name: told[group][name] for group, name in (("errors", "rate"), ("skips", "rate"), ("must", "share"))}
    assert set(shares.values()) == {None}
    assert told["quota"]["nice_floor_met"] is None


def test_a_floor_that_was_not_met(receipt: Make) -> None:
    made = receipt(["m1", "m2"], candidates=(2, 2, 0))
    tally = Tally()
    tally.add(made, None)
    assert tally.as_json(0)["quota"]["nice_floor_met"] == 0.0


def test_failed_receipts_and_their_warnings_are_the_same_failures(receipt: Make) -> None:
    tally = Tally()
    tally.add(receipt([], candidates=(0, 0, 0)) | {"failed": {"stage": "select", "error": "OSError"}}, None)
    tally.add(receipt(["m1"]), None)
    assert tally.as_json(failures=1)["errors"] == {"failed": 1, "attempts": 2, "rate": 1 / 2}
    assert tally.as_json(failures=3)["errors"] == {"failed": 3, "attempts": 4, "rate": 3 / 4}


def test_repeats_are_those_of_the_measures() -> None:
    draw = random.Random(3)
    lists = {
        session: [draw.sample("abcdefghijklmnop", draw.choice((0, 0, 1, 3, 6))) for _ in range(60)]
        for session in ("a", "b", "c")
    }
    repeats = Repeats()
    for turn in range(60):
        for session, listed in lists.items():
            repeats.add(session, "shop", listed[turn])
    rates = np.concatenate([repeat_rates(selections_of(one)) for one in lists.values()])
    found = repeats.as_json()
    assert found["rate"] == pytest.approx(np.nanmean(rates), abs=1e-12)
    assert found["turns"] == np.isfinite(rates).sum()


def test_sessions_that_were_silent_are_forgotten() -> None:
    repeats = Repeats(most_sessions=2)
    for session in ("a", "b", "a", "c", "a", "b"):
        repeats.add(session, "shop", ["m1"])
    found = repeats.as_json()
    # b was the one that c drove out: its second turn begins anew.
    assert (found["sessions_forgotten"], found["turns"], found["rate"]) == (2, 2, 1.0)


def test_windows_in_the_order_of_the_log() -> None:
    windows = Windows(size=2)
    for must, items in ((0, 4), (0, 0), (2, 4), (4, 4), (4, 4), (1, 1)):
        windows.add(must, items)
    found = windows.as_json()
    assert (found["windows"], found["first_window"], found["last_window"]) == (2, 0.25, 1.0)
    assert (found["lowest_window"], found["highest_window"]) == (0.25, 1.0)
    assert (found["share"], found["all_must_rate"]) == (11 / 17, 3 / 5)


def test_two_megabytes_of_log(tmp_path: Path, receipt: Make, line: Callable[..., str]) -> None:
    pool = [f"{letter}{number}" for letter in "mnu" for number in range(3)]
    draw = random.Random(5)
    lines = []
    while sum(map(len, lines)) < 2_000_000:
        ids = sorted(draw.sample(pool, 4), key=lambda one: "mnu".index(one[0]))
        made = receipt(ids, quota=None)
        lines += [line(made, at=len(lines) % 3600, session=f"s{len(lines) % 7}"), "another plugin said so", ""]
    log = tmp_path / "gateway.log"
    log.write_text("\n".join(lines) + "\n", "utf-8")
    found = audit([str(log)])
    assert (found["schema"], found["lines"], found["bytes"]) == (SCHEMA, len(lines), log.stat().st_size)
    assert (found["damage"]["lines"], found["recalls"]["answered"]) == (0, len(lines) // 3)
    assert audit([str(log)]) == found


def test_a_log_named_twice_or_missing(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("nothing\n")
    with pytest.raises(UnusableInput, match="named twice"):
        audit([str(log), str(tmp_path / "." / "a.log")])
    with pytest.raises(UnusableInput, match="no such file"):
        audit([str(log), str(tmp_path / "b.log")])


def test_a_floor_counts_where_a_nice_candidate_is_there(receipt: Make) -> None:
    """One recall found nothing nice, and one found some and took none."""
    tally = Tally()
    tally.add(receipt(["m1"], candidates=(1, 0, 0)), None)
    tally.add(receipt(["m1"], candidates=(1, 2, 0)), None)
    quota = tally.as_json(failures=0)["quota"]
    assert (quota["recalls"], quota["nice_there"], quota["nice_floor_met"]) == (2, 1, 0.0)


def test_the_window_reaches_from_the_first_time_to_the_last_whatever_their_order(tmp_path: Path) -> None:
    """Logs that were rotated are named in any order."""
    said = "openclaw-mem-engine: autoRecall failed: TypeError"
    for name, hours in (("new", (9, 7)), ("old", (3, 5))):
        text = "".join(f"2026-03-01T0{hour}:00:00Z WARN {said}\n" for hour in hours)
        (tmp_path / name).write_text(text, "utf-8")
    found = audit([str(tmp_path / "new"), str(tmp_path / "old")])
    assert (found["first_time"], found["last_time"]) == ("2026-03-01T03:00:00.000Z", "2026-03-01T09:00:00.000Z")
    assert found["timed_lines"] == 4
