"""Nightly runs: replay every set of a plan twice, compare the replays, compare with the baseline, judge by policy.

::

    OUT/begun.json                hashes of the inputs; a nightly run with other inputs needs another folder
    OUT/sets/<set>/run, again     the two replays; an interruption loses at most one conversation
    OUT/baselines/<object>        copies of the baselines used, so that the links and commands on the pages stay valid
    OUT/nightly.json, .html, .md, .xml (JUnit), .prom (OpenMetrics)

Repeating the command resumes the replays. It always makes the comparisons again, in less than a second, so that it uses
a baseline that was approved in the meantime.
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
from lab.gate.line import AGAIN, BASELINE_LINE, ERROR, FAIL, GRAVITY, INCONCLUSIVE, PASS, SET, Line
from lab.gate.outputs import junit, openmetrics
from lab.gate.policy import Policy
from lab.gate.verdict import EXIT, Verdict, judge, overall
from lab.measures.score import score_and_write, summarise
from lab.nightly.baselines import Baseline, check_date, find, open_baseline
from lab.nightly.nightly_folder import BEGUN, KIND, RESULT
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
# How many changed turns are named; the others are only counted.
NAMED = 3
# Kinds of rules for an arm whose receipts equal the baseline's: all differences are zero and need no test.
ALWAYS = ("limit", "latency")
# Kinds of rules for a set without a baseline: the person who approves the run must know the limits it breaks.
ALONE = ("limit",)


@dataclass(frozen=True, slots=True)
class SetResult:
    """The result of one set of a nightly run.

    ``again`` compares the receipts of the two replays, ``exact`` those of the baseline and the first replay; None if
    there was no comparison. ``approved`` is the hash of the baseline. ``means`` are the means of every measure by arm.
    """

    name: str
    verdict: Verdict
    again: Changes | None
    exact: Changes | None
    approved: str | None
    means: dict[str, dict[str, float | None]]
    primary: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
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
    """A nightly run: its plan, date and commit, and the result of each set."""

    plan: str
    about: str
    date: str
    folder: Path
    commit: str | None
    sets: tuple[SetResult, ...]
    baselines: Path

    @property
    def approve_all(self) -> str | None:
        """Return the command that approves all sets, if at least two reproducible ones have no baseline; else None."""
        without = [
            result for result in self.sets if result.again and not result.again.changed and result.approved is None
        ]
        return _approve(self.folder, self.baselines) if len(without) > 1 else None

    @property
    def trial(self) -> tuple[str, ...]:
        """Return the reasons why the results are not evidence, each once."""
        return tuple(dict.fromkeys(reason for result in self.sets for reason in result.verdict.trial))

    @property
    def status(self) -> str:
        """Return the most severe status of all sets."""
        return min((result.verdict.status for result in self.sets), key=GRAVITY.index)

    @property
    def exit_code(self) -> int:
        """Return the exit code: 0 pass, 1 fail, 3 inconclusive, 4 error."""
        return EXIT[self.status]

    def as_json(self) -> dict[str, Any]:
        """Return the content of nightly.json as plain values."""
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
            "sets": [result.as_json() for result in self.sets],
        }


def identity(plan: NightlyPlan) -> dict[str, Any]:
    """Return what the receipts depend on: the plan's name, hashes of sets and code, and versions of packages.

    Reads and checks every set before anything is replayed; raises :class:`lab.errors.UnusableInput` for a set that
    cannot be replayed.
    """
    sets = {}
    for nightly_set in plan.sets:
        try:
            sets[nightly_set.name] = digest(make_plan(nightly_set.asked).resolved())
        except UnusableInput as error:
            raise UnusableInput(f"{plan.where}: set {nightly_set.name!r}: {error}") from None
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
    """Make or resume a nightly run, and add it to the history in ``store``.

    ``out`` is its folder; the default is one in :data:`NIGHTLY_FOLDER` named by the date and the inputs of the run, so
    that an edit of the code or the plan starts a new one. ``date`` is a day as YYYY-MM-DD. An error in one set becomes
    the verdict of that set, and the others continue; a full disk ends the nightly run. Raises :class:`OtherArguments`
    if ``out`` was begun with another plan, other recordings or other code.
    """
    key = identity(plan) | {"date": check_date(date)}
    out = out or NIGHTLY_FOLDER / f"{date}-{digest(key)[:8]}"
    with only_writer(out):
        _begin(out, key)
        sets = []
        for number, nightly_set in enumerate(plan.sets, 1):
            announce(f"{nightly_set.name} (set {number} of {len(plan.sets)})")
            sets.append(_run_set(nightly_set, plan, out, date, baselines, store, jobs, announce))
    return NightlyRun(plan.name, plan.about, date, out, _commit(out, plan), tuple(sets), baselines)


def write_nightly(nightly_run: NightlyRun) -> list[Path]:
    """Write nightly.json, nightly.xml (JUnit) and nightly.prom (OpenMetrics), with one suite or verdict per set."""
    verdicts = [result.verdict for result in nightly_run.sets]
    files = {
        nightly_run.folder / RESULT: dump_json(nightly_run.as_json()),
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
    others = [] if path.exists() else [child.name for child in out.iterdir() if child.name[0] != "."]
    if others:
        raise UnusableInput(f"{out}: holds something else ({min(others)}); choose another --out")
    write_atomically(path, dump_json(key))


def _run_set(
    nightly_set: NightlySet,
    plan: NightlyPlan,
    out: Path,
    date: str,
    baselines: Path,
    store: Path,
    jobs: int,
    announce: Announce,
) -> SetResult:
    folder = out / "sets" / file_name(nightly_set.name)
    lines: list[Line] = []
    again = exact = baseline = None
    means: dict[str, dict[str, float | None]] = {}
    primary: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    try:
        run = _replayed(nightly_set, folder / "run", jobs, announce, kept=True)
        reasons = trial_of(run)
        # The second replay uses other processes: the iteration order of a Python set differs between processes.
        announce(f"{nightly_set.name}: second replay, without caches")
        again = changes(run, _replayed(nightly_set, folder / "again", max(jobs, 2), announce, kept=False))
        lines.append(_reproduces(again))
        if not again.changed:
            baseline = find(baselines, nightly_set.baseline)
            exact = _exact(lines, nightly_set, run, baseline, out, baselines)
            lines += _against(plan.policy, run, exact, _approve(run.path, baselines, nightly_set.baseline))
            for within in nightly_set.compare:
                lines += _within(within, run)
            scores = score_and_write(run)
            summary = summarise(scores, read_gold(run), run.arms)["arms"]
            means = {arm: summary[arm]["measures"] for arm in run.arms}
            points = points_of(run, scores, date=date, plan=plan.name, name=nightly_set.name, verdict=overall(lines))
            primary = tuple(dict.fromkeys(point.measure for point in points if point.primary))
            append(store, points)
    except CannotWrite:
        raise
    except LabError as error:
        lines.append(Line(SET, "measured", ERROR, True, str(error)))
    verdict = Verdict(
        f"{plan.name}/{nightly_set.name}",
        plan.about,
        str(folder / "run"),
        nightly_set.baseline,
        None,
        overall(lines),
        tuple(lines),
        against=str(exact.before) if exact else None,
        trial=reasons,
    )
    return SetResult(nightly_set.name, verdict, again, exact, baseline.now.object if baseline else None, means, primary)


def _replayed(nightly_set: NightlySet, folder: Path, jobs: int, announce: Announce, *, kept: bool) -> RunDirectory:
    outcome = run_replay(nightly_set.asked, folder, jobs=jobs, use_cache=kept, announce=announce)
    if outcome.failures:
        first = outcome.failures[0]
        raise CannotMeasure(
            f"{counted(len(outcome.failures), 'conversation')} could not be replayed; {first['conversation']}: "
            f"{first['reason']}; all reasons are in {folder / 'failures.jsonl'}"
        )
    return outcome.run


def _reproduces(again: Changes) -> Line:
    if not again.changed:
        reason = f"two replays gave the same {again.turns} receipts"
        return Line(AGAIN, "receipts", PASS, True, reason, n=again.turns)
    reason = (
        f"the replay is nondeterministic: {again.changed} of {again.turns} receipts differ between two replays "
        f"of the same code ({_named([arm for arm in again.arms if arm.changed])}); nothing else was judged"
    )
    return Line(AGAIN, "receipts", ERROR, True, reason, n=again.turns)


def _exact(
    lines: list[Line], nightly_set: NightlySet, run: RunDirectory, baseline: Baseline | None, out: Path, folder: Path
) -> Changes | None:
    """Compare a run with the baseline; if that is impossible, append the reason to ``lines`` and return None."""
    approve = _approve(run.path, folder, nightly_set.baseline)
    if baseline is None:
        reason = f"there is no baseline {nightly_set.baseline!r} in {folder} to compare with"
        lines.append(Line(BASELINE_LINE, nightly_set.baseline, INCONCLUSIVE, True, reason, approve))
        return None
    try:
        return changes(_copied(baseline, out / "baselines" / baseline.now.object[:16]), run)
    except (NotComparable, NotARun) as error:
        # NotARun: another version of the lab wrote the baseline, and this version cannot read its manifest.
        reason = f"not comparable with baseline {nightly_set.baseline!r}: {error}"
        lines.append(
            Line(
                BASELINE_LINE,
                nightly_set.baseline,
                INCONCLUSIVE,
                True,
                reason,
                f"{approve} (if the change is intended)",
            )
        )
        return None


def _approve(path: Path, folder: Path, name: str | None = None) -> str:
    """Return the command that approves one run, or a whole nightly run, as a baseline."""
    options = ["--name", name] if name else []
    return join(["lab", "baseline", "approve", str(path), *options, "--baselines", str(folder)])


def _copied(baseline: Baseline, folder: Path) -> RunDirectory:
    """Copy the baseline into the folder of the nightly run, because its name may refer to another run later."""
    kept = open_baseline(baseline)
    names = read_json(kept.path / "object.json")
    for subfolder in (folder, folder / "receipts"):
        remove_leftovers(subfolder)
    # Copy the manifest last, so that an interrupted copy is not mistaken for a run.
    for name in sorted(names, key=lambda name: name == "manifest.json"):
        if not (folder / name).is_file():
            write_atomically(folder / name, (kept.path / name).read_bytes())
    return open_run(folder)


def _against(policy: Policy, run: RunDirectory, exact: Changes | None, approve: str) -> Iterator[Line]:
    """Compare every arm with the baseline exactly, then judge it by the rules of the policy."""
    if exact is None:
        for name in run.arms:
            yield from _judged(policy, run, name, ALONE)
        return
    # The policy's exact rules say whether a change fails or is advisory.
    critical = any(rule.kind == "exact" and rule.critical for rule in policy.rules)
    approve = f"{approve} (if the change is intended)"
    for arm in exact.arms:
        changed = len(arm.changed)
        reason = f"all {arm.turns} receipts equal the baseline's"
        if changed:
            moved = "; ".join(exact.moved) or "none"
            reason = f"{changed} of {arm.turns} receipts changed ({_named([arm])}); manifest differences: {moved}"
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
    for arms, where in ((exact.only_after, "is not in the baseline"), (exact.only_before, "is only in the baseline")):
        for name in arms:
            yield Line("exact", f"{name} receipts", INCONCLUSIVE, True, f"arm {name} {where}", approve)


def _judged(
    policy: Policy, run: RunDirectory, arm: str, kinds: Sequence[str], against: RunDirectory | None = None
) -> Iterator[Line]:
    """Judge one arm by the rules of some kinds."""
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
    """Describe the changes: the first changed turns of some arms, and all columns that changed."""
    columns = ", ".join(dict.fromkeys(name for arm in arms for name in arm.columns))
    turns = [f"{change.turn} of {arm}" for arm, change in foremost(arms)]
    more = f" and {len(turns) - NAMED} more" if len(turns) > NAMED else ""
    return f"{', '.join(turns[:NAMED])}{more}; in {columns}"


def _commit(out: Path, plan: NightlyPlan) -> str | None:
    try:
        run = open_run(out / "sets" / file_name(plan.sets[0].name) / "run")
    except LabError:
        return None
    return run.manifest.environment.commit
