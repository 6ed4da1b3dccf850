"""Kill ``lab canary watch --write``, and check that the gateway is either as it was or wholly switched back.

    python -m tests.trials.watch_kills [--kills 40] [--guarded 5] [--every 1] [--seed N]

The gateway is the process of tests/canary/rollout. Its log gets failures, so the watch downgrades. It is killed

* at moments drawn over the time that it takes until it has downgraded (``--kills``), also with a guard (``--guarded``);
* before every Nth call that changes the disk or starts a process (``--every N``, 0 for none).

After each kill the configuration must be one of the two, byte for byte, and the failures must be counted once or not at
all. Then the same command runs to its end, which must be the downgrade.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.canary.rollout.conftest import CONFIG, ENTRY, Gateway, made_gateway
from tests.trials.canary_kills import PATIENCE, ended, prepare, started

LIVE = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'")
FAILURES, FAILED = 40, f"{ENTRY}: autoRecall failed: Error: no table\n"
ALARM, NOT_MEASURED = 1, 4


class Trial:
    """A gateway that is live and silent, and a watch of it that sees :data:`FAILURES` failures."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.folder = gateway, gateway.home.parent
        self.errors, self.count = self.folder / "errors.txt", self.folder / "calls"
        (gateway.home / "silent").touch()

    def watch(self, *more: str, dies: int = 0) -> int:
        """Start the watch; return its process id."""
        gateway = self.gateway
        words = [
            "canary",
            "watch",
            str(gateway.config),
            "--restart",
            gateway.restart,
            "--to",
            "memory-lancedb",
            "--out",
            str(self.folder / "watch"),
        ]
        return started([*words, "--timeout", "20s", "--write", *more], self.errors, dies, self.count)

    def begin(self) -> None:
        """Make the gateway live, begin a watch, and let the log get the failures."""
        gateway = self.gateway
        shutil.rmtree(self.folder / "watch", ignore_errors=True)
        (gateway.home / "gateway.log").unlink(missing_ok=True)
        gateway.config.write_bytes(LIVE.encode())
        gateway.start()
        if ended(self.watch("--for", "0.01s"), PATIENCE) != NOT_MEASURED:
            sys.exit(f"the watch did not begin: {self.errors.read_text()}")
        with (gateway.home / "gateway.log").open("a", encoding="utf-8") as log:
            log.write(FAILURES * FAILED)

    def check(self, when: str) -> str:
        """Return how the configuration is; exit unless it is one of the two and no failure counts twice."""
        config = self.gateway.config.read_bytes()
        if config not in (LIVE.encode(), CONFIG.encode()):
            sys.exit(f"{when}: the configuration is neither as it was nor switched back")
        if self.gateway.config.stat().st_mode & 0o777 != 0o600:
            sys.exit(f"{when}: the configuration has another mode")
        saved = json.loads((self.folder / "watch" / "state.json").read_text("utf-8"))
        counted = saved["watched"]["canary"]["counts"].get("failed", 0)
        if counted not in (0, FAILURES):
            sys.exit(f"{when}: {counted} of {FAILURES} failures counted")
        return "switched back" if config == CONFIG.encode() else "as it was"

    def end(self, when: str) -> None:
        """Start the watch again; exit unless it ends with the downgrade, and leaves nothing behind."""
        gateway = self.gateway
        code = ended(self.watch("--no-guard"), PATIENCE)
        if code != ALARM or self.check(when) != "switched back":
            sys.exit(f"{when}: the next watch ended with {code}: {self.errors.read_text()}")
        if gateway.running().get("slot") != "memory-lancedb":
            sys.exit(f"{when}: the gateway runs with {gateway.running()}")
        left = [path.name for path in gateway.home.iterdir() if "canary" in path.name or path.name.endswith(".part")]
        if left:
            sys.exit(f"{when}: left behind: {left}")


def main() -> None:
    """Kill, check, count, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--guarded", type=int, default=1)
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    prepare()
    draw, found = random.Random(asked.seed), Counter[str]()
    killed_at_random = every = 0
    with tempfile.TemporaryDirectory(prefix="watch-kills-") as folder, made_gateway(Path(folder)) as gateway:
        trial = Trial(gateway)
        trial.begin()
        begun = time.monotonic()
        if ended(trial.watch("--no-guard"), PATIENCE) != ALARM:
            sys.exit(f"the unbroken watch did not downgrade: {trial.errors.read_text()}")
        whole = time.monotonic() - begun
        for number in range(asked.kills + asked.guarded):
            guarded, when = number >= asked.kills, f"round {number}"
            trial.begin()
            killed = ended(trial.watch(*([] if guarded else ["--no-guard"])), draw.uniform(0.0, whole)) is None
            killed_at_random += killed
            if guarded:
                # The guard needs a moment to notice; it completes what was begun.
                last = time.monotonic() + PATIENCE
                while gateway.state.folder.exists() and time.monotonic() < last:
                    time.sleep(0.05)
            found[f"{'with a guard: ' * guarded}{trial.check(when) if killed else 'ended before the kill'}"] += 1
            trial.end(when)
        dies = asked.every
        while asked.every:
            trial.begin()
            code = ended(trial.watch("--no-guard", dies=dies), PATIENCE)
            if code == ALARM:
                break
            if code != -signal.SIGKILL:
                sys.exit(f"call {dies}: ended with {code}: {trial.errors.read_text()}")
            found[f"before a call: {trial.check(f'call {dies}')}"] += 1
            trial.end(f"call {dies}")
            every, dies = every + 1, dies + asked.every
    print(
        f"{killed_at_random} kills at random and {every} before a call: every time the configuration was "
        f"one of the two, byte for byte, nothing was counted twice, and the next watch downgraded ({whole:.1f} s)"
    )
    for name, count in sorted(found.items()):
        print(f"{count:5} {name}")


if __name__ == "__main__":
    main()
