"""Two receipts of one turn: by trace, by time, and what is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.canary.audit import audit
from lab.canary.notes import notes

Make = Callable[..., dict[str, Any]]
CAPTURE = {
    "schema": "openclaw-mem-engine.autoCapture.receipt.v1",
    "verbosity": "low",
    "candidateExtractionCount": 0,
    "filteredOut": {},
    "storedCount": 0,
}


def _said(value: Any, marker: str = "autoRecall.receipt") -> str:
    return f"openclaw-mem-engine:{marker} {json.dumps(value, separators=(',', ':'))}"


def _file(text: str, second: float, **ids: str) -> str:
    return json.dumps({"1": text, "time": f"2026-03-01T09:00:{second:06.3f}+00:00", "message": text, **ids})


def _console(text: str, second: int) -> str:
    return f"\x1b[90m09:00:{second:02}\x1b[39m \x1b[35m[plugins]\x1b[39m \x1b[36m{text}\x1b[39m"


def _read(folder: Path, lines: Sequence[str]) -> dict[str, Any]:
    (folder / "gateway.log").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return audit([str(folder / "gateway.log")])


def test_pairs_of_one_trace_are_one_recall(tmp_path: Path, receipt: Make) -> None:
    one, other = _said(receipt(["m1", "n1"])), _said(receipt(["m2", "n1"]))
    lines = [
        _file(one, 1.0, traceId="a", spanId="1"),
        _file(one, 4.9, traceId="a", spanId="2", parentSpanId="1"),
        _file(_said(CAPTURE, "autoCapture.receipt"), 5.5, traceId="a"),
        # The second of this turn saw what the first had written, and is a child of it.
        _file(other, 20.0, traceId="b", spanId="3"),
        _file(one, 20.5, traceId="b", spanId="4", parentSpanId="3"),
    ]
    found = _read(tmp_path, lines)
    assert (found["recalls"]["receipts"], found["recalls"]["answered"]) == (2, 2)
    assert found["pairs"] == {
        "count": 2,
        "by_trace": 2,
        "by_time": 0,
        "differing": 1,
        "injected": 2,
        "undecided": 0,
        "injected_rate": 1.0,
    }
    assert found["repeat"]["turns"] == 1
    assert "2 of 2 recalls have a second receipt of the same turn" in notes(found)[0]


@pytest.mark.parametrize(
    "second",
    [
        # Another trace; the same one, but another answer by nobody's child.
        {"traceId": "b"},
        {"traceId": "a", "changed": "yes"},
        # The same trace and a child's span, long after.
        {"traceId": "a", "parentSpanId": "1", "at": "30"},
        {"traceId": "a", "parentSpanId": "1", "at": "30", "changed": "yes"},
    ],
)
def test_receipts_of_other_turns_are_no_pair(tmp_path: Path, receipt: Make, second: dict[str, str]) -> None:
    ids = {key: text for key, text in second.items() if key not in ("changed", "at")}
    changed, at = second.get("changed"), float(second.get("at", 1.5))
    texts = [_said(receipt(["m1", "n1"])), _said(receipt(["m2"] if changed else ["m1", "n1"]))]
    found = _read(tmp_path, [_file(texts[0], 1.0, traceId="a", spanId="1"), _file(texts[1], at, **ids)])
    assert (found["recalls"]["receipts"], found["pairs"]["count"]) == (2, 0)


@pytest.mark.parametrize(("gap", "pairs"), [(0, 1), (4, 1), (5, 0)])
def test_equal_receipts_on_a_console_pair_within_four_seconds(
    tmp_path: Path, receipt: Make, gap: int, pairs: int
) -> None:
    text = _said(receipt(["m1", "n1"]))
    found = _read(tmp_path, [_console(text, 10), _console(text, 10 + gap)])
    assert (found["pairs"]["by_time"], found["recalls"]["receipts"]) == (pairs, 2 - pairs)


def test_equal_neighbours_of_one_whole_second_are_a_pair(tmp_path: Path, receipt: Make) -> None:
    """A journal tells no parts of a second; with parts, the same line again is a duplicate."""
    text = _said(receipt(["m1", "n1"]))
    found = _read(tmp_path, [f"2026-03-01T09:00:01Z {text}"] * 2)
    assert (found["pairs"]["by_time"], found["damage"]["lines"], found["recalls"]["receipts"]) == (1, 0, 1)
    found = _read(tmp_path, [f"2026-03-01T09:00:01.250Z {text}"] * 2)
    assert (found["pairs"]["count"], found["damage"]["duplicates"], found["recalls"]["receipts"]) == (0, 1, 1)


def test_a_capture_between_them_ends_the_turn(tmp_path: Path, receipt: Make) -> None:
    text = _said(receipt(["m1", "n1"]))
    found = _read(
        tmp_path, [_console(text, 10), _console(_said(CAPTURE, "autoCapture.receipt"), 11), _console(text, 12)]
    )
    assert (found["pairs"]["count"], found["recalls"]["receipts"]) == (0, 2)


def test_a_stream_of_equal_receipts_is_halved_at_most(tmp_path: Path, receipt: Make) -> None:
    """A frozen engine on a busy gateway must not look like one recall."""
    text = _said(receipt(["m1", "n1"]))
    found = _read(tmp_path, [_console(text, second) for second in range(40)])
    assert (found["pairs"]["count"], found["recalls"]["receipts"]) == (20, 20)
    assert found["stale"]["rate"] == 19 / 20


def test_sessions_that_are_named_are_kept_apart(tmp_path: Path, receipt: Make, line: Callable[..., str]) -> None:
    lines = [line(receipt(["m1"]), at=at, session=session) for at, session in ((1, "a"), (2, "b"), (3, "a"))]
    found = _read(tmp_path, lines)
    assert (found["pairs"]["count"], found["recalls"]["receipts"]) == (1, 2)


@pytest.mark.parametrize("named", [False, True])
def test_pairs_of_many_sessions_at_once_are_found(
    tmp_path: Path, receipt: Make, line: Callable[..., str], named: bool
) -> None:
    """Twenty sessions, two hooks each, a second apart: all the firsts stand before all the seconds."""
    value, lines = receipt(["m1", "n1"]), []
    for at in (1, 2):
        for number in range(20):
            value["vecTop"][0]["score"] = 0.5 if named else round(0.5 + number / 100, 2)
            lines.append(line(value, at=at, session=f"s{number}" if named else None))
    found = _read(tmp_path, lines)
    assert (found["pairs"]["count"], found["recalls"]["receipts"]) == (20, 20)


def test_lines_without_a_time_are_left_undecided_and_noted(tmp_path: Path, receipt: Make) -> None:
    found = _read(tmp_path, [_said(receipt(["m1"]))] * 2)
    assert (found["pairs"]["undecided"], found["recalls"]["receipts"]) == (1, 2)
    assert notes(found)[0].startswith("1 receipt equal to the one before, in lines without a time")


def test_both_hooks_of_a_real_gateway(shared: Callable[..., Path]) -> None:
    """Of 27 receipts 12 are seconds; by the console's clock the same of those that it still shows."""
    logs = shared("live", "logs")
    found = audit([str(logs / "gateway-2026.6.11.log")])
    assert (found["recalls"]["receipts"], found["pairs"]["by_trace"], found["pairs"]["injected"]) == (15, 12, 9)
    shown = audit([str(logs / "console-2026.6.11.txt")])
    assert (shown["recalls"]["receipts"], shown["pairs"]["by_time"], shown["pairs"]["injected"]) == (14, 11, 8)
    for name in ("gateway-2026.9.6.log", "console-2026.9.6.txt"):
        assert audit([str(logs / name)])["pairs"]["count"] == 0
