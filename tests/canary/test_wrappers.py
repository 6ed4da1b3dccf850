"""Tests of logs as collectors keep them: the audit equals that of the gateway's own log, with its times."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.canary.audit.audit import audit
from lab.canary.audit.log_line import read_line
from lab.canary.rollout.live_figures import Gateway
from tests.canary.wrapping import ENCODINGS, FORMS, WITHIN, Events, Form, nested

Make = Callable[..., dict[str, Any]]
START = datetime(2026, 3, 1, 9, 0, 0, 250_000, tzinfo=UTC)
COMPARED = ("recalls", "markers", "first_time", "last_time", "timed_lines", "repeat", "pairs", "errors")


@pytest.fixture(scope="module")
def events(receipt: Make, skip: dict[str, Any]) -> list[tuple[datetime, str]]:
    """Times with what the engine and other parts of a gateway logged: 14 receipts, a failure, a start, two others."""
    texts = ["openclaw-mem-engine: registered (db=x, receipts=high/6)", "loaded openclaw-mem-engine:memory_store"]
    for number in range(14):
        value = skip if number % 5 == 4 else receipt([f"m{number}", f"n{number % 3}", "u1ü"], scope="küche")
        texts.append(f"openclaw-mem-engine:autoRecall.receipt {json.dumps(value, ensure_ascii=False)}")
        if number % 4 == 3:
            texts.append('heartbeat {"started":"openclaw"}')
    texts.append("openclaw-mem-engine: autoRecall failed: TypeError")
    return [(START + timedelta(seconds=7 * number), text) for number, text in enumerate(texts)]


def _file_line(at: datetime, text: str) -> str:
    label, when = json.dumps({"subsystem": "plugins"}), at.isoformat(timespec="milliseconds")
    meta = {"runtime": "node", "date": f"{when[:-6]}Z", "logLevelName": "INFO", "name": label}
    return json.dumps(
        {"0": label, "1": text, "_meta": meta, "time": when, "message": text}, separators=(",", ":"), ensure_ascii=False
    )


def _file(events: Events) -> Events:
    """Return the events as the gateway's log file has them."""
    return [(at, _file_line(at, text)) for at, text in events]


def _console(events: Events) -> Events:
    """Return the events as the console has them: with colours, and with the time of day in another zone."""
    local = timedelta(hours=8)
    return [
        (at, f"\x1b[90m{at + local:%H:%M:%S}\x1b[39m \x1b[35m[plugins]\x1b[39m \x1b[36m{text}\x1b[39m")
        for at, text in events
    ]


def _plain(events: Events) -> Events:
    """Return the events as the engine hands them over."""
    return list(events)


def _audit(folder: Path, data: bytes) -> dict[str, Any]:
    path = folder / "gateway.log"
    path.write_bytes(data)
    result = audit([str(path)])
    assert result["damage"]["listed"] == []
    assert "not_understood" not in result
    return result


@pytest.fixture
def expected(tmp_path: Path, events: Events) -> dict[str, Any]:
    """The audit of the gateway's own log."""
    result = _audit(tmp_path, "".join(f"{line}\n" for _, line in _file(events)).encode())
    assert (result["recalls"]["receipts"], result["markers"]["mentions"]) == (14, 1)
    assert (result["first_time"], result["timed_lines"]) == ("2026-03-01T09:00:00.250Z", 16)
    return {key: result[key] for key in COMPARED}


# Every form around the log file, and around one of the other two.
@pytest.mark.parametrize(
    ("base", "form"),
    [
        pytest.param(base, FORMS[name], id=f"{base.__name__[1:]} in {name}")
        for number, name in enumerate(FORMS)
        for base in (_file, *((_console, _plain)[number % 2 : number % 2 + 1]))
    ],
)
def test_audit_of_wrapped_log_equals_own_log(
    tmp_path: Path, events: Events, expected: dict[str, Any], form: Form, base: Callable[[Events], Events]
) -> None:
    result = _audit(tmp_path, form(base(events)))
    assert {key: result[key] for key in COMPARED} == expected


@pytest.mark.parametrize(
    ("inner", "outer"), [(WITHIN[number % len(WITHIN)], outer) for number, outer in enumerate(FORMS)]
)
def test_audit_of_log_wrapped_twice_equals_own_log(
    tmp_path: Path, events: Events, expected: dict[str, Any], inner: str, outer: str
) -> None:
    result = _audit(tmp_path, nested(FORMS[inner], FORMS[outer])(_file(events)))
    assert {key: result[key] for key in COMPARED} == expected


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("form", ["ts", "docker json-file", "loki answer", "kubernetes in parts"])
def test_audit_of_log_in_another_encoding_equals_own_log(
    tmp_path: Path, events: Events, expected: dict[str, Any], form: str, encode: Callable[[bytes], bytes]
) -> None:
    result = _audit(tmp_path, encode(FORMS[form](_file(events))))
    assert {key: result[key] for key in COMPARED} == expected


@pytest.mark.parametrize("form", ["docker json-file", "kubernetes", "journal json", "fluent bit json"])
def test_gateway_of_wrapped_lines_counts_as_own_log(events: Events, form: str) -> None:
    seen = []
    for base in (_plain(events), _file(events)):
        for lines in ("".join(f"{text}\n" for _, text in base).encode(), FORMS[form](base)):
            gateway = Gateway()
            found = [one for line in lines.splitlines() for one in gateway.log_line(line)]
            seen.append((found, dict(gateway.counts)))
    assert seen[0][1]["receipts"] == 14
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_audit_of_log_in_one_byte_a_letter(
    tmp_path: Path, events: Events, expected: dict[str, Any], encoding: str
) -> None:
    result = _audit(tmp_path, FORMS["ts"](_file(events)).decode().encode(encoding))
    assert {key: result[key] for key in COMPARED} == expected


def test_audit_counts_every_line_of_a_text_of_several_lines(tmp_path: Path, events: Events) -> None:
    texts = "\n".join(text for _, text in _plain(events))
    result = _audit(tmp_path, json.dumps({"__REALTIME_TIMESTAMP": "1772355600250000", "MESSAGE": texts}).encode())
    # All have the time of the text, so the second of the two equal receipts is taken for that of a second hook.
    assert (result["recalls"]["receipts"], result["pairs"]["by_time"], result["timed_lines"]) == (13, 1, 16)


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ('{"ts":1772355600250000000,"msg":"%s"}', 1772355600.25),
        ('{"uptime":1234567,"eventTime":"Sun, 01 Mar 2026 09:00:00 GMT","msg":"%s"}', 1772355600.0),
        ('{"ingestionTime":1772359999000,"timestamp":"1772355600250","msg":"%s"}', 1772355600.25),
        ('{"receivedAt":"2026-03-01T10:00:00Z","event":{"created_time":1772355600,"text":"%s"}}', 1772355600.0),
        ('{"log":"2026-03-01T09:00:00Z %s","time":"2026-03-01T09:07:00Z"}', 1772355600.0),
        ('{"log":"2026-03-01 17:00:00 %s","time":"2026-03-01T09:00:00Z"}', 1772355600.0),
        ("1.2.3.4 - - [01/Mar/2026:10:00:00 +0100] %s", 1772355600.0),
        ("2026-03-01T08:59:59Z stdout F 2026-03-01T09:00:00Z %s", 1772355600.0),
        ("1772355600250 %s", 1772355600.25),
        ("pid 1772355 took 12345678901 ms: %s", None),
    ],
)
def test_read_line_time_of_wrapper(line: str, time: float | None) -> None:
    entry = read_line((line % "openclaw-mem-engine: registered").encode())
    assert (entry.name, entry.time) == ("", time)
    assert entry.rest.startswith(" registered")


@pytest.mark.parametrize(("name", "receipts"), [("docker-json.log", 19), ("loki.jsonl", 19), ("base.log", 19)])
def test_audit_of_shared_logs(shared: Callable[..., Path], name: str, receipts: int) -> None:
    result = audit([str(shared("cases", "13-log-wrapped-json") / name)])
    assert (result["recalls"]["receipts"], result["damage"]["lines"], result["timed_lines"]) == (receipts, 0, 47)
    assert (result["first_time"], result["last_time"]) == ("2026-11-22T15:17:36.777Z", "2026-11-22T15:20:17.885Z")


@pytest.mark.parametrize(
    ("name", "receipts", "first"),
    [("utf16.log", 19, "2026-11-22T15:17:36.777Z"), ("journal-json.log", 17, "2026-11-22T15:16:38.000Z")],
)
def test_audit_of_shared_encodings(shared: Callable[..., Path], name: str, receipts: int, first: str) -> None:
    result = audit([str(shared("cases", "14-log-encodings") / name)])
    assert (result["recalls"]["receipts"], result["damage"]["lines"], result["first_time"]) == (receipts, 0, first)
