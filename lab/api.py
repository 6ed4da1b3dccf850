"""The lab from Python: a function a command, of the same name, over the same code. Importing it loads nothing heavy.

``read -> replay -> score -> compare -> judge -> report``; what a function returns, the next one takes. Every function
raises the exceptions of :mod:`lab.errors`, whose exit codes the command line ends with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

if TYPE_CHECKING:
    from lab.compare.paired import Comparison
    from lab.gate.verdict import Verdict
    from lab.notebook import Run
    from lab.recordings.readers import Library
    from lab.replay.explain import Explanation
    from lab.runs.directory import RunDirectory
    from lab.systems.contract import Arm

ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid")


class Options(TypedDict, total=False):
    """How to replay; each is an option of ``lab replay`` (docs/reference/cli.md), with its default."""

    golden: str | None
    store: str
    profile: str
    memories: str | None
    labels: str | None
    must_share: float | None
    nice_share: float | None
    seed: int
    scope: str
    recall_turns: str | None
    max_items: int | None
    depth: int
    limit: int | None
    conversation: tuple[str, ...]
    config: str | None
    embedder: str
    faults: tuple[str, ...]
    memories_from: str | None
    hard_rules: int
    categories: str
    vectors: str
    source: str


@dataclass(frozen=True, slots=True)
class Scored:
    """The means of a run. ``summary`` is what ``lab score --json`` prints."""

    summary: Mapping[str, Any]

    @property
    def means(self) -> dict[str, dict[str, float | None]]:
        """``{arm: {measure: mean}}``; None: there is no value of it."""
        return {arm: dict(one["measures"]) for arm, one in self.summary["arms"].items()}


def replay(
    recordings: str | Path | Library,
    *,
    arms: Sequence[str | Arm] = ARMS,
    out: str | Path,
    format: str = "lab",  # noqa: A002 - the name of the option
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
    **options: Unpack[Options],
) -> Run:
    """Replay recordings through arms into the run directory ``out``; the same call again finishes what is missing.

    An arm is a name, ``NAME=FILE``, or an object (:class:`lab.systems.contract.Arm`), which must be picklable where
    ``jobs`` is more than one. Raises :class:`lab.errors.CannotMeasure` where a conversation failed.
    """
    from lab.errors import CannotMeasure
    from lab.notebook import Run
    from lab.recordings.readers import Library
    from lab.replay.plan import ReplayRequest
    from lab.replay.run import run_replay
    from lab.set_registry import golden_at, recordings_at

    library = recordings if isinstance(recordings, Library) else None
    if library is not None:
        options.setdefault("memories", library.memories)
        format = library.format.name  # noqa: A001 - as the parameter is called
    path = str(library.path if library is not None else recordings_at(str(recordings)))
    if golden := options.get("golden"):
        options["golden"] = str(golden_at(golden))
    names = tuple(one if isinstance(one, str) else one.name for one in arms)
    made = {one.name: one for one in arms if not isinstance(one, str)}
    asked = ReplayRequest(path, format, names, **options)
    outcome = run_replay(asked, Path(out), jobs=jobs, announce=announce, made=made)
    if outcome.failures:
        first = outcome.failures[0]
        raise CannotMeasure(f"{out}: {len(outcome.failures)} conversations failed, the first: {first['reason']}")
    return Run(outcome.run)


def open_run(path: str | Path) -> Run:
    """A run that is there."""
    from lab.notebook import open_run as opened

    return opened(path)


def score(run: str | Path | Run) -> Scored:
    """Score a run, and keep every value in its ``scores.parquet``."""
    from lab.measures.score import score_and_write, summarise
    from lab.runs.gold import read_gold

    directory = _directory(run)
    return Scored(summarise(score_and_write(directory), read_gold(directory), directory.arms))


def compare(run: str | Path | Run, baseline: str, candidate: str, *, primary: Sequence[str] = ()) -> Comparison:
    """Two arms over the same turns, of this run or of another (``DIR:ARM``)."""
    from lab.compare.paired import compare_arms

    return compare_arms(_directory(run), baseline, candidate, primary=primary)


def judge(
    run: str | Path | Run | None = None,
    *,
    policy: str | Path = "rollout",
    against: str | Path | Run | None = None,
    receipts: str | Path | None = None,
) -> Verdict:
    """Judge a run, an audit of live receipts, or both, by a policy. Nothing is written."""
    from lab.gate.policy import read_policy
    from lab.gate.receipts import read_audit
    from lab.gate.verdict import judge as judged

    return judged(
        read_policy(str(policy)),
        _directory(run) if run is not None else None,
        against=_directory(against) if against is not None else None,
        audit=read_audit(Path(receipts)) if receipts is not None else None,
    )


def report(
    run: str | Path | Run, baseline: str | None = None, candidate: str | None = None, *, with_text: bool = False
) -> list[Path]:
    """Write report.html, report.md and figures/ into a run; return the files."""
    from lab.report.build import build_report

    return list(build_report(_directory(run), baseline, candidate, with_text=with_text))


def explain(run: str | Path | Run, turn: str, arm: str | None = None) -> Explanation:
    """Why each memory has its place in one turn of one arm, by default the first."""
    from lab.replay.explain import explain as explained

    directory = _directory(run)
    return explained(directory, turn, arm or directory.arms[0])


def _directory(run: str | Path | Run) -> RunDirectory:
    from lab.notebook import Run
    from lab.runs.directory import open_run as opened

    return run.directory if isinstance(run, Run) else opened(Path(run))
