"""What happens to recall as the must pool grows: the failure that seed 000 describes, measured.

Candidates are found once per turn; every draw of labels (:mod:`lab.sweep.draws`) is then a mask over them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.embedding.embedder import QUERY
from lab.errors import UnusableInput
from lab.measures.definitions.gold_nice import gold_nice
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.definitions.success import success
from lab.measures.ranking import judge
from lab.measures.repetition import selections_of
from lab.processes import helpers
from lab.recordings.model import LABELS, MUST, NICE, Recording
from lab.replay.loop import endings, request_of
from lab.replay.moments import Moment, moments
from lab.replay.plan import Asked, Plan, make_plan
from lab.replay.sources import open_sources, prepare
from lab.retrieval.contract import Query
from lab.retrieval.exact import ExactStore, ExactView
from lab.retrieval.faults import FaultPlan
from lab.retrieval.retrievers import embedded_text, row_vectors
from lab.retrieval.row import Row
from lab.runs.tables import write_table
from lab.sweep.draws import Draw, saturating
from lab.systems.openclaw.arms import POLICIES, TieredRecall
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Memories

if TYPE_CHECKING:
    import pyarrow as pa

REFERENCES = ("hybrid", "oracle")
NO_FAULTS = FaultPlan()
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


class Seen(NamedTuple):
    """What a moment sees: a scored view, how many rows are born by then, and the ids of those that were forgotten."""

    view: ExactView
    born: int
    gone: frozenset[str]


Job = tuple[Plan, Recording, tuple[Draw, ...]]


def saturation(
    path: Path,
    format_name: str,
    *,
    golden: Path | None = None,
    seeds: int = 3,
    scope: str = "none",
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
) -> list[Point]:
    """Score both policies at every share, mode and seed, with hybrid and oracle for reference.

    Shares that a mode cannot reach (gold memories never become must in ``distractors``) are left out. Raises
    :class:`UnusableInput` for recordings without gold.
    """
    asked = Asked(
        str(path),
        format_name,
        (*POLICIES, *REFERENCES),
        golden=str(golden) if golden else None,
        labels="sampled",
        scope=scope,
    )
    plan = make_plan(asked)
    if not any(probe.relevant for probe in plan.library.golden.probes):
        raise UnusableInput(f"{path}: has no probe with gold, so there is nothing to hit")
    prepare(plan, plan.recordings, open_sources(plan), announce)
    draws = saturating(plan, seeds)
    tallies: dict[tuple[str, float | None, int | None, str], list[Tally]] = {}
    for number, part in enumerate(_each([(plan, recording, draws) for recording in plan.recordings], jobs), 1):
        announce(f"{number} of {len(plan.recordings)} conversations")
        for key, tally in part.items():
            tallies.setdefault(key, []).append(tally)
    return [_point(key, [Tally(*map(sum, zip(*parts, strict=True)))][0], len(parts)) for key, parts in tallies.items()]


def _point(key: tuple[str, float | None, int | None, str], tally: Tally, conversations: int) -> Point:
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


def _each(jobs_to_do: list[Job], jobs: int) -> Iterator[dict[tuple[str, float | None, int | None, str], Tally]]:
    if jobs <= 1 or len(jobs_to_do) == 1:
        yield from map(_conversation, jobs_to_do)
        return
    with helpers(min(jobs, len(jobs_to_do))) as pool:
        yield from pool.map(_conversation, jobs_to_do)


def _conversation(job: Job) -> dict[tuple[str, float | None, int | None, str], Tally]:
    import numpy as np

    plan, recording, draws = job
    happening = list(moments(recording, plan.probes(recording), plan.recall_turns))
    rows = plan.rows_of(recording)
    by_id = {row.id: row for row in rows}
    views = list(_views(plan, recording, rows, happening))
    gold = {judgement.memory for probe in plan.probes(recording) for judgement in probe.relevant}
    scopes = [request_of(moment, plan.scoping, NO_FAULTS).scope for moment in happening]
    tiered = [arm for arm in plan.arms if isinstance(arm, TieredRecall)]
    found: dict[tuple[str, float | None, int | None, str], Tally] = {}
    for draw in draws:
        mode, share, seed = draw
        labels = draw.labels(plan.labels).of(recording, gold)
        codes = np.asarray([LABELS.index(labels[row.key]) for row in rows], np.int8)
        must = sum(label == MUST for label in labels.values())
        chosen: dict[str, list[list[str]]] = {arm.name: [] for arm in tiered}
        for within, (view, count, gone) in zip(scopes, views, strict=True):
            memories = Memories(view.with_labels(codes), rows[:count], by_id, gone=gone)
            for arm in tiered:
                tiers = Tiers(memories.view, memories.rows, arm.config.auto_recall.search_limit, memories.shared)
                picked = arm.choose(tiers, within).picked
                chosen[arm.name].append([one.candidate.id for one in picked])
        for name, selections in chosen.items():
            found[mode, share, seed, name] = _tally(selections, happening, views, rows, labels, must)
    found |= _references(plan, happening, views, rows)
    return found


def _views(plan: Plan, recording: Recording, rows: list[Row], happening: list[Moment]) -> Iterator[Seen]:
    """The scored view of every moment, and the rows that it speaks of."""
    sources = open_sources(plan)
    prepare(plan, [recording], sources, lambda _: None)  # all of them found at once; they are there
    vectors, tokens = sources.vectors, sources.words[plan.arms[0].retrieval.text]
    limits = plan.arms[0].retrieval.clamp
    store, born = ExactStore(vectors.dimension), 0
    ends, gone = deque(endings(recording)), set[str]()
    for moment in happening:
        ready = born
        while ready < len(rows) and recording.memories[ready].visible_from <= moment.seq:
            ready += 1
        texts = [row.index_text for row in rows[born:ready]]
        new = row_vectors(rows[born:ready], limits, vectors, sources.stored)
        store.add(rows[born:ready], new, tokens.of(texts))
        born = ready
        while ends and ends[0][0] <= moment.seq:
            forgotten = rows[ends.popleft()[1]].id
            store.remove(forgotten)
            gone.add(forgotten)
        asked = vectors.of([embedded_text(moment.text, limits)], QUERY)[0]
        query = Query(moment.text, tokens.of([moment.text])[0], asked)
        yield Seen(store.view(query), born, frozenset(gone))


def _references(
    plan: Plan, happening: list[Moment], views: list[Seen], rows: list[Row]
) -> dict[tuple[str, float | None, int | None, str], Tally]:
    """Hybrid and oracle look at no label, so they are scored once. They have no GoldNice: it depends on a draw."""
    found: dict[tuple[str, float | None, int | None, str], Tally] = {}
    by_id = {row.id: row for row in rows}
    for arm in plan.arms:
        if arm.name not in REFERENCES:
            continue
        selections = []
        for moment, (view, count, gone) in zip(happening, views, strict=True):
            request = request_of(moment, plan.scoping, NO_FAULTS)
            recall = arm.select(request, Memories(view, rows[:count], by_id, gone=gone))
            selections.append([item.id for item in recall.items[: recall.injected]])
        found["reference", None, None, arm.name] = _tally(selections, happening, views, rows, {}, 0)
    return found


def _tally(
    selections: Sequence[Sequence[str]],
    happening: Sequence[Moment],
    views: Sequence[Seen],
    rows: Sequence[Row],
    labels: dict[str, str],
    must: int,
) -> Tally:
    import numpy as np

    keys = {row.id: row.key for row in rows}
    numbers = {row.key: number for number, row in enumerate(rows)}
    injected, grades, nice = [], [], []
    for moment, (_, count, gone), ids in zip(happening, views, selections, strict=True):
        if moment.probe is None or not moment.probe.relevant:
            continue
        gold = moment.probe.grades
        injected.append([keys[identity] for identity in ids])
        grades.append(gold)
        here = {key for key in gold if numbers[key] < count and rows[numbers[key]].id not in gone}
        nice.append({key: 1 for key in gold if key in here and labels.get(key) == NICE})
    hits = success(judge(injected, grades), ANY)
    nice_hits = gold_nice(judge(injected, nice), ANY)
    rates = repeat_rates(
        selections_of([ids for moment, ids in zip(happening, selections, strict=True) if moment.recalls])
    )
    return Tally(
        float(hits.sum()),
        len(hits),
        float(np.nansum(nice_hits)),
        int(np.count_nonzero(~np.isnan(nice_hits))),
        sum(rates[~np.isnan(rates)].tolist()),
        int(np.count_nonzero(~np.isnan(rates))),
        must,
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
