"""Tests of the aggregated figures, compared with manual counts and with the lab's measures."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import UnusableInput
from lab.canary.audit.audit import SCHEMA, audit
from lab.canary.audit.tally import Repeats, Tally
from lab.canary.audit.windows import Windows
from lab.gate.receipts import notes
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.inputs import selections_of

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
def figures(receipt: Make, skip: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of four recalls, a skip and a failure."""
    tally = Tally()
    tally.add(skip, None)
    tally.add(receipt(["m1", "m2", "n1", "n2", "u1", "m3"]), "a")
    tally.add(receipt(["m1", "n1", "n3"], candidates=(1, 2, 0)), "a")
    tally.add(receipt(["m1", "m2"], quota=None, dropped=1), "b")
    tally.add(
        receipt(["n1", "n2"], candidates=(0, 2, 0), homes={"n1": "global", "n2": "kitchen"}, fallback=FALLBACK), "b"
    )
    return tally.as_json(failures=1)


def test_recalls_with_an_unknown_reason_count_and_name_it(receipt: Make, skip: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    receipts = [
        receipt(["m1"]) | {"rejected": ["budget_cap", "bad_mood"]},
        skip | {"skipReason": "siesta", "rejected": ["siesta"]},
        receipt(["m1"]) | {"rejected": ["a text that is long enough"]},
    ]
    lines = (f"openclaw-mem-engine:autoRecall.receipt {json.dumps(one)}\n" for one in receipts)
    log.write_text("".join(lines), "utf-8")
    found = audit([log])
    assert (found["recalls"]["receipts"], found["recalls"]["answered"], found["damage"]["lines"]) == (3, 2, 0)
    assert found["unknown_reasons"] == {"bad_mood": 1, "siesta": 1, "unnamed_reason": 1}
    assert found["rejected"]["budget_cap"]["count"] == 1
    assert "unknown reason: bad_mood (1 receipt), siesta (1 receipt)" in notes(found)[-1]


def test_tally_recalls_and_errors(figures: dict[str, Any]) -> None:
    assert figures["recalls"] == {
        "receipts": 5,
        "skipped": 1,
        "failed": 0,
        "answered": 4,
        "empty": 0,
        "empty_rate": 0.0,
        "items_mean": 13 / 4,
        "injected_mean": 12 / 4,
    }
    assert figures["errors"] == {"failed": 1, "attempts": 6, "rate": 1 / 6}
    assert figures["skips"]["rate"] == 1 / 5
    assert figures["skips"]["trivial_prompt"] == {"count": 1, "rate": 1 / 5}
    assert figures["rejected"]["budget_cap"] == {"count": 4, "rate": 4 / 5}
    assert figures["selection_mode"]["tier_quota_v1"] == {"count": 3, "rate": 3 / 4}
    assert figures["policy_tier"]["unknown"] == {"count": 4, "rate": 1.0}


def test_tally_tiers_quota_and_must(figures: dict[str, Any]) -> None:
    assert figures["tiers"]["must"] == {
        "searched": 4,
        "candidates": 7,
        "selected": 6,
        "empty_rate": 1 / 4,
        "final": 6,
        "final_share": 6 / 13,
    }
    assert figures["quota"] == {
        "recalls": 3,
        "must_max_reached": 1 / 3,
        "must_max_exceeded": 1 / 3,
        "nice_there": 3,
        "nice_floor_met": 1.0,
        "wildcard_rate": 1 / 3,
        "wildcards_mean": 1 / 3,
        "overrun_rate": 0.0,
    }
    assert (figures["must"]["share"], figures["must"]["all_must_rate"], figures["must"]["windows"]) == (
        6 / 13,
        1 / 4,
        0,
    )


def test_tally_scope_repeat_budget_and_lanes(figures: dict[str, Any]) -> None:
    assert (figures["scope"]["items"], figures["scope"]["outside"], figures["scope"]["unexplained"]) == (13, 2, 1)
    assert (figures["scope"]["outside_rate"], figures["scope"]["fallback_used_rate"]) == (1 / 4, 1 / 4)
    # m1 and n1 of m1, n1, n3; nothing of the second turn of b.
    assert (figures["repeat"]["rate"], figures["repeat"]["turns"]) == (2 / 3 / 2, 2)
    assert figures["repeat"]["by"] == {"session": 4, "scope": 0}
    # Four recalls are no full window.
    assert (figures["repeat"]["distinct_share"], figures["repeat"]["distinct_windows"]) == (None, 0)
    assert figures["budget"] == {
        "recalls": 4,
        "truncated_rate": 1 / 4,
        "cut_rate": 0.0,
        "dropped_mean": 1 / 4,
        "over": 0,
        "cut": 0,
        "bare": 0,
        "bare_rate": 0.0,
    }
    assert (figures["lanes"]["items"], figures["lanes"]["fts_share"]) == (13, 8 / 13)
    assert figures["lanes"]["neither_share"] == 3 / 13


def test_tally_without_observations_is_null() -> None:
    figures = Tally().as_json(0)
    shares = {name: figures[group][name] for group, name in (("errors", "rate"), ("skips", "rate"), ("must", "share"))}
    assert set(shares.values()) == {None}
    assert figures["quota"]["nice_floor_met"] is None


def test_tally_nice_floor_not_met(receipt: Make) -> None:
    made = receipt(["m1", "m2"], candidates=(2, 2, 0))
    tally = Tally()
    tally.add(made, None)
    assert tally.as_json(0)["quota"]["nice_floor_met"] == 0.0


def test_tally_failed_receipts_and_warnings_count_once(receipt: Make) -> None:
    tally = Tally()
    tally.add(receipt([], candidates=(0, 0, 0)) | {"failed": {"stage": "select", "error": "OSError"}}, None)
    tally.add(receipt(["m1"]), None)
    assert tally.as_json(failures=1)["errors"] == {"failed": 1, "attempts": 2, "rate": 1 / 2}
    assert tally.as_json(failures=3)["errors"] == {"failed": 3, "attempts": 4, "rate": 3 / 4}


def test_repeats_match_the_measures() -> None:
    draw = random.Random(3)
    lists = {
        session: [draw.sample("abcdefghijklmnop", draw.choice((0, 0, 1, 3, 6))) for _ in range(60)]
        for session in ("a", "b", "c")
    }
    repeats = Repeats()
    for turn in range(60):
        for session, listed in lists.items():
            repeats.add(session, "shop", listed[turn])
    rates = np.concatenate([repeat_rates(selections_of(ids_by_turn)) for ids_by_turn in lists.values()])
    result = repeats.as_json()
    assert result["rate"] == pytest.approx(np.nanmean(rates), abs=1e-12)
    assert result["turns"] == np.isfinite(rates).sum()


def test_repeats_least_recent_sessions_are_forgotten() -> None:
    repeats = Repeats(most_sessions=2)
    for session in ("a", "b", "a", "c", "a", "b"):
        repeats.add(session, "shop", ["m1"])
    result = repeats.as_json()
    # c displaced b, so the second turn of b starts without history.
    assert (result["sessions_forgotten"], result["turns"], result["rate"]) == (2, 2, 1.0)


def test_windows_follow_the_order_of_the_log() -> None:
    windows = Windows(size=2)
    for must, items in ((0, 4), (0, 0), (2, 4), (4, 4), (4, 4), (1, 1)):
        windows.add(must, items)
    result = windows.as_json()
    assert (result["windows"], result["first_window"], result["last_window"]) == (2, 0.25, 1.0)
    assert (result["lowest_window"], result["highest_window"]) == (0.25, 1.0)
    assert (result["share"], result["all_must_rate"]) == (11 / 17, 3 / 5)


def test_audit_two_megabytes_of_log(tmp_path: Path, receipt: Make, line: Callable[..., str]) -> None:
    pool = [f"{letter}{number}" for letter in "mnu" for number in range(3)]
    draw = random.Random(5)
    lines = []
    while sum(map(len, lines)) < 2_000_000:
        ids = sorted(draw.sample(pool, 4), key=lambda identifier: "mnu".index(identifier[0]))
        made = receipt(ids, quota=None)
        lines += [line(made, at=len(lines) % 3600, session=f"s{len(lines) % 7}"), "another plugin said so", ""]
    log = tmp_path / "gateway.log"
    log.write_text("\n".join(lines) + "\n", "utf-8")
    result = audit([str(log)])
    assert (result["schema"], result["lines"], result["bytes"]) == (SCHEMA, len(lines), log.stat().st_size)
    assert (result["damage"]["lines"], result["recalls"]["answered"]) == (0, len(lines) // 3)
    assert audit([str(log)]) == result


def test_audit_duplicate_or_missing_log_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("nothing\n")
    with pytest.raises(UnusableInput, match="is given twice"):
        audit([str(log), str(tmp_path / "." / "a.log")])
    with pytest.raises(UnusableInput, match="no such file"):
        audit([str(log), str(tmp_path / "b.log")])


def test_tally_nice_floor_counts_only_with_candidates(receipt: Make) -> None:
    """Check one recall without nice candidates, and one that selected none of its nice candidates."""
    tally = Tally()
    tally.add(receipt(["m1"], candidates=(1, 0, 0)), None)
    tally.add(receipt(["m1"], candidates=(1, 2, 0)), None)
    quota = tally.as_json(failures=0)["quota"]
    assert (quota["recalls"], quota["nice_there"], quota["nice_floor_met"]) == (2, 1, 0.0)


def test_audit_time_range_ignores_log_order(tmp_path: Path) -> None:
    """Check that rotated logs may be given in any order."""
    warning = "openclaw-mem-engine: autoRecall failed: TypeError"
    for name, hours in (("new", (9, 7)), ("old", (3, 5))):
        text = "".join(f"2026-03-01T0{hour}:00:00Z WARN {warning}\n" for hour in hours)
        (tmp_path / name).write_text(text, "utf-8")
    result = audit([str(tmp_path / "new"), str(tmp_path / "old")])
    assert (result["first_time"], result["last_time"]) == ("2026-03-01T03:00:00.000Z", "2026-03-01T09:00:00.000Z")
    assert result["timed_lines"] == 4
