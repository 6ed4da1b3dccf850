"""A nightly run: every set of a plan replayed twice, compared with itself, with what was approved, and by policy.

::

    OUT/begun.json                what this nightly run is of; another plan or other code is another nightly run
    OUT/sets/<set>/run, again     the two replays: a kill loses at most a conversation
    OUT/baselines/<object>        the approved runs as they were that nightly run, so that its pages stay true
    OUT/night.json, .html, .md, .xml (JUnit), .prom (OpenMetrics)

Replays are resumed and never made twice; comparisons take less than a second and are made again, so that a baseline
approved meanwhile counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join
from typing import Any

from lab import __version__
from lab.compare.changes import ArmChanges, Changes, changes, foremost
from lab.errors import CannotMeasure, CannotWrite, LabError, NotARun, NotComparable, OtherArguments, UnusableInput
from lab.files import digest, dump_json, only_writer, read_json, remove_leftovers, write_atomically
from lab.formatting import Announce, counted, silent
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE, PASS, Line
from lab.gate.outputs import junit, openmetrics
from lab.gate.policy import Policy
from lab.gate.verdict import EXIT, Verdict, judge, overall
from lab.measures.score import score_and_write, summarise
from lab.nightly.baselines import Baseline, check_date, find, open_baseline
from lab.nightly.nightly_folder import BEGUN, KIND, NIGHT
from lab.nightly.plan import NightlyPlan, NightlySet, Within
from lab.nightly.trend import append, points_of
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.code import code_key
from lab.runs.directory import RunDirectory, file_name, open_run
from lab.runs.environment import packages
from lab.runs.gold import read_gold
from lab.runs.trial import trial_of

NIGHTLY_FOLDER = Path("reports/nightly")
# A changed turn is named, the others are counted.
NAMED = 3
# What is judged of an arm whose receipts are the approved ones: differences are exactly zero and need no test.
ALWAYS = ("limit", "latency")
# What is judged where there is nothing to compare with: who approves a run should know what is red tomorrow.
ALONE = ("limit",)


@dataclass(frozen=True, slots=True)
class SetResult:
    """What a nightly run found of one set.

    Its verdict, the exact comparisons with itself and with its baseline where they were made, and its means.
    """

    name: str
    verdict: Verdict
    again: Changes | None
    exact: Changes | None
    approved: str | None
    means: dict[str, dict[str, float | None]]
    primary: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "status": self.verdict.status,
            "verdict": self.verdict.as_json(),
            "reproduces": self.again.as_json() if self.again else None,
            "exact": self.exact.as_json() if self.exact else None,
            "approved": self.approved,
            "means": self.means,
        }


@dataclass(frozen=True, slots=True)
class NightlyRun:
    """A nightly run: what was run, when, by which code, and what became of each set."""

    plan: str
    about: str
    date: str
    folder: Path
    commit: str | None
    sets: tuple[SetResult, ...]
    baselines: Path

    @property
    def approve_all(self) -> str | None:
        """The command that makes this nightly run the baseline of all its sets, where several have none."""
        without = [one for one in self.sets if one.again and not one.again.changed and one.approved is None]
        return _approve(self.folder, self.baselines) if len(without) > 1 else None

    @property
    def trial(self) -> tuple[str, ...]:
        """What makes the runs of its sets trials, each reason once."""
        return tuple(dict.fromkeys(reason for one in self.sets for reason in one.verdict.trial))

    @property
    def status(self) -> str:
        """The gravest of all sets."""
        return min((one.verdict.status for one in self.sets), key=GRAVITY.index)

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        return EXIT[self.status]

    def as_json(self) -> dict[str, Any]:
        """Plain values, as nightly.json has them."""
        return {
            "schema": KIND,
            "trial": list(self.trial),
            "plan": self.plan,
            "about": self.about,
            "date": self.date,
            "status": self.status,
            "lab": __version__,
            "commit": self.commit,
            "code": code_key(),
            "sets": [one.as_json() for one in self.sets],
        }


def identity(plan: NightlyPlan) -> dict[str, Any]:
    """What a nightly run is of: everything that its receipts depend on, as hashes.

    Reads and checks what every set names, before anything is replayed: raises :class:`lab.errors.UnusableInput` for
    what cannot be replayed.
    """
    sets = {}
    for one in plan.sets:
        try:
            sets[one.name] = digest(make_plan(one.asked).resolved())
        except UnusableInput as error:
            raise UnusableInput(f"{plan.where}: set {one.name!r}: {error}") from None
    return {
        "plan": plan.name,
        "sets": sets,
        "code": code_key(),
        "packages": packages(),
    }


def run_nightly(
    plan: NightlyPlan,
    out: Path | None = None,
    *,
    date: str,
    baselines: Path,
    store: Path,
    jobs: int = 1,
    announce: Announce = silent,
) -> NightlyRun:
    """Run a nightly run, or finish it; add it to the history in ``store``.

    ``out`` is its folder; by default one below :data:`NIGHTLY_FOLDER`, named by the date and by everything that the
    run depends on, so that an edit of the code or the plan begins another. ``date`` is a day as YYYY-MM-DD. An error
    in one set is the verdict of that set, and the other sets go on; a full disk ends the nightly run. Raises
    :class:`OtherArguments` where ``out`` was begun with another plan, other recordings or other code.
    """
    key = identity(plan) | {"date": check_date(date)}
    out = out or NIGHTLY_FOLDER / f"{date}-{digest(key)[:8]}"
    with only_writer(out):
        _begin(out, key)
        sets = []
        for number, one in enumerate(plan.sets, 1):
            announce(f"{one.name} (set {number} of {len(plan.sets)})")
            sets.append(_night_of(one, plan, out, date, baselines, store, jobs, announce))
    return NightlyRun(plan.name, plan.about, date, out, _commit(out, plan), tuple(sets), baselines)


def write_nightly(nightly_run: NightlyRun) -> list[Path]:
    """Write nightly.json, nightly.xml (JUnit) and nightly.prom (OpenMetrics), a suite and a verdict a set."""
    verdicts = [one.verdict for one in nightly_run.sets]
    files = {
        nightly_run.folder / NIGHT: dump_json(nightly_run.as_json()),
        nightly_run.folder / "nightly.xml": junit(*verdicts),
        nightly_run.folder / "nightly.prom": openmetrics(*verdicts).encode("utf-8", "replace"),
    }
    for path, data in files.items():
        write_atomically(path, data)
    return list(files)


def _begin(out: Path, key: dict[str, Any]) -> None:
    remove_leftovers(out)
    path = out / BEGUN
    if path.exists():
        before = read_json(path)
        differs = [name for name in key if not isinstance(before, dict) or before.get(name) != key[name]]
        if differs:
            raise OtherArguments(
                f"{out}: holds another nightly run, which differs in: {', '.join(differs)}; choose another --out"
            )
    strangers = [] if path.exists() else [one.name for one in out.iterdir() if one.name[0] != "."]
    if strangers:
        raise UnusableInput(f"{out}: holds something else ({min(strangers)}); choose another --out")
    write_atomically(path, dump_json(key))


def _night_of(
    one: NightlySet,
    plan: NightlyPlan,
    out: Path,
    date: str,
    baselines: Path,
    store: Path,
    jobs: int,
    announce: Announce,
) -> SetResult:
    folder = out / "sets" / file_name(one.name)
    lines: list[Line] = []
    again = exact = baseline = None
    means: dict[str, dict[str, float | None]] = {}
    primary: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    try:
        run = _replayed(one, folder / "run", jobs, announce, kept=True)
        reasons = trial_of(run)
        # In other processes and in another order where there are several conversations: a set of Python has the order
        # of its process.
        announce(f"{one.name}: once more, with nothing kept")
        again = changes(run, _replayed(one, folder / "again", max(jobs, 2), announce, kept=False))
        lines.append(_reproduces(again))
        if not again.changed:
            baseline = find(baselines, one.baseline)
            exact = _exact(lines, one, run, baseline, out, baselines)
            lines += _against(plan.policy, run, exact, _approve(run.path, baselines, one.baseline))
            for within in one.compare:
                lines += _within(within, run)
            scores = score_and_write(run)
            found = summarise(scores, read_gold(run), run.arms)["arms"]
            means = {arm: found[arm]["measures"] for arm in run.arms}
            points = points_of(run, scores, date=date, plan=plan.name, name=one.name, verdict=overall(lines))
            primary = tuple(dict.fromkeys(point.measure for point in points if point.primary))
            append(store, points)
    except CannotWrite:
        raise
    except LabError as error:
        lines.append(Line("night", "measured", ERROR, True, str(error)))
    verdict = Verdict(
        f"{plan.name}/{one.name}",
        plan.about,
        str(folder / "run"),
        one.baseline,
        None,
        overall(lines),
        tuple(lines),
        against=str(exact.before) if exact else None,
        trial=reasons,
    )
    return SetResult(one.name, verdict, again, exact, baseline.now.object if baseline else None, means, primary)


def _replayed(one: NightlySet, folder: Path, jobs: int, announce: Announce, *, kept: bool) -> RunDirectory:
    outcome = run_replay(one.asked, folder, jobs=jobs, kept=kept, announce=announce)
    if outcome.failures:
        first = outcome.failures[0]
        raise CannotMeasure(
            f"{counted(len(outcome.failures), 'conversation')} could not be replayed; {first['conversation']}: "
            f"{first['reason']}; all reasons are in {folder / 'failures.jsonl'}"
        )
    return outcome.run


def _reproduces(again: Changes) -> Line:
    if not again.changed:
        reason = f"replayed twice, all {again.turns} receipts are the same"
        return Line("a/a", "receipts", PASS, True, reason, n=again.turns)
    reason = (
        f"the replay does not reproduce itself: {again.changed} of {again.turns} receipts differ between two replays "
        f"of the same code ({_named([one for one in again.arms if one.changed])}); nothing else was judged"
    )
    return Line("a/a", "receipts", ERROR, True, reason, n=again.turns)


def _exact(
    lines: list[Line], one: NightlySet, run: RunDirectory, baseline: Baseline | None, out: Path, folder: Path
) -> Changes | None:
    """Compare with the approved run; where that cannot be done, add the line that says why."""
    approve = _approve(run.path, folder, one.baseline)
    if baseline is None:
        reason = f"there is no baseline {one.baseline!r} in {folder}, so nothing says whether anything changed"
        lines.append(Line("baseline", one.baseline, INCONCLUSIVE, True, reason, approve))
        return None
    try:
        return changes(_copied(baseline, out / "baselines" / baseline.now.object[:16]), run)
    except (NotComparable, NotARun) as error:
        # No run any more: one of another version of the lab, whose manifest this one does not read.
        reason = f"not comparable with baseline {one.baseline!r}: {error}"
        lines.append(Line("baseline", one.baseline, INCONCLUSIVE, True, reason, f"{approve} (if that was meant)"))
        return None


def _approve(path: Path, folder: Path, name: str | None = None) -> str:
    """The command that makes a run of this nightly run the baseline, or all of them."""
    named = ["--name", name] if name else []
    return join(["lab", "baseline", "approve", str(path), *named, "--baselines", str(folder)])


def _copied(baseline: Baseline, folder: Path) -> RunDirectory:
    """The approved run as it is tonight, in the folder of the nightly run: a name may mean another run tomorrow."""
    kept = open_baseline(baseline)
    names = read_json(kept.path / "object.json")
    for part in (folder, folder / "receipts"):
        remove_leftovers(part)
    # The manifest last: what was killed before is no run, and is copied again.
    for name in sorted(names, key=lambda name: name == "manifest.json"):
        if not (folder / name).is_file():
            write_atomically(folder / name, (kept.path / name).read_bytes())
    return open_run(folder)


def _against(policy: Policy, run: RunDirectory, exact: Changes | None, approve: str) -> Iterator[Line]:
    """Every arm against the approved one: exactly, then by the rules of the policy."""
    if exact is None:
        for name in run.arms:
            yield from _judged(policy, run, name, ALONE)
        return
    # Whether a change fails or is told, the policy says: by its own exact rules.
    critical = any(rule.kind == "exact" and rule.critical for rule in policy.rules)
    approve = f"{approve} (if that was meant)"
    for arm in exact.arms:
        changed = len(arm.changed)
        reason = f"all {arm.turns} receipts are the approved ones"
        if changed:
            moved = "; ".join(exact.moved) or "nothing that the manifests know of"
            reason = f"{changed} of {arm.turns} receipts changed ({_named([arm])}); moved: {moved}"
        yield Line(
            "exact",
            f"{arm.arm} receipts",
            FAIL if changed else PASS,
            critical or not changed,
            reason,
            approve if changed else None,
            candidate=float(changed),
            n=arm.turns,
        )
        kinds = ALWAYS if not changed else tuple({rule.kind for rule in policy.rules} - {"exact"})
        yield from _judged(policy, run, arm.arm, kinds, open_run(Path(exact.before)))
    for arms, what in ((exact.only_after, "is not in the baseline"), (exact.only_before, "is in the baseline alone")):
        for name in arms:
            yield Line("exact", f"{name} receipts", INCONCLUSIVE, True, f"arm {name} {what}", approve)


def _judged(
    policy: Policy, run: RunDirectory, arm: str, kinds: Sequence[str], against: RunDirectory | None = None
) -> Iterator[Line]:
    """One arm by the rules of some kinds."""
    rules = tuple(rule for rule in policy.rules if rule.kind in kinds)
    if rules:
        for line in judge(replace(policy, candidate=arm, rules=rules), run, against=against).lines:
            yield replace(line, measure=f"{arm} {line.measure}", reason=f"{arm}: {line.reason}")


def _within(within: Within, run: RunDirectory) -> Iterator[Line]:
    policy = replace(within.policy, baseline=within.baseline, candidate=within.candidate)
    for line in judge(policy, run).lines:
        pair = f"{within.candidate} against {within.baseline}"
        yield replace(
            line,
            measure=f"{pair} {line.measure}",
            critical=line.critical and within.critical,
            reason=f"{pair}: {line.reason}",
        )


def _named(arms: Sequence[ArmChanges]) -> str:
    """The first changed turns of some arms, and in which columns they and all others changed."""
    columns = ", ".join(dict.fromkeys(name for arm in arms for name in arm.columns))
    turns = [f"{one.turn} of {arm}" for arm, one in foremost(arms)]
    more = f" and {len(turns) - NAMED} more" if len(turns) > NAMED else ""
    return f"{', '.join(turns[:NAMED])}{more}; in {columns}"


def _commit(out: Path, plan: NightlyPlan) -> str | None:
    try:
        run = open_run(out / "sets" / file_name(plan.sets[0].name) / "run")
    except LabError:
        return None
    return run.manifest.environment.commit
