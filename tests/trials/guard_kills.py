"""Kill canaries, watches and their guards at random moments, and count how each gateway was put back.

    python -m tests.trials.guard_kills [--kills 1000] [--parallel 4] [--seed N] [--only VICTIM]

Each kill (SIGKILL) is drawn from the seed and its number: the victim, what is switched (the memory slot or the
selection mode), and the moment, over the time that a canary or a downgrade takes. The gateway is the process of
tests/canary/rollout, a daemon that its restart command leaves behind. Victims are

* the canary; all of its session; the guard alone; the guard, and then the canary; the canary, and then the guard in the
  midst of its rollback; both at once;
* a watch on the way to its downgrade, alone and with its guard.

After the kill nothing is started until no guard of this gateway runs. Then the configuration must be as before byte for
byte, with its mode, the gateway must run under it, and nothing may be left beside it; else ``lab canary run`` must
refuse to begin and name a command, and exactly that command, which the first lines of the canary named as well, must
put everything back. A watch that was killed before it began to switch leaves everything as it was, and the next one
switches. What does not hold is counted as FAILED, and printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from lab.canary.rollout.commands import identity
from tests.canary.rollout.conftest import CONFIG, Gateway, made_gateway
from tests.trials.canary_kills import PATIENCE, ended, prepare, problem, started
from tests.trials.watch_kills import ALARM, LIVE, Trial

MODE = LIVE
VICTIMS = ("canary", "session", "guard", "guard, then canary", "canary, then guard", "both", "watch", "watch and guard")
ITSELF, COMMAND, UNTOUCHED, NO_KILL = "by itself", "by the command", "as it was, nothing begun", "ended before the kill"
SILENT = "left switched in silence"


class Failed(Exception):
    """A gateway was not put back, or a promise was not kept."""


class Round:
    """One kill of one canary or watch of a gateway."""

    def __init__(self, gateway: Gateway, folder: Path, draw: random.Random, whole: float) -> None:
        self.gateway, self.folder, self.draw, self.whole = gateway, folder, draw, whole
        self.errors = folder / "said.txt"
        self.errors.write_text("", "utf-8")

    def said(self) -> str:
        return self.errors.read_text("utf-8", "replace")

    def guard(self) -> int | None:
        """Return the process of the guard, once the canary has named it."""
        found = re.findall(r"(?:guard: process|another one, process) (\d+)", self.said())
        return int(found[-1]) if found else None

    def pause(self, share: float = 1.0) -> None:
        time.sleep(self.draw.uniform(0.0, self.whole * share))

    def kill(self, victim: str, process: int) -> bool:
        """Kill a victim at a moment; return whether anything was killed. The canary has ended when this returns."""
        if victim.startswith("guard"):
            last = time.monotonic() + PATIENCE
            while self.guard() is None and time.monotonic() < last and not _has_ended(process):
                time.sleep(0.002)
        self.pause()
        killed = False
        if victim.startswith("guard"):
            killed = _killed(self.guard())
            if victim == "guard":
                if ended(process, PATIENCE) is None:
                    raise Failed("the canary did not end after its guard was killed")
                return killed
            self.pause(0.3)
        guard = self.guard()
        is_running_still = not _has_ended(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL) if victim == "session" else os.kill(process, signal.SIGKILL)
        killed |= is_running_still
        if victim in ("both", "watch and guard"):
            killed |= _killed(guard)
        elif victim == "canary, then guard":
            self.pause(0.2)
            killed |= _killed(guard)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)
        return killed

    def settle(self) -> None:
        """Wait until no guard of this gateway runs."""
        last = time.monotonic() + 2 * PATIENCE
        while guards := guards_of(self.gateway.config):
            if time.monotonic() > last:
                raise Failed(f"a guard runs still: {guards}")
            time.sleep(0.02)

    def by_command(self, run: list[str]) -> None:
        """Run the command that both the page and the canary name; raise :class:`Failed` unless all is as before."""
        named = self.gateway.state.command
        if named not in self.said():
            raise Failed(f"{SILENT}: the canary did not name {named}: {self.said()}")
        if (code := ended(started(run, self.errors), PATIENCE)) != 2 or named not in self.said():
            raise Failed(f"{SILENT}: another canary ended with {code}: {self.said()}")
        if (code := ended(started(shlex.split(named)[1:], self.errors), PATIENCE)) != 0:
            raise Failed(f"the command ended with {code}: {self.said()}")


def _has_ended(process: int) -> bool:
    # A zombie has no identity but its number.
    return " " not in identity(process)


def _killed(process: int | None) -> bool:
    """Kill a process; return whether it was running."""
    if process is None or _has_ended(process):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        return True
    return False


def guards_of(config: Path) -> list[int]:
    """Return the guards of a gateway that run, as /proc knows them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if b"lab.canary.rollout.guard" in words and os.fsencode(config) in words:
                    found.append(int(folder.name))
    return found


def canary_words(gateway: Gateway, out: Path, text: str) -> list[str]:
    """Return the words of a canary of the slot, or of the mode where the engine has the slot."""
    words = gateway.words("--write", "--out", out)
    if text == MODE:
        words[words.index("--slot") : words.index("--slot") + 2] = ["--selection", "tier_quota_v1"]
    return words


def canary_round(one: Round, victim: str, text: str) -> str:
    """Run a canary, kill, and return how the gateway was put back."""
    gateway, out = one.gateway, one.folder / "out"
    process = started(canary_words(gateway, out, text), one.errors)
    if not one.kill(victim, process):
        one.settle()
        if why := problem(gateway, text):
            raise Failed(f"{SILENT}: a canary that ended: {why}: {one.said()}")
        return NO_KILL
    one.settle()
    how = ITSELF
    if (why := problem(gateway, text)) and not gateway.state.journal.exists() and "left behind" in why:
        # Killed before the journal: an empty folder, and nothing was switched.
        return UNTOUCHED
    if why:
        one.by_command(canary_words(gateway, one.folder / "again", text))
        how = COMMAND
    if why := problem(gateway, text):
        raise Failed(f"{SILENT}: {victim}: {why}: {one.said()}")
    log = out / "guard.log"
    if log.exists() and "put back" in log.read_text("utf-8"):
        receipt = json.loads((out / "canary.json").read_text("utf-8"))
        if receipt["rolled_back"] is not True or receipt["status"] != "error":
            raise Failed(f"the receipt does not say what the guard did: {receipt}")
    return how


def watch_round(one: Round, victim: str, trial: Trial) -> str:
    """Run a watch that raises an alarm, kill, and return how the downgrade was completed."""
    trial.begin()
    gateway = one.gateway
    killed = one.kill(victim, trial.watch())
    one.settle()
    when = f"{victim}: {one.said()}"
    config, is_left = gateway.config.read_bytes(), gateway.state.journal.exists()
    if not killed:
        how = NO_KILL
    elif is_left:
        how = COMMAND
        if one.draw.random() < 0.5:
            one.by_command(gateway.words("--write", "--out", one.folder / "again"))
            if (gateway.config.read_bytes(), gateway.running().get("slot")) != (CONFIG.encode(), "memory-lancedb"):
                raise Failed(f"{SILENT}: {when}")
    else:
        how = UNTOUCHED if config == LIVE.encode() else ITSELF
        if how == ITSELF and gateway.running().get("slot") != "memory-lancedb":
            raise Failed(f"{SILENT}: {gateway.running()}: {when}")
    trial.end(when)
    return how


def work(folder: Path, numbers: range, seed: int, only: str | None, results: Path) -> None:
    """Kill as often as there are numbers; append each result as a line of JSON."""
    with contextlib.ExitStack() as stack, results.open("a", encoding="utf-8", buffering=1) as file:
        gateways: dict[str, Gateway] = {}
        whole: dict[str, float] = {}
        trial: Trial | None = None
        for number in numbers:
            draw = random.Random(f"{seed}-{number}")
            victim = draw.choice(VICTIMS if only is None else [only])
            switch = "slot" if victim.startswith("watch") else draw.choice(("slot", "mode"))
            kind = "watch" if victim.startswith("watch") else switch
            text = MODE if kind == "mode" else CONFIG
            if kind not in gateways:
                (home := folder / kind).mkdir()
                gateways[kind] = stack.enter_context(made_gateway(home, text))
                begun = time.monotonic()
                if kind == "watch":
                    trial = Trial(gateways[kind])
                    trial.begin()
                    begun = time.monotonic()
                    assert ended(trial.watch(), PATIENCE) == ALARM, trial.errors.read_text("utf-8")
                else:
                    unbroken = canary_words(gateways[kind], home / "whole", text)
                    assert ended(started(unbroken, home / "said.txt"), PATIENCE) == 0, (home / "said.txt").read_text()
                whole[kind] = time.monotonic() - begun
            gateway = gateways[kind]
            with contextlib.suppress(OSError):
                os.truncate(gateway.home / "gateway.log", 0)
            for attempt in range(20):
                one = Round(gateway, _folder(folder / kind, f"{number}-{attempt}"), draw, whole[kind])
                if kind == "watch":
                    assert trial is not None
                    one.errors = trial.errors
                try:
                    how = (
                        watch_round(one, victim, trial)
                        if kind == "watch" and trial
                        else canary_round(one, victim, text)
                    )
                except (Failed, SystemExit) as error:
                    how = f"FAILED {error}"
                if how != NO_KILL:
                    break
            line: dict[str, Any] = {"number": number, "victim": victim, "switch": switch, "how": how}
            file.write(json.dumps(line) + "\n")
            if how.startswith("FAILED"):
                # The gateway is not as the next one needs it.
                gateways.pop(kind).stop()
                (folder / kind).rename(folder / f"{kind}-failed-{number}")


def _folder(home: Path, name: str) -> Path:
    folder = home / name
    folder.mkdir()
    return folder


def main() -> None:
    """Kill, check, count, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=VICTIMS)
    asked = parser.parse_args()
    prepare()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="guard-kills-") as made:
        folder = Path(made)
        results = folder / "results.jsonl"
        workers = []
        for part in range(asked.parallel):
            if child := os.fork():
                workers.append(child)
                continue
            code = 1
            try:
                work(
                    _folder(folder, f"worker{part}"),
                    range(part, asked.kills, asked.parallel),
                    asked.seed,
                    asked.only,
                    results,
                )
                code = 0
            finally:
                os._exit(code)
        codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
        lines = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    counts = Counter(
        (line["victim"], line["switch"], line["how"].partition(" ")[0] == "FAILED" or line["how"]) for line in lines
    )
    hows = (ITSELF, COMMAND, UNTOUCHED)
    print(f"{len(lines)} kills in {time.monotonic() - begun:.0f} s, seed {asked.seed}")
    print(f"{'victim':<20}{'switch':<8}" + "".join(f"{how:>26}" for how in (*hows, "FAILED")))
    for victim in VICTIMS:
        for switch in ("slot", "mode"):
            row = [counts[victim, switch, how] for how in (*hows, True)]
            if any(row):
                print(f"{victim:<20}{switch:<8}" + "".join(f"{count:>26}" for count in row))
    total = [sum(count for (_, _, how), count in counts.items() if how == wanted) for wanted in (*hows, True)]
    print(f"{'all':<28}" + "".join(f"{count:>26}" for count in total))
    for line in lines:
        if line["how"].startswith("FAILED"):
            print(f"kill {line['number']}, {line['victim']}, {line['switch']}: {line['how']}")
    if any(codes) or len(lines) != asked.kills or total[-1]:
        sys.exit(1)


if __name__ == "__main__":
    main()
