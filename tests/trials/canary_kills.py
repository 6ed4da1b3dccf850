"""Kill ``lab canary run`` and ``lab canary recover``, and check that no gateway stays switched.

    python tests/trials/canary_kills.py --kills 100 [--guarded 20] [--every 1] [--seed N]

The gateway is the process of tests/rollout with its own file, log and restart command. A killed canary (SIGKILL) is
recovered, and the recovery killed as well, until one ends by itself. The configuration must then be as before byte for
byte, with its mode, the gateway must run under it, and nothing may be left beside it. There are three kinds of kills:

* at moments drawn over the time that a canary takes (``--kills``), counted by the step that the journal names;
* at moments drawn likewise, with a guard: nothing is started after the kill, the guard recovers (``--guarded``);
* before every Nth call that changes the disk or starts a process (``--every N``, 0 for none), of a canary, and of the
  recovery of one that was killed in its window.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.rollout.conftest import CONFIG, Gateway, made_gateway

PATIENCE = 60.0


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


def step(gateway: Gateway) -> str:
    """Return the step that the journal names."""
    try:
        return str(json.loads(gateway.state.journal.read_text("utf-8"))["step"])
    except (OSError, ValueError):
        return "no journal"


def problem(gateway: Gateway) -> str | None:
    """Return what is not as before, or None."""
    if gateway.config.read_bytes() != CONFIG.encode():
        return "the configuration is not as before"
    if gateway.config.stat().st_mode & 0o777 != 0o600:
        return "the mode of the configuration is not as before"
    if gateway.running().get("slot") != "memory-lancedb":
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
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--guarded", type=int, default=1)
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    # A fork has them already, so that kills fall on the canary.
    for name in (
        "lab.cli.main",
        "lab.rollout.run",
        "lab.rollout.recover",
        "lab.gate.receipts",
        "scipy.special",
        "json5",
    ):
        importlib.import_module(name)
    draw = random.Random(asked.seed)
    steps, rounds, guarded, calls = Counter[str](), 0, 0, (0, 0)
    with tempfile.TemporaryDirectory(prefix="canary-kills-") as folder, made_gateway(Path(folder)) as gateway:
        home = Path(folder)
        errors = home / "errors.txt"
        recover = ["canary", "recover", str(gateway.config), "--write"]

        def run(number: int, *more: str) -> int:
            words = gateway.words("--write", "--out", home / f"out{number}", *more)
            return started(words, errors)

        begun = time.monotonic()
        if ended(run(0, "--no-guard"), PATIENCE) != 0:
            sys.exit(f"the unbroken canary failed: {errors.read_text()}")
        whole = time.monotonic() - begun
        while sum(steps.values()) < asked.kills:
            rounds += 1
            if ended(run(rounds, "--no-guard"), draw.uniform(0.0, whole)) is None:
                steps[step(gateway)] += 1
            while True:
                enough = sum(steps.values()) >= asked.kills
                wait = PATIENCE if enough or draw.random() < 0.3 else draw.uniform(0.0, 0.5 * whole)
                code = ended(started(recover, errors), wait)
                if code == 0:
                    break
                if code is not None:
                    sys.exit(f"recover ended with {code}: {errors.read_text()}")
                steps[f"recover: {step(gateway)}"] += 1
            require_as_before(gateway, f"round {rounds}")
        while guarded < asked.guarded:
            rounds += 1
            if ended(run(rounds), draw.uniform(0.0, whole)) is None:
                guarded += 1
            # The guard needs a moment to notice, and then restarts the gateway.
            last = time.monotonic() + PATIENCE
            while problem(gateway) and time.monotonic() < last:
                time.sleep(0.05)
            require_as_before(gateway, f"round {rounds}, with a guard")
        if asked.every:
            calls = every_call(gateway, home, asked.every)
    print(
        f"{sum(steps.values())} kills in {rounds - guarded} canaries and {guarded} kills with a guard: every time the "
        f"configuration was as before, byte for byte, and the gateway ran under it (a whole canary: {whole:.1f} s)"
    )
    for name, count in sorted(steps.items()):
        print(f"{count:5} {name}")
    if asked.every:
        print(f"and before {calls[0]} calls of a canary and {calls[1]} of a recovery, likewise")


if __name__ == "__main__":
    main()
