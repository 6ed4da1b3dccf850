"""How long a recall takes, with the embedding of its prompt (LG-17).

A replay reads vectors from a cache. So the prompts of some turns, evenly spread over the set, are embedded again, one
by one, and the time of each is added to the recall of the same turn, for arms that search by meaning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json, write_atomically
from lab.embedding.embedder import QUERY, Embedder
from lab.measures.latency import LOOKED, NS_PER_MS, Spent, spent_of
from lab.replay.plan import Plan
from lab.runs.directory import RunDirectory

SAMPLE = 200
KIND = "lab.studies.league.prompts"
# Before the first prompt is timed, so that the model is loaded.
WARM_UP = 3
# Milliseconds of the embedding of a prompt, by conversation and recall point.
PromptTimes = Mapping[str, Mapping[str, float]]


class Times(NamedTuple):
    """The times of the recalls of one arm on one set, at its warm turns, in milliseconds.

    ``with_embedding`` are those of the sampled turns with the embedding of their prompt, or without it for an arm that
    does not search by meaning (``embeds`` is false).
    """

    set: str
    arm: str
    budget: int | None
    embeds: bool
    recall: Spent
    with_embedding: Spent


def prompt_times(plan: Plan, path: Path) -> PromptTimes:
    """Return the times of the embeddings of sampled prompts; they are measured once and kept at ``path``."""
    key = plan.run_key()
    if path.is_file():
        value = read_json(path)
        if isinstance(value, dict) and value.get("kind") == KIND and value.get("key") == key:
            times: dict[str, dict[str, float]] = value["ms"]
            return times
    points = [
        (recording.conversation, point) for recording in plan.recordings for point in plan.recall_points_of(recording)
    ]
    step = max(1, len(points) // SAMPLE)
    chosen = points[::step][:SAMPLE]
    embed = _embed_of(plan.embedder)
    for _, point in chosen[:WARM_UP]:
        embed(point.text)
    measured: dict[str, dict[str, float]] = {}
    for conversation, point in chosen:
        started = time.perf_counter_ns()
        embed(point.text)
        measured.setdefault(conversation, {})[point.key] = (time.perf_counter_ns() - started) / NS_PER_MS
    write_atomically(path, dump_json({"kind": KIND, "key": key, "ms": measured}))
    return measured


def _embed_of(embedder: Embedder) -> Callable[[str], object]:
    """Return a function that embeds one prompt as a live system would: without the batch of fixed shape of a replay."""
    alone = getattr(embedder, "alone", None)
    return (lambda text: alone(text, QUERY)) if alone is not None else (lambda text: embedder.encode([text], QUERY))


def times_of(
    set_name: str,
    name: str,
    run: RunDirectory,
    budgets: Mapping[str, int | None],
    prompts: PromptTimes,
    *,
    embeds: bool,
) -> list[Times]:
    """Return the times of the arms of one run; an arm that never searched is left out."""
    recalls: dict[str, list[float]] = {}
    sampled: dict[str, list[float]] = {}
    for conversation in run.conversations:
        table = run.read_latency(conversation, ("arm", "turn", "stage", "ns", "cold"))
        if table is None:
            raise UnusableInput(f"{run.path}: has no timings; delete it and run the league again")
        of_prompts = prompts.get(conversation, {})
        for (arm, turn), ms in _warm(table.to_pylist()).items():
            recalls.setdefault(arm, []).append(ms)
            if turn in of_prompts:
                sampled.setdefault(arm, []).append(ms + (of_prompts[turn] if embeds else 0.0))
    return [
        Times(set_name, name, budget, embeds, spent_of(recalls[arm]), spent_of(sampled.get(arm, [])))
        for arm, budget in budgets.items()
        if arm in recalls
    ]


def _warm(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the milliseconds of every warm turn at which an arm searched."""
    spent: dict[tuple[str, str], float] = {}
    searched: set[tuple[str, str]] = set()
    for row in rows:
        if row["cold"]:
            continue
        at = row["arm"], row["turn"]
        spent[at] = spent.get(at, 0.0) + row["ns"] / NS_PER_MS
        if row["stage"] in LOOKED:
            searched.add(at)
    return {at: ms for at, ms in spent.items() if at in searched}
