"""A watch on a real gateway: it ends, raises an alarm, downgrades, is killed, and goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.canary.rollout.conftest import CONFIG, ENTRY, Gateway
from tests.commands import run_here as lab

pytestmark = pytest.mark.slow
LIVE = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'")
PATIENCE = 60.0


def words(gateway: Gateway, *more: str | Path) -> list[str]:
    shown = [
        "--restart",
        gateway.restart,
        "--to",
        "memory-lancedb",
        "--out",
        str(gateway.home.parent / "watch"),
        "--timeout",
        "20s",
    ]
    return ["canary", "watch", str(gateway.config), *shown, *map(str, more)]


def started(gateway: Gateway, *more: str | Path) -> BaseProcess:
    return commands.started(*words(gateway, *more), said=gateway.home.parent / "said.txt")


def ended(process: BaseProcess) -> int | None:
    process.join(PATIENCE)
    return process.exitcode


def said(gateway: Gateway) -> str:
    return (gateway.home.parent / "said.txt").read_text("utf-8")


def killed(process: BaseProcess) -> None:
    assert process.pid
    os.killpg(process.pid, signal.SIGKILL)
    process.join()


def state(gateway: Gateway) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads((gateway.home.parent / "watch" / "state.json").read_text("utf-8"))
    except FileNotFoundError:
        return {"watched": {"canary": {"counts": {}}}}
    return value


def counted(gateway: Gateway) -> int:
    counts = state(gateway)["watched"]["canary"]["counts"]
    # The gateway repeats its receipts within seconds, which then are the second ones of a turn.
    return sum(int(counts.get(name, 0)) for name in ("receipts", "second", "damaged"))


def wait(until: Callable[[], object]) -> None:
    last = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < last
        time.sleep(0.02)


def logged(gateway: Gateway) -> int:
    return gateway.home.joinpath("gateway.log").read_text("utf-8").count("autoRecall.receipt")


def test_watch_ends_by_a_signal_and_goes_on(make_gateway: Callable[..., Gateway]) -> None:
    gateway = make_gateway(LIVE)
    wait(lambda: logged(gateway) > 5)
    process = started(gateway)
    wait(lambda: counted(gateway) > 30)
    process.terminate()
    assert ended(process) == 0, said(gateway)
    assert "No alarm since" in said(gateway)
    first = counted(gateway)
    assert gateway.config.read_bytes() == LIVE.encode()
    process = started(gateway)
    wait(lambda: counted(gateway) > first + 30)
    page_file = gateway.home.parent / "watch" / "watch.html"
    wait(lambda: '<meta http-equiv="refresh"' in page_file.read_text("utf-8"))
    seen = state(gateway)["watched"]["canary"]["counts"]
    killed(process)
    assert not seen.get("damaged")
    page = page_file.read_text("utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_killed_watches_count_every_receipt_once(make_gateway: Callable[..., Gateway]) -> None:
    gateway = make_gateway(LIVE)
    (gateway.home / "silent").touch()
    process = started(gateway)
    wait(lambda: (gateway.home.parent / "watch" / "state.json").exists())
    before = logged(gateway)
    (gateway.home / "silent").unlink()
    for pause in (0.5, 0.2, 1.3):
        wanted = counted(gateway) + 20
        wait(lambda wanted=wanted: counted(gateway) > wanted)
        time.sleep(pause)
        killed(process)
        # Rotated while nobody reads.
        (gateway.home / "gateway.log").rename(gateway.home / f"gateway.log.{process.pid}")
        gateway.start()
        process = started(gateway)
    wanted = counted(gateway) + 20
    wait(lambda: counted(gateway) > wanted)
    (gateway.home / "silent").touch()
    time.sleep(0.3)
    texts = [path.read_text("utf-8") for path in gateway.home.glob("gateway.log*")]
    written = sum(text.count("autoRecall.receipt") for text in texts) - before
    wait(lambda: counted(gateway) >= written)
    time.sleep(1.5)
    assert counted(gateway) == written
    process.terminate()
    assert ended(process) == 0


@pytest.mark.parametrize("kill", [False, True])
def test_alarm_downgrades_once(make_gateway: Callable[..., Gateway], kill: bool) -> None:
    gateway = make_gateway(LIVE)
    process = started(gateway, "--write")
    wait(lambda: counted(gateway) > 10)
    (gateway.home / "failing").touch()
    if kill:
        wait(lambda: state(gateway).get("alarm") or not process.is_alive())
        killed(process)
        process = started(gateway, "--write")
    assert ended(process) == 1, said(gateway)
    assert "Downgraded: plugins.slots.memory is memory-lancedb" in said(gateway)
    assert gateway.config.read_bytes() == CONFIG.encode()
    assert gateway.config.stat().st_mode & 0o777 == 0o600
    assert gateway.running()["slot"] == "memory-lancedb"
    assert not gateway.state.folder.exists()
    # A service that starts it again does nothing more.
    again = lab(*words(gateway, "--write"))
    assert again.returncode == 1
    assert "Downgraded" in again.stdout
    receipt = json.loads((gateway.home.parent / "watch" / "watch.json").read_text("utf-8"))
    assert receipt["alarm"]["figure"] == "errors"
    assert receipt["downgrade"]["restarted"] or kill


def test_alarm_without_write_names_the_command(make_gateway: Callable[..., Gateway]) -> None:
    gateway = make_gateway(LIVE)
    (gateway.home / "failing").touch()
    done = lab(*words(gateway))
    assert done.returncode == 1
    assert "Nothing was switched" in done.stdout
    assert "--write" in done.stdout
    assert gateway.config.read_bytes() == LIVE.encode()
    # The alarm is kept: the command that was named carries out the downgrade at once.
    (gateway.home / "failing").unlink()
    done = lab(*words(gateway, "--write"))
    assert done.returncode == 1
    assert gateway.config.read_bytes() == CONFIG.encode()


def test_gateway_that_does_not_restart_is_tried_again(make_gateway: Callable[..., Gateway]) -> None:
    gateway = make_gateway(LIVE)
    (gateway.home / "failing").touch()
    (gateway.home / "no-restart").touch()
    done = lab(*words(gateway, "--write"))
    assert done.returncode == 4
    assert "NOT DOWNGRADED" in done.stderr
    assert gateway.config.read_bytes() == CONFIG.encode()
    assert gateway.running()["slot"] == ENTRY
    (gateway.home / "no-restart").unlink()
    done = lab(*words(gateway, "--write"))
    assert done.returncode == 1
    assert gateway.running()["slot"] == "memory-lancedb"
    assert not gateway.state.folder.exists()
