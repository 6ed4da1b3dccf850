"""The turn loop: one conversation replayed through every arm, candidates found once for arms that share them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lab.engine.memory import NICE, Row, normal_row
from lab.engine.store.tokens import TextSettings
from lab.recordings.model import Recording
from lab.replay.moments import Moment
from lab.systems.contract import Candidates, Recall, Request, Retriever, Selector


class Answered(NamedTuple):
    """What one arm answered at one moment; ``visible`` memories (nice ones among them) were in its reach."""

    moment: Moment
    arm: Selector
    recall: Recall
    visible: int
    visible_nice: int


def rows_of(recording: Recording, labels: dict[str, str]) -> list[Row]:
    """The recording's memories as engine rows, in order of birth."""
    return [
        normal_row(
            memory.key,
            memory.text,
            memory.index_text,
            memory.created_at,
            category=memory.category,
            label=labels[memory.key],
            scope=memory.scope,
        )
        for memory in recording.memories
    ]


def replay(
    recording: Recording,
    rows: Sequence[Row],
    moments: Sequence[Moment],
    arms: Sequence[Selector],
    make_retriever: Callable[[TextSettings], Retriever],
    *,
    enforce_scope: bool,
) -> Iterator[Answered]:
    """Yield every answer, moments in order and arms in the order given.

    A memory is visible at a moment if its ``visible_from`` is not later. ``make_retriever`` is called once for each
    distinct retrieval.
    """
    retrievers = {settings: make_retriever(settings) for settings in dict.fromkeys(arm.retrieval for arm in arms)}
    born = 0
    try:
        for moment in moments:
            ready = born
            while ready < len(rows) and recording.memories[ready].visible_from <= moment.seq:
                ready += 1
            if ready > born:
                for retriever in retrievers.values():
                    retriever.observe(rows[born:ready])
                born = ready
            yield from _answer(moment, arms, retrievers, rows[:born], enforce_scope)
    finally:
        for retriever in retrievers.values():
            retriever.close()


def _answer(
    moment: Moment,
    arms: Sequence[Selector],
    retrievers: dict[TextSettings, Retriever],
    visible: Sequence[Row],
    enforce_scope: bool,
) -> Iterator[Answered]:
    gold = moment.probe.grades if moment.probe else {}
    request = Request(moment.key, moment.text, moment.scope if enforce_scope else None, moment.now_ms, gold)
    found: dict[TextSettings, Candidates] = {}
    reachable = [row for row in visible if request.scope is None or row.scope == request.scope]
    nice = sum(row.importance_label == NICE for row in reachable)
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
        yield Answered(moment, arm, recall, len(reachable), nice)
