"""Tests of reading logs: plain lines, JSON lines, gzip, very long and truncated lines, and damage."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.canary.audit.check import Damaged
from lab.canary.audit.lines import MAX_LINE, MarkedLines, opened
from lab.canary.audit.log_line import payload, read_line
from lab.canary.audit.streams import BLOCK

MARK = b"openclaw-mem-engine:autoRecall.receipt"


class Trickle(io.BytesIO):
    """A stream that returns so few bytes at a time that every marker spans two blocks."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(7)


def _marked_lines(data: bytes, kind: type[io.BytesIO] = io.BytesIO) -> tuple[list[tuple[int, bytes | None]], int]:
    lines = MarkedLines(kind(data))
    return list(lines), lines.lines


@pytest.mark.parametrize("kind", [io.BytesIO, Trickle])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_marked_lines_have_their_numbers(kind: type[io.BytesIO], end: bytes) -> None:
    data = b"\n".join([b"other", MARK + b" 1", b"", b"x" * 50, b"a " + MARK + b" 2 " + MARK, MARK + b" 3"]) + end
    assert _marked_lines(data, kind) == ([(2, MARK + b" 1"), (5, b"a " + MARK + b" 2 " + MARK), (6, MARK + b" 3")], 6)


def test_marked_lines_empty_or_unmarked_input() -> None:
    assert _marked_lines(b"") == ([], 0)
    assert _marked_lines(b"\n\nother") == ([], 3)


def test_marked_lines_any_block_boundary() -> None:
    filler = b"y" * 99 + b"\n"
    for shift in range(0, len(MARK) + 3, 5):
        data = filler * (BLOCK // 100) + b"z" * (BLOCK % 100 - shift) + MARK + b"\n" + filler + MARK
        number = BLOCK // 100 + 1
        assert [line for line, _ in _marked_lines(data)[0]] == [number, number + 2]


@pytest.mark.parametrize("end", [b"", b"\nother\n" + MARK + b"\n"])
def test_marked_lines_too_long_line_is_none(end: bytes) -> None:
    data = b"first\n" + b"x" * (MAX_LINE + BLOCK) + MARK + b"x" * (3 * BLOCK) + end
    lines_found, lines = _marked_lines(data)
    assert lines_found == ([(2, None), (4, MARK)] if end else [(2, None)])
    assert lines == (4 if end else 2)
    # A marker of another plugin is ignored.
    assert _marked_lines(data.replace(MARK, b"", 1))[0] == ([(4, MARK)] if end else [])


def test_opened_gzip_complete_truncated_and_damaged(tmp_path: Path) -> None:
    lines = b"".join(MARK + b" %d\n" % number for number in range(5000))
    complete = tmp_path / "whole.log"
    complete.write_bytes(gzip.compress(lines))
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(gzip.compress(lines)[:-9000])
    broken = tmp_path / "broken.log.gz"
    broken.write_bytes(gzip.compress(lines)[:4000] + b"\xff" * 4000)
    with opened(str(complete)) as log:
        assert (len(list(log)), log.lines, log.broken) == (5000, 5000, None)
    with opened(str(cut)) as log:
        assert 0 < len(list(log)) < 5000
        assert log.broken == "the gzip file is truncated"
    with opened(str(broken)) as log:
        assert len(list(log)) < 5000
        assert log.broken == "the gzip file is damaged"


@pytest.mark.parametrize("name", ["nowhere.log", "."])
def test_opened_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnusableInput), opened(str(tmp_path / name)):
        pass


WRAPPED = 'openclaw-mem-engine:autoRecall.receipt {"a":1}'


@pytest.mark.parametrize(
    ("line", "time", "session"),
    [
        (f"2026-03-01T09:00:00.250Z [plugins] {WRAPPED}", 1772355600.25, None),
        (
            f"2026-03-01 10:00:00,250+01:00 info sessionKey=agent:main {WRAPPED} (took 3 ms)",
            1772355600.25,
            "agent:main",
        ),
        (f"[2026-03-01 09:00] session: s1, {WRAPPED}\x1b[0m\r", 1772355600.0, "s1"),
        (WRAPPED, None, None),
        (f"\x1b[36m{WRAPPED}".replace(" {", "\x1b[39m {"), None, None),
        (f"{{plugins}} {WRAPPED}", None, None),
        (json.dumps({"time": "2026-03-01T09:00:00Z", "sessionId": "s2", "msg": WRAPPED}), 1772355600.0, "s2"),
        (json.dumps({"0": f"[x] {WRAPPED}", "_meta": {"date": 1772355600250, "session": "s3"}}), 1772355600.25, "s3"),
        (json.dumps({"ts": 1772355600, "deep": {"args": [1, WRAPPED]}}), 1772355600.0, None),
        (json.dumps({"log": f"2026-03-01T09:00:00Z session=s4 {WRAPPED}\n", "time": "soon"}), 1772355600.0, "s4"),
    ],
)
def test_read_line_finds_time_and_session(line: str, time: float | None, session: str | None) -> None:
    entry = read_line(line.encode())
    assert (entry.name, entry.time, entry.session) == ("autoRecall.receipt", time, session)
    assert payload(entry) == {"a": 1}


@pytest.mark.parametrize("half", [r"\ud83d", r"\uD83D"])
def test_read_line_accepts_lone_surrogates(half: str) -> None:
    line = f'openclaw-mem-engine:autoRecall.receipt {{"scope":"{half}"}}'.encode()
    assert payload(read_line(line)) == {"scope": "\ud83d"}
    wrapped = b'{"msg":"openclaw-mem-engine:autoRecall.receipt {}","x":"%s"}' % half.encode()
    assert payload(read_line(wrapped)) == {}


DEEP = '{"a":' * 100_000


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (MARK, "no_json"),
        (MARK + b" written", "no_json"),
        (MARK + b" [1]", "no_json"),
        (MARK + b' {"a":1', "cut_off"),
        (MARK + b' {"a":"on', "cut_off"),
        (MARK + b" {", "cut_off"),
        (json.dumps({"time": "2026-03-01T09:00:00Z", "msg": WRAPPED}).encode()[:-6], "cut_off"),
        (MARK + b' {"a" 1}', "not_json"),
        (json.dumps({"msg": WRAPPED, "n": 1}).encode().replace(b": 1}", b" 1}"), "not_json"),
        (MARK + b" {'a':1}", "not_json"),
        (MARK + b" " + DEEP.encode(), "not_json"),
        (MARK + b' {"a":"\xff\xfe"}', "not_utf8"),
        (b'{"x":"\xe4","msg":"' + MARK + b' {}"}', "not_utf8"),
    ],
    ids=range(13),
)
def test_read_line_damaged_lines_raise(line: bytes, kind: str) -> None:
    with pytest.raises(Damaged) as caught:
        payload(read_line(line))
    assert caught.value.kind == kind


def test_read_line_finds_marker_names(line: Callable[..., str]) -> None:
    def name(text: str) -> tuple[str, str]:
        entry: Any = read_line(text.encode())
        return entry.name, entry.rest

    assert name(line({}, "docsColdLane.search")) == ("docsColdLane.search", " {}")
    assert name("openclaw-mem-engine:promptHook.dedupe") == ("promptHook.dedupe", "")
    assert name("openclaw-mem-engine:scopeValidation write=import") == ("scopeValidation", " write=import")
    assert name("warn openclaw-mem-engine: autoRecall failed: Error") == ("", " autoRecall failed: Error")
