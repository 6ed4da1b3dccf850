"""What the lines of a live engine give: failures once, pairs once, calls once, blocks of turns; and its saved state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.canary.live_figures import BLOCK, CALLS, ERRORS, IDLE, LATENCY, REPEAT, TEXT, Gateway, Observation
from lab.canary.tool_receipts import tool_recall
from tests.canary.conftest import receipt_of

LIVE = Path(__file__).resolve().parents[3] / "shared" / "live"
WARNING = "[plugins] openclaw-mem-engine: autoRecall failed: Error: no table"


def text(message: dict[str, Any]) -> bytes:
    return json.dumps({"type": "message", "message": message}).encode()


def call(number: int, took: float | None = 20.0, **more: Any) -> bytes:
    details = {"receipt": {"latencyMs": took}} if took is not None else {}
    message = {"role": "toolResult", "toolName": "memory_recall", "toolCallId": f"c{number}", "details": details}
    return text({**message, **more})


def again(gateway: Gateway) -> Gateway:
    """Return a gateway from the saved state of another, as a watch that was killed makes it."""
    return Gateway(json.loads(json.dumps(gateway.as_json())))


@pytest.fixture
def lines(line: Callable[..., str]) -> Callable[..., bytes]:
    return lambda value, **more: line(value, **more).encode()


def test_failures_count_once_whoever_logs_them(lines: Callable[..., bytes]) -> None:
    failed = receipt_of(["m1"]) | {"failed": "search"}
    gateway = Gateway()
    seen = gateway.log_line(lines(receipt_of(["m1"]), at=0)) + gateway.log_line(WARNING.encode())
    seen += again(gateway).log_line(lines(failed, at=10))
    assert seen == [Observation(ERRORS, 0.0), Observation(TEXT, 0.0), Observation(ERRORS, 1.0, ("failed",))]
    seed = Gateway()
    assert seed.log_line(lines(failed, at=10)) == [Observation(ERRORS, 1.0, ("failed",))]
    assert again(seed).log_line(WARNING.encode()) == []
    assert seed.recalls == 1


def test_second_receipt_of_a_turn_counts_once_across_a_kill(lines: Callable[..., bytes]) -> None:
    gateway = Gateway()
    assert len(gateway.log_line(lines(receipt_of(["m1"]), at=0, session="a"))) == 2
    gateway = again(gateway)
    assert gateway.log_line(lines(receipt_of(["m1"]), at=2, session="a")) == []
    assert gateway.counts["second"] == 1
    assert len(gateway.log_line(lines(receipt_of(["m1"]), at=2, session="b"))) == 2


def test_blocks_are_of_one_conversation_and_survive_a_kill(lines: Callable[..., bytes]) -> None:
    gateway, seen, at = Gateway(), [], 0
    for turn in range(2 * BLOCK + 1):
        for session in "ab":
            at += 10
            # One item stays, one is new.
            receipt = receipt_of([f"m{session}", f"n{session}{turn}"])
            seen += [one for one in gateway.log_line(lines(receipt, at=at, session=session)) if one.figure == REPEAT]
            gateway = again(gateway)
    assert seen == [Observation(REPEAT, 0.5)] * 4


def test_silent_conversation_gives_what_it_has(lines: Callable[..., bytes]) -> None:
    gateway, seen = Gateway(), []
    for turn in range(3):
        seen += gateway.log_line(lines(receipt_of(["m1", f"n{turn}"]), at=10 * turn, session="short"))
    for turn in range(IDLE):
        seen += gateway.log_line(lines(receipt_of([f"m{turn}"]), at=100 + 10 * turn, session=f"s{turn}"))
    assert [one.value for one in seen if one.figure == REPEAT] == [0.5]


def test_calls_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway()
    assert gateway.transcript_line(call(1)) == [Observation(CALLS, 0.0), Observation(LATENCY, 20.0)]
    # The same call in a fork of the session.
    assert again(gateway).transcript_line(call(1)) == []
    assert gateway.transcript_line(call(2, isError=True)) == [Observation(CALLS, 1.0)]
    for value in (None, -1.0, float("nan"), 1e12, True, "20"):
        line = call(3, value)  # type: ignore[arg-type]  # what a damaged line may hold
        assert tool_recall(line) is None or tool_recall(line) == ("c3", False, None, ())
    for line in (b"memory_recall", b'["memory_recall"]', text({"role": "toolResult", "toolName": "memory_store"})):
        assert tool_recall(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b'openclaw-mem-engine:autoRecall.receipt {"a":',
        b"openclaw-mem-engine:autoRecall.receipt \xff\0",
        b"x" * (2 << 20),
    ],
)
def test_damaged_lines_are_counted_and_no_observation(line: bytes) -> None:
    gateway = Gateway()
    assert gateway.log_line(b"openclaw-mem-engine: " * (len(line) > 1 << 20) + line) == []
    assert gateway.counts["damaged"] == 1


def test_clock_that_jumps_back_changes_nothing(lines: Callable[..., bytes]) -> None:
    gateway = Gateway()
    times = (3000, 3010, 5, 15, 3020)
    seen = [gateway.log_line(lines(receipt_of([f"m{at}"]), at=at, session="a")) for at in times]
    assert sum(one.figure == ERRORS for part in seen for one in part) == len(times)


def test_weeks_of_conversations_take_bounded_memory(lines: Callable[..., bytes]) -> None:
    gateway, sizes = Gateway(), []
    for turn in range(3000):
        gateway.log_line(lines(receipt_of([f"m{turn}"]), at=turn % 3600, session=f"s{turn}"))
        gateway.transcript_line(call(turn))
        if turn % 1000 == 999:
            sizes.append(len(json.dumps(gateway.as_json())))
    assert max(sizes) < 1.05 * sizes[0] < 100_000


@pytest.mark.skipif(not LIVE.is_dir(), reason="the live samples are not here")
def test_live_logs_and_transcripts() -> None:
    counts = {}
    for version in ("2026.6.11", "2026.9.6"):
        gateway = Gateway()
        for line in (LIVE / "logs" / f"gateway-{version}.log").read_bytes().split(b"\n"):
            gateway.log_line(line)
        for path in sorted(LIVE.glob(f"sessions-{version}/**/*.jsonl*")):
            for line in path.read_bytes().split(b"\n"):
                gateway.transcript_line(line)
        assert gateway.counts["damaged"] == 0
        counts[version] = {name: gateway.counts[name] for name in ("receipts", "second", "failed", "calls")}
    # 2026.6.11 runs two prompt hooks a turn; the log samples hold their first 60 lines of the engine.
    assert counts["2026.6.11"]["second"] > 5
    assert counts["2026.9.6"]["second"] == 0
    assert (counts["2026.6.11"]["calls"], counts["2026.9.6"]["calls"]) == (2, 3)
