"""A file log and the console of one gateway: what both hold counts once, and what recurs in one of them is traffic."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.audit.audit import audit
from lab.audit.copies import Copies
from lab.audit.notes import notes
from lab.audit.said import Said

Make = Callable[..., dict[str, Any]]
START = datetime(2026, 3, 1, 21, 0, 0, tzinfo=UTC)
IDS = ("m1", "m2", "n1", "n2", "u1")


@pytest.fixture
def traffic(receipt: Make, skip: dict[str, Any]) -> list[tuple[datetime, str]]:
    """Lines of a gateway over two days with their times: receipts, skips, a warning, a start."""
    draw = random.Random(4)
    now, said = START, []
    for number in range(300):
        now += timedelta(seconds=draw.uniform(20, 1200))
        value = skip if number % 4 == 0 else receipt(sorted(draw.sample(IDS, 3)), quota=None)
        if number % 4:
            value["vecTop"][0]["score"] = round(0.6 + draw.random() / 4, 6)
        said.append((now, f"openclaw-mem-engine:autoRecall.receipt {json.dumps(value)}"))
        if number % 50 == 0:
            said.append((now + timedelta(seconds=0.4), "openclaw-mem-engine: registered (db=x, receipts=high/6)"))
            said.append((now + timedelta(seconds=2), "openclaw-mem-engine: autoRecall failed: TypeError"))
    return said


def _file(said: Sequence[tuple[datetime, str]]) -> str:
    lines = (json.dumps({"time": at.isoformat(timespec="milliseconds"), "message": text}) for at, text in said)
    return "".join(f"{line}\n" for line in lines)


def _console(said: Sequence[tuple[datetime, str]], shift: timedelta, late: float = 0.02) -> str:
    """As a console shows it: coloured, the second of a day somewhere, written a little later."""
    stamps = ((at + shift + timedelta(seconds=late), text) for at, text in said)
    return "".join(f"\x1b[90m{at:%H:%M:%S}\x1b[39m [plugins] \x1b[36m{text}\x1b[39m\n" for at, text in stamps)


def _logs(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{number}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, "utf-8")
    return [str(path) for path in paths]


@pytest.mark.parametrize("hours", [0, 8, -9.5, 5.75])
@pytest.mark.parametrize("console_first", [False, True])
def test_file_and_console_are_one_traffic(
    tmp_path: Path, traffic: list[tuple[datetime, str]], hours: float, console_first: bool
) -> None:
    texts = [_file(traffic), _console(traffic, timedelta(hours=hours))]
    alone = audit(_logs(tmp_path, texts[0]))
    both = audit(_logs(tmp_path, *(texts[::-1] if console_first else texts)))
    assert both["copies"] == {"count": len(traffic), "lost": 0}
    same = ("recalls", "errors", "skips", "repeat", "stale", "lanes", "limits")
    assert {key: both[key] for key in same} == {key: alone[key] for key in same}
    assert both["damage"]["of"] == alone["damage"]["of"]
    assert f"{len(traffic)} lines of a second log of the same gateway left out" in notes(both)[0]


def test_a_console_that_goes_on_longer_adds_what_the_file_lacks(
    tmp_path: Path, traffic: list[tuple[datetime, str]]
) -> None:
    file, console = traffic[60:200], traffic[20:260]
    found = audit(_logs(tmp_path, _file(file), _console(console, timedelta(hours=1))))
    assert found["copies"]["count"] == len(file)
    assert found["damage"]["of"] == len(console)


def test_three_logs_of_one_gateway_are_one_traffic(tmp_path: Path, traffic: list[tuple[datetime, str]]) -> None:
    journal = "".join(f"Mar 01 {at:%H:%M:%S} host gateway[7]: {text}\n" for at, text in traffic)
    found = audit(_logs(tmp_path, _file(traffic), _console(traffic, timedelta(hours=2)), journal))
    assert (found["copies"]["count"], found["damage"]["of"]) == (2 * len(traffic), len(traffic))


def test_two_gateways_are_two_traffics(tmp_path: Path, traffic: list[tuple[datetime, str]]) -> None:
    """Skips are equal wherever they are logged: equal lines at other times are no copies."""
    draw = random.Random(6)
    other = [
        (at + timedelta(seconds=draw.uniform(100, 90_000)), text) for at, text in traffic if '"skipped": true' in text
    ]
    other.sort(key=lambda one: one[0])
    found = audit(_logs(tmp_path, _file(traffic), _console(other, timedelta(0))))
    assert (found["copies"]["count"], found["damage"]["of"]) == (0, len(traffic) + len(other))


def test_rotated_logs_of_days_with_the_same_habits_are_two_traffics(
    tmp_path: Path, traffic: list[tuple[datetime, str]]
) -> None:
    """The same lines a day later, to the second, as a schedule makes them: the dates tell them apart."""
    later = [(at + timedelta(days=3), text) for at, text in traffic]
    found = audit(_logs(tmp_path, _file(traffic), _file(later)))
    assert (found["copies"]["count"], found["damage"]["of"]) == (0, 2 * len(traffic))


def test_what_recurs_in_one_log_is_traffic(tmp_path: Path, receipt: Make) -> None:
    text = f"openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt(['m1']))}"
    console = [(START + timedelta(seconds=900 * number), text) for number in range(90)]
    found = audit(_logs(tmp_path, _console(console, timedelta(0)), "another log\n"))
    assert (found["copies"]["count"], found["recalls"]["receipts"]) == (0, 90)


def test_lines_that_no_longer_fit_are_lost_and_counted() -> None:
    copies = Copies(slots=16)
    lines = [(number, Said("x", str(number), None, None, clock=float(number))) for number in range(40)]
    assert len(list(copies.without(lines))) == 40
    assert copies.lost > 0
    again = list(copies.without(lines))
    assert 0 < copies.count < 40
    assert len(again) == 40 - copies.count


@pytest.mark.parametrize(("version", "recalls", "copies"), [("2026.6.11", 15, 54), ("2026.9.6", 19, 43)])
def test_logs_and_consoles_of_real_gateways(
    shared: Callable[..., Path], version: str, recalls: int, copies: int
) -> None:
    logs = shared("live", "logs")
    both = [str(logs / f"gateway-{version}.log"), str(logs / f"console-{version}.txt")]
    for order in (both, both[::-1]):
        found = audit(order)
        assert (found["recalls"]["receipts"], found["copies"]["count"]) == (recalls, copies)
        assert found["damage"]["lines"] == 0
