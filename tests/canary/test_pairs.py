"""Tests of pairs of receipts of one turn: by trace id, by time, and receipts that are not pairs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.canary.audit.audit import audit
from lab.gate.receipts import notes

Make = Callable[..., dict[str, Any]]
CAPTURE = {
    "schema": "openclaw-mem-engine.autoCapture.receipt.v1",
    "verbosity": "low",
    "candidateExtractionCount": 0,
    "filteredOut": {},
    "storedCount": 0,
}


def _marked(value: Any, marker: str = "autoRecall.receipt") -> str:
    return f"openclaw-mem-engine:{marker} {json.dumps(value, separators=(',', ':'))}"


def _file(text: str, second: float, **ids: str) -> str:
    return json.dumps({"1": text, "time": f"2026-03-01T09:00:{second:06.3f}+00:00", "message": text, **ids})


def _console(text: str, second: int) -> str:
    return f"\x1b[90m09:00:{second:02}\x1b[39m \x1b[35m[plugins]\x1b[39m \x1b[36m{text}\x1b[39m"


def _read(folder: Path, lines: Sequence[str]) -> dict[str, Any]:
    (folder / "gateway.log").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return audit([str(folder / "gateway.log")])


def test_pairs_with_one_trace_count_as_one_recall(tmp_path: Path, receipt: Make) -> None:
    shared, different = _marked(receipt(["m1", "n1"])), _marked(receipt(["m2", "n1"]))
    lines = [
        _file(shared, 1.0, traceId="a", spanId="1"),
        _file(shared, 4.9, traceId="a", spanId="2", parentSpanId="1"),
        _file(_marked(CAPTURE, "autoCapture.receipt"), 5.5, traceId="a"),
        # The second recall of this turn saw the first one's block, and its span is a child.
        _file(different, 20.0, traceId="b", spanId="3"),
        _file(shared, 20.5, traceId="b", spanId="4", parentSpanId="3"),
    ]
    result = _read(tmp_path, lines)
    assert (result["recalls"]["receipts"], result["recalls"]["answered"]) == (2, 2)
    assert result["pairs"] == {
        "count": 2,
        "by_trace": 2,
        "by_time": 0,
        "differing": 1,
        "injected": 2,
        "undecided": 0,
        "injected_rate": 1.0,
    }
    assert result["repeat"]["turns"] == 1
    assert "2 of 2 recalls have a second receipt for the same turn" in notes(result)[0]


@pytest.mark.parametrize(
    "second",
    [
        # Another trace id; then the same trace id with another answer and without a parent.
        {"traceId": "b"},
        {"traceId": "a", "changed": "yes"},
        # The same trace id and a child span, but much later.
        {"traceId": "a", "parentSpanId": "1", "at": "30"},
        {"traceId": "a", "parentSpanId": "1", "at": "30", "changed": "yes"},
    ],
)
def test_pairs_receipts_of_other_turns_do_not_pair(tmp_path: Path, receipt: Make, second: dict[str, str]) -> None:
    ids = {key: text for key, text in second.items() if key not in ("changed", "at")}
    changed, at = second.get("changed"), float(second.get("at", 1.5))
    texts = [_marked(receipt(["m1", "n1"])), _marked(receipt(["m2"] if changed else ["m1", "n1"]))]
    result = _read(tmp_path, [_file(texts[0], 1.0, traceId="a", spanId="1"), _file(texts[1], at, **ids)])
    assert (result["recalls"]["receipts"], result["pairs"]["count"]) == (2, 0)


@pytest.mark.parametrize(("gap", "pairs"), [(0, 1), (4, 1), (5, 0)])
def test_pairs_on_a_console_within_four_seconds(tmp_path: Path, receipt: Make, gap: int, pairs: int) -> None:
    text = _marked(receipt(["m1", "n1"]))
    result = _read(tmp_path, [_console(text, 10), _console(text, 10 + gap)])
    assert (result["pairs"]["by_time"], result["recalls"]["receipts"]) == (pairs, 2 - pairs)


def test_pairs_equal_lines_of_one_whole_second(tmp_path: Path, receipt: Make) -> None:
    """Check that equal lines pair if their times have whole seconds, and else are duplicates."""
    text = _marked(receipt(["m1", "n1"]))
    result = _read(tmp_path, [f"2026-03-01T09:00:01Z {text}"] * 2)
    assert (result["pairs"]["by_time"], result["damage"]["lines"], result["recalls"]["receipts"]) == (1, 0, 1)
    result = _read(tmp_path, [f"2026-03-01T09:00:01.250Z {text}"] * 2)
    assert (result["pairs"]["count"], result["damage"]["duplicates"], result["recalls"]["receipts"]) == (0, 1, 1)


def test_pairs_capture_in_between_ends_the_turn(tmp_path: Path, receipt: Make) -> None:
    text = _marked(receipt(["m1", "n1"]))
    result = _read(
        tmp_path, [_console(text, 10), _console(_marked(CAPTURE, "autoCapture.receipt"), 11), _console(text, 12)]
    )
    assert (result["pairs"]["count"], result["recalls"]["receipts"]) == (0, 2)


def test_pairs_series_of_equal_receipts_is_at_most_halved(tmp_path: Path, receipt: Make) -> None:
    """Check that equal receipts of a frozen engine on a busy gateway do not count as one recall."""
    text = _marked(receipt(["m1", "n1"]))
    result = _read(tmp_path, [_console(text, second) for second in range(40)])
    assert (result["pairs"]["count"], result["recalls"]["receipts"]) == (20, 20)
    assert result["stale"]["rate"] == 19 / 20


def test_pairs_named_sessions_stay_separate(tmp_path: Path, receipt: Make, line: Callable[..., str]) -> None:
    lines = [line(receipt(["m1"]), at=at, session=session) for at, session in ((1, "a"), (2, "b"), (3, "a"))]
    result = _read(tmp_path, lines)
    assert (result["pairs"]["count"], result["recalls"]["receipts"]) == (1, 2)


@pytest.mark.parametrize("named", [False, True])
def test_pairs_of_many_concurrent_sessions_are_found(
    tmp_path: Path, receipt: Make, line: Callable[..., str], named: bool
) -> None:
    """Check twenty sessions with two hooks each, a second apart: all first receipts precede all second ones."""
    value, lines = receipt(["m1", "n1"]), []
    for at in (1, 2):
        for number in range(20):
            value["vecTop"][0]["score"] = 0.5 if named else round(0.5 + number / 100, 2)
            lines.append(line(value, at=at, session=f"s{number}" if named else None))
    result = _read(tmp_path, lines)
    assert (result["pairs"]["count"], result["recalls"]["receipts"]) == (20, 20)


def test_pairs_lines_without_a_time_are_undecided(tmp_path: Path, receipt: Make) -> None:
    result = _read(tmp_path, [_marked(receipt(["m1"]))] * 2)
    assert (result["pairs"]["undecided"], result["recalls"]["receipts"]) == (1, 2)
    assert notes(result)[0].startswith("1 receipt equal to the previous receipt, in lines without a time")


def test_pairs_real_gateway_matches_known_counts(shared: Callable[..., Path]) -> None:
    """Check a real log: 12 of 27 receipts are second ones; the console shows the same for its part of the log."""
    logs = shared("live", "logs")
    result = audit([str(logs / "gateway-2026.6.11.log")])
    assert (result["recalls"]["receipts"], result["pairs"]["by_trace"], result["pairs"]["injected"]) == (15, 12, 9)
    shown = audit([str(logs / "console-2026.6.11.txt")])
    assert (shown["recalls"]["receipts"], shown["pairs"]["by_time"], shown["pairs"]["injected"]) == (14, 11, 8)
    for name in ("gateway-2026.9.6.log", "console-2026.9.6.txt"):
        assert audit([str(logs / name)])["pairs"]["count"] == 0
