"""The self-test of a gate: a reproducible replay of the unchanged code, every fault against it, and A/A draws."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base.errors import CannotMeasure
from lab.base.formatting import Announce, silent
from lab.base.progress import Progress
from lab.compare.changes import changes
from lab.gate.policy import Policy
from lab.gate.selftest.draws import Draws, Swapped, judge_swaps
from lab.gate.selftest.faults import Fault
from lab.gate.selftest.replays import Replay
from lab.gate.selftest.sandbox import Sandbox
from lab.gate.selftest.trial import LAYERS, Clean, Trial, clean_run, try_fault

SCHEMA = "lab.selftest.v1"
REQUIRED = 0.95
# A fault that takes longer than both SECONDS and TIMES unchanged replays counts as hanging.
SECONDS, TIMES = 60, 8


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a self-test. ``sound_seconds`` is the time of one unchanged replay, ``seconds`` the total."""

    policy: str
    trials: tuple[Trial, ...]
    draws: Draws
    turns: int
    sound_seconds: float
    seconds: float

    @property
    def countable(self) -> list[Trial]:
        """Return the trials of faults that can be caught: all but those known to be equivalent."""
        return [trial for trial in self.trials if trial.caught or trial.fault.equivalent is None]

    @property
    def kill_rate(self) -> float:
        """Return the share of catchable faults that were caught; 1 if there are none."""
        return sum(trial.caught for trial in self.countable) / len(self.countable) if self.countable else 1.0

    @property
    def survivors(self) -> list[Trial]:
        """Return the trials of faults that nothing caught, including equivalent ones."""
        return [trial for trial in self.trials if not trial.caught]

    @property
    def passed(self) -> bool:
        """Return whether enough faults were caught and no draw failed."""
        return self.kill_rate >= REQUIRED and not self.draws.failed

    def caught_by(self) -> dict[str, int]:
        """Return how many faults each layer caught, independent of the others, and how many the verdict caught."""
        by_layer = {layer: sum(layer in trial.layers for trial in self.trials) for layer in LAYERS}
        return by_layer | {"verdict": sum(trial.verdict != "pass" for trial in self.trials)}

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as in self-test.json."""
        return {
            "schema": SCHEMA,
            "policy": self.policy,
            "passed": self.passed,
            "faults": len(self.trials),
            "countable": len(self.countable),
            "caught": sum(trial.caught for trial in self.trials),
            "kill_rate": self.kill_rate,
            "wanted": REQUIRED,
            "caught_by": self.caught_by(),
            "turns": self.turns,
            "survivors": [
                {
                    "fault": trial.fault.name,
                    "about": trial.fault.about,
                    "equivalent": trial.fault.equivalent,
                    "why": trial.why,
                }
                for trial in self.survivors
            ],
            "draws": self.draws.as_json(),
            "trials": [trial.as_json() for trial in self.trials],
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

    Raises :class:`CannotMeasure` if the unchanged code fails or is nondeterministic, because differences would then
    prove nothing.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="recall-lab-") as folder:
        root = Path(folder)
        sandbox = Sandbox(root, replays, SECONDS * TIMES)
        sandbox.set_up(announce)
        clean, spent = _sound(sandbox, root)
        turns = sum(changes(sound.run, sound.run).turns for sound in clean.values())
        announce(f"an unchanged replay took {spent:.1f} s and was reproducible: {turns} turns")
        judged = judge_swaps(clean, pairs_to_swap(clean, policy), policy, draws, seed)
        sandbox.seconds = max(SECONDS, round(TIMES * spent))
        trials = _try_all(sandbox, faults, clean, policy, jobs, announce)
    return Report(policy.name, tuple(trials), judged, turns, spent, time.perf_counter() - started)


def _sound(sandbox: Sandbox, root: Path) -> tuple[dict[str, Clean], float]:
    """Return the unchanged runs by replay, after making them twice and comparing them."""
    spent = 0.0
    for name in ("sound-1", "sound-2"):
        started = time.perf_counter()
        ended = sandbox.replay(name, None, sandbox.replays, root / name)
        spent = time.perf_counter() - started
        if ended.problem:
            raise CannotMeasure(f"the unchanged code cannot run the replays of the self-test: {ended.problem}")
    clean = {replay.name: clean_run(root / "sound-1" / replay.name) for replay in sandbox.replays}
    for name, sound in clean.items():
        again = changes(sound.run, clean_run(root / "sound-2" / name).run)
        if again.changed:
            raise CannotMeasure(f"replay {name} is nondeterministic: {again.changed} of {again.turns} turns differ")
    return clean, spent


def pairs_to_swap(clean: Mapping[str, Clean], policy: Policy) -> list[Swapped]:
    """Return the pairs of arms to swap: old and new policy, and the new policy with itself, on a set with both.

    The policy's control is compared with the second arm of each pair if the set has it, and else not judged.
    """
    policies = ("tier_first_v1", "tier_quota_v1")
    both = [name for name, sound in clean.items() if set(policies) <= set(sound.run.arms)][:1]
    return [
        Swapped(name, *arms, _control(clean[name], policy, arms))
        for name in both
        for arms in (policies, (policies[1], policies[1]))
    ]


def _control(sound: Clean, policy: Policy, arms: tuple[str, str]) -> str | None:
    """Return the arm that stands for the control; for an arm that is swapped with itself, that arm."""
    if policy.control is None:
        return None
    arm = arms[0] if arms[0] == arms[1] else policy.control.arm
    return arm if arm in sound.run.arms else None


def _try_all(
    sandbox: Sandbox,
    faults: Sequence[Fault],
    clean: dict[str, Clean],
    policy: Policy,
    jobs: int,
    announce: Announce,
) -> list[Trial]:
    trials: dict[str, Trial] = {}
    progress = Progress(len(faults))
    # Child processes do the work; each thread starts one and waits for it.
    with ThreadPoolExecutor(jobs) as pool:
        try:
            running = {
                pool.submit(try_fault, sandbox, fault, clean, policy, sandbox.folder / "runs" / str(number)): fault
                for number, fault in enumerate(faults)
            }
            for done in as_completed(running):
                trial = done.result()
                trials[trial.fault.name] = trial
                result = ", ".join(trial.layers) or "survived"
                announce(str(progress.next(f"{trial.fault.name}: {trial.problem or result}")))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [trials[fault.name] for fault in faults]
