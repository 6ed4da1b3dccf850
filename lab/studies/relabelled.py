"""Replay conversations under many assignments of labels, over one retrieval.

Assignments differ only in the labels of memories. A query is scored once per recall point, and every assignment is a
mask over its ranks. Policies with a vectorised form select under all assignments at once (:class:`Drawn`), in one
replay by the loop; of other arms, each assignment is a replay.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lab.base.columns import Growing
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
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever
from lab.systems.contract import Arm, ArmInfo, Ask, MemorySystem, Recall
from lab.systems.kit import Kit, MemoryRetriever, Rows, Search
from lab.systems.openclaw.arms import PolicyArm
from lab.systems.openclaw.many import Known, knobs_of
from lab.systems.openclaw.memory import row_of
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.select.outcome import recall_plans
from lab.systems.openclaw.select.policies import TIERS, Offered, many_of

if TYPE_CHECKING:
    import numpy as np

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


class Offers(NamedTuple):
    """The candidates of all tiers under each assignment, best first, ``[c, n]``.

    As in :class:`lab.systems.openclaw.select.policies.Offered`; ``rows`` are memories by number, and an assignment with
    fewer candidates ends with ``known.none``. ``sizes`` int64 ``[3, c]``.
    """

    rows: np.ndarray
    tiers: np.ndarray
    ranks: np.ndarray
    sizes: np.ndarray


def fused_under(
    tiers: np.ndarray, lanes: Sequence[np.ndarray], numbers: np.ndarray, known: Known, limit: int, k: int
) -> Offers:
    """Return the candidates of each tier as :func:`lab.retrieval.fusion.fuse` fuses them, with reciprocal ranks.

    ``tiers`` int8 ``[c, memories]`` (-1: in none). ``lanes``: rows of the store, best first, of which ``numbers`` are
    the memories.
    """
    import numpy as np

    count, width = tiers.shape
    scores, third = np.zeros(count * width), np.zeros(count * width, np.int32)
    for behind, rows in enumerate(lanes):
        memories = numbers[rows]
        ranked = tiers[:, memories]
        for place in range(len(TIERS)):
            members = ranked == place
            ranks = np.cumsum(members, axis=1, dtype=np.int32)
            which, at = np.nonzero(members & (ranks <= limit))
            found, rank = which * width + memories[at], ranks[which, at]
            scores[found] += 1.0 / (k + rank)
            # What breaks ties of equal ids: the rank in the text lane, or one behind all of them.
            third[found] = np.where(third[found], third[found], behind * limit + rank)
    found = np.flatnonzero(scores)
    which, memories = np.divmod(found, width)
    tier, score = tiers.ravel()[found], scores[found]
    order = np.lexsort((third[found], known.id_ranks[memories], -score, tier, which))
    which, memories, tier, score = which[order], memories[order], tier[order], score[order]
    group = which * len(TIERS) + tier
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    kept = np.flatnonzero(rank < limit)
    kept = kept[np.lexsort((tier[kept], known.newest[memories[kept]], -score[kept], which[kept]))]
    which = which[kept]
    at = np.arange(len(which)) - np.searchsorted(which, which)
    sizes = np.bincount(group[kept], minlength=count * len(TIERS)).reshape(count, len(TIERS)).T
    # Places without a candidate have a rank beyond all slots, which selects none of them.
    shape = (count, int(sizes.sum(axis=0).max(initial=0)))
    offers = Offers(np.full(shape, known.none, np.int32), np.zeros(shape, np.int8), np.full(shape, width), sizes)
    for values, found_there in zip(offers, (memories[kept], tier[kept], rank[kept]), strict=False):
        values[which, at] = found_there
    return offers


class Drawn(MemorySystem):
    """Policies under all assignments at once. ``injected``: memories ``[c, slots]`` at each recall point, by arm.

    The last memory number means none.
    """

    def __init__(self, arms: Sequence[PolicyArm], kit: Kit, memories: Sequence[Memory], tiers: np.ndarray) -> None:
        import numpy as np

        self.retrieval_key = arms[0].retrieval
        self.injected: dict[str, list[np.ndarray]] = {arm.name: [] for arm in arms}
        self._arms, self._tiers = arms, tiers
        self._search = kit.retriever(arms[0].retrieval)
        self._known = Known(kit.rows.of(memories))
        self._number = {memory.key: number for number, memory in enumerate(memories)}
        self._numbers = Growing(np.int32)
        self._knobs = [knobs_of([arm.config] * len(tiers)) for arm in arms]

    def open_retriever(self) -> MemoryRetriever:
        """Return a retriever over the memories that the loop provides."""
        return self._search

    def remember(self, memories: Sequence[Memory]) -> None:
        """Note which memory each row of the store is."""
        self._numbers.extend([self._number[memory.key] for memory in memories])

    def select(self, ask: Ask, found: QueryContext) -> Recall:
        """Select for every arm under every assignment; the recall itself is empty."""
        import numpy as np

        view, none = found.view, self._known.none
        if not isinstance(view, LabelledView):
            raise CannotMeasure("this store cannot be searched under other labels; use --store exact")
        lanes = view.ranked(ask.scope)
        offers: dict[tuple[int, int], Offers] = {}
        for arm, knobs in zip(self._arms, self._knobs, strict=True):
            config, arrange = arm.config, many_of(arm.policy)
            assert arrange is not None  # noqa: S101 - other policies are replayed one by one
            slots, settings = config.max_items, (config.auto_recall.search_limit, config.fusion.k)
            chosen = np.full((len(self._tiers), slots), none, np.int32)
            self.injected[arm.name].append(chosen)
            if Tiers(view, found.rows, settings[0], found.shared).silent(ask.scope, config.silence):
                continue
            if settings not in offers:
                offers[settings] = fused_under(self._tiers, lanes, self._numbers.array, self._known, *settings)
            rows, tiers, ranks, sizes = offers[settings]
            here = rows != none
            members = [here & (tiers == tier) for tier in range(len(TIERS))]
            slot = arrange(Offered(knobs, slots, [*sizes], tiers, members, ranks, np.zeros_like(here)))
            which, at = np.nonzero(here & (slot < slots))
            chosen[which, slot[which, at]] = rows[which, at]
        return Recall()


class Together(NamedTuple):
    """The arm that represents all policies in the loop. ``opened`` is its system, once it runs."""

    arms: tuple[PolicyArm, ...]
    memories: Sequence[Memory]
    tiers: np.ndarray
    opened: list[Drawn]

    @property
    def name(self) -> str:
        """Return the name of its first arm."""
        return self.arms[0].name

    def describe(self) -> ArmInfo:
        """Return the description of its first arm."""
        return self.arms[0].describe()

    def open(self, kit: Kit) -> Drawn:
        """Open the system."""
        self.opened.append(Drawn(self.arms, kit, self.memories, self.tiers))
        return self.opened[-1]


def select_together(arms: Sequence[Arm]) -> tuple[PolicyArm, ...]:
    """Return the arms that :class:`Drawn` selects as they do alone: policies with a vectorised form and plain tiers."""
    found = [arm for arm in arms if isinstance(arm, PolicyArm) and many_of(arm.policy) is not None]
    return tuple(
        arm
        for arm in found
        if arm.retrieval == found[0].retrieval
        and arm.config.text.lane != "scan"
        and arm.config.fusion.method == "rrf"
        and arm.config.auto_recall.include_unknown_fallback
        and not arm.config.floor_under(arm.policy)
    )


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
    gold = {judgement.memory for probe in plan.probes(recording) for judgement in probe.relevant}
    plain = _with(plan, lambda _, info: not info.labelled)
    together = select_together(plan.arms)
    labelled = _with(plan, lambda arm, info: info.labelled and arm not in together)
    every = [labelling.of(recording, gold) for _, labelling in assignments]
    selected = _selected_together(together, play, assignments, every) if together else []
    if labelled.arms:
        # A memory and its row are built once under each label.
        under = {one.key: {label: _labelled(one, label) for label in LABELS} for one in play.memories}
        for (key, _), labels in zip(assignments, every, strict=True):
            drawn = [under[one.key][labels[one.key]] for one in play.memories]
            tools = replace(tools, rows=Rows({memory.key: row for memory, row in drawn}))
            alone = replace(play, memories=[memory for memory, _ in drawn], tools=tools)
            chosen = _replayed(labelled.arms, labelled.infos, alone)
            selected.extend(Selected((key, name), keys, labels) for name, keys in chosen.items())
    # Without labels, there is no GoldNice and no must_remember item.
    selected.extend(Selected((None, name), keys, {}) for name, keys in _replayed(plain.arms, plain.infos, play).items())
    return _tallies(selected, play)


def _labelled(memory: Memory, label: str) -> tuple[Memory, Row]:
    drawn = replace(memory, label=label)
    return drawn, row_of(drawn)


def _selected_together(
    arms: tuple[PolicyArm, ...], play: Play, assignments: Sequence[Assignment], labels: Sequence[Mapping[str, str]]
) -> list[Selected]:
    """Return what the arms inject under each assignment, from one replay."""
    import numpy as np

    tier_of = {label: tier for tier, plan in enumerate(recall_plans()) for label in plan.labels}
    tiers = [[tier_of.get(of[memory.key], -1) for memory in play.memories] for of in labels]
    shared = Together(arms, play.memories, np.asarray(tiers, np.int8).reshape(len(labels), -1), [])
    _replayed((shared,), None, play)
    keys = np.asarray([*(memory.key for memory in play.memories), ""], object)
    injected = {name: [keys[rows].tolist() for rows in points] for name, points in shared.opened[0].injected.items()}
    return [
        Selected((one.key, name), [[key for key in point[at] if key] for point in points], labels[at])
        for at, one in enumerate(assignments)
        for name, points in injected.items()
    ]


def _with(plan: Plan, chosen: Callable[[Arm, ArmInfo], bool]) -> Plan:
    """Return the plan with only the chosen arms."""
    at = [place for place, one in enumerate(zip(plan.arms, plan.infos, strict=True)) if chosen(*one)]
    return replace(plan, arms=tuple(plan.arms[one] for one in at), infos=tuple(plan.infos[one] for one in at))


def _replayed(arms: Sequence[Arm], infos: Sequence[ArmInfo] | None, play: Play) -> dict[str, list[list[str]]]:
    """Return the injected keys at each recall point, by arm. A failed recall raises :class:`CannotMeasure`."""
    chosen: dict[str, list[list[str]]] = {arm.name: [] for arm in arms}
    for answered in replay(play, arms, infos=infos):
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
