"""From the sessions of a host to a verdict: the boxes of the page, on the recorded home of a live host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recipes.conftest import Machine

pytestmark = pytest.mark.process


def test_sessions_of_a_host_lead_to_a_verdict(
    prepared: Callable[[], Machine], boxes: dict[str, str], shared: Callable[..., Path]
) -> None:
    machine = prepared()
    host = machine.home / ".openclaw"
    shutil.rmtree(host, ignore_errors=True)
    shutil.copytree(shared("live", "sessions-2026.9.6", "agents"), host / "agents")
    shutil.copytree(shared("live", "lancedb", "engine-2026.9.6"), host / "memory" / "lancedb")
    shutil.copy(shared("live", "logs", "gateway-2026.9.6.log"), host / "gateway.log")
    shutil.copy(shared("live", "config", "openclaw-2026.9.6.json"), host / "openclaw.json")
    said = machine.ok(boxes["Own host"])
    # Nothing was switched, so there is nothing to roll back.
    assert "INCONCLUSIVE: stage-b" in said
    assert said.endswith("lab golden judge reports/init/pool.jsonl --out reports/init/golden.jsonl\n")
    out = machine.home / "lab" / "reports" / "init"
    lines = []
    for turn in map(json.loads, (out / "pool.jsonl").read_text("utf-8").splitlines()[1:]):
        relevant = [{"memory": turn["items"][0]["memory"], "grade": 2, "reason": "judged"}]
        probe = {"kind": "probe", "turn": turn["turn"], "type": "decision", "reason": "judged", "relevant": relevant}
        lines.append(json.dumps(probe) + "\n")
    (out / "golden.jsonl").write_text("".join(lines), "utf-8")
    said = machine.ok(boxes["Own verdict"])
    # Three conversations are too few, and the message says how many more it takes.
    assert "exit code 3" in said
    # The policy is a copy of the shipped one for five items.
    headline = " ".join(said.split())
    assert "? INCONCLUSIVE: gate policy.toml (sha256 " in headline
    assert "not a shipped policy), new against engine" in headline
    assert "more conversations" in said
