"""Recall as a conversation gets more memories: the same replay with haystacks of several sizes.

Each size is an ordinary run in a folder of its own, so that a killed command continues where it stopped and every
figure can be explained turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import dump_json, write_atomically
from lab.base.formatting import counted
from lab.measures.latency import stages
from lab.measures.model import TOTAL
from lab.measures.score import score_and_write, summarise
from lab.replay.command import require_gold
from lab.replay.haystack import TooFew
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.notes import trial
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table, write_points
from lab.studies.points import SCALE, ScalePoint

SIZES = (0, 25, 100, 400, 1_600, 6_400)
SUMMARY = "scale.json"


@dataclass(frozen=True, slots=True)
class Scale:
    """The points of a scale, ordered by size, then arm.

    ``cutoff`` is the number of items that the rates count. ``most`` is the largest haystack that every conversation can
    be given, if a size exceeds it. ``unavailable`` lists those sizes. ``filled`` has, by size, the largest number of
    memories that a conversation took from other ``sets``. ``labels`` describes the importance labels; ``trial`` has the
    reasons why the runs are trials.
    """

    points: tuple[ScalePoint, ...]
    cutoff: int
    conversations: int
    probes: int
    most: int | None = None
    unavailable: tuple[int, ...] = ()
    sets: tuple[str, ...] = ()
    filled: Mapping[int, int] | None = None
    labels: str = "recorded"
    trial: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """What the points are means of."""
        return (
            f"{counted(self.conversations, 'conversation')}, {counted(self.probes, 'probe')} with gold, "
            f"labels {self.labels}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the scale as plain values."""
        filled = {str(size): count for size, count in (self.filled or {}).items()}
        return asdict(self) | {"points": [point._asdict() for point in self.points], "filled": filled}

    def notes(self) -> list[str]:
        """Return sentences on sizes that are missing, or filled from other sets."""
        notes = [
            f"haystack {size:,}: not available (at most {self.most:,}); --haystack-from adds another set"
            for size in self.unavailable
        ]
        for size, count in (self.filled or {}).items():
            notes.append(f"haystack {size:,}: up to {count:,} of a conversation's come from {', '.join(self.sets)}")
        return notes


def scale(
    request: ReplayRequest,
    out: Path,
    sizes: Sequence[int] = SIZES,
    *,
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
) -> Scale:
    """Replay a request with a haystack of each size into ``out``, and return the means of each arm.

    Writes ``scale.json`` and ``scale.parquet``, the latter also into each run. Searches are run, not read from the
    cache, so that they can be timed. Sizes that the recordings and the sets of ``haystack_from`` cannot fill are left
    out, and named. Raises :class:`UnusableInput` without probes to score or without sizes, and :class:`CannotMeasure`
    if a replay fails.
    """
    ordered = sorted(set(sizes))
    if not ordered or ordered[0] < 0:
        raise UnusableInput("haystacks to compare: give whole numbers from 0")
    without = make_plan(replace(request, haystack=0, haystack_from=()))
    probes = require_gold(without)
    # Every size has the same notes on the recordings, so they are announced once.
    notes = set(without.library.golden.notes)
    for note in without.library.golden.notes:
        announce(note)

    def announce_others(note: str) -> None:
        if note not in notes:
            announce(note)

    points: list[ScalePoint] = []
    unavailable: list[int] = []
    filled: dict[int, int] = {}
    sets: tuple[str, ...] = ()
    most: int | None = None
    for size in ordered:
        sized = replace(request, haystack=size, haystack_from=request.haystack_from if size else ())
        if most is not None:
            unavailable.append(size)
            continue
        announce(f"haystack {size:,}")
        try:
            run = _replayed(sized, out / f"haystack-{size}", jobs, announce_others)
        except TooFew as error:
            most = error.most
            unavailable.append(size)
            continue
        haystack = run.manifest.resolved.haystack
        if haystack and haystack.most_from_other_sets:
            filled[size] = haystack.most_from_other_sets
            sets = tuple(haystack.sets)
        points += _points(run, size)
    if not points:
        raise UnusableInput(
            f"{request.shown}: no haystack is available (at most {most}); give a smaller --haystack, or add another "
            "set with --haystack-from SET[:FORMAT]"
        )
    result = Scale(
        *(tuple(points), run.cutoff, len(without.recordings), probes, most, tuple(unavailable), sets, filled or None),
        labels=run.labels,
        trial=trial(run.manifest),
    )
    write_atomically(out / SUMMARY, dump_json({"kind": "lab.scale", **result.as_json()}))
    # In every run as well, so that its report shows the chart.
    for folder in (out, *(out / f"haystack-{size}" for size in ordered if size not in unavailable)):
        write_points(ScalePoint, result.points, folder / SCALE)
    return result


def _replayed(request: ReplayRequest, out: Path, jobs: int, announce: Callable[[str], None]) -> RunDirectory:
    outcome = run_replay(request, out, jobs=jobs, use_cache=False, announce=announce)
    if outcome.failures:
        raise CannotMeasure(f"{counted(len(outcome.failures), 'conversation')} failed; see {out / 'failures.jsonl'}")
    return outcome.run


def _points(run: RunDirectory, size: int) -> list[ScalePoint]:
    summary = summarise(score_and_write(run), read_gold(run), run.arms)
    times = {stage.arm: stage.spent for stage in stages(run) if stage.stage == TOTAL}
    reach = in_reach(run)
    points = []
    for arm in run.arms:
        means = summary["arms"][arm]["measures"]
        spent = times.get(arm)
        bounded = (spent.p50, spent.p95) if spent else (None, None)
        quantiles = [quantile.value if quantile else None for quantile in bounded]
        names = (f"Success@{run.cutoff}", f"CleanHit@{run.cutoff}", "RepeatRate")
        points.append(ScalePoint(size, arm, reach, *(means.get(name) for name in names), *quantiles))
    return points


def in_reach(run: RunDirectory) -> float | None:
    """Return the mean number of memories in reach of the probes with gold, as the first arm sees them."""
    gold = {name for name, judgements in read_gold(run).items() if judgements.grades}
    visible: list[int] = []
    for conversation in run.conversations:
        table = read_table(run.receipts(conversation), ("arm", "probe", "visible"))
        arms, probes, counts = (table[name].to_pylist() for name in ("arm", "probe", "visible"))
        rows = zip(arms, probes, counts, strict=True)
        visible += [count for arm, probe, count in rows if arm == run.arms[0] and probe in gold]
    return sum(visible) / len(visible) if visible else None
