"""A canary in blocks of a drawn order, on a gateway that is a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from lab.canary.rollout import schedule as schedule_module
from lab.canary.rollout.follow import KEPT_LINES
from lab.canary.rollout.journal import BACKUP
from lab.compare.randomised import drawn
from lab.gate.verdict import Verdict, judge
from tests.canary.rollout.conftest import CONFIG, Gateway
from tests.commands import run_here

pytestmark = pytest.mark.slow
Make = Callable[..., Gateway]
ENGINE = CONFIG.replace("memory: 'memory-lancedb'", "memory: 'openclaw-mem-engine'")
BLOCKS = 8


def words(gateway: Gateway, out: Path, *more: str) -> list[str]:
    shown = ["--selection", "tier_quota_v1", "--schedule", str(BLOCKS), "--restart", gateway.restart, "--for", "0.6s"]
    policy = ["--policy", str(gateway.policy()), "--timeout", "20s", "--out", str(out)]
    return ["canary", "run", str(gateway.config), *shown, *policy, *more]


def blocks(out: Path) -> list[Path]:
    return sorted(out.glob("blocks/*/block.json"))


def test_half_of_the_blocks_are_switched_in_the_order_that_the_seed_draws(
    make_gateway: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, out = make_gateway(ENGINE), tmp_path / "out"
    done = run_here(*words(gateway, out, "--write"))
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert gateway.config.read_bytes() == ENGINE.encode()
    assert not gateway.state.folder.exists()
    assert gateway.running()["mode"] == "tier_first_v1"
    schedule = json.loads((out / "schedule.json").read_text("utf-8"))
    assert tuple(schedule["order"]) == drawn(BLOCKS, schedule["seed"])
    found = json.loads((out / "audit.json").read_text("utf-8"))
    assert [block["switched"] for block in found["schedule"]["blocks"]] == schedule["order"]
    # Only the switched blocks are judged by the policy.
    assert found["selection_mode"]["tier_first_v1"]["count"] == 0
    kept = [
        (out / "blocks" / f"{n:02}" / "receipts.log").read_bytes() for n, one in enumerate(schedule["order"], 1) if one
    ]
    assert (out / "receipts.log").read_bytes() == b"".join(kept)
    assert found["recalls"]["answered"] > 0
    verdict = json.loads((out / "verdict.json").read_text("utf-8"))
    drawn_line = next(line for line in verdict["lines"] if line["against"])
    # What the order of the blocks shows is said, also if it shows nothing, and the page has both kinds of blocks.
    said = drawn_line["reason"]
    assert said in " ".join(done.stdout.split())
    page = unescape((out / "canary.html").read_text("utf-8")).replace("\u00a0", " ")
    assert ">Blocks in drawn order</h2>" in page
    assert said.partition(": ")[2] in page
    assert '<th scope="col">control</th>' in page
    # The same command runs no block again, and judges all of them once.
    times, judged = [file.stat().st_mtime_ns for file in blocks(out)], list[str]()

    def counting(*given: Any, **more: Any) -> Verdict:
        judged.append(judge(*given, **more).status)
        return judge(*given, **more)

    monkeypatch.setattr(schedule_module, "judge", counting)
    assert run_here(*words(gateway, out, "--write")).returncode == done.returncode
    assert [file.stat().st_mtime_ns for file in blocks(out)] == times
    assert judged == [verdict["status"]]


def test_only_memories_that_were_stored_count_as_captures(tmp_path: Path) -> None:
    def line(stored: int) -> str:
        value = {"candidateExtractionCount": 3, "filteredOut": {}, "storedCount": stored}
        return f"2026-03-01T09:00:00Z openclaw-mem-engine:autoCapture.receipt {json.dumps(value)}\n"

    (tmp_path / KEPT_LINES).write_text("".join(map(line, (0, 2, 0, 1))) + line(1)[:-9] + "\n", "utf-8")
    figures = {"errors": {"rate": 0.0}, "repeat": {"rate": 0.5}, "recalls": {"answered": 4, "empty_rate": 0.0}}
    (tmp_path / "audit.json").write_text(json.dumps(figures), "utf-8")
    found = schedule_module._figures(True, tmp_path)
    assert (found["answered"], found["captures"], found["switched"]) == (4, 3, True)


def test_an_edited_schedule_and_another_command_are_refused(make_gateway: Make, tmp_path: Path) -> None:
    gateway, out = make_gateway(ENGINE), tmp_path / "out"
    assert run_here(*words(gateway, out, "--write")).returncode in (0, 3)
    refused = run_here(*words(gateway, out, "--write", "--for", "0.7s"))
    assert refused.returncode == 2
    assert "was drawn for another seconds" in refused.stderr
    file = out / "schedule.json"
    value = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(value | {"seed": value["seed"] + 1}), "utf-8")
    refused = run_here(*words(gateway, out, "--write"))
    assert refused.returncode == 2
    assert "was edited after it was drawn" in refused.stderr
    # Also if the order was made to fit the seed: the blocks that ended name what was drawn.
    value["seed"] += 1
    file.write_text(json.dumps(value | {"order": list(drawn(BLOCKS, value["seed"]))}), "utf-8")
    assert "was edited after it was drawn" in run_here(*words(gateway, out, "--write")).stderr
    assert gateway.config.read_bytes() == ENGINE.encode()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--schedule", "7"], "an even number of blocks from 8 to 16"),
        (["--schedule", "6"], "an even number of blocks from 8 to 16"),
        (["--golden", "true"], "runs no golden check"),
    ],
)
def test_a_schedule_that_can_show_nothing_is_refused(
    make_gateway: Make, tmp_path: Path, more: list[str], said: str
) -> None:
    gateway = make_gateway(ENGINE)
    refused = run_here(*words(gateway, tmp_path / "out", *more))
    assert refused.returncode == 2
    assert said in refused.stderr


@pytest.mark.process
def test_a_killed_schedule_is_rolled_back_and_goes_on(make_gateway: Make, tmp_path: Path) -> None:
    gateway, out = make_gateway(ENGINE), tmp_path / "out"
    command = [sys.executable, "-m", "lab", *words(gateway, out, "--write")]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    # Killed while a block is switched.
    while not (gateway.state.folder / BACKUP).exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    while gateway.state.journal.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert gateway.config.read_bytes() == ENGINE.encode()
    drawn_before = (out / "schedule.json").read_bytes()
    done = run_here(*words(gateway, out, "--write"))
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert (out / "schedule.json").read_bytes() == drawn_before
    assert len(blocks(out)) == BLOCKS
    assert list(out.glob("blocks/*-interrupted"))
    assert gateway.config.read_bytes() == ENGINE.encode()
