"""Compare the recalls that a live engine recorded with those of the lab's engine at the same turns.

Two lists of memories are compared by their overlap and by Kendall's tau-b.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from lab.base.errors import NotComparable, UnusableInput
from lab.base.formatting import Announce, choices, silent
from lab.base.progress import Progress
from lab.canary.agree.causes import EMBEDDER, Difference, Facts, Match, first_difference, other_embedder
from lab.canary.agree.engine import (
    Answer,
    Deletions,
    History,
    Recorded,
    Searches,
    automatic,
    deletions,
    history,
    over_time,
    stored_by_tools,
)
from lab.recordings.events import RecordedMemory, ToolEvent
from lab.recordings.model import Memory
from lab.recordings.origins import ALL
from lab.replay.labels import Labels
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import open_sources, prepare
from lab.retrieval.sentence_words import one_line
from lab.runs.notes import missing_notes
from lab.runs.request import ReplayRequest
from lab.systems.openclaw.arms import FlowArm
from lab.systems.openclaw.memory import engine_id, id_of, normal_label

SCHEMA = "lab.agree.v1"
# Where memories come from: --memories-from, the agent's calls of memory_store, or these and what searches returned.
SOURCES = ("given", "tools", "seen")


def overlap(one: Sequence[Hashable], other: Sequence[Hashable]) -> float:
    """Return the number of common memories divided by the length of the longer list; 1 if both are empty."""
    longest = max(len(one), len(other))
    return len({*one} & {*other}) / longest if longest else 1.0


def tau_b(one: Sequence[int], other: Sequence[int]) -> float | None:
    """Return Kendall's tau-b of the ranks of the same memories in two lists, from -1 (reversed) to 1 (equal).

    Equal ranks are ties (Kendall, The treatment of ties in ranking problems, Biometrika 33, 1945). None if there are
    fewer than two memories, or all are tied in one list.
    """
    if len(one) < 2:
        return None
    from scipy.stats import kendalltau

    if len({*one}) == 1 or len({*other}) == 1:
        return None
    value = float(kendalltau(one, other, variant="b").statistic)
    return None if math.isnan(value) else round(value, 12)


def ranks(scores: Sequence[tuple[Hashable, float | None]]) -> list[int]:
    """Return the rank of each entry of a list, given its tier and score.

    Consecutive entries of one tier with equal scores are tied, and have one rank.
    """
    if not scores:
        return []
    found = [0]
    for (tier, score), (next_tier, next_score) in pairwise(scores):
        tied = tier == next_tier and score is not None and score == next_score
        found.append(found[-1] + (not tied))
    return found


class Compared(NamedTuple):
    """One recorded recall beside the lab's.

    ``overlap`` is the number of common memories divided by the length of the longer list. ``tau`` is Kendall's tau-b
    of the common memories (None: fewer than two, or all tied). ``by_text`` counts the recorded memories that were
    found by their text alone. ``other_embedder``: the vectors were others. ``score_gap`` is the largest difference of
    a common memory's scores (None: none is recorded). ``brought`` is the number of recorded memories that the lab's
    automatic recall at this user's turn has (None: it has no such recall).
    """

    recorded: Recorded
    recorded_count: int
    lab_count: int
    overlap: float
    tau: float | None
    first: Difference | None
    by_text: int
    other_embedder: bool
    score_gap: float | None
    brought: int | None

    @property
    def is_equal(self) -> bool:
        """Whether both lists have the same memories in the same order."""
        return self.first is None

    def as_json(self, *, texts: bool) -> dict[str, Any]:
        """Return plain values; texts of memories only with ``texts``."""
        event = self.recorded.event
        value = {
            "conversation": self.recorded.conversation,
            "turn": self.recorded.turn,
            "seq": self.recorded.seq,
            "time_ms": self.recorded.time_ms,
            "kind": self.recorded.kind,
            "recorded": self.recorded_count,
            "lab": self.lab_count,
            "overlap": self.overlap,
            "tau_b": self.tau,
            "equal": self.is_equal,
            "matched_by_text": self.by_text,
            "other_embedder": self.other_embedder,
            "largest_score_difference": self.score_gap,
            "brought_by_auto_recall": self.brought,
            "first_difference": None,
        }
        if texts and isinstance(event, ToolEvent):
            value["query"] = event.query
        if self.first:
            match, memory = self.first.recorded, self.first.lab
            value["first_difference"] = {
                "position": self.first.position,
                "cause": self.first.cause,
                "recorded": _named(match.recorded.id or None, match.recorded.text, texts=texts) if match else None,
                "lab": _named(id_of(memory), memory.text, texts=texts) if memory else None,
            }
        return value


def _named(identity: str | None, text: str, *, texts: bool) -> dict[str, Any]:
    return {"id": identity} | ({"text": text} if texts else {})


@dataclass(frozen=True, slots=True)
class Agreement:
    """All comparisons, in order of time, and how often the agent searched.

    ``source`` says where the ``memories`` (their number) come from. ``model`` is the lab's embedder; ``models`` are
    those that receipts or the configuration name.
    """

    compared: tuple[Compared, ...]
    history: History
    source: str
    memories: int
    model: str
    models: tuple[str, ...]

    def of(self, kind: str) -> list[Compared]:
        """Return the comparisons of one kind."""
        return [each for each in self.compared if each.recorded.kind == kind]

    def agrees(self, least: float | None) -> bool:
        """Return whether every recall has an overlap of at least ``least``; None: the same memories in order."""
        return all(each.is_equal if least is None else each.overlap >= least for each in self.compared)

    @property
    def causes(self) -> dict[str, int]:
        """The number of recalls by the cause of their first difference; another embedder first."""
        counts = Counter(each.first.cause for each in self.compared if each.first)
        return dict(sorted(counts.items(), key=lambda pair: (pair[0] != EMBEDDER, -pair[1], pair[0])))

    @property
    def calls(self) -> int:
        """The number of searches by the agent that answer a user, failed ones included."""
        return len(self.of("tool")) + self.history.failed - self.history.by_host

    @property
    def brought(self) -> list[Compared]:
        """The searches with results whose turn has an automatic recall."""
        return [each for each in self.of("tool") if each.brought is not None and each.recorded_count]

    @property
    def brought_share(self) -> float | None:
        """The mean share of a search's results that the automatic recall of its turn has."""
        shares = [each.brought / each.recorded_count for each in self.brought if each.brought is not None]
        return sum(shares) / len(shares) if shares else None

    def as_json(self, least: float | None, *, texts: bool) -> dict[str, Any]:
        """Return plain values; texts of memories only with ``texts``."""
        return {
            "schema": SCHEMA,
            "agrees": self.agrees(least),
            "least": least,
            "embedder": {
                "lab": self.model,
                "recorded": list(self.models),
                "other": sum(each.other_embedder for each in self.compared),
            },
            "source": self.source,
            "memories": self.memories,
            "recalls": {kind: _summary(self.of(kind)) for kind in ("tool", "injected")},
            "causes": self.causes,
            "searches": {
                "calls": self.calls,
                "failed": self.history.failed,
                "by_host": self.history.by_host,
                "user_turns": self.history.user_turns,
                "user_turns_with_a_search": len(self.history.searching),
            },
            "auto_recall": {
                "searches": len(self.brought),
                "mean_share": self.brought_share,
                "complete": sum(each.brought == each.recorded_count for each in self.brought),
            },
            "compared": [each.as_json(texts=texts) for each in self.compared],
        }


def _summary(compared: Sequence[Compared]) -> dict[str, Any]:
    taus = [each.tau for each in compared if each.tau is not None]
    return {
        "compared": len(compared),
        "equal": sum(each.is_equal for each in compared),
        "mean_overlap": mean(each.overlap for each in compared),
        "mean_tau_b": mean(taus),
        "with_tau_b": len(taus),
    }


def mean(values: Iterable[float]) -> float | None:
    """Return the mean; None of nothing."""
    found = list(values)
    return sum(found) / len(found) if found else None


def agreement(request: ReplayRequest, source: str | None = None, *, announce: Announce = silent) -> Agreement:
    """Compare the recorded recalls of a request's conversations with those of the lab's engine.

    ``source`` is one of :data:`SOURCES`; the default is ``given`` with ``request.memories_from``, else ``tools``. All
    conversations share one store. Raises :class:`NotComparable` if nothing is recorded, and :class:`UnusableInput` for
    unusable arguments.
    """
    source = source or ("given" if request.memories_from else "tools")
    if source not in SOURCES:
        raise UnusableInput(f"unknown source {source!r}; {choices(source, SOURCES)}")
    if (source == "given") != (request.memories_from is not None):
        what = "replaces those memories; omit one" if request.memories_from else "must name the store"
        raise UnusableInput(f"--source {source}: --memories-from {what}")
    # What a job stored was there to be recalled in every other session, so all conversations are read.
    plan = make_plan(replace(request, arms=("engine",), origin=(ALL,)), judged=False)
    recorded = history(plan.recordings)
    if not recorded.recalls:
        failed = f"; calls of memory_recall without a usable result: {recorded.failed}" if recorded.failed else ""
        raise NotComparable(
            f"{request.shown}: records no result of memory_recall and no <relevant-memories> block, so there is "
            f"nothing to compare{failed}"
        )
    deleted = deletions(plan.library.recordings)
    if source != "given":
        plan = _with_tools(plan, deleted, seen=source == "seen")
    for note in (*missing_notes(plan.infos), *plan.library.golden.notes):
        announce(note)
    return _compare(plan, source, recorded, deleted, announce)


def _with_tools(plan: Plan, deleted: Deletions, *, seen: bool) -> Plan:
    """Return the plan with the memories of all conversations in each of them."""
    memories = stored_by_tools(plan.library.recordings, seen=seen)
    if not memories:
        raise UnusableInput(
            f"{plan.request.shown}: no call of memory_store is recorded; name the engine's store with --memories-from"
        )
    recordings = tuple(over_time(recording, memories, deleted.ids) for recording in plan.recordings)
    return replace(plan, recordings=recordings, labels=Labels("recorded"))


def _compare(plan: Plan, source: str, recorded: History, deleted: Deletions, announce: Announce) -> Agreement:
    arm = plan.arms[0]
    if not isinstance(arm, FlowArm):
        raise UnusableInput(f"{plan.request.config}: is no configuration of the engine")
    memories = plan.memories_of(plan.recordings[0])
    find = Finder(memories)
    matches = [[find(memory, each.time_ms) for memory in each.event.memories] for each in recorded.recalls]
    sources = open_sources(plan, announce)
    named = {each.conversation for each in recorded.recalls}
    recordings = [recording for recording in plan.recordings if recording.conversation in named]
    prepare(plan, recordings, sources, announce)
    model = str(plan.embedder.identity()["model"])
    facts = Facts(
        deleted,
        {memory.key: memory for memory in memories},
        model,
        arm.embedder or "",
        arm.config.auto_recall.enabled,
        arm.config.upstream,
    )
    injected = {
        each.turn: [match.memory.key for match in found if match.memory]
        for each, found in zip(recorded.recalls, matches, strict=True)
        if each.kind == "injected"
    }
    automatics: dict[str, Answer] = {}
    progress = Progress(len(recordings))
    for recording in recordings:
        automatics |= {each.turn: each.answer for each in automatic(plan, recording, sources, injected)}
        announce(progress.next(f"{recording.conversation}: replayed"))
    gone = deleted.ids if plan.request.memories_from is None else {}
    searches = Searches(arm, sources, plan.request.store, memories, gone)
    searches.prepare([each.event.query.strip() for each in recorded.recalls if isinstance(each.event, ToolEvent)])
    compared = []
    for each, found in zip(recorded.recalls, matches, strict=True):
        auto = automatics.get(each.turn)
        answer = searches.search(each) if each.kind == "tool" else auto or Answer(())
        by_host = isinstance(each.event, ToolEvent) and each.event.for_host
        compared.append(_compared(each, found, answer, None if by_host else auto, facts))
    searches.close()
    models = {each.event.model for each in recorded.recalls if isinstance(each.event, ToolEvent)}
    models = {name for name in (*models, facts.configured_model) if name}
    return Agreement(tuple(compared), recorded, source, len(memories), model, tuple(sorted(models)))


def _compared(
    recorded: Recorded, matches: Sequence[Match], answer: Answer, auto: Answer | None, facts: Facts
) -> Compared:
    # A memory that the store does not hold is in no list of the lab.
    keys = [match.memory.key if match.memory else f"\0{at}" for at, match in enumerate(matches)]
    live = dict(zip(keys, ranks([(match.recorded.label, match.recorded.score) for match in matches]), strict=True))
    here = dict(zip(answer.keys, ranks([(given.tier, given.score) for given in answer.memories]), strict=True))
    common = [key for key in keys if key in here]
    return Compared(
        recorded,
        len(matches),
        len(answer.memories),
        overlap(keys, answer.keys),
        tau_b([live[key] for key in common], [here[key] for key in common]),
        first_difference(recorded, matches, answer, facts),
        sum(match.by_text for match in matches),
        other_embedder(recorded, matches, answer, facts),
        _score_gap(matches, answer),
        len({*keys} & {*auto.keys}) if auto else None,
    )


def _score_gap(matches: Sequence[Match], answer: Answer) -> float | None:
    here = {given.key: given.score for given in answer.memories}
    scores = [(match.recorded.score, here.get(match.memory.key)) for match in matches if match.memory is not None]
    return max((abs(live - lab) for live, lab in scores if live is not None and lab is not None), default=None)


class Finder:
    """Finds recorded memories in a store: by the engine's id, else by their text."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._by_id: dict[str, Memory] = {}
        self._by_text: dict[str, list[Memory]] = {}
        for memory in memories:
            self._by_id[engine_id(memory.key)] = self._by_id[memory.key] = memory
            self._by_text.setdefault(one_line(memory.text), []).append(memory)

    def __call__(self, shown: RecordedMemory, time_ms: int) -> Match:
        """Return the memory of the store that a recorded one is; of equal texts, one that existed, of its label."""
        memory = self._by_id.get(shown.id) if shown.id else None
        if memory is not None:
            return Match(shown, memory)
        same = self._by_text.get(one_line(shown.text), []) if shown.text.strip() else []
        label = normal_label(shown.label) or shown.label
        best = min(same, key=lambda memory: (memory.created_at > time_ms, memory.label != label), default=None)
        return Match(shown, best, by_text=best is not None)
