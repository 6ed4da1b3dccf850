"""The public Python API: the main commands as functions, which run the same code as the commands.

:func:`replay` takes recordings (:func:`lab.recordings.read`) and returns a run. :func:`score`, :func:`compare`,
:func:`judge`, :func:`explain` and :func:`report` take that run, or the path of a run directory. All raise the
exceptions of :mod:`lab.base.errors`, which also define the exit codes of the command line. Heavy imports are inside the
functions, so that ``import lab`` is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lab.base.formatting import silent
from lab.runs.request import Options as Options

if TYPE_CHECKING:
    from lab.compare.paired import Comparison
    from lab.gate.verdict import Verdict
    from lab.notebook import Run
    from lab.recordings.readers import Library
    from lab.replay.explain import Explanation
    from lab.runs.directory import RunDirectory
    from lab.systems.contract import Arm

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid")


@dataclass(frozen=True, slots=True)
class Scored:
    """The mean scores of a run. ``summary`` is the object that ``lab score --json`` prints."""

    summary: Mapping[str, Any]

    @property
    def means(self) -> dict[str, dict[str, float | None]]:
        """``{arm: {measure: mean}}``; None where the measure has no value."""
        return {arm: dict(scores["measures"]) for arm, scores in self.summary["arms"].items()}


@dataclass(frozen=True, kw_only=True)
class Replay(Options):
    """The arguments of :func:`replay`: its own, and each option of ``lab replay`` with the same default."""

    recordings: str | Path | Library = field(kw_only=False)
    arms: Sequence[str | Arm] = ARMS
    out: str | Path
    format: str = "lab"
    jobs: int = 1
    announce: Callable[[str], None] = silent


def _takes(arguments: Callable[P, T]) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Return a decorator that gives a function the parameters of a record, for a type checker as well."""

    def decorate(function: Callable[[T], R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            return function(arguments(*args, **options))

        shown = signature(arguments).replace(return_annotation=signature(function).return_annotation)
        call.__signature__ = shown  # type: ignore[attr-defined]  # for help()
        return call

    return decorate


@_takes(Replay)
def replay(given: Replay) -> Run:
    """Replay recordings through arms into the run directory ``out`` and return the run.

    Repeating the call finishes an interrupted run. ``recordings`` is a path, ``shipped:NAME``, or what
    :func:`lab.recordings.read` returns. An arm is a name, ``NAME=FILE`` for an arm with its own configuration, or an
    object (:class:`lab.systems.contract.Arm`), which must be picklable if ``jobs``, the number of processes, is greater
    than 1. ``announce`` receives progress messages.

    Raises :class:`lab.base.errors.UnusableInput` for unusable arguments or files,
    :class:`lab.base.errors.OtherArguments` if ``out`` was made with different arguments, and
    :class:`lab.base.errors.CannotMeasure` if a conversation failed.
    """
    from lab.base.errors import CannotMeasure
    from lab.base.formatting import counted
    from lab.base.set_registry import golden_at, recordings_at
    from lab.notebook import Run
    from lab.recordings.readers import Library
    from lab.replay.run import run_replay
    from lab.runs.request import ReplayRequest

    options = {option.name: getattr(given, option.name) for option in fields(Options)}
    path, form, library = given.recordings, given.format, given.recordings
    if isinstance(library, Library):
        options["memories"] = given.memories or library.memories
        path, form = library.path, library.format.name
    if given.golden:
        options["golden"] = str(golden_at(given.golden))
    names = tuple(arm if isinstance(arm, str) else arm.name for arm in given.arms)
    made = {arm.name: arm for arm in given.arms if not isinstance(arm, str)}
    request = ReplayRequest(str(recordings_at(str(path))), form, names, **options)
    outcome = run_replay(request, Path(given.out), jobs=given.jobs, announce=given.announce, made=made)
    if outcome.failures:
        first = outcome.failures[0]
        failed = counted(len(outcome.failures), "conversation")
        raise CannotMeasure(f"{given.out}: {failed} failed; the first error: {first['reason']}")
    return Run(outcome.run)


def open_run(path: str | Path) -> Run:
    """Open an existing run directory. Raises :class:`lab.base.errors.NotARun` if the folder has no manifest."""
    from lab.notebook import open_run as open_notebook_run

    return open_notebook_run(path)


def score(run: str | Path | Run) -> Scored:
    """Return the mean scores of a run, and write every value to its ``scores.parquet``.

    Raises :class:`lab.base.errors.Incomplete` if the run is not finished.
    """
    from lab.measures.score import score_and_write, summarise
    from lab.runs.scores import read_gold

    directory = _directory(run)
    return Scored(summarise(score_and_write(directory), read_gold(directory), directory.arms))


def compare(run: str | Path | Run, baseline: str, candidate: str, *, primary: Sequence[str] = ()) -> Comparison:
    """Compare two arms over the same turns. An arm is one of this run, or ``DIR:ARM`` of another run.

    ``primary`` names the measures to test, at most five. Raises :class:`lab.base.errors.NotComparable` if two runs
    differ in recordings, golden set, labels, scopes or turns.
    """
    from lab.compare.paired import compare_arms

    return compare_arms(_directory(run), baseline, candidate, primary=primary)


def judge(
    run: str | Path | Run | None = None,
    *,
    policy: str | Path = "rollout",
    against: str | Path | Run | None = None,
    receipts: str | Path | None = None,
    control: str | Path | None = None,
) -> Verdict:
    """Judge a run, an audit of live receipts, or both, by a gate policy. No file is written.

    ``policy`` is the name of a shipped policy or a file. ``against`` is another run: its arm with the candidate's name
    replaces the baseline. ``receipts`` is an audit that ``lab canary audit`` wrote, ``control`` another one to compare
    with. Raises :class:`lab.base.errors.UnusableInput` if no rule has its input.
    """
    from lab.gate.policy import read_policy
    from lab.gate.receipts import read_audit
    from lab.gate.verdict import judge as judge_by_policy

    return judge_by_policy(
        read_policy(str(policy)),
        _directory(run) if run is not None else None,
        against=_directory(against) if against is not None else None,
        audit=read_audit(Path(receipts)) if receipts is not None else None,
        audit_file=Path(receipts) if receipts is not None else None,
        control=read_audit(Path(control)) if control is not None else None,
        control_file=Path(control) if control is not None else None,
    )


def report(
    run: str | Path | Run,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    with_text: bool | None = None,
    slides: bool = False,
) -> list[Path]:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a run; return their paths, HTML first.

    ``with_text`` includes the texts of turns and memories; by default, only those of sets that the project ships.
    ``slides`` also draws the figures as SVG and PNG.
    """
    from lab.report.build import build_report

    return list(build_report(_directory(run), baseline, candidate, with_text=with_text, slides=slides))


def explain(run: str | Path | Run, turn: str, arm: str | None = None) -> Explanation:
    """Explain why memories were injected or dropped at one turn. The default arm is the first one of the run."""
    from lab.replay.explain import explain as explain_turn

    directory = _directory(run)
    return explain_turn(directory, turn, arm or directory.arms[0])


def _directory(run: str | Path | Run) -> RunDirectory:
    from lab.notebook import Run
    from lab.runs.directory import open_run as open_directory

    return run.directory if isinstance(run, Run) else open_directory(Path(run))
