"""Tests of ordinary gateway lines that mention the engine: ids of tools and sessions are not markers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.canary.audit.audit import audit
from lab.canary.audit.log_line import read_line

MENTIONS = [
    'Done, noted: { "tool": { "id": "openclaw:openclaw-mem-engine:memory_store"',
    "09:00:00 [agent] session agent:main:openclaw-mem-engine:autoRecall.receipt opened",
    "tools: openclaw-mem-engine:memory_recall, openclaw-mem-engine:memory_forget",
    'loaded "openclaw-mem-engine:memory_store"',
    "cited openclaw-mem-engine:abcdefab-0000-4000-8000-00000000000a",
    "plugins/openclaw-mem-engine:autoRecall",
    "see https://example.org/openclaw-mem-engine: nothing",
]
MARKERS = [
    ("openclaw-mem-engine:autoRecall.receipt {}", "autoRecall.receipt"),
    ("\x1b[36mopenclaw-mem-engine:autoRecall.receipt {}\x1b[39m", "autoRecall.receipt"),
    ("Mar 01 09:00:00 host node[3]: openclaw-mem-engine:promptHook.dedupe {}", "promptHook.dedupe"),
    ("openclaw-mem-engine:workingSet.persist_failed {}", "workingSet.persist_failed"),
    ("[plugins] openclaw-mem-engine: registered (db=x)", ""),
    ("[plugins]openclaw-mem-engine:newMarker {}", "newMarker"),
    ("openclaw:openclaw-mem-engine:memory_store said openclaw-mem-engine:contextBudget {}", "contextBudget"),
]


@pytest.mark.parametrize("text", MENTIONS)
def test_read_line_mentioned_id_has_no_marker(text: str) -> None:
    assert read_line(text.encode()).name is None
    assert read_line(json.dumps({"message": text}).encode()).name is None


@pytest.mark.parametrize(("text", "name"), MARKERS)
def test_read_line_marker_in_any_context_is_found(text: str, name: str) -> None:
    assert read_line(text.encode()).name == name
    label = {"0": '{"subsystem":"openclaw:openclaw-mem-engine:memory_store"}', "1": text}
    assert read_line(json.dumps(label).encode()).name == name


def test_audit_mentions_are_not_engine_lines(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    log.write_text("".join(f"{line}\n" for line in (*MENTIONS, MARKERS[4][0])), "utf-8")
    result = audit([str(log)])
    assert (result["markers"]["mentions"], result["markers"]["unknown"]) == (len(MENTIONS), 0)
    assert (result["markers"]["sentences"], result["damage"]["of"], result["damage"]["lines"]) == (1, 1, 0)


def test_audit_real_gateways_have_no_unknown_marker(shared: Callable[..., Path]) -> None:
    for log in sorted(shared("live", "logs").iterdir()):
        result = audit([str(log)])
        assert (result["markers"]["unknown"], result["damage"]["lines"]) == (0, 0), log.name
        assert result["markers"]["mentions"] == (7 if "2026.9.6" in log.name else 0)
