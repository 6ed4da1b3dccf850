"""The whole self-test: a sound replay that reproduces itself, every fault against it, and the A/A draws."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.compare.changes import changes
from lab.errors import CannotMeasure
from lab.formatting import Announce, silent
from lab.gate.policy import Policy
from lab.gate.selftest.draws import Draws, Swapped, sample_labels
from lab.gate.selftest.faults import Fault
from lab.gate.selftest.replays import Replay
from lab.gate.selftest.trial import LAYERS, Clean, Trial, clean_run, try_fault
from lab.gate.selftest.workshop import Workshop

SCHEMA = "lab.selftest.v1"
WANTED = 0.95
# A fault that takes longer than this, or than so many sound replays, is taken to hang.
SECONDS, TIMES = 60, 8


@dataclass(frozen=True, slots=True)
class Report:
    """What a self-test found. ``sound_seconds`` is what one sound replay took, ``seconds`` all of it."""

    policy: str
    trials: tuple[Trial, ...]
    draws: Draws
    turns: int
    sound_seconds: float
    seconds: float

    @property
    def countable(self) -> list[Trial]:
        """Trials of faults that could be caught: those not known to change nothing."""
        return [one for one in self.trials if one.caught or one.fault.equivalent is None]

    @property
    def kill_rate(self) -> float:
        """Share of the faults that could be caught which were; 1 where there are none."""
        return sum(one.caught for one in self.countable) / len(self.countable) if self.countable else 1.0

    @property
    def survivors(self) -> list[Trial]:
        """Faults that nothing caught, those that change nothing among them."""
        return [one for one in self.trials if not one.caught]

    @property
    def passed(self) -> bool:
        """Whether enough was caught, and no draw failed."""
        return self.kill_rate >= WANTED and not self.draws.failed

    def caught_by(self) -> dict[str, int]:
        """How many faults each layer caught, whatever others did, and how many the policy's verdict stops."""
        by_layer = {layer: sum(layer in one.layers for one in self.trials) for layer in LAYERS}
        return by_layer | {"verdict": sum(one.verdict != "pass" for one in self.trials)}

    def as_json(self) -> dict[str, Any]:
        """Plain values, as self-test.json has them."""
        return {
            "schema": SCHEMA,
            "policy": self.policy,
            "passed": self.passed,
            "faults": len(self.trials),
            "countable": len(self.countable),
            "caught": sum(one.caught for one in self.trials),
            "kill_rate": self.kill_rate,
            "wanted": WANTED,
            "caught_by": self.caught_by(),
            "turns": self.turns,
            "survivors": [
                {
                    "fault": one.fault.name,
                    "about": one.fault.about,
                    "equivalent": one.fault.equivalent,
                    "why": one.why,
                }
                for one in self.survivors
            ],
            "draws": self.draws.as_json(),
            "trials": [one.as_json() for one in self.trials],
            "sound_seconds": round(self.sound_seconds, 2),
            "seconds": round(self.seconds, 2),
        }


def self_test(
    faults: Sequence[Fault],
    replays: Sequence[Replay],
    policy: Policy,
    *,
    jobs: int = 1,
    draws: int = 200,
    seed: int = 0,
    announce: Announce = silent,
) -> Report:
    """Try every fault on copies of the package, ``jobs`` at a time.

    Raises :class:`CannotMeasure` where the sound code does not replay, or does not reproduce itself: then a difference
    would say nothing.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="recall-lab-") as folder:
        place = Path(folder)
        workshop = Workshop(place, replays, SECONDS * TIMES)
        workshop.set_up(announce)
        clean, spent = _sound(workshop, place)
        turns = sum(changes(one.run, one.run).turns for one in clean.values())
        announce(f"a sound replay took {spent:.1f} s and reproduced itself: {turns} turns")
        judged = sample_labels(clean, _pairs(clean), policy, draws, seed)
        workshop.seconds = max(SECONDS, round(TIMES * spent))
        trials = _try_all(workshop, faults, clean, policy, jobs, announce)
    return Report(policy.name, tuple(trials), judged, turns, spent, time.perf_counter() - started)


def _sound(workshop: Workshop, place: Path) -> tuple[dict[str, Clean], float]:
    """The sound runs by replay, made twice and found equal."""
    spent = 0.0
    for name in ("sound-1", "sound-2"):
        started = time.perf_counter()
        ended = workshop.replay(name, None, workshop.replays, place / name)
        spent = time.perf_counter() - started
        if ended.problem:
            raise CannotMeasure(f"the sound code does not replay what a self-test needs: {ended.problem}")
    clean = {one.name: clean_run(place / "sound-1" / one.name) for one in workshop.replays}
    for name, one in clean.items():
        again = changes(one.run, clean_run(place / "sound-2" / name).run)
        if again.changed:
            raise CannotMeasure(f"replay {name} does not reproduce itself: {again.changed} of {again.turns} turns")
    return clean, spent


def _pairs(clean: dict[str, Clean]) -> list[Swapped]:
    """The old policy and the new one, and the new one and itself, over the sets that have both."""
    policies = ("tier_first_v1", "tier_quota_v1")
    both = [name for name, one in clean.items() if set(policies) <= set(one.run.arms)][:1]
    return [Swapped(name, *arms) for name in both for arms in (policies, policies[1:] * 2)]


def _try_all(
    workshop: Workshop,
    faults: Sequence[Fault],
    clean: dict[str, Clean],
    policy: Policy,
    jobs: int,
    announce: Announce,
) -> list[Trial]:
    found: dict[str, Trial] = {}
    # The work is done by child processes: a thread starts one and waits for it.
    with ThreadPoolExecutor(jobs) as pool:
        try:
            running = {
                pool.submit(try_fault, workshop, fault, clean, policy, workshop.folder / "runs" / str(number)): fault
                for number, fault in enumerate(faults)
            }
            for done in as_completed(running):
                trial = done.result()
                found[trial.fault.name] = trial
                told = ", ".join(trial.layers) or "survived"
                announce(f"{len(found)} of {len(faults)}: {trial.fault.name}: {trial.problem or told}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[fault.name] for fault in faults]
