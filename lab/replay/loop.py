"""The turn loop: one conversation replayed through every arm, candidates found once for arms that share them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lab.recordings.model import NICE, Recording
from lab.replay.moments import Moment
from lab.retrieval.faults import FaultPlan
from lab.retrieval.row import Row
from lab.systems.contract import MakeRetriever, Recall, Request, Retrieval, Retriever, Selector
from lab.systems.openclaw.capture.categories import detect_category
from lab.systems.openclaw.memory import normal_row
from lab.systems.openclaw.recall.scope import GLOBAL, ScopePolicy, resolve_scope
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.recall.wrap import escape


class Answered(NamedTuple):
    """What one arm answered at one moment.

    ``scope`` is the turn's own. ``visible`` memories were in its reach, nice ones and ``hard_rules`` among them;
    ``hard_kept`` of these rules stand in what was injected.
    """

    moment: Moment
    arm: Selector
    recall: Recall
    visible: int
    visible_nice: int
    scope: str = GLOBAL
    hard_rules: int = 0
    hard_kept: int = 0


class Reach:
    """What the memories that are born and not forgotten hold, by scope (None: all of them)."""

    def __init__(self) -> None:
        self._rows = Counter[str | None]()
        self._nice = Counter[str | None]()
        self._rules: dict[str | None, list[str]] = {}

    def add(self, rows: Sequence[Row]) -> None:
        """Take in memories in the order of birth."""
        for row in rows:
            for scope in (row.scope, None):
                self._rows[scope] += 1
                self._nice[scope] += row.importance_label == NICE
                if row.hard_rule:
                    self._rules.setdefault(scope, []).append(escape(" ".join(row.text.split())))

    def remove(self, rows: Sequence[Row]) -> None:
        """Leave out memories that were forgotten."""
        for row in rows:
            for scope in (row.scope, None):
                self._rows[scope] -= 1
                self._nice[scope] -= row.importance_label == NICE
                if row.hard_rule:
                    self._rules[scope].remove(escape(" ".join(row.text.split())))

    def of(self, scope: str | None) -> tuple[int, int, list[str]]:
        """How many memories a scope reaches, how many of them are nice, and the texts of its hard rules as injected."""
        return self._rows[scope], self._nice[scope], self._rules.get(scope, [])


def rows_of(
    recording: Recording, labels: dict[str, str], hard: Container[str] = (), *, detect: bool = False
) -> list[Row]:
    """The recording's memories as engine rows, in order of birth.

    ``hard`` are keys of memories that are made hard rules. ``detect`` finds the category in the words, as capture does,
    where those say any.
    """
    rows = (
        normal_row(
            memory.key,
            memory.text,
            memory.index_text,
            memory.created_at,
            category=(detect_category(memory.text) if detect else None) or memory.category,
            label=labels[memory.key],
            scope=memory.scope,
            trust=memory.trust,
            hard_rule=memory.hard_rule or memory.key in hard,
        )
        for memory in recording.memories
    )
    return [
        replace(row, place=memory.place, embedded=memory.embedded)
        for row, memory in zip(rows, recording.memories, strict=True)
    ]


def replay(
    recording: Recording,
    rows: Sequence[Row],
    moments: Sequence[Moment],
    arms: Sequence[Selector],
    make_retriever: MakeRetriever,
    *,
    scoping: str,
    faults: FaultPlan | None = None,
) -> Iterator[Answered]:
    """Yield every answer, moments in order and arms in the order given, each arm without a past at the start.

    A memory is visible at a moment if ``visible_from <= seq < visible_until``. ``make_retriever`` is called once for
    each distinct retrieval. ``scoping`` is one of :data:`lab.systems.openclaw.recall.turn.SCOPING`.
    """
    arms = [arm.fresh() for arm in arms]
    retrievers = {settings: make_retriever(settings) for settings in dict.fromkeys(arm.retrieval for arm in arms)}
    for retriever in retrievers.values():
        retriever.expect([moment.text for moment in moments])
    plan = faults or FaultPlan()
    reach = Reach()
    born = 0
    ends = deque(endings(recording))
    try:
        for moment in moments:
            ready = born
            while ready < len(rows) and recording.memories[ready].visible_from <= moment.seq:
                ready += 1
            if ready > born:
                for retriever in retrievers.values():
                    retriever.observe(rows[born:ready])
                reach.add(rows[born:ready])
                born = ready
            forgotten = []
            while ends and ends[0][0] <= moment.seq:
                forgotten.append(rows[ends.popleft()[1]])
            if forgotten:
                for retriever in retrievers.values():
                    retriever.forget(forgotten)
                reach.remove(forgotten)
            request = request_of(moment, scoping, plan)
            yield from _answer(moment, request, arms, retrievers, reach)
    finally:
        for retriever in retrievers.values():
            retriever.close()


def endings(recording: Recording) -> list[tuple[int, int]]:
    """Return from which turn on each forgotten memory is gone, with its place among the memories, in order."""
    # Not before it is born: a memory may be stored and forgotten within one turn.
    return sorted(
        (max(memory.visible_from, memory.visible_until), place)
        for place, memory in enumerate(recording.memories)
        if memory.visible_until is not None
    )


def request_of(moment: Moment, scoping: str, faults: FaultPlan) -> Request:
    """What is asked at a moment.

    A probe from outside has no recorded scope, so it is asked of all; under ``tags`` its own words decide.
    """
    scope, how = None, "open"
    if scoping == "tags":
        scope, how = resolve_scope(None, moment.text, ScopePolicy())[1].scope, scoping
    elif scoping == "given" and moment.scope is not None:
        scope, how = moment.scope, scoping
    return Request(
        moment.key,
        moment.text,
        scope,
        moment.now_ms,
        moment.session,
        moment.recalls,
        how,
        faults.at(moment.key),
        moment.probe.grades if moment.probe else {},
    )


def _answer(
    moment: Moment,
    request: Request,
    arms: Sequence[Selector],
    retrievers: dict[Retrieval, Retriever],
    reach: Reach,
) -> Iterator[Answered]:
    found: dict[Retrieval, Memories] = {}
    reachable, nice, rules = reach.of(request.scope)
    # Where scopes are not enforced, the recorded one still says what is a turn's own.
    home = request.scope or moment.scope or GLOBAL
    for arm in arms:
        if arm.retrieval not in found:
            started = time.perf_counter_ns()
            found[arm.retrieval] = retrievers[arm.retrieval].retrieve(request)
            retrieved = time.perf_counter_ns() - started
        else:
            retrieved = 0
        recall = arm.select(request, found[arm.retrieval])
        if retrieved:
            recall.timings["retrieve"] = retrieved
        kept = 0
        if rules:
            # A digest folds the lines of a text into one.
            said = " ".join(recall.context.split())
            kept = sum(rule in said for rule in rules)
        # A prompt that was passed over injects nothing, and loses nothing.
        bound = 0 if recall.receipt.get("skipped") else len(rules)
        yield Answered(moment, arm, recall, reachable, nice, home, bound, kept)
