"""Lines of logs: plain, wrapped, packed, endless, cut off; what each tells, and what is damaged."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.canary.damage import Damaged
from lab.canary.lines import BLOCK, MAX_LINE, MarkedLines, opened
from lab.canary.said import payload, read_line
from lab.errors import UnusableInput

MARK = b"openclaw-mem-engine:autoRecall.receipt"


class Trickle(io.BytesIO):
    """Hands out so few bytes at a time that every marker lies across two blocks."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(7)


def _found(data: bytes, kind: type[io.BytesIO] = io.BytesIO) -> tuple[list[tuple[int, bytes | None]], int]:
    lines = MarkedLines(kind(data))
    return list(lines), lines.lines


@pytest.mark.parametrize("kind", [io.BytesIO, Trickle])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_marked_lines_and_their_numbers(kind: type[io.BytesIO], end: bytes) -> None:
    data = b"\n".join([b"other", MARK + b" 1", b"", b"x" * 50, b"a " + MARK + b" 2 " + MARK, MARK + b" 3"]) + end
    assert _found(data, kind) == ([(2, MARK + b" 1"), (5, b"a " + MARK + b" 2 " + MARK), (6, MARK + b" 3")], 6)


def test_nothing_and_nobody() -> None:
    assert _found(b"") == ([], 0)
    assert _found(b"\n\nother") == ([], 3)


def test_blocks_end_anywhere() -> None:
    filler = b"y" * 99 + b"\n"
    for shift in range(0, len(MARK) + 3, 5):
        data = filler * (BLOCK // 100) + b"z" * (BLOCK % 100 - shift) + MARK + b"\n" + filler + MARK
        number = BLOCK // 100 + 1
        assert [line for line, _ in _found(data)[0]] == [number, number + 2]


@pytest.mark.parametrize("end", [b"", b"\nother\n" + MARK + b"\n"])
def test_an_endless_line_is_named_and_not_held(end: bytes) -> None:
    data = b"first\n" + b"x" * (MAX_LINE + BLOCK) + MARK + b"x" * (3 * BLOCK) + end
    found, lines = _found(data)
    assert found == ([(2, None), (4, MARK)] if end else [(2, None)])
    assert lines == (4 if end else 2)
    # One of others is none of ours.
    assert _found(data.replace(MARK, b"", 1))[0] == ([(4, MARK)] if end else [])


def test_packed_files_and_what_is_left_of_them(tmp_path: Path) -> None:
    lines = b"".join(MARK + b" %d\n" % number for number in range(5000))
    whole = tmp_path / "whole.log"
    whole.write_bytes(gzip.compress(lines))
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(gzip.compress(lines)[:-9000])
    broken = tmp_path / "broken.log.gz"
    broken.write_bytes(gzip.compress(lines)[:4000] + b"\xff" * 4000)
    with opened(str(whole)) as one:
        assert (len(list(one)), one.lines, one.broken) == (5000, 5000, None)
    with opened(str(cut)) as one:
        assert 0 < len(list(one)) < 5000
        assert one.broken == "the gzip file is cut off"
    with opened(str(broken)) as one:
        assert len(list(one)) < 5000
        assert one.broken == "the gzip file is damaged"


@pytest.mark.parametrize("name", ["nowhere.log", "."])
def test_what_is_no_file(tmp_path: Path, name: str) -> None:
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
def test_what_a_line_tells(line: str, time: float | None, session: str | None) -> None:
    said = read_line(line.encode())
    assert (said.name, said.time, said.session) == ("autoRecall.receipt", time, session)
    assert payload(said) == {"a": 1}


@pytest.mark.parametrize("half", [r"\ud83d", r"\uD83D"])
def test_half_a_character_is_json(half: str) -> None:
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
def test_lines_that_are_damaged(line: bytes, kind: str) -> None:
    with pytest.raises(Damaged) as caught:
        payload(read_line(line))
    assert caught.value.kind == kind


def test_names_of_markers(line: Callable[..., str]) -> None:
    def name(text: str) -> tuple[str, str]:
        said: Any = read_line(text.encode())
        return said.name, said.rest

    assert name(line({}, "docsColdLane.search")) == ("docsColdLane.search", " {}")
    assert name("openclaw-mem-engine:promptHook.dedupe") == ("promptHook.dedupe", "")
    assert name("openclaw-mem-engine:scopeValidation write=import") == ("scopeValidation", " write=import")
    assert name("warn openclaw-mem-engine: autoRecall failed: Error") == ("", " autoRecall failed: Error")
