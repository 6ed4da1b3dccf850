"""Stores of any size made from the shipped recordings, and the turns to run on them.

Texts, vectors and prompts are real; what lies beyond them is resampled from them, as ``lab study latency`` does it,
whose stores and turns these are. Nothing is embedded while it is measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from harness import PROJECT, Bench, Side

from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Sources, open_sources, prepare
from lab.retrieval.contract import Store
from lab.retrieval.exact import BLOCK
from lab.retrieval.lance import LanceStore
from lab.retrieval.retrievers import make_store
from lab.runs.request import ReplayRequest
from lab.studies.latency.bench import (
    LoadedStore,
    Pool,
    PoolWords,
    Question,
    Subject,
    ask,
    ask_together,
    opened,
    pool_of,
    questions_of,
    retrieval_of,
    tools_over,
)
from lab.systems.openclaw.select.policies import POLICIES

if TYPE_CHECKING:
    import numpy as np

# Turns per sample: whole blocks of the exact store, so that every turn includes its share of a product. Fewer for a
# live table, where a turn takes a hundred times as long.
TURNS, LIVE_TURNS = 2 * BLOCK, 16


class Pack(NamedTuple):
    """The material of stores: the plan of both policies, its memories and their tokens, and turns."""

    plan: Plan
    sources: Sources
    pool: Pool
    words: PoolWords


def shipped(bench: Bench) -> Pack:
    """Return the shipped recordings with everything embedded."""

    def make() -> Pack:
        plan = make_plan(ReplayRequest(str(PROJECT / "datasets" / "operators"), "lab", tuple(POLICIES), haystack=0))
        sources = open_sources(plan)
        prepare(plan, plan.recordings, sources, bench.announce)
        pool = pool_of(plan, sources)
        return Pack(plan, sources, pool, PoolWords(pool, retrieval_of(plan).text))

    found: Pack = bench.keep("shipped", None, make)
    return found


def filled(bench: Bench, kind: str, size: int) -> LoadedStore:
    """Return a store of ``size`` memories, compacted if it is a table, replacing the previous one of its kind."""
    pack = shipped(bench)

    def make() -> LoadedStore:
        bench.announce(f"building the {kind} store of {size} memories")
        settings, dimension = retrieval_of(pack.plan).text, pack.pool.dimension
        store: Store
        if kind == "lancedb":
            store = live = LanceStore(dimension, settings, bench.new_folder(), None)
            bench.close_later(live.close)
        else:
            store = make_store(kind, dimension, settings)
        loaded = LoadedStore(kind, store, tools_over(pack.plan, pack.sources, kind, pack.pool, size))
        loaded.fill(pack.pool, 0, size, None if kind == "lancedb" else pack.words)
        if kind == "lancedb":
            live.compact()
        return loaded

    found: LoadedStore = bench.keep(kind, size, make)
    return found


def questions(bench: Bench, count: int) -> list[Question]:
    """Return turns of all recordings."""
    pack = shipped(bench)
    return questions_of(pack.plan, pack.sources, count)


def policies(bench: Bench, *names: str) -> Plan:
    """Return selection-only arms; both by default."""
    plan = shipped(bench).plan
    chosen = [number for number, arm in enumerate(plan.arms) if not names or arm.name in names]
    return replace(plan, arms=tuple(plan.arms[one] for one in chosen), infos=tuple(plan.infos[one] for one in chosen))


def whole_flow(bench: Bench) -> Plan:
    """Return both policies with the whole flow of a turn."""
    specs = []
    for policy in POLICIES:
        path = bench.folder / f"{policy}.json"
        path.write_text(
            json.dumps({"lab": {"arm": "engine"}, "autoRecall": {"selectionMode": policy}}), encoding="utf-8"
        )
        specs.append(f"flow_{policy}={path}")
    return make_plan(ReplayRequest(str(PROJECT / "datasets" / "operators"), "lab", tuple(specs), haystack=0))


def alone(arm: str) -> Plan:
    """Return an arm as it is named on the command line."""
    return make_plan(ReplayRequest(str(PROJECT / "datasets" / "operators"), "lab", (arm,), haystack=0))


def together(what: str, loaded: LoadedStore, arms: Plan, queries: Sequence[Question]) -> Side:
    """Run turns of arms that share one view, as in a replay, which announces its queries."""

    def work(subjects: Sequence[Subject]) -> None:
        seats = [one.seat for one in subjects]
        for question in queries:
            ask_together(loaded, seats, question)

    return over(what, loaded, arms, queries, expected(queries), work)


def each_alone(what: str, loaded: LoadedStore, arms: Plan, queries: Sequence[Question]) -> Side:
    """Run turns of arms that each search by themselves, as in live use."""

    def work(subjects: Sequence[Subject]) -> None:
        for question in queries:
            for subject in subjects:
                ask(subject, question)

    return over(what, loaded, arms, queries, expected([question for question in queries for _ in arms.arms]), work)


def over(
    what: str,
    loaded: LoadedStore,
    arms: Plan,
    queries: Sequence[Question],
    vectors: np.ndarray,
    work: Callable[[Sequence[Subject]], None],
) -> Side:
    """Run turns of arms without history, which are opened and filled before timing."""
    stack, ready = ExitStack(), list[Subject]()

    def before() -> None:
        stack.close()
        ready[:] = stack.enter_context(opened([loaded], arms))
        loaded.store.expect(vectors)

    return Side(what, lambda: work(ready), len(queries), before=before)


def expected(queries: Sequence[Question]) -> np.ndarray:
    """Return float32 ``[turns, dimension]``."""
    import numpy as np

    return np.asarray([question.query.vector for question in queries], np.float32)


def matrix(pool: Pool, size: int) -> np.ndarray:
    """Return the vectors of the first memories, float32 ``[size, dimension]``."""
    import numpy as np

    return np.concatenate([part.vectors for part in pool.parts(0, size)])
