"""The self-test of a gate: a reproducible replay of the unchanged code, every fault against it, and A/A draws.

A/A draws swap arms at random by conversation, so that neither is better, and judge them by the policy: any failure is
a false alarm. Only scores are swapped; no file is read again. The same draws give the null rate of each rule: how often
it alone, with a margin of 0, says at the 5 % level that the candidate is worse (guard, slice) or better (improve,
worth).
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, LabError
from lab.base.formatting import Announce, silent
from lab.base.progress import Progress
from lab.compare.changes import Changes, changes
from lab.compare.paired import Pairs, pairs_of
from lab.compare.statistics import LEVEL
from lab.gate.evidence import Evidence
from lab.gate.keys import BASELINE
from lab.gate.line import FAIL, GRAVITY, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.measures import CLAIMS, KINDS, judge_compared
from lab.gate.policy import DIFFERENCES, Policy, Rule
from lab.gate.selftest.faults import Fault
from lab.gate.selftest.sandbox import Replay, Sandbox
from lab.measures.catalogue import BY_NAME, direction
from lab.measures.model import SHARE, YES
from lab.measures.score import score_run
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import Values, read_gold

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
    """Return the critical rules of some kinds without their slices; the control has rules of its own."""
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


class Swapped(NamedTuple):
    """The two arms that are swapped, and the arm that stands for the policy's control, if the run has one."""

    replay: str
    first: str
    second: str
    control: str | None = None


@dataclass(frozen=True, slots=True)
class Draws:
    """The results of the draws: the count of each status by pair of arms, and the rules that failed.

    ``nulls`` counts, by rule, the draws in which the rule alone is significant at 5 %.
    """

    draws: int
    statuses: Mapping[Swapped, Mapping[str, int]]
    rules: Mapping[str, int]
    nulls: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Return the number of failed draws over all pairs."""
        return sum(counts.get("fail", 0) + counts.get("error", 0) for counts in self.statuses.values())

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "draws": self.draws,
            "failed": self.failed,
            "pairs": [{**pair._asdict(), **counts} for pair, counts in self.statuses.items()],
            "rules": dict(self.rules),
            "nulls": dict(self.nulls),
        }


def judge_swaps(clean: Mapping[str, Clean], pairs: Sequence[Swapped], policy: Policy, draws: int, seed: int) -> Draws:
    """Judge ``draws`` swaps of each pair by the rules of a policy; a seeded fair coin decides each conversation."""
    statuses: dict[Swapped, Mapping[str, int]] = {}
    failures, nulls = Counter[str](), Counter[str]()
    single = replace(policy, level=LEVEL, fail_level=LEVEL)
    for number, pair in enumerate(pairs):
        data = _evidence(clean[pair.replay], pair, policy)
        rules = _judged(policy, data)
        alone = list(_alone(rules, data)) if pair.first != pair.second else []
        counted = Counter[str]()
        for drawn in _drawn(data, draws, [seed, number]):
            lines = judge_compared(policy, rules, drawn)
            decided = [line for line in lines if line.critical and line.status != SKIPPED]
            # A slice or a worth rule decides nothing unless it fails.
            counted[min((line.status for line in decided), key=GRAVITY.index, default=INCONCLUSIVE)] += 1
            failures.update(line.name for line in decided if line.status == FAIL)
            for rule in alone:
                nulls.update({line.name: _is_significant(line) for line in judge_compared(single, [rule], drawn)})
        statuses[pair] = dict(sorted(counted.items()))
    return Draws(draws, statuses, dict(failures), dict(nulls))


def _judged(policy: Policy, data: Evidence) -> list[Rule]:
    """Return the rules of differences that decide and have values, without exploratory slices."""
    return [
        replace(rule, slices=())
        for rule in policy.rules
        if rule.kind in DIFFERENCES and rule.critical and data.paired(rule) is not None
    ]


def _alone(rules: Sequence[Rule], data: Evidence) -> Iterator[Rule]:
    """Yield each rule with a margin of 0, and a slice rule for each of its values."""
    for rule in rules:
        values: list[tuple[str, ...]] = [()]
        if rule.kind == "slice":
            key = str(rule.of)
            known = sorted({slices[key] for slices in data.slices.values() if key in slices})
            values = [(value,) for value in rule.values or known]
        yield from (replace(rule, margin=0.0, by=0.0, values=each) for each in values)


def _is_significant(line: Line) -> bool:
    return line.status == (PASS if line.kind in CLAIMS else FAIL)


def _evidence(clean: Clean, pair: Swapped, policy: Policy) -> Evidence:
    measures = {rule.measure for rule in policy.rules if rule.kind in DIFFERENCES}
    first, second = clean.values[pair.first], clean.values[pair.second]
    against = paired(clean.values[pair.control], second, measures) if pair.control else {}
    slices = {probe: gold.slices for probe, gold in read_gold(clean.run).items()}
    return Evidence({}, paired(first, second, measures), slices, control=against)


def _drawn(data: Evidence, draws: int, seed: Sequence[int]) -> Iterator[Evidence]:
    """Yield the evidence with both arms of each comparison swapped in conversations that a coin chooses."""
    import numpy as np

    every = [*data.pairs.values(), *data.control.values()]
    conversations = sorted({name for pairs in every for name in pairs.conversation})
    coins = np.random.default_rng(seed).integers(0, 2, (draws, len(conversations)), dtype=bool)
    for row in coins.tolist():
        swapped = {name for name, coin in zip(conversations, row, strict=True) if coin}
        pairs, control = (
            {measure: _swap(pairs, swapped) for measure, pairs in side.items()} for side in (data.pairs, data.control)
        )
        yield replace(data, pairs=pairs, control=control)


def _swap(pairs: Pairs, conversations: set[str]) -> Pairs:
    """Return the pairs with the arms swapped in some conversations."""
    rows = [
        (after, before) if name in conversations else (before, after)
        for name, before, after in zip(pairs.conversation, pairs.baseline, pairs.candidate, strict=True)
    ]
    return pairs._replace(baseline=[before for before, _ in rows], candidate=[after for _, after in rows])


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
    return Report(policy.label, tuple(trials), judged, turns, spent, time.perf_counter() - started)


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
