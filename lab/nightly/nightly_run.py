"""Nightly runs: replay every set of a plan twice, compare the replays, compare with the baseline, judge by policy.

::

    OUT/begun.json                hashes of the inputs; a nightly run with other inputs needs another folder
    OUT/sets/<set>/run, again     the two replays; an interruption loses at most one conversation
    OUT/sets/<set>/since          a host's home as it is now, and the two replays of what its snapshot lacks
    OUT/baselines/<object>        copies of the baselines used, so that the links and commands on the pages stay valid
    OUT/nightly.json, .html, .md, .xml (JUnit), .prom (OpenMetrics)

Repeating the command resumes the replays. It always makes the comparisons again, in less than a second, so that it uses
a baseline that was approved in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lab.base.code import __version__, code_key
from lab.base.errors import CannotMeasure, CannotWrite, LabError, OtherArguments, UnusableInput
from lab.base.files import digest, dump_json, file_name, only_writer, read_json, remove_leftovers, write_atomically
from lab.base.formatting import Announce, counted, silent
from lab.base.progress import each_once
from lab.compare.changes import Changes, changes
from lab.gate.line import ADDED, AGAIN, BASELINE_LINE, ERROR, GRAVITY, INCONCLUSIVE, PASS, SET, Line
from lab.gate.outputs import junit, openmetrics
from lab.gate.rejudge import Stale, differing
from lab.gate.verdict import EXIT, Verdict, overall
from lab.host.snapshot import open_snapshot, snapshots
from lab.measures.score import score_and_write, score_run, summarise
from lab.nightly.against import (
    SINCE,
    Apart,
    against,
    apart_from_baseline,
    apart_from_snapshot,
    apart_of,
    approve,
    compare,
    named,
    rules_apart,
    within,
)
from lab.nightly.baselines import BEGUN, check_date, find
from lab.nightly.nightly_folder import KIND, RESULT
from lab.nightly.plan import JUDGE, NightlyPlan, NightlySet, read_plan
from lab.nightly.trend import append, earlier_runs, points_of
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory, open_run
from lab.runs.notes import config_notes, trial_of
from lab.runs.request import ReplayRequest
from lab.runs.resume import packages
from lab.runs.scores import read_gold

NIGHTLY_FOLDER = Path("reports/nightly")


@dataclass(frozen=True, slots=True)
class SetResult:
    """The result of one set of a nightly run.

    ``again`` compares the receipts of the two replays, ``exact`` those of the baseline and the first replay; None if
    there was no comparison. ``approved`` is the hash of the baseline. ``means`` are the means of every measure by arm.
    ``apart`` are conversations that the baseline lacks, None if there are none.
    """

    name: str
    verdict: Verdict
    again: Changes | None
    exact: Changes | None
    approved: str | None
    means: dict[str, dict[str, float | None]]
    primary: tuple[str, ...]
    apart: Apart | None = None

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
            "apart": self.apart.as_json() if self.apart else None,
        }


@dataclass(frozen=True, slots=True)
class NightlyRun:
    """A nightly run: its plan, date, commit and hash of the code, and the result of each set."""

    plan: str
    about: str
    date: str
    folder: Path
    commit: str | None
    sets: tuple[SetResult, ...]
    baselines: Path
    code: str = ""
    plan_file: str = ""

    @property
    def approve_all(self) -> str | None:
        """Return the command that approves all sets, if at least two reproducible ones have no baseline; else None."""
        without = [
            result for result in self.sets if result.again and not result.again.changed and result.approved is None
        ]
        return approve(self.folder, self.baselines) if len(without) > 1 else None

    @property
    def trial(self) -> tuple[str, ...]:
        """Return the reasons why the results are not evidence, each once."""
        return tuple(dict.fromkeys(reason for result in self.sets for reason in result.verdict.trial))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the configurations of arms mean for the figures, such as another embedder, each once."""
        return tuple(dict.fromkeys(note for result in self.sets for note in result.verdict.embedder))

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
            "plan_file": self.plan_file,
            "about": self.about,
            "date": self.date,
            "status": self.status,
            "lab": __version__,
            "commit": self.commit,
            "code": self.code,
            "sets": [result.as_json() for result in self.sets],
        }


def identity(plan: NightlyPlan) -> dict[str, Any]:
    """Return what the receipts depend on: the plan's name, hashes of sets and code, and versions of packages.

    Reads and checks every set before anything is replayed; raises :class:`lab.base.errors.UnusableInput` for a set that
    cannot be replayed.
    """
    sets = {}
    roots: set[str] = set()
    for nightly_set in plan.sets:
        try:
            if frozen := nightly_set.frozen:
                open_snapshot(frozen.path, frozen.sha256)
            planned = make_plan(nightly_set.asked)
            roots.update(planned.code_roots())
            resolved = planned.resolved()
            sets[nightly_set.name] = digest([resolved, frozen.sha256] if frozen else resolved)
        except UnusableInput as error:
            raise UnusableInput(f"{plan.where}: set {nightly_set.name!r}: {error}") from None
    return {
        "plan": plan.name,
        "sets": sets,
        "code": code_key(*roots),
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
    where = str(Path(plan.where).absolute())
    out = out or NIGHTLY_FOLDER / f"{date}-{digest(key)[:8]}"
    with only_writer(out):
        _begin(out, key)
        sets = []
        for number, nightly_set in enumerate(plan.sets, 1):
            announce(f"{nightly_set.name} (set {number} of {len(plan.sets)})")
            sets.append(_run_set(nightly_set, plan, out, date, baselines, store, jobs, each_once(announce)))
    return NightlyRun(plan.name, plan.about, date, out, _commit(out, plan), tuple(sets), baselines, key["code"], where)


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
    again = exact = baseline = apart = None
    means: dict[str, dict[str, float | None]] = {}
    primary: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    try:
        run, again = _twice(nightly_set.asked, folder, nightly_set.name, jobs=jobs, announce=announce)
        reasons = trial_of(run)
        notes = config_notes(run.manifest.resolved)
        lines.append(_reproduces(again))
        if not again.changed:
            baseline = find(baselines, nightly_set.baseline)
            exact = compare(lines, nightly_set, run, baseline, out, baselines)
            command = approve(run.path, baselines, nightly_set.baseline)
            same = run.of(exact.common.same) if exact else run
            lines += _by_rules(nightly_set, plan, run, exact, command)
            earlier = list(
                earlier_runs(out, plan.name, nightly_set.name, date, baseline.now.date if baseline else None)
            )
            if nightly_set.frozen:
                apart = apart_from_snapshot(
                    nightly_set,
                    plan.policy,
                    nightly_set.frozen,
                    folder / SINCE,
                    date,
                    earlier,
                    partial(_twice, jobs=jobs, announce=announce),
                    announce,
                )
            elif exact:
                apart = apart_from_baseline(nightly_set, plan.policy, run, exact.common, earlier)
            lines += apart.lines if apart else ()
            scores = score_and_write(run)
            scores = scores if same is run else score_run(same)
            run = same
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
        embedder=notes,
        trial=reasons,
    )
    approved = baseline.now.object if baseline else None
    return SetResult(nightly_set.name, verdict, again, exact, approved, means, primary, apart)


def _by_rules(
    nightly_set: NightlySet, plan: NightlyPlan, run: RunDirectory, exact: Changes | None, command: str
) -> Iterator[Line]:
    yield from against(plan.policy, run, exact, nightly_set.baseline, command)
    same = run.of(exact.common.same) if exact else run
    for pair in nightly_set.compare:
        yield from within(pair, same)


def require_derived(result: Mapping[str, Any], verdicts: Mapping[str, Verdict], folder: Path) -> str:
    """Judge the runs of a nightly run again; return what could not be judged again as a clause, "" if nothing.

    ``result`` is the content of nightly.json, ``verdicts`` those of its sets. What its lines say of the replays, of the
    copy of the baseline and of the rules of the plan must be what the runs give. Raises :class:`Stale` if it is not.
    """
    unchecked = ""
    try:
        plan = read_plan(str(result.get("plan_file")))
    except UnusableInput:
        return "its plan is not there"
    for entry in result["sets"]:
        name, verdict = entry["name"], verdicts[entry["name"]]
        if any(line.kind == SET for line in verdict.lines):
            # It says that something failed, and nothing is graver.
            continue
        place = folder / "sets" / file_name(name)
        if not (place / "run").is_dir():
            return "its runs are not there"
        try:
            nightly_set = next(one for one in plan.sets if one.name == name)
            run = open_run(place / "run")
            again = changes(run, open_run(place / "again"))
            before = folder / "baselines" / Path(verdict.against).name if verdict.against else None
            exact = changes(open_run(before), run) if before and not again.changed else None
            lines = [_reproduces(again), *([] if again.changed else _by_rules(nightly_set, plan, run, exact, ""))]
            view = None if again.changed else _apart(nightly_set, place / SINCE, run, exact)
            lines += rules_apart(nightly_set, plan.policy, view) if view else []
            # What earlier nightly runs had decides the other lines. Lines that were taken out cannot say so themselves.
            has_more = view is not None or _may_lack(nightly_set, place / SINCE / "home")
            if nightly_set.added == JUDGE and not again.changed and has_more:
                unchecked = "what was added since is not compared again with earlier nightly runs"
        except (LabError, StopIteration) as error:
            raise Stale(f"set {name!r} cannot be judged again: {error or 'its plan has no such set'}") from None
        for what, now in (("reproduces", again), ("exact", exact)):
            if (entry[what] or {}).get("changed") != (now.changed if now else None):
                raise Stale(f"set {name!r}: the changes that it counts ({what}) are not those of its runs")
        known = [line for line in verdict.lines if line.kind != ADDED]
        if exact is None and not again.changed:
            lacks = [line for line in known if line.kind == BASELINE_LINE and line.status == INCONCLUSIVE]
            if not lacks:
                raise Stale(f"set {name!r} names no baseline, and does not say that there is none")
            known = [line for line in known if line not in lacks]
        if (problem := next(differing(known, lines), None)) is not None:
            raise Stale(f"set {name!r}: {problem}")
        if not {*trial_of(run)} <= {*verdict.trial} <= {*result["trial"]}:
            raise Stale(f"set {name!r}: does not say what makes its run a trial")
    return unchecked


def _apart(nightly_set: NightlySet, folder: Path, run: RunDirectory, exact: Changes | None) -> RunDirectory | None:
    """Return the run of the conversations that were judged apart; None if there was none."""
    if nightly_set.frozen is None:
        return apart_of(run, exact.common) if exact else None
    if not (folder / "run").is_dir():
        return None
    view = open_run(folder / "run")
    return None if changes(view, open_run(folder / "again")).changed else view


def _may_lack(nightly_set: NightlySet, root: Path) -> bool:
    """Return whether the snapshot of a set may lack what its home had: the copy of the home differs, or is gone."""
    taken, frozen = snapshots(root), nightly_set.frozen
    return frozen is not None and not (taken and open_snapshot(taken[-1]).sha256 == frozen.sha256)


def _twice(
    asked: ReplayRequest, folder: Path, name: str, *, jobs: int, announce: Announce
) -> tuple[RunDirectory, Changes]:
    """Replay a request twice into a folder; return the first run, and what differs in the second."""
    run = _replayed(asked, folder / "run", jobs, announce, kept=True)
    # The second replay uses other processes: the iteration order of a Python set differs between processes.
    announce(f"{name}: second replay, without caches")
    return run, changes(run, _replayed(asked, folder / "again", max(jobs, 2), announce, kept=False))


def _replayed(asked: ReplayRequest, folder: Path, jobs: int, announce: Announce, *, kept: bool) -> RunDirectory:
    outcome = run_replay(asked, folder, jobs=jobs, use_cache=kept, announce=announce)
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
        f"of the same code ({named([arm for arm in again.arms if arm.changed])}); nothing else was judged"
    )
    return Line(AGAIN, "receipts", ERROR, True, reason, n=again.turns)


def _commit(out: Path, plan: NightlyPlan) -> str | None:
    try:
        run = open_run(out / "sets" / file_name(plan.sets[0].name) / "run")
    except LabError:
        return None
    return run.manifest.environment.commit
