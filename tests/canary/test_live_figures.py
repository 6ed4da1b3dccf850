"""What the lines of a live engine give: failures once, pairs once, calls once, blocks of turns; and its saved state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.canary.rollout.live_figures import (
    BLOCK,
    CALLS,
    ERRORS,
    IDLE,
    LATENCY,
    LATER,
    REPEAT,
    TEXT,
    TURNS,
    Gateway,
    Observation,
    tool_recall,
)
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


def figures(seen: list[Observation], *wanted: str) -> list[tuple[str, float, tuple[str, ...]]]:
    return [tuple(one) for one in seen if one.figure in wanted]  # type: ignore[misc]  # of three


def test_recall_that_did_not_work_is_an_error_and_nothing_else(lines: Callable[..., bytes]) -> None:
    gateway, seen = Gateway(), []
    down = receipt_of(["m1", "n1"]) | {"vecTop": [], "rejected": ["provider_unavailable"]}
    for turn in range(3 * BLOCK):
        seen += gateway.log_line(lines(down, at=10 * turn, session="a"))
        gateway = again(gateway)
    assert seen == [Observation(ERRORS, 1.0, ("provider_unavailable",))] * (3 * BLOCK)
    assert gateway.causes == {"provider_unavailable": 3 * BLOCK}
    assert (gateway.recalls, gateway.counts["not_working"], gateway.counts["answered"]) == (3 * BLOCK, 3 * BLOCK, 0)


def test_repeats_go_on_after_an_outage_as_if_it_had_not_been(lines: Callable[..., bytes]) -> None:
    gateway, seen, at = Gateway(), [], 0
    down = receipt_of(["m1"]) | {"vecTop": [], "rejected": ["provider_unavailable"]}
    for turn in range(BLOCK + 1):
        for receipt in (receipt_of([f"m{turn}"]), *[down] * 4):
            at += 10
            seen += gateway.log_line(lines(receipt, at=at, session="a"))
    # The failed recalls show the same memory again and again.
    assert figures(seen, REPEAT) == [(REPEAT, 0.0, ())]


def test_unknown_reasons_are_counted_and_seen(lines: Callable[..., bytes]) -> None:
    gateway = Gateway()
    for at, name in enumerate(("siesta", "siesta", "a text of somebody")):
        receipt = receipt_of([f"m{at}"]) | {"rejected": ["budget_cap", name]}
        assert figures(gateway.log_line(lines(receipt, at=10 * at)), ERRORS) == [(ERRORS, 0.0, ())]
    assert again(gateway).unknown == {"siesta": 2, "unnamed_reason": 1}
    for number in range(500):
        receipt = receipt_of(["m1"]) | {"rejected": [f"siesta_{number}x"]}
        gateway.log_line(lines(receipt, at=100 + 10 * number, session=str(number)))
    assert len(gateway.unknown) < 40
    assert gateway.unknown["other"] > 400


def test_store_that_went_silent_is_told_from_a_scope_without_memories(lines: Callable[..., bytes]) -> None:
    empty = receipt_of([], candidates=(0, 0, 0)) | {"rejected": ["no_results_must", "no_results_nice"]}
    fresh, known = Gateway(), Gateway()
    for turn in range(6):
        known.log_line(lines(receipt_of([f"m{turn}"]), at=10 * turn, session="a"))
    for gateway, silent in ((fresh, 0), (known, 20)):
        seen = []
        for turn in range(30):
            seen += gateway.log_line(lines(empty, at=100 + 10 * turn, session="a"))
        assert sum(value for _, value, _ in figures(seen, ERRORS)) == silent
        assert gateway.causes.get("store_silent", 0) == silent
    # A hit ends the row.
    known.log_line(lines(receipt_of(["m1"]), at=900, session="a"))
    assert figures(known.log_line(lines(empty, at=910, session="a")), ERRORS) == [(ERRORS, 0.0, ("nothing_found",))]


def test_text_lane_counts_in_recalls_with_hits(lines: Callable[..., bytes]) -> None:
    gateway = Gateway()
    silent = receipt_of(["m1"]) | {"ftsTop": []}
    empty = receipt_of([], candidates=(0, 0, 0))
    seen = [
        one
        for at, value in enumerate((receipt_of(["m1"]), silent, empty))
        for one in gateway.log_line(lines(value, at=10 * at))
    ]
    assert figures(seen, TEXT) == [(TEXT, 0.0, ()), (TEXT, 1.0, ())]


@pytest.mark.parametrize(
    ("marker", "cause"),
    [
        ('routeAuto.receipt {"ok":false,"errorCode":"ETIMEDOUT"}', "route_auto_failed"),
        ('routeAuto.receipt {"ok":false,"skipReason":"no_query"}', None),
        ('routeAuto.receipt {"ok":true}', None),
        ('autoRecall qdrant fallback {"reason":"qdrant_edge_search_failed"}', "search_backend_fallback"),
    ],
)
def test_lines_before_a_receipt_are_of_its_recall(lines: Callable[..., bytes], marker: str, cause: str | None) -> None:
    gateway = Gateway()
    assert gateway.log_line(f"openclaw-mem-engine:{marker}".encode()) == []
    gateway = again(gateway)
    seen = gateway.log_line(lines(receipt_of(["m1"]), at=0)) + gateway.log_line(lines(receipt_of(["m2"]), at=10))
    first = (ERRORS, 1.0, (cause,)) if cause else (ERRORS, 0.0, ())
    assert figures(seen, ERRORS) == [first, (ERRORS, 0.0, ())]


@pytest.mark.parametrize(
    ("hook", "error", "cause"),
    [
        ("before_prompt_build", "timed out after 15000ms", "hook_timeout"),
        ("before_agent_start", "Cannot read properties of null", "hook_failed"),
        ("agent_end", "timed out after 30000ms", None),
    ],
)
def test_hook_that_the_host_gave_up_is_a_recall_that_failed(hook: str, error: str, cause: str | None) -> None:
    message = f"[hooks] {hook} handler from openclaw-mem-engine failed: {error}"
    gateway = Gateway()
    seen = gateway.log_line(json.dumps({"1": message, "message": message}).encode())
    assert seen == ([Observation(ERRORS, 1.0, (cause,))] if cause else [])
    assert gateway.recalls == len(seen)


def test_calls_without_vectors_have_failed_and_their_time_teaches_nothing() -> None:
    gateway = Gateway()
    down = {"latencyMs": 3.0, "lifecycle": {"rejected": ["provider_unavailable"], "ftsTop": [], "vecTop": []}}
    silent = {"latencyMs": 3.0, "ftsCount": 2, "vecCount": 0}
    sound = {"latencyMs": 3.0, "ftsCount": 0, "vecCount": 0, "lifecycle": None}
    seen = [gateway.transcript_line(call(n, details={"receipt": one})) for n, one in enumerate((down, silent, sound))]
    assert seen[:2] == [
        [Observation(CALLS, 1.0, ("provider_unavailable",))],
        [Observation(CALLS, 1.0, ("vector_lane_silent",))],
    ]
    assert seen[2] == [Observation(CALLS, 0.0), Observation(LATENCY, 3.0)]


def user(at: int) -> bytes:
    """A user's turn, as a host writes it: without blanks."""
    stamp = f"2026-03-01T09:{at // 60:02}:{at % 60:02}.000Z"
    message = {"type": "message", "timestamp": stamp, "message": {"role": "user", "content": "hello"}}
    return json.dumps(message, separators=(",", ":")).encode()


START = 1772355600.0


def test_turns_without_receipts_are_seen_once_others_followed(lines: Callable[..., bytes]) -> None:
    gateway = Gateway()
    gateway.since = START
    for turn in range(5):
        gateway.transcript_line(user(10 * turn))
        gateway.log_line(lines(receipt_of([f"m{turn}"]), at=10 * turn + 1))
    assert gateway.settle() == [Observation(TURNS, 0.0)] * 5
    # From here on, the plugin is dead. Its last receipt may be late by LEEWAY.
    seen = []
    for turn in range(30):
        gateway.transcript_line(user(200 + 10 * turn))
        gateway = again(gateway)
        seen += gateway.settle()
    assert seen == [Observation(TURNS, 1.0)] * (30 - LATER)
    assert gateway.counts["turns_without_receipt"] == 30 - LATER


def test_turns_of_a_burst_or_before_the_watch_are_not_missed(lines: Callable[..., bytes]) -> None:
    gateway = Gateway()
    gateway.since = START + 300
    for turn in range(40):
        gateway.transcript_line(user(turn))
    assert (gateway.settle(), gateway.counts["turns"]) == ([], 0)
    for _ in range(3 * LATER):
        gateway.transcript_line(user(301))
    assert gateway.settle() == []
    gateway.log_line(lines(receipt_of(["m1"]), at=305))
    assert gateway.settle() == [Observation(TURNS, 0.0)] * (3 * LATER)


def test_receipt_without_a_zone_answers_every_turn() -> None:
    gateway = Gateway()
    gateway.since = START
    for turn in range(40):
        gateway.transcript_line(user(10 * turn))
    gateway.log_line(f"01:00:00 openclaw-mem-engine:autoRecall.receipt {json.dumps(receipt_of(['m1']))}".encode())
    assert gateway.settle() == [Observation(TURNS, 0.0)] * 40


def test_turns_are_not_counted_where_no_receipt_is_expected() -> None:
    gateway = Gateway()
    for turn in range(40):
        gateway.transcript_line(user(10 * turn))
    assert (gateway.settle(), gateway.counts["turns"]) == ([], 0)
