"""The captures of ``engine_vectors.json``: distances to stored rows are given by the case."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from lab.systems.openclaw.capture.pipeline import Captured, capture
from lab.systems.openclaw.capturing import UPSTREAM
from tests.conformance.capture import Captures, stored_rows
from tests.conformance.e2e import plugin_config
from tests.conformance.embedding import embed
from tests.conformance.plugin_rules import read_messages
from tests.conformance.values import Difference, difference

Value = dict[str, Any]
OLD = "upstream_2026_03_27"
# Counts that the older plugin's receipt lacks.
NEWER = ("older_user_messages", "input_chars_truncated")


def captures_of(case: Value) -> Iterator[tuple[str, Callable[[], Difference | None]]]:
    """Yield one comparison for each capture of a case; the table keeps what earlier ones stored."""
    distance = re.match(r"[0-9.]+", case["nearestDistance"])
    table = Captures(float(distance[0]) if distance else 2.0)
    for number, run in enumerate(case["runs"]):
        yield str(number), partial(_compare, case, table, run)


def unclosed_block(expected: list[str]) -> Difference | None:
    """Compare what the plugin stores of an injected block without an end: the memory in it."""
    text = f"<relevant-memories>\n{expected[0]}" if expected else ""
    stored = capture(
        read_messages([{"role": "user", "content": text}]),
        plugin_config({}),
        UPSTREAM,
        Captures(),
        now_ms=1,
        embed=embed,
    ).stored
    return difference(expected, [item.text for item in stored])


def _compare(case: Value, table: Captures, run: Value) -> Difference | None:
    config = plugin_config(case["config"])
    if case["plugin"] == OLD:
        # The older plugin reads everything.
        unbounded = replace(
            config.auto_capture,
            max_scanned_user_messages=10**6,
            max_text_blocks_per_message=10**6,
            max_total_input_chars=10**9,
        )
        config = replace(config, auto_capture=unbounded)
    vector = embed if case["embedding"] == "ok" else lambda _: None
    messages = read_messages(run["messages"])
    captured = capture(messages, config, UPSTREAM, table, now_ms=run["now"], embed=vector)
    found = {"stored": stored_rows(captured, run["now"], table), "logs": _logs(captured, old=case["plugin"] == OLD)}
    return difference({"stored": run["stored"], "logs": run["logs"]}, found)


def _logs(captured: Captured, *, old: bool) -> list[Value]:
    """Return the log lines in the form of the pack: a marker with its JSON, else level and text."""
    logs: list[Value] = []
    for level, line in captured.log:
        name, _, value = line.partition(" ")
        is_marker = value.startswith("{")
        logs.append(
            {"marker": name.partition(":")[2], "json": json.loads(value)}
            if is_marker
            else {"level": level, "text": line}
        )
    if captured.receipt is not None:
        receipt = dict(captured.receipt)
        if old:
            del receipt["scanned"]
            receipt["filteredOut"] = {key: count for key, count in receipt["filteredOut"].items() if key not in NEWER}
        logs.append({"marker": "autoCapture.receipt", "json": receipt})
    return logs
