"""One fault tried: what it changed, and what caught it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.compare.changes import Changes, changes
from lab.compare.paired import Pairs, pairs_of
from lab.errors import LabError
from lab.gate.compared import KINDS, Evidence, judge_compared
from lab.gate.line import FAIL
from lab.gate.policy import Policy, Rule
from lab.gate.selftest.faults import Fault
from lab.gate.selftest.replays import Replay
from lab.gate.selftest.workshop import Workshop
from lab.measures.catalogue import BY_NAME, direction
from lab.measures.model import SHARE, YES
from lab.measures.score import score_run
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import Values

LAYERS = ("exact", "contract", "golden", "guard")
# Promises, which a sound engine keeps at every turn. WrongScope is one where scopes are enforced and none falls back.
CONTRACT = ("Future", "Duplicates", "Unescaped", "WrongScope", "HardRules")
ROUNDING = 1e-9
# By measure, NaN where there is no value.
OfArm = Mapping[str, Values]


class Clean(NamedTuple):
    """The sound run of one replay, and the values of each of its arms."""

    run: RunDirectory
    values: Mapping[str, OfArm]


class Drop(NamedTuple):
    """A measure of an arm that got worse, and by how much."""

    replay: str
    arm: str
    measure: str
    by: float


class Found(NamedTuple):
    """What a faulty run differs in.

    ``turns`` and how many of them ``changed``, each once an arm; promises that were ``broken``; the largest ``drop`` of
    a measure over a golden set; rules of the policy that failed, and would not have without the fault.
    """

    turns: int = 0
    changed: int = 0
    broken: tuple[str, ...] = ()
    drop: Drop | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one fault.

    ``problem``: why it did not run through, which catches it, too. ``unseen``: its files that no replay loads.
    """

    fault: Fault
    problem: str | None
    found: Found
    seconds: float
    unseen: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[str, ...]:
        """What caught it; all that look, where it does not run."""
        found = self.found
        guards = any(rule.startswith("guard") for rule in found.rules)
        limits = any(rule.startswith("limit") for rule in found.rules)
        seen = (found.changed > 0, bool(found.broken) or limits, found.drop is not None, guards)
        return tuple(layer for layer, caught in zip(LAYERS, seen, strict=True) if caught or self.problem)

    @property
    def caught(self) -> bool:
        """Whether anything caught it."""
        return bool(self.layers)

    @property
    def verdict(self) -> str:
        """What the policy says of it: error where it does not run."""
        return "error" if self.problem else "fail" if self.found.rules else "pass"

    @property
    def why(self) -> str:
        """Why nothing caught it, as far as that is known."""
        if self.fault.equivalent:
            return f"Equivalent: {self.fault.equivalent}"
        return f"No replay loads {', '.join(self.unseen)}." if self.unseen else "No reason is known."

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        drop = self.found.drop
        return {
            "fault": self.fault.name,
            "group": self.fault.group,
            "about": self.fault.about,
            "files": list(self.fault.files),
            "caught": self.caught,
            "layers": list(self.layers),
            "problem": self.problem,
            "verdict": self.verdict,
            "rules": list(self.found.rules),
            "turns": self.found.turns,
            "changed": self.found.changed,
            "broken": list(self.found.broken),
            "drop": drop._asdict() if drop else None,
            "equivalent": self.fault.equivalent,
            "why": None if self.caught else self.why,
            "seconds": round(self.seconds, 2),
        }


def clean_run(path: Path) -> Clean:
    """A sound run, scored."""
    run = open_run(path)
    return Clean(run, _values(run))


def try_fault(workshop: Workshop, fault: Fault, clean: Mapping[str, Clean], policy: Policy, out: Path) -> Trial:
    """Replay with a fault into ``out``, and look at what came of it with the sound code; the runs go."""
    started = time.perf_counter()
    wanted = [one for one in workshop.replays if one.wanted(fault)]
    try:
        ended = workshop.replay(fault.name, fault, wanted, out)
        problem, found = ended.problem, Found()
        if problem is None:
            try:
                found = _look(wanted, clean, policy, out)
            except LabError as error:
                # Faulty code wrote it: what cannot be read, or judges other things, is caught like what does not run.
                problem = f"its run cannot be compared ({type(error).__name__})"
    finally:
        shutil.rmtree(out, ignore_errors=True)
    unseen = () if problem else tuple(file for file in fault.files if file not in ended.loaded)
    return Trial(fault, problem, found, time.perf_counter() - started, unseen)


def _look(wanted: Sequence[Replay], clean: Mapping[str, Clean], policy: Policy, out: Path) -> Found:
    turns = changed = 0
    drops: list[Drop] = []
    broken: list[str] = []
    rules: list[str] = []
    for replay in wanted:
        sound, run = clean[replay.name], open_run(out / replay.name)
        differing = changes(sound.run, run)
        turns, changed = turns + differing.turns, changed + differing.changed
        if differing.changed:
            after = _values(run)
            for arm in _moved(differing):
                before, now = sound.values[arm], after[arm]
                drops += [Drop(replay.name, arm, measure, by) for measure, by in worse(before, now).items()]
                broken += [measure for measure in CONTRACT if _is_kept(measure, before) and not _is_kept(measure, now)]
                rules += failing(policy, before, now, exact=True)
    return Found(
        turns,
        changed,
        tuple(dict.fromkeys(broken)),
        max((one for one in drops if is_golden(one.measure)), key=lambda one: one.by, default=None),
        tuple(dict.fromkeys(rules)),
    )


def _moved(differing: Changes) -> list[str]:
    return [one.arm for one in differing.arms if one.changed]


def _values(run: RunDirectory) -> dict[str, OfArm]:
    scores = score_run(run)
    return {arm: scores.all_of_arm(arm) for arm in run.arms}


def failing(policy: Policy, before: OfArm, after: OfArm, *, exact: bool) -> list[str]:
    """Critical rules of a policy that fail for an arm beside its sound self, and do not fail for that beside itself.

    ``exact``: its receipts differ.
    """
    asked = decisive(policy, KINDS)

    def failed(values: OfArm) -> set[str]:
        evidence = Evidence(
            {measure: _known(values, measure) for measure in values},
            paired(before, values, {rule.measure for rule in asked}),
            {},
        )
        lines = judge_compared(policy, asked, evidence)
        return {f"{one.kind} {one.measure}" for one in lines if one.critical and one.status == FAIL}

    told = [f"{rule.kind} {rule.measure}" for rule in policy.rules if rule.kind == "exact" and rule.critical and exact]
    return [*told, *sorted(failed(after) - failed(before))]


def decisive(policy: Policy, kinds: Sequence[str]) -> list[Rule]:
    """The critical rules of some kinds, without their slices, which decide nothing."""
    return [replace(rule, slices=()) for rule in policy.rules if rule.kind in kinds and rule.critical]


def paired(before: OfArm, after: OfArm, measures: Iterable[str]) -> dict[str, Pairs]:
    """Pairs by measure, of those that both have values of."""
    found = {
        measure: pairs_of(measure, before[measure], after[measure])
        for measure in sorted({*measures} & before.keys() & after.keys())
    }
    return {measure: pairs for measure, pairs in found.items() if pairs.at}


def _known(values: OfArm, measure: str) -> list[float]:
    return [value for value in values[measure].value if value == value] if measure in values else []


def _is_kept(measure: str, values: OfArm) -> bool:
    """Whether a promise is kept wherever it has a value."""
    whole = 1.0 if direction(measure) == "higher" else 0.0
    return all(value == whole for value in _known(values, measure))


def is_golden(measure: str) -> bool:
    """Whether a measure is a share taken over a golden set."""
    entry = BY_NAME.get(measure.partition("@")[0])
    return entry is not None and entry.unit == "probe" and entry.better != "neither" and entry.range in (SHARE, YES)


def worse(before: OfArm, after: OfArm) -> dict[str, float]:
    """By how much the mean of each measure got worse, where it did; one without a value any more counts as 0."""
    found = {}
    for measure in dict.fromkeys([*before, *after]):
        better = direction(measure)
        change = _mean(_known(after, measure)) - _mean(_known(before, measure))
        by = change if better == "lower" else -change
        if better != "neither" and by > ROUNDING:
            found[measure] = by
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
