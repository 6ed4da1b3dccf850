"""Try one fault: what it changes, and which layers catch it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import LabError
from lab.compare.changes import Changes, changes
from lab.compare.pairs import Pairs, pairs_of
from lab.gate.evidence import Evidence
from lab.gate.keys import BASELINE
from lab.gate.line import FAIL
from lab.gate.measures import KINDS, judge_compared
from lab.gate.policy import Policy, Rule
from lab.gate.selftest.faults import Fault
from lab.gate.selftest.replays import Replay
from lab.gate.selftest.sandbox import Sandbox
from lab.measures.catalogue import BY_NAME, direction
from lab.measures.model import SHARE, YES
from lab.measures.score import score_run
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import Values

LAYERS = ("exact", "contract", "golden", "guard")
# Safety checks, which hold at every turn of a sound engine; WrongScope only with enforced scopes and no fallback, Leaks
# and EchoShare in profile seed.
CONTRACT = ("Future", "Duplicates", "Unescaped", "WrongScope", "HardRules", "Leaks", "EchoShare")
ROUNDING = 1e-9
# Values by measure, NaN if there is none.
OfArm = Mapping[str, Values]


class Clean(NamedTuple):
    """The unchanged run of one replay, and the values of each of its arms."""

    run: RunDirectory
    values: Mapping[str, OfArm]


class Drop(NamedTuple):
    """A measure of an arm that got worse, and the amount."""

    replay: str
    arm: str
    measure: str
    by: float


class Effects(NamedTuple):
    """The differences of a faulty run.

    ``turns`` and ``changed`` count turns and changed turns, once per arm; ``broken`` names failed safety checks;
    ``drop`` is the largest drop of a measure over a golden set; ``rules`` fail with the fault and do not fail without
    it.
    """

    turns: int = 0
    changed: int = 0
    broken: tuple[str, ...] = ()
    drop: Drop | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one fault.

    ``problem`` says why its replay failed, which counts as caught. ``unseen`` lists its files that no replay loads.
    """

    fault: Fault
    problem: str | None
    effects: Effects
    seconds: float
    unseen: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[str, ...]:
        """Return the layers that caught it; all layers if its replay failed."""
        effects = self.effects
        guards = any(rule.startswith("guard") for rule in effects.rules)
        limits = any(rule.startswith("limit") for rule in effects.rules)
        seen = (effects.changed > 0, bool(effects.broken) or limits, effects.drop is not None, guards)
        return tuple(layer for layer, caught in zip(LAYERS, seen, strict=True) if caught or self.problem)

    @property
    def caught(self) -> bool:
        """Return whether any layer caught it."""
        return bool(self.layers)

    @property
    def verdict(self) -> str:
        """Return the verdict of the policy; error if its replay failed."""
        return "error" if self.problem else "fail" if self.effects.rules else "pass"

    @property
    def why(self) -> str:
        """Return why nothing caught it, if known."""
        if self.fault.equivalent:
            return f"Equivalent: {self.fault.equivalent}"
        return f"No replay loads {', '.join(self.unseen)}." if self.unseen else "No reason is known."

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        drop = self.effects.drop
        return {
            "fault": self.fault.name,
            "group": self.fault.group,
            "about": self.fault.about,
            "files": list(self.fault.files),
            "caught": self.caught,
            "layers": list(self.layers),
            "problem": self.problem,
            "verdict": self.verdict,
            "rules": list(self.effects.rules),
            "turns": self.effects.turns,
            "changed": self.effects.changed,
            "broken": list(self.effects.broken),
            "drop": drop._asdict() if drop else None,
            "equivalent": self.fault.equivalent,
            "why": None if self.caught else self.why,
            "seconds": round(self.seconds, 2),
        }


def clean_run(path: Path) -> Clean:
    """Return an unchanged run with its values."""
    run = open_run(path)
    return Clean(run, _values(run))


def try_fault(sandbox: Sandbox, fault: Fault, clean: Mapping[str, Clean], policy: Policy, out: Path) -> Trial:
    """Replay with a fault into ``out``, and examine the result with the unchanged code; the runs are deleted."""
    started = time.perf_counter()
    replays = [replay for replay in sandbox.replays if replay.applies_to(fault)]
    try:
        ended = sandbox.replay(fault.name, fault, replays, out)
        problem, effects = ended.problem, Effects()
        if problem is None:
            effects, unreadable = _effects(replays, clean, policy, out)
            # A run by faulty code that cannot be read or compared counts as caught; the other replays have effects.
            problem = f"its run cannot be compared ({', '.join(unreadable)})" if unreadable else None
    finally:
        shutil.rmtree(out, ignore_errors=True)
    unseen = () if problem else tuple(file for file in fault.files if file not in ended.loaded)
    return Trial(fault, problem, effects, time.perf_counter() - started, unseen)


def _effects(
    replays: Sequence[Replay], clean: Mapping[str, Clean], policy: Policy, out: Path
) -> tuple[Effects, list[str]]:
    """Return the differences, and the types of the errors of runs that cannot be compared."""
    turns = changed = 0
    unreadable: list[str] = []
    drops: list[Drop] = []
    broken: list[str] = []
    rules: list[str] = []
    for replay in replays:
        sound = clean[replay.name]
        try:
            run = open_run(out / replay.name)
            differing = changes(sound.run, run)
            after = _values(run) if differing.changed else {}
        except LabError as error:
            unreadable.append(type(error).__name__)
            continue
        turns, changed = turns + differing.turns, changed + differing.changed
        if differing.changed:
            for arm in _changed_arms(differing):
                before, now = sound.values[arm], after[arm]
                drops += [Drop(replay.name, arm, measure, by) for measure, by in worse(before, now).items()]
                broken += [measure for measure in CONTRACT if _is_kept(measure, before) and not _is_kept(measure, now)]
                rules += failing(policy, before, now, exact=True)
    effects = Effects(
        turns,
        changed,
        tuple(dict.fromkeys(broken)),
        max((drop for drop in drops if is_golden(drop.measure)), key=lambda drop: drop.by, default=None),
        tuple(dict.fromkeys(rules)),
    )
    return effects, list(dict.fromkeys(unreadable))


def _changed_arms(differing: Changes) -> list[str]:
    return [arm.arm for arm in differing.arms if arm.changed]


def _values(run: RunDirectory) -> dict[str, OfArm]:
    scores = score_run(run)
    return {arm: scores.all_of_arm(arm) for arm in run.arms}


def failing(policy: Policy, before: OfArm, after: OfArm, *, exact: bool) -> list[str]:
    """Return the critical rules that fail for an arm against its unchanged version, but not for that against itself.

    ``exact`` says that its receipts differ.
    """
    rules = decisive(policy, KINDS)

    def failed(values: OfArm) -> set[str]:
        evidence = Evidence(
            {measure: _known(values, measure) for measure in values},
            paired(before, values, {rule.measure for rule in rules}),
            {},
        )
        lines = judge_compared(policy, rules, evidence)
        return {f"{line.kind} {line.measure}" for line in lines if line.critical and line.status == FAIL}

    exact_rules = [
        f"{rule.kind} {rule.measure}" for rule in policy.rules if rule.kind == "exact" and rule.critical and exact
    ]
    return [*exact_rules, *sorted(failed(after) - failed(before))]


def decisive(policy: Policy, kinds: Sequence[str]) -> list[Rule]:
    """Return the critical rules of some kinds without their slices; those against the control ask another question."""
    return [
        replace(rule, slices=())
        for rule in policy.rules
        if rule.kind in kinds and rule.critical and rule.kind != "slice" and rule.against == BASELINE
    ]


def paired(before: OfArm, after: OfArm, measures: Iterable[str]) -> dict[str, Pairs]:
    """Return the pairs of the measures that both have."""
    pairs_by_measure = {
        measure: pairs_of(measure, before[measure], after[measure])
        for measure in sorted({*measures} & before.keys() & after.keys())
    }
    return {measure: pairs for measure, pairs in pairs_by_measure.items() if pairs.at}


def _known(values: OfArm, measure: str) -> list[float]:
    return [value for value in values[measure].value if value == value] if measure in values else []


def _is_kept(measure: str, values: OfArm) -> bool:
    """Return whether a safety check holds wherever it has a value."""
    perfect = 1.0 if direction(measure) == "higher" else 0.0
    return all(value == perfect for value in _known(values, measure))


def is_golden(measure: str) -> bool:
    """Return whether a measure is a share over a golden set."""
    entry = BY_NAME.get(measure.partition("@")[0])
    return entry is not None and entry.unit == "probe" and entry.better != "neither" and entry.range in (SHARE, YES)


def worse(before: OfArm, after: OfArm) -> dict[str, float]:
    """Return the measures whose mean got worse, with the amount; a mean without values counts as 0."""
    drops = {}
    for measure in dict.fromkeys([*before, *after]):
        better = direction(measure)
        change = _mean(_known(after, measure)) - _mean(_known(before, measure))
        by = change if better == "lower" else -change
        if better != "neither" and by > ROUNDING:
            drops[measure] = by
    return drops


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
