"""One fault tried: what it changed, and what caught it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.compare.changes import changes
from lab.errors import LabError
from lab.gate.policy import Policy
from lab.gate.selftest.faults import Fault
from lab.gate.selftest.replays import Replay
from lab.gate.selftest.workshop import Workshop
from lab.gate.verdict import ERROR, FAIL, GRAVITY, PASS, judge
from lab.measures.catalogue import BY_NAME, direction
from lab.measures.score import score_run
from lab.measures.table import Scores
from lab.replay.run_directory import RunDirectory, open_run

LAYERS = ("exact", "contract", "golden")
# Promises: of a sound engine these do not get worse, whatever it is asked.
CONTRACT = ("Future", "Twins", "Unescaped", "WrongScope", "HardRules")
ROUNDING = 1e-9
Means = dict[tuple[str, str], float]


class Clean(NamedTuple):
    """The sound run of one replay, and the mean of each measure of each arm."""

    run: RunDirectory
    means: Means


@dataclass(frozen=True, slots=True)
class Drop:
    """A measure of an arm that got worse, and by how much."""

    replay: str
    arm: str
    measure: str
    by: float

    def __str__(self) -> str:
        return f"{self.measure} {self.by:.3f}"


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one fault.

    ``problem``: why it did not run through. ``changed`` of ``turns`` turns have other receipts, each once an arm.
    ``broken`` are the promises that it broke, ``drop`` the largest fall of a measure over golden sets. ``verdict`` is
    the policy's, ``rules`` are the critical rules that failed.
    """

    fault: str
    group: str
    about: str
    problem: str | None
    turns: int
    changed: int
    broken: tuple[str, ...]
    drop: Drop | None
    verdict: str
    rules: tuple[str, ...]
    seconds: float
    equivalent: str | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """What caught it; what does not run is caught by all that look."""
        if self.problem:
            return ("does not run",)
        seen = (self.changed > 0, bool(self.broken), self.drop is not None)
        return tuple(layer for layer, caught in zip(LAYERS, seen, strict=True) if caught)

    @property
    def caught(self) -> bool:
        """Whether anything caught it."""
        return bool(self.layers)

    def caught_by(self, layer: str) -> bool:
        """Whether one layer alone would have."""
        return self.problem is not None or layer in self.layers

    @property
    def failed(self) -> bool:
        """Whether the policy's verdict stops it."""
        return self.verdict in (FAIL, ERROR)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"caught": self.caught, "layers": list(self.layers)}


def clean_run(path: Path) -> Clean:
    """A sound run, scored."""
    run = open_run(path)
    return Clean(run, means(score_run(run)))


def try_fault(workshop: Workshop, fault: Fault, clean: Mapping[str, Clean], policy: Policy, out: Path) -> Trial:
    """Replay with a fault and look at what came of it, with the sound code."""
    started = time.perf_counter()
    wanted = [one for one in workshop.replays if one.wanted(fault)]
    ended = workshop.replay(fault.name, fault, wanted, out)
    problem, found = ended.problem, _nothing()
    if problem is None:
        try:
            found = _compare(wanted, clean, policy, out)
        except LabError as error:
            # Written by faulty code: what cannot be read, or is another thing, is caught like what does not run.
            problem = f"its run is none that compares ({type(error).__name__})"
    seconds = time.perf_counter() - started
    return Trial(fault.name, fault.group, fault.about, problem, *found, seconds, fault.equivalent)


Found = tuple[int, int, tuple[str, ...], Drop | None, str, tuple[str, ...]]


def _nothing() -> Found:
    return 0, 0, (), None, ERROR, ()


def _compare(wanted: Sequence[Replay], clean: Mapping[str, Clean], policy: Policy, out: Path) -> Found:
    turns = changed = 0
    drops: list[Drop] = []
    statuses, rules = [PASS], list[str]()
    for replay in wanted:
        sound = clean[replay.name]
        run = open_run(out / replay.name)
        differing = changes(sound.run, run)
        turns, changed = turns + differing.turns, changed + differing.changed
        if not differing.changed:
            continue
        after = means(score_run(run))
        drops += [Drop(replay.name, *key, by) for key, by in worse(sound.means, after).items()]
        if policy.candidate in run.arms:
            verdict = judge(policy, run, against=sound.run)
            statuses.append(verdict.status)
            rules += [f"{line.kind} {line.measure}" for line in verdict.lines if line.critical and line.status == FAIL]
    broken = tuple(dict.fromkeys(one.measure for one in drops if one.measure in CONTRACT))
    golden = [one for one in drops if is_golden(one.measure)]
    return (
        turns,
        changed,
        broken,
        max(golden, key=lambda one: one.by, default=None),
        min(statuses, key=GRAVITY.index),
        tuple(dict.fromkeys(rules)),
    )


def is_golden(measure: str) -> bool:
    """Whether a measure is taken over a golden set."""
    entry = BY_NAME.get(measure.partition("@")[0])
    return entry is not None and entry.unit == "probe" and entry.better != "neither"


def means(scores: Scores) -> Means:
    """The mean of every measure that has a better side, by arm and measure."""
    found: Means = {}
    for arm in scores.arms:
        for measure, (_, _, values) in scores.of_arm(arm).items():
            if direction(measure) != "neither":
                found[arm, measure] = sum(values) / len(values)
    return found


def worse(before: Means, after: Means) -> Means:
    """By how much each measure got worse, where it did; one that has no value any more got worse by what it was."""
    lost = {
        key: value - after.get(key, 0.0) if direction(key[1]) == "higher" else after.get(key, value) - value
        for key, value in before.items()
    }
    new = {key: value for key, value in after.items() if key not in before and direction(key[1]) == "lower"}
    return {key: by for key, by in (lost | new).items() if by > ROUNDING}


def with_jobs(jobs: int, work: Callable[[Fault], Trial], faults: Sequence[Fault]) -> list[Trial]:
    """Try faults, ``jobs`` at a time; the result is in their order."""
    from concurrent.futures import ThreadPoolExecutor

    # The work is done by child processes; a thread waits for each.
    with ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(work, faults))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def for_policy(policy: Policy, arm: str) -> Policy:
    """A policy that judges an arm against itself of another run."""
    return replace(policy, baseline=arm, candidate=arm)
