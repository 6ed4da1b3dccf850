"""Recall as the share of must_remember memories increases: the failure of E-14 that the quotas of E-15 answer.

Every sample of labels (:mod:`lab.sweep.draws`) is a replay by the loop. A query is scored once per recall point; every
sample is a mask over these scores (:mod:`lab.sweep.masks`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from lab.recordings.model import LABELS, MUST, NICE, Memory, Recording
from lab.replay.loop import Play, replay
from lab.replay.plan import Plan, ReplayRequest, make_plan
from lab.replay.sources import open_sources, play_of, prepare, tools_of
from lab.retrieval.row import Row
from lab.runs.tables import table_of, write_table
from lab.sweep.draws import Draw, saturating
from lab.sweep.masks import Masks
from lab.systems.kit import Rows
from lab.systems.openclaw.memory import row_of
from lab.systems.registry import policies

if TYPE_CHECKING:
    import pyarrow as pa

REFERENCES = ("hybrid", "oracle")
FILE = "saturation.parquet"
# Every injected item counts, at any rank.
ANY = sys.maxsize


class Point(NamedTuple):
    """The scores of one arm under one sample of labels, over all conversations.

    ``must`` is the mean number of must memories at the end of a conversation. References (``share`` None) have none.
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


class Selected(NamedTuple):
    """The keys that an arm injected at each recall point, under ``labels`` by memory key (empty: it ignores labels)."""

    key: Key
    injected: list[list[str]]
    labels: Mapping[str, str]


def saturation(
    path: Path,
    format_name: str,
    *,
    golden: Path | None = None,
    seeds: int = 3,
    scope: str = "none",
    conversation: Sequence[str] = (),
    haystack: int | None = None,
    haystack_from: Sequence[str] = (),
    embedder: str = DEFAULT_MODEL,
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
) -> list[Point]:
    """Score every policy at every share, mode and seed, with hybrid and oracle for reference.

    ``conversation`` names those to replay; without it all of ``path`` are. ``haystack`` and ``haystack_from`` are as in
    ``lab replay``. Shares that a mode cannot reach are left
    out: in ``distractors`` relevant memories never become must. Raises :class:`UnusableInput` without a golden set.
    """
    asked = ReplayRequest(
        str(path),
        format_name,
        (*policies(), *REFERENCES),
        golden=str(golden) if golden else None,
        labels="sampled",
        scope=scope,
        conversation=tuple(conversation),
        haystack=haystack,
        haystack_from=tuple(haystack_from),
        embedder=embedder,
    )
    plan = make_plan(asked)
    if not any(probe.relevant for probe in plan.library.golden.probes):
        raise UnusableInput(f"{path}: has no probe with relevant memories, so there is nothing to score")
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
    prepare(plan, [recording], sources, lambda _: None)  # which finds all vectors in the cache
    tools = tools_of(plan, recording, sources, Masks(lambda one: sources.retriever(one, plan.request.store)).keeping)
    play = replace(play_of(plan, recording, tools), items_only=True)
    # Samples differ only in labels, so a memory and its row are built once under each label.
    under = {one.key: {label: _labelled(one, label) for label in LABELS} for one in play.memories}
    gold = {judgement.memory for probe in plan.probes(recording) for judgement in probe.relevant}
    labelled, plain = _with(plan, labelled=True), _with(plan, labelled=False)
    selected: list[Selected] = []
    for draw in draws:
        labels = draw.labels(plan.labels).of(recording, gold)
        drawn = [under[one.key][labels[one.key]] for one in play.memories]
        tools = replace(tools, rows=Rows({memory.key: row for memory, row in drawn}))
        chosen = _replayed(labelled, replace(play, memories=[memory for memory, _ in drawn], tools=tools))
        selected.extend(Selected((*draw, name), keys, labels) for name, keys in chosen.items())
    # References ignore labels, so they are replayed once. They have no GoldNice, which depends on labels.
    for name, keys in _replayed(plain, play).items():
        selected.append(Selected(("reference", None, None, name), keys, {}))
    return _tallies(selected, play)


def _labelled(memory: Memory, label: str) -> tuple[Memory, Row]:
    drawn = replace(memory, label=label)
    return drawn, row_of(drawn)


def _with(plan: Plan, *, labelled: bool) -> Plan:
    """Return the plan with only the arms that use labels, or only those that do not."""
    at = [place for place, info in enumerate(plan.infos) if info.labelled == labelled]
    return replace(plan, arms=tuple(plan.arms[one] for one in at), infos=tuple(plan.infos[one] for one in at))


def _replayed(plan: Plan, play: Play) -> dict[str, list[list[str]]]:
    """Return the injected keys at each recall point, by arm. A failed recall raises :class:`CannotMeasure`."""
    chosen: dict[str, list[list[str]]] = {arm.name: [] for arm in plan.arms}
    for answered in replay(play, plan.arms, infos=plan.infos):
        recall = answered.recall
        if answered.failure:
            raise CannotMeasure(f"{answered.point.key}: arm {answered.arm} failed: {answered.failure}")
        chosen[answered.arm].append([item.id for item in recall.items[: recall.injected]])
    return chosen


def _tallies(selected: Sequence[Selected], play: Play) -> dict[Key, Tally]:
    """Score all selections at once: a measure takes as long for one probe as for a thousand."""
    import numpy as np

    known = {memory.key: memory for memory in play.memories}
    judged = [
        (place, point.probe.grades, [key for key in point.probe.grades if known[key].is_visible_at(point.seq)])
        for place, point in enumerate(play.recall_points)
        if point.probe is not None and point.probe.relevant
    ]
    recalls = [place for place, point in enumerate(play.recall_points) if point.is_recall_turn]
    injected = [one.injected[place] for one in selected for place, _, _ in judged]
    grades = [gold for _, gold, _ in judged] * len(selected)
    nice = [{key: 1 for key in gold if one.labels.get(key) == NICE} for one in selected for _, _, gold in judged]
    hits = success(judge(injected, grades), ANY).reshape(len(selected), -1)
    nice_hits = gold_nice(judge(injected, nice), ANY).reshape(len(selected), -1)
    found: dict[Key, Tally] = {}
    for one, hit, nice_hit in zip(selected, hits, nice_hits, strict=True):
        rates = repeat_rates(selections_of([one.injected[place] for place in recalls]))
        rates = rates[~np.isnan(rates)]
        found[one.key] = Tally(
            float(hit.sum()),
            len(hit),
            float(np.nansum(nice_hit)),
            int(np.count_nonzero(~np.isnan(nice_hit))),
            sum(rates.tolist()),
            len(rates),
            sum(label == MUST for label in one.labels.values()),
        )
    return found


def write_points(points: Sequence[Point], path: Path) -> pa.Table:
    """Write the points as Parquet and return the table."""
    import pyarrow as pa

    types = (pa.string(), pa.float64(), pa.int32(), pa.string(), *[pa.float64()] * 4)
    table = table_of(points, dict(zip(Point._fields, types, strict=True)))
    write_table(table, path)
    return table


def means(points: Sequence[Point]) -> dict[tuple[str, str], list[float | None]]:
    """Return the means over seeds of must memories, hits, GoldNice and repeats, by ``(mode and share, arm)``."""
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
