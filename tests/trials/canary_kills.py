"""Kill ``lab canary run`` and ``lab canary recover`` before their calls, and check that no gateway stays switched.

    python -m tests.trials.canary_kills [--every 1]

The gateway is the process of tests/canary/rollout with its own file, log and restart command. A canary is killed
(SIGKILL) before every Nth call that changes the disk or starts a process, without a guard, and so is the recovery of
one that was killed in its window. Each is then recovered. The configuration must be as before byte for byte, with its
mode, the gateway must run under it, and nothing may be left beside it. Kills at random moments, with guards, are in
guard_kills.py.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from tests.canary.rollout.conftest import CONFIG, ENTRY, Gateway, look_often, made_gateway

PATIENCE = 60.0


def prepare() -> None:
    """Import what the commands import, and build them once, so that a fork does at once what is to be killed."""
    for name in (
        *(
            "lab.canary.rollout.run",
            "lab.canary.rollout.recover",
            "lab.canary.rollout.watching",
            "lab.report.canary",
            "lab.canary.rollout.watch_page",
        ),
        *("lab.gate.receipts", "scipy.special", "json5", "jinja2", "typer._adapters"),
    ):
        importlib.import_module(name)
    main = importlib.import_module("lab.cli.main")
    main.app = typer.main.get_command(main.app)


def started(words: list[str], errors: Path, dies: int = 0, count: Path | None = None) -> int:
    """Run the command in a fork of this process, which has imported everything; return its id.

    It dies before its call number ``dies`` that changes something, and notes in ``count`` how many there were.
    """
    if child := os.fork():
        return child
    os.setsid()
    handle = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(handle, number)
    sys.argv = ["lab", *words]
    _watch_calls(dies, count)
    from lab.cli.main import main

    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
    os._exit(99)


def _watch_calls(dies: int, count: Path | None) -> None:
    """Count the calls that change the disk or start a process, and die before one of them."""
    calls = 0
    note = count and os.open(count, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == dies:
                os.kill(os.getpid(), signal.SIGKILL)
            if note:
                os.pwrite(note, str(calls).encode(), 0)
            return call(*arguments, **named)

        return counted

    for owner, names in (
        (os, ("replace", "unlink", "rmdir", "mkdir", "fsync", "chmod")),
        (tempfile, ("mkstemp",)),
        (Path, ("write_bytes",)),
        (subprocess.Popen, ("__init__",)),
    ):
        for name in names:
            setattr(owner, name, watched(getattr(owner, name)))


def ended(process: int, seconds: float) -> int | None:
    """Return the exit code if the process ends within so many seconds; else kill it and return None."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def problem(gateway: Gateway, text: str = CONFIG) -> str | None:
    """Return what is not as before, or None."""
    if gateway.config.read_bytes() != text.encode():
        return "the configuration is not as before"
    if gateway.config.stat().st_mode & 0o777 != 0o600:
        return "the mode of the configuration is not as before"
    running = gateway.running()
    if (running.get("slot"), running.get("mode")) != (
        "memory-lancedb" if text == CONFIG else ENTRY,
        "tier_first_v1",
    ):
        return f"the gateway runs with {gateway.running()}"
    left = [path.name for path in gateway.home.iterdir() if "canary" in path.name or path.name.endswith(".part")]
    return f"left behind: {left}" if left else None


def require_as_before(gateway: Gateway, when: str) -> None:
    """Exit with what is not as before."""
    if why := problem(gateway):
        sys.exit(f"{when}: {why}")


def every_call(gateway: Gateway, home: Path, stride: int) -> tuple[int, int]:
    """Kill a canary, and the recovery of a killed one, before every Nth call; return how many kills there were."""
    count, errors, done = home / "calls", home / "errors.txt", [0, 0]
    recover = ["canary", "recover", str(gateway.config), "--write"]
    window = 0
    for kind in (0, 1):
        dies = stride
        while True:
            out = home / f"every{kind}-{dies}"
            words = gateway.words("--write", "--out", out, "--no-guard")
            if kind == 0:
                code = ended(started(words, errors, dies, count), PATIENCE)
            else:
                # Killed while switched: the gateway runs with the other slot.
                assert ended(started(words, errors, window), PATIENCE) is not None
                assert gateway.running().get("slot") != "memory-lancedb"
                code = ended(started(recover, errors, dies, count), PATIENCE)
            if code == 0:
                break
            if code != -signal.SIGKILL:
                sys.exit(f"call {dies}: ended with {code}: {errors.read_text()}")
            if kind == 0 and not window and gateway.running().get("slot") != "memory-lancedb":
                window = dies
            done[kind] += 1
            if (code := ended(started(recover, errors), PATIENCE)) != 0:
                sys.exit(f"call {dies}: recover ended with {code}: {errors.read_text()}")
            require_as_before(gateway, f"call {dies}")
            dies += stride
    return done[0], done[1]


def main() -> None:
    """Kill, check, count, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    prepare()
    look_often()
    with tempfile.TemporaryDirectory(prefix="canary-kills-") as folder, made_gateway(Path(folder)) as gateway:
        calls = every_call(gateway, Path(folder), asked.every)
    print(
        f"killed before {calls[0]} calls of a canary and {calls[1]} of a recovery: every time the configuration was as "
        "before, byte for byte, and the gateway ran under it"
    )


if __name__ == "__main__":
    main()
