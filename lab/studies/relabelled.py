"""Replay conversations under many assignments of labels, over one retrieval.

Assignments differ only in the labels of memories. A query is scored once per recall point; every assignment is a mask
over these scores, and each is a replay by the loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from lab.base.errors import CannotMeasure
from lab.base.formatting import counted
from lab.base.processes import mapped
from lab.base.progress import Progress, beating
from lab.measures.definitions.gold_nice import gold_nice
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.definitions.success import success
from lab.measures.inputs import judge, selections_of
from lab.recordings.model import IGNORE, LABELS, MUST, NICE, Memory, Recording
from lab.replay.loop import Play, replay
from lab.replay.plan import Plan
from lab.replay.sources import open_sources, play_of, prepare, prepared_sources, tools_of
from lab.retrieval.contract import LabelledView, Row
from lab.retrieval.exact import Growing
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever
from lab.systems.kit import Rows, Search
from lab.systems.openclaw.memory import row_of

# The query of a recall point, and its scores.
Scored = tuple[str, LabelledView]


class Masks:
    """The scored views of one conversation, by retrieval and recall point."""

    def __init__(self, make_live: Callable[[Retrieval], StoreRetriever]) -> None:
        self._make_live = make_live
        self._seen: dict[Retrieval, list[Scored]] = {}

    def keeping(self, retrieval: Retrieval) -> Search:
        """Return a search for one replay: the first one scores, later ones reuse its views."""
        seen = self._seen.get(retrieval)
        if seen is not None:
            return _Masked(seen)
        return _Scoring(self._make_live(retrieval), self._seen.setdefault(retrieval, []))


class _Scoring:
    """A live search that keeps its views."""

    def __init__(self, live: StoreRetriever, seen: list[Scored]) -> None:
        self._live, self._seen = live, seen
        self.add, self.remove, self.expect, self.close = live.add, live.remove, live.expect, live.close

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        found = self._live.retrieve(text, faults)
        if not isinstance(found.view, LabelledView):
            raise CannotMeasure("this store cannot be searched under other labels; use --store exact")
        self._seen.append((text, found.view))
        return found


class _Masked:
    """The kept views in order, under the labels of the rows that are added here."""

    def __init__(self, seen: Sequence[Scored]) -> None:
        self._seen, self._index = seen, -1
        self._rows: list[Row] = []
        self._by_id: dict[str, Row] = {}
        self._codes = Growing("int8")
        self._gone: frozenset[str] = frozenset()

    def add(self, rows: Sequence[Row]) -> None:
        self._rows.extend(rows)
        self._by_id.update((row.id, row) for row in rows)
        self._codes.extend([LABELS.index(row.importance_label) for row in rows])

    def remove(self, rows: Sequence[Row]) -> None:
        self._gone |= {row.id for row in rows}

    def expect(self, texts: Sequence[str]) -> None:
        """Do nothing: the queries are already scored."""

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        self._index += 1
        query, view = self._seen[self._index]
        assert query == text and not faults  # noqa: S101, PT018 - every replay has the same queries in one order
        return QueryContext(view.with_labels(self._codes.array), self._rows, self._by_id, gone=self._gone)

    def close(self) -> None:
        """Do nothing: the store is already closed."""


# Every injected item counts, at any rank.
ANY = sys.maxsize


class Labelling(Protocol):
    """Labels for the memories of a recording."""

    def of(self, recording: Recording, gold: Iterable[str], /) -> dict[str, str]:
        """Return labels by memory key; ``gold`` are the keys relevant to any probe."""
        ...


class Assignment(NamedTuple):
    """A labelling under a key, unique among the assignments of a call."""

    key: Any
    labelling: Labelling


class Tally(NamedTuple):
    """Sums of one arm in one conversation, so that conversations can be added up.

    Hits and probes, gold-nice hits and probes, sum of repeat rates and turns. ``memories`` of the conversation, of
    which ``must``, ``nice`` and ``ignored`` have these labels. ``recalls`` with an injected item, of which
    ``full`` inject nothing but must_remember memories.
    """

    hits: float
    probes: int
    nice_hits: float
    nice_probes: int
    repeat: float
    turns: int
    memories: int
    must: int
    nice: int
    ignored: int
    recalls: int
    full: int


# The key of an assignment (None: arms that ignore labels), and the arm.
Key = tuple[Any, str]
Job = tuple[Plan, Recording, tuple[Assignment, ...]]


class Selected(NamedTuple):
    """The keys that an arm injected at each recall point, under ``labels`` by memory key (empty: it ignores labels)."""

    key: Key
    injected: list[list[str]]
    labels: Mapping[str, str]


def relabelled(
    plan: Plan, assignments: tuple[Assignment, ...], jobs: int, announce: Callable[[str], None]
) -> dict[Key, list[Tally]]:
    """Replay every conversation under every assignment; return a tally for each conversation, by key and arm.

    Arms that ignore labels are replayed once, under the key None.
    """
    prepare(plan, plan.recordings, open_sources(plan), announce)
    tallies: dict[Key, list[Tally]] = {}
    progress = Progress(len(plan.recordings))
    each = [(plan, recording, assignments) for recording in plan.recordings]
    with beating(announce, f"replaying under {counted(len(assignments), 'sample')} of labels") as tell:
        for part in mapped(_conversation, each, jobs):
            tell(progress.next("conversations"))
            for key, tally in part.items():
                tallies.setdefault(key, []).append(tally)
    return tallies


def total(parts: Sequence[Tally]) -> Tally:
    """Return the sum of tallies."""
    return Tally(*map(sum, zip(*parts, strict=True)))


def _conversation(job: Job) -> dict[Key, Tally]:
    plan, recording, assignments = job
    sources = prepared_sources(plan, [recording])  # which finds all vectors in the cache
    tools = tools_of(plan, recording, sources, Masks(lambda one: sources.retriever(one, plan.request.store)).keeping)
    play = replace(play_of(plan, recording, tools), items_only=True)
    # A memory and its row are built once under each label.
    under = {one.key: {label: _labelled(one, label) for label in LABELS} for one in play.memories}
    gold = {judgement.memory for probe in plan.probes(recording) for judgement in probe.relevant}
    labelled, plain = _with(plan, labelled=True), _with(plan, labelled=False)
    selected: list[Selected] = []
    for key, labelling in assignments:
        labels = labelling.of(recording, gold)
        drawn = [under[one.key][labels[one.key]] for one in play.memories]
        tools = replace(tools, rows=Rows({memory.key: row for memory, row in drawn}))
        chosen = _replayed(labelled, replace(play, memories=[memory for memory, _ in drawn], tools=tools))
        selected.extend(Selected((key, name), keys, labels) for name, keys in chosen.items())
    # Without labels, there is no GoldNice and no must_remember item.
    selected.extend(Selected((None, name), keys, {}) for name, keys in _replayed(plain, play).items())
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
        filled = [one.injected[place] for place in recalls if one.injected[place]]
        label_of = one.labels.get
        found[one.key] = Tally(
            float(hit.sum()),
            len(hit),
            float(np.nansum(nice_hit)),
            int(np.count_nonzero(~np.isnan(nice_hit))),
            sum(rates.tolist()),
            len(rates),
            len(one.labels),
            sum(label == MUST for label in one.labels.values()),
            sum(label == NICE for label in one.labels.values()),
            sum(label == IGNORE for label in one.labels.values()),
            len(filled),
            sum(all(label_of(key) == MUST for key in keys) for keys in filled),
        )
    return found
