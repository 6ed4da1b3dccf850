"""Tests of copies: lines in both the log file and the console of a gateway count once; repeats within one log count."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.canary.audit.audit import audit
from lab.canary.audit.copies import Copies
from lab.canary.audit.log_line import LogLine
from lab.gate.receipts import notes

Make = Callable[..., dict[str, Any]]
START = datetime(2026, 3, 1, 21, 0, 0, tzinfo=UTC)
IDS = ("m1", "m2", "n1", "n2", "u1")


@pytest.fixture
def traffic(receipt: Make, skip: dict[str, Any]) -> list[tuple[datetime, str]]:
    """Return two days of a gateway's events with their times: receipts, skips, a warning and a start."""
    draw = random.Random(4)
    now, events = START, []
    for number in range(300):
        now += timedelta(seconds=draw.uniform(20, 1200))
        value = skip if number % 4 == 0 else receipt(sorted(draw.sample(IDS, 3)), quota=None)
        if number % 4:
            value["vecTop"][0]["score"] = round(0.6 + draw.random() / 4, 6)
        events.append((now, f"openclaw-mem-engine:autoRecall.receipt {json.dumps(value)}"))
        if number % 50 == 0:
            events.append((now + timedelta(seconds=0.4), "openclaw-mem-engine: registered (db=x, receipts=high/6)"))
            events.append((now + timedelta(seconds=2), "openclaw-mem-engine: autoRecall failed: TypeError"))
    return events


def _file(events: Sequence[tuple[datetime, str]]) -> str:
    lines = (json.dumps({"time": at.isoformat(timespec="milliseconds"), "message": text}) for at, text in events)
    return "".join(f"{line}\n" for line in lines)


def _console(events: Sequence[tuple[datetime, str]], shift: timedelta, late: float = 0.02) -> str:
    """Return the events as a console prints them: coloured, with the time of day, and slightly later."""
    stamps = ((at + shift + timedelta(seconds=late), text) for at, text in events)
    return "".join(f"\x1b[90m{at:%H:%M:%S}\x1b[39m [plugins] \x1b[36m{text}\x1b[39m\n" for at, text in stamps)


def _logs(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{number}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, "utf-8")
    return [str(path) for path in paths]


@pytest.mark.parametrize("hours", [0, 8, -9.5, 5.75])
@pytest.mark.parametrize("console_first", [False, True])
def test_copies_file_and_console_count_once(
    tmp_path: Path, traffic: list[tuple[datetime, str]], hours: float, console_first: bool
) -> None:
    texts = [_file(traffic), _console(traffic, timedelta(hours=hours))]
    alone = audit(_logs(tmp_path, texts[0]))
    both = audit(_logs(tmp_path, *(texts[::-1] if console_first else texts)))
    assert both["copies"] == {"count": len(traffic), "lost": 0}
    same = ("recalls", "errors", "skips", "repeat", "stale", "lanes", "limits")
    assert {key: both[key] for key in same} == {key: alone[key] for key in same}
    assert both["damage"]["of"] == alone["damage"]["of"]
    assert f"{len(traffic)} lines also in another log of the same gateway" in notes(both)[0]


def _with_ids(events: Sequence[tuple[datetime, str]]) -> str:
    """Return the events as a host with session and trace ids writes them."""
    lines = (
        {"time": at.isoformat(), "sessionKey": f"s{number % 6}", "traceId": f"t{number}", "message": text}
        for number, (at, text) in enumerate(events)
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines)


@pytest.mark.parametrize("stdin", [None, 0, 1])
def test_copies_do_not_depend_on_log_order(
    tmp_path: Path, traffic: list[tuple[datetime, str]], monkeypatch: pytest.MonkeyPatch, stdin: int | None
) -> None:
    logs = _logs(tmp_path, _with_ids(traffic), _console(traffic, timedelta(hours=8)))
    alone, texts = audit(logs[:1]), [Path(log).read_bytes() for log in logs]
    names = ["-" if number == stdin else log for number, log in enumerate(logs)]
    for order in (names, names[::-1]):
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(texts[stdin]))))
        both = audit(order)
        assert [file["file"] for file in both["files"]] == order
        assert both["copies"]["count"] == len(traffic)
        other = {"files", "lines", "bytes", "copies"}
        assert {key: both[key] for key in both if key not in other} == {
            key: alone[key] for key in alone if key not in other
        }


def test_copies_longer_console_adds_its_extra_lines(tmp_path: Path, traffic: list[tuple[datetime, str]]) -> None:
    file, console = traffic[60:200], traffic[20:260]
    result = audit(_logs(tmp_path, _file(file), _console(console, timedelta(hours=1))))
    assert result["copies"]["count"] == len(file)
    assert result["damage"]["of"] == len(console)


def test_copies_three_logs_of_one_gateway_count_once(tmp_path: Path, traffic: list[tuple[datetime, str]]) -> None:
    journal = "".join(f"Mar 01 {at:%H:%M:%S} host gateway[7]: {text}\n" for at, text in traffic)
    result = audit(_logs(tmp_path, _file(traffic), _console(traffic, timedelta(hours=2)), journal))
    assert (result["copies"]["count"], result["damage"]["of"]) == (2 * len(traffic), len(traffic))


def test_copies_two_gateways_both_count(tmp_path: Path, traffic: list[tuple[datetime, str]]) -> None:
    """Skip receipts are equal everywhere, but equal lines at other times are not copies."""
    draw = random.Random(6)
    other = [
        (at + timedelta(seconds=draw.uniform(100, 90_000)), text) for at, text in traffic if '"skipped": true' in text
    ]
    other.sort(key=lambda event: event[0])
    result = audit(_logs(tmp_path, _file(traffic), _console(other, timedelta(0))))
    assert (result["copies"]["count"], result["damage"]["of"]) == (0, len(traffic) + len(other))


WRITERS = {
    "zoned": _file,
    "naive in JSON": lambda events: _file([(at.replace(tzinfo=None), text) for at, text in events]),
    "naive": lambda events: "".join(f"{at:%F %T}.{at.microsecond // 1000:03} info: {text}\n" for at, text in events),
    "clock": lambda events: _console(events, timedelta(0)),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("alike", [False, True])
def test_copies_scheduled_lines_of_two_days_both_count(
    tmp_path: Path, receipt: Make, write: Callable[[Any], str], alike: bool
) -> None:
    """Check that the same lines exactly one day later, as a schedule produces them, are not copies."""
    value, day = receipt(["m1", "n1"]), []
    for number in range(72):
        value["vecTop"][0]["score"] = 0.5 if alike else round(0.5 + number / 1000, 3)
        at = START.replace(hour=0) + timedelta(minutes=20 * number, seconds=3, milliseconds=120)
        day.append((at, f"openclaw-mem-engine:autoRecall.receipt {json.dumps(value)}"))
    days = [[(at + timedelta(days=later), text) for at, text in day] for later in range(3)]
    result = audit(_logs(tmp_path, *map(write, days)))
    assert (result["copies"]["count"], result["recalls"]["receipts"]) == (0, 216)


@pytest.mark.parametrize("hours", [0, 8, -9.5])
def test_copies_log_without_zone_matches_zoned_log(
    tmp_path: Path, traffic: list[tuple[datetime, str]], hours: float
) -> None:
    local = [(at + timedelta(hours=hours), text) for at, text in traffic]
    result = audit(_logs(tmp_path, _file(traffic), WRITERS["naive"](local)))
    assert (result["copies"]["count"], result["damage"]["of"]) == (len(traffic), len(traffic))


def test_copies_repeats_within_one_log_count(tmp_path: Path, receipt: Make) -> None:
    text = f"openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt(['m1']))}"
    console = [(START + timedelta(seconds=900 * number), text) for number in range(90)]
    result = audit(_logs(tmp_path, _console(console, timedelta(0)), "another log\n"))
    assert (result["copies"]["count"], result["recalls"]["receipts"]) == (0, 90)


def test_copies_forgotten_lines_are_counted_as_lost() -> None:
    copies = Copies(slots=16)
    lines = [(number, LogLine("x", str(number), number, None, True, number)) for number in range(40)]
    assert len(list(copies.without(lines))) == 40
    assert copies.lost > 0
    again = list(copies.without(lines))
    assert 0 < copies.count < 40
    assert len(again) == 40 - copies.count


@pytest.mark.parametrize(("version", "recalls", "copies"), [("2026.6.11", 15, 54), ("2026.9.6", 19, 43)])
def test_copies_real_gateways_match_known_counts(
    shared: Callable[..., Path], version: str, recalls: int, copies: int
) -> None:
    logs = shared("live", "logs")
    both = [str(logs / f"gateway-{version}.log"), str(logs / f"console-{version}.txt")]
    for order in (both, both[::-1]):
        result = audit(order)
        assert (result["recalls"]["receipts"], result["copies"]["count"]) == (recalls, copies)
        assert result["damage"]["lines"] == 0
