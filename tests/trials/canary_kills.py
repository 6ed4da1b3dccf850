"""Kill ``lab canary run`` and ``lab canary recover`` at random moments, and check that no gateway stays switched.

    python tests/trials/canary_kills.py --kills 100 [--guarded 20] [--seed N]

The gateway is the process of tests/rollout with its own file, log and restart command. Each round runs a canary and
kills it (SIGKILL) at a moment drawn over the time that a whole one takes. Then it recovers, and kills that as well,
until a recovery ends by itself. The configuration must then be as before byte for byte, with its mode, the gateway must
run under it, and nothing may be left beside it. In the rounds with a guard nothing is started after the kill: the guard
recovers by itself. The kills are counted by the step that the journal names.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.rollout.conftest import CONFIG, Gateway, made_gateway

PATIENCE = 60.0


def started(words: list[str], errors: Path) -> int:
    """Run the command in a fork of this process, which has imported everything; return its id."""
    if child := os.fork():
        return child
    os.setsid()
    handle = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(handle, number)
    sys.argv = ["lab", *words]
    from lab.cli.main import main

    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
    os._exit(99)


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


def main() -> None:
    """Kill, check, count, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--guarded", type=int, default=1)
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
    steps, rounds = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="canary-kills-") as folder, made_gateway(Path(folder)) as gateway:
        home = Path(folder)
        recover = ["canary", "recover", str(gateway.config), "--write"]

        def run(number: int, *more: str) -> int:
            words = gateway.words("--write", "--out", home / f"out{number}", *more)
            return started(words, home / "errors.txt")

        begun = time.monotonic()
        if ended(run(0, "--no-guard"), PATIENCE) != 0:
            sys.exit(f"the unbroken canary failed: {(home / 'errors.txt').read_text()}")
        whole = time.monotonic() - begun
        while sum(steps.values()) < asked.kills:
            rounds += 1
            if ended(run(rounds, "--no-guard"), draw.uniform(0.0, whole)) is None:
                steps[step(gateway)] += 1
            while True:
                enough = sum(steps.values()) >= asked.kills
                wait = PATIENCE if enough or draw.random() < 0.3 else draw.uniform(0.0, 0.25 * whole)
                code = ended(started(recover, home / "errors.txt"), wait)
                if code == 0:
                    break
                if code is not None:
                    sys.exit(f"recover ended with {code}: {(home / 'errors.txt').read_text()}")
                steps[f"recover: {step(gateway)}"] += 1
            if why := problem(gateway):
                sys.exit(f"round {rounds}: {why}")
        guarded = 0
        while guarded < asked.guarded:
            rounds += 1
            if ended(run(rounds), draw.uniform(0.0, whole)) is None:
                guarded += 1
            # The guard needs a moment to notice, and then restarts the gateway.
            last = time.monotonic() + PATIENCE
            while (why := problem(gateway)) and time.monotonic() < last:
                time.sleep(0.05)
            if why:
                sys.exit(f"round {rounds}, with a guard: {why}")
    print(
        f"{sum(steps.values())} kills in {rounds - guarded} canaries and {guarded} kills with a guard: every time the "
        f"configuration was as before, byte for byte, and the gateway ran under it (a whole canary: {whole:.1f} s)"
    )
    for name, count in sorted(steps.items()):
        print(f"{count:5} {name}")


if __name__ == "__main__":
    main()
