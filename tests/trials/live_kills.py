"""Kill canaries, watches and guards beside a real gateway, and check that each time the gateway is put back.

    python -m tests.trials.live_kills CONFIG RESTART [--canaries 12] [--watches 4] [--both 4] [--seed N]

CONFIG is the openclaw.json of a gateway that runs with the engine in its memory slot, and RESTART the command that
restarts it and leaves it behind. The commands are processes of their own. Every third canary switches the memory slot
to ``memory-core``, the others the selection mode. A canary is killed (SIGKILL) at a moment of its window, alone or with
its guard. Of the watches, every other one has no alarm; the others have one, from failures that are added to the log,
and are killed while the gateway restarts.

After each kill nothing is started until the guard has ended. Then CONFIG must be as before byte for byte (after an
alarm: switched back by a downgrade), nothing may be left beside it, and the gateway must have been restarted with this
CONFIG after it was put back. Where the guard was killed as well, the command that the first lines of the canary name
must do it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.base.config_text import at_path, read_edited
from lab.canary.rollout.change import DEFAULT_SELECTION, SELECTION
from lab.canary.rollout.follow import log_of
from lab.canary.rollout.journal import State
from tests.trials.guard_kills import guards_of

LAB = [sys.executable, "-m", "lab"]
PATIENCE = 900.0
FAILURES = 60 * "openclaw-mem-engine: autoRecall failed: Error: no table\n"


class Trial:
    """A gateway, and what was killed beside it."""

    def __init__(self, config: Path, restart: str, folder: Path, draw: random.Random) -> None:
        self.config, self.folder, self.draw = config, folder, draw
        self.original = config.read_bytes()
        self.restarts = folder / "restarts.txt"
        note = f"sha256sum {shlex.quote(str(config))} >>{shlex.quote(str(self.restarts))}"
        self.restart = f"{{ {restart}; }} && {note}"
        _, self.value = read_edited(self.original, str(config))

    def command(self, number: int, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
        said = self.folder / f"said{number}.txt"
        common = ["--restart", self.restart, "--timeout", "10m", "--out", str(self.folder / f"out{number}"), "--write"]
        with said.open("wb") as file:
            return subprocess.Popen(
                [*LAB, "canary", words[0], str(self.config), *words[1:], *common],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ), said

    def kill(self, process: subprocess.Popen[bytes], said: Path, after: str, *, guard: bool, most: float) -> None:
        """Kill a command at a moment after it said something; with its guard if ``guard``."""
        last = time.monotonic() + PATIENCE
        while after not in (text := said.read_text("utf-8", "replace")):
            if process.poll() is not None or time.monotonic() > last:
                sys.exit(f"it did not say {after!r}: {text}")
            time.sleep(0.05)
        time.sleep(self.draw.uniform(0.0, most))
        process.kill()
        if guard:
            os.kill(int(re.findall(r"guard: process (\d+)", text)[-1]), signal.SIGKILL)
        process.wait()

    def settle(self) -> None:
        last = time.monotonic() + PATIENCE
        while guards_of(self.config):
            if time.monotonic() > last:
                sys.exit("the guard does not end")
            time.sleep(0.1)

    def require(self, when: str, expected: bytes, restarts: int) -> None:
        """Exit unless the configuration is as expected, and the gateway was restarted with it so often, and last."""
        if self.config.read_bytes() != expected:
            sys.exit(f"{when}: LEFT SWITCHED")
        if State(self.config).folder.exists():
            sys.exit(f"{when}: {State(self.config).folder} was left behind")
        lines = self.restarts.read_text("utf-8").split("\n")[:-1] if self.restarts.exists() else []
        wanted = hashlib.sha256(expected).hexdigest()
        if len(lines) < restarts or (restarts and not lines[-1].startswith(wanted)):
            sys.exit(f"{when}: the gateway was not restarted with the configuration: {lines}")
        self.restarts.unlink(missing_ok=True)

    def canary(self, number: int, *, both: bool) -> str:
        """Kill a canary in its window; return how it was rolled back."""
        mode = at_path(self.value, SELECTION)
        other = "tier_quota_v1" if mode in ("tier_first_v1", None) or not isinstance(mode, str) else DEFAULT_SELECTION
        switch = ["--slot", "memory-core"] if number % 3 == 2 else ["--selection", other]
        process, said = self.command(number, "run", *switch, "--recalls", "100000", "--for", "20m")
        self.kill(process, said, "wait: ", guard=both, most=5.0)
        self.settle()
        how = "by itself"
        if both:
            if State(self.config).command not in said.read_text("utf-8"):
                sys.exit("the first lines do not name the command")
            subprocess.run([*LAB, *shlex.split(State(self.config).command)[1:]], check=True, capture_output=True)
            how = "by the command"
        self.require(f"canary {number}", self.original, 2)
        return f"{switch[0]} {how}"

    def watch(self, number: int, *, alarm: bool) -> str:
        """Kill a watch, or its downgrade; return how it was completed."""
        process, said = self.command(number, "watch", "--to", "memory-core")
        if not alarm:
            self.kill(process, said, "if this watch", guard=False, most=10.0)
            self.settle()
            self.require(f"watch {number}", self.original, 0)
            return "without an alarm, as it was"
        log = log_of(self.value, self.config)
        state = self.folder / f"out{number}" / "state.json"
        while not state.exists():
            time.sleep(0.1)
        assert log is not None
        with max(log.parent.glob(log.name), key=lambda path: path.stat().st_mtime).open("a", encoding="utf-8") as file:
            file.write(FAILURES)
        self.kill(process, said, "restart: ", guard=False, most=5.0)
        self.settle()
        back = self.original.replace(b'"memory": "openclaw-mem-engine"', b'"memory": "memory-core"')
        self.require(f"watch {number}", back, 1)
        self.config.write_bytes(self.original)
        subprocess.run(self.restart, shell=True, check=True, capture_output=True)
        self.restarts.unlink()
        return "with an alarm, downgraded by its guard"


def main() -> None:
    """Kill, check, and print each kill."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("restart")
    parser.add_argument("--canaries", type=int, default=12)
    parser.add_argument("--watches", type=int, default=4)
    parser.add_argument("--both", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="live-kills-") as made:
        trial = Trial(asked.config.absolute(), asked.restart, Path(made), random.Random(asked.seed))
        victims = ["canary"] * asked.canaries + ["both"] * asked.both + ["watch"] * asked.watches
        for number, victim in enumerate(victims):
            begun = time.monotonic()
            if victim == "watch":
                how = trial.watch(number, alarm=number % 2 == 1)
            else:
                how = trial.canary(number, both=victim == "both")
            print(f"{number + 1:3} {victim}: {how} ({time.monotonic() - begun:.0f} s)", flush=True)
        count = len(victims)
        print(f"{count} of {count}: the configuration is as it must be, and the gateway was restarted with it")


if __name__ == "__main__":
    main()
