"""Sums of sessions: which recalls belong together, when a session is over, and that nothing counts twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.canary.audit import sessions as module
from lab.canary.audit.audit import audit
from lab.canary.audit.sessions import DAMAGE, ERRORS, GAP, MOST_EVENTS, NAMED, Sessions

Make = Callable[..., dict[str, Any]]
FAILED = "openclaw-mem-engine: autoRecall failed: TypeError"


def read(path: Path, lines: list[str], **given: Any) -> dict[str, Any]:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    found: dict[str, Any] = audit([str(path)], **given)["sessions"]
    return found


def test_sessions_that_overlap_are_told_apart_in_the_order_of_their_ends(
    receipt: Make, line: Callable[..., str], tmp_path: Path
) -> None:
    lines = [
        line(receipt(["m1"]), at=0, session="long"),
        line(receipt(["m1"], vectors=0), at=60, session="short"),
        line(receipt(["n1"]), at=1500, session="long"),
        line(receipt(["n1"]), at=3599, session="late"),
    ]
    found = read(tmp_path / "log", lines)
    assert (found["closed"], found["open"], found["recalls"]) == (2, 1, [1, 2])
    assert found["ended"] == ["2026-03-01T09:01:00Z", "2026-03-01T09:25:00Z"]
    lane = found["sums"]["lanes.without_vec_share"]
    assert (lane["part"], lane["of"]) == ([1, 0], [1, 2])
    # If the log ends by a decision, what is open counts as it is.
    assert read(tmp_path / "log", lines, ended=True)["recalls"] == [1, 2, 1]
    # So it does once the last line is older than the pause that ends a session.
    last = datetime(2026, 3, 1, 9, 59, 59, tzinfo=UTC).timestamp()
    assert read(tmp_path / "log", lines, now=last + GAP)["open"] == 1
    assert read(tmp_path / "log", lines, now=last + GAP + 1)["recalls"] == [1, 2, 1]


def test_scope_and_a_pause_make_sessions_unless_the_caller_knows_them(
    receipt: Make, line: Callable[..., str], tmp_path: Path
) -> None:
    lines = [line(receipt(["m1"]), at=at) for at in (0, 10, 2000, 2010)]
    found = read(tmp_path / "log", lines, ended=True)
    assert (found["by"], found["recalls"]) == ({"session": 0, "transcript": 0, "scope": 4}, [2, 2])
    names = {f"{tmp_path / 'log'}:{number}": "ab"[number % 2] for number in range(1, 5)}
    named = read(tmp_path / "log", lines, ended=True, sessions=names)
    assert (named["by"], named["recalls"]) == ({"session": 0, "transcript": 4, "scope": 0}, [1, 1, 1, 1])


def test_session_without_an_end_is_cut(receipt: Make, line: Callable[..., str], tmp_path: Path) -> None:
    found = read(tmp_path / "log", [line(receipt(["m1"]), at=10 * at) for at in range(250)])
    assert (found["closed"], found["open"], found["recalls"]) == (2, 1, [MOST_EVENTS, MOST_EVENTS])


def test_failures_and_damage_belong_to_the_session_before_them(
    receipt: Make, line: Callable[..., str], tmp_path: Path
) -> None:
    lines = [
        line(receipt(["m1"]), at=0),
        f"2026-03-01T09:00:05.000Z {FAILED}",
        line(receipt(["m1"]), at=7)[:200],
        line(receipt(["m1"]), at=3000),
    ]
    found = read(tmp_path / "log", lines, ended=True)
    assert found["sums"][ERRORS] == {"part": [1, 0], "of": [2, 1]}
    assert found["sums"][DAMAGE] == {"part": [1, 0], "of": [3, 1]}


def test_what_comes_before_the_first_recall_is_of_its_session(
    receipt: Make, line: Callable[..., str], tmp_path: Path
) -> None:
    found = read(tmp_path / "log", [f"2026-03-01T09:00:00.000Z {FAILED}", line(receipt(["m1"]), at=5)], ended=True)
    assert found["sums"][ERRORS] == {"part": [1], "of": [2]}


def test_sums_of_sessions_are_those_of_the_log(receipt: Make, line: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [line(receipt([f"m{at % 5}", f"n{at % 3}"]), at=300 * at % 3500, session=f"s{at % 7}") for at in range(120)]
    found = read(path, lines, ended=True)
    whole = audit([str(path)])
    for measure, turns in (("repeat.rate", whole["repeat"]["turns"]), ("stale.rate", whole["stale"]["recalls"])):
        sums = found["sums"][measure]
        section, _, name = measure.partition(".")
        assert sum(sums["of"]) == turns
        assert sum(sums["part"]) / turns == pytest.approx(whole[section][name])


def test_memory_is_bounded_by_adding_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 8)
    sessions, sums = Sessions(), {ERRORS: (0.0, 0.0), DAMAGE: (0.0, 0.0)}
    for number in range(37):
        sums = {ERRORS: (0.0, sums[ERRORS][1] + 1), DAMAGE: (0.0, sums[DAMAGE][1] + 2)}
        sessions.add((NAMED, str(number)), number * (GAP + 1.0), sums, recall=True)
    found = sessions.as_json()
    assert (found["closed"], found["each"], len(found["recalls"])) == (36, 8, 4)
    assert found["recalls"] == [8] * 4
    assert found["sums"][DAMAGE] == {"part": [0] * 4, "of": [16] * 4}


def test_scopes_that_are_open_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    sessions = Sessions()
    for number in range(1, 8):
        sums = {ERRORS: (0.0, float(number)), DAMAGE: (0.0, float(number))}
        sessions.add((NAMED, str(number)), None, sums, recall=True)
    assert sessions.as_json()["open"] <= 4
