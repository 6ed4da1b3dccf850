"""What happens to recall as the must pool grows: the failure that seed 000 describes, measured.

Every draw of labels (:mod:`lab.sweep.draws`) is a replay by the loop. What is asked at a moment is scored once; every
draw is then a mask over it (:mod:`lab.sweep.masks`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.embedding.embedder import DEFAULT_MODEL
from lab.errors import CannotMeasure, UnusableInput
from lab.measures.definitions.gold_nice import gold_nice
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.definitions.success import success
from lab.measures.ranking import judge
from lab.measures.repetition import selections_of
from lab.processes import worker_pool
from lab.recordings.model import MUST, NICE, Memory, Recording
from lab.replay.loop import replay
from lab.replay.plan import Plan, ReplayRequest, make_plan
from lab.replay.recall_points import RecallPoint
from lab.replay.sources import Sources, open_sources, play_of, prepare, tools_of
from lab.runs.tables import write_table
from lab.sweep.draws import Draw, saturating
from lab.sweep.masks import Masks
from lab.systems.registry import policies

if TYPE_CHECKING:
    import pyarrow as pa

REFERENCES = ("hybrid", "oracle")
# Whatever was injected counts, at any place.
ANY = sys.maxsize


class Point(NamedTuple):
    """One draw scored over all conversations.

    ``must`` is the mean number of must memories a conversation ends with; null references have no share.
    """

    mode: str
    share: float | None
    seed: int | None
    arm: str
    must: float | None
    hit: float
    gold_nice: float | None
    repeat: float | None


class Tally(NamedTuple):
    """Sums of one conversation, so that conversations can be added up.

    Hits, probes, gold-nice hits and probes, repeat sum and turns, must rows.
    """

    hits: float
    probes: int
    nice_hits: float
    nice_probes: int
    repeat: float
    turns: int
    must: int


Key = tuple[str, float | None, int | None, str]
Job = tuple[Plan, Recording, tuple[Draw, ...]]


def saturation(
    path: Path,
    format_name: str,
    *,
    golden: Path | None = None,
    seeds: int = 3,
    scope: str = "none",
    embedder: str = DEFAULT_MODEL,
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
) -> list[Point]:
    """Score every policy at every share, mode and seed, with hybrid and oracle for reference.

    Shares that a mode cannot reach (gold memories never become must in ``distractors``) are left out. Raises
    :class:`UnusableInput` for recordings without gold.
    """
    asked = ReplayRequest(
        str(path),
        format_name,
        (*policies(), *REFERENCES),
        golden=str(golden) if golden else None,
        labels="sampled",
        scope=scope,
        embedder=embedder,
    )
    plan = make_plan(asked)
    if not any(probe.relevant for probe in plan.library.golden.probes):
        raise UnusableInput(f"{path}: has no probe with gold, so there is nothing to hit")
    prepare(plan, plan.recordings, open_sources(plan), announce)
    draws = saturating(plan, seeds)
    tallies: dict[Key, list[Tally]] = {}
    for number, part in enumerate(_each([(plan, recording, draws) for recording in plan.recordings], jobs), 1):
        announce(f"{number} of {len(plan.recordings)} conversations")
        for key, tally in part.items():
            tallies.setdefault(key, []).append(tally)
    return [_point(key, [Tally(*map(sum, zip(*parts, strict=True)))][0], len(parts)) for key, parts in tallies.items()]


def _point(key: Key, tally: Tally, conversations: int) -> Point:
    mode, share, seed, arm = key
    return Point(
        mode,
        share,
        seed,
        arm,
        tally.must / conversations if share is not None else None,
        tally.hits / tally.probes if tally.probes else 0.0,
        tally.nice_hits / tally.nice_probes if tally.nice_probes else None,
        tally.repeat / tally.turns if tally.turns else None,
    )


def _each(jobs_to_do: list[Job], jobs: int) -> Iterator[dict[Key, Tally]]:
    if jobs <= 1 or len(jobs_to_do) == 1:
        yield from map(_conversation, jobs_to_do)
        return
    with worker_pool(min(jobs, len(jobs_to_do))) as pool:
        yield from pool.map(_conversation, jobs_to_do)


def _conversation(job: Job) -> dict[Key, Tally]:
    plan, recording, draws = job
    sources = open_sources(plan)
    prepare(plan, [recording], sources, lambda _: None)  # all of them found at once; they are there
    masks = Masks(lambda retrieval: sources.retriever(retrieval, plan.asked.store))
    # References look at no label, so they are scored once. They have no GoldNice: it depends on a draw.
    references = {
        ("reference", None, None, name): tally
        for name, tally in _replayed(_with(plan, labelled=False), recording, sources, masks, drawn=False)
    }
    found: dict[Key, Tally] = {}
    labelled = _with(plan, labelled=True)
    for draw in draws:
        drawn = replace(labelled, labels=draw.labels(plan.labels))
        for name, tally in _replayed(drawn, recording, sources, masks, drawn=True):
            found[*draw, name] = tally
    return found | references


def _with(plan: Plan, *, labelled: bool) -> Plan:
    """The plan of those arms alone that look at labels, or do not."""
    at = [place for place, info in enumerate(plan.infos) if info.labelled == labelled]
    return replace(plan, arms=tuple(plan.arms[one] for one in at), infos=tuple(plan.infos[one] for one in at))


def _replayed(
    plan: Plan, recording: Recording, sources: Sources, masks: Masks, *, drawn: bool
) -> Iterator[tuple[str, Tally]]:
    """Each arm of a plan with its tally. A recall that fails is :class:`CannotMeasure`."""
    play = replace(play_of(plan, recording, tools_of(plan, recording, sources, masks.keeping)), items_only=True)
    chosen: dict[str, list[list[str]]] = {arm.name: [] for arm in plan.arms}
    for answered in replay(play, plan.arms, infos=plan.infos):
        recall = answered.recall
        if answered.failure:
            raise CannotMeasure(f"{answered.point.key}: arm {answered.arm} failed: {answered.failure}")
        chosen[answered.arm].append([item.id for item in recall.items[: recall.injected]])
    memories = play.memories if drawn else [replace(memory, label=None) for memory in play.memories]
    for name, selections in chosen.items():
        yield name, _tally(selections, play.recall_points, memories)


def _tally(selections: Sequence[Sequence[str]], happening: Sequence[RecallPoint], memories: Sequence[Memory]) -> Tally:
    import numpy as np

    known = {memory.key: memory for memory in memories}
    injected, grades, nice = [], [], []
    for point, keys in zip(happening, selections, strict=True):
        if point.probe is None or not point.probe.relevant:
            continue
        gold = point.probe.grades
        injected.append(keys)
        grades.append(gold)
        nice.append({key: 1 for key in gold if known[key].label == NICE and known[key].is_visible_at(point.seq)})
    hits = success(judge(injected, grades), ANY)
    nice_hits = gold_nice(judge(injected, nice), ANY)
    rates = repeat_rates(
        selections_of([ids for point, ids in zip(happening, selections, strict=True) if point.recalls])
    )
    return Tally(
        float(hits.sum()),
        len(hits),
        float(np.nansum(nice_hits)),
        int(np.count_nonzero(~np.isnan(nice_hits))),
        sum(rates[~np.isnan(rates)].tolist()),
        int(np.count_nonzero(~np.isnan(rates))),
        sum(memory.label == MUST for memory in memories),
    )


def write_points(points: Sequence[Point], path: Path) -> pa.Table:
    """Write the points as Parquet and return the table."""
    import pyarrow as pa

    types = (pa.string(), pa.float64(), pa.int32(), pa.string(), pa.float64(), pa.float64(), pa.float64(), pa.float64())
    columns = list(zip(*points, strict=True))
    table = pa.table(
        {name: pa.array(column, kind) for name, column, kind in zip(Point._fields, columns, types, strict=True)}
    )
    write_table(table, path)
    return table


def means(points: Sequence[Point]) -> dict[tuple[str, str], list[float | None]]:
    """Must memories, hit, nice gold and repeats, each the mean over seeds, by ``(mode and share, arm)``."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        name = point.mode if point.share is None else f"{point.mode} {point.share:.2f}"
        groups.setdefault((name, point.arm), []).append(point)
    return {
        key: [_mean(values) for values in zip(*(one[4:] for one in some), strict=True)] for key, some in groups.items()
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
