"""What the trials of the documents' claims share: hits of plain searches at probes, and intervals of their means.

A hit is a relevant memory among the first six. Intervals are those of :mod:`lab.compare.statistics`, with conversations
as clusters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.compare.statistics import Estimate, clustered
from lab.embedding.embedder import VectorsOf
from lab.recordings.model import Recording
from lab.replay.loop import replay
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Sources, open_sources, play_of, prepare, tools_of
from lab.runs.request import ReplayRequest

ARMS = ("bm25", "vector", "hybrid")
FIRST = 6
# The public sets that have probes, by folder and format; conversations that start otherwise are left out.
SETS = {
    "RealMem": ("realmem", ""),
    "LoCoMo": ("locomo", ""),
    "iKAT": ("ikat", ""),
    "BEAM": ("beam", ""),
    "REALTALK": ("realtalk", ""),
    "MADial, English": ("madial", "en"),
}


def announce(text: str) -> None:
    """Show progress."""
    sys.stderr.write(f"{text}\n")


class Hit(NamedTuple):
    """Whether one arm has a relevant memory among the first six at one probe."""

    arm: str
    conversation: str
    probe: str
    value: float


class Loaded(NamedTuple):
    """A plan with everything embedded that it needs."""

    plan: Plan
    sources: Sources

    @classmethod
    def of(cls, path: Path | str, form: str, start: str = "", embedder: str | None = None) -> Loaded:
        """Open a set; ``start`` is how the names of its conversations begin."""
        options = {} if embedder is None else {"embedder": embedder}
        plan = make_plan(ReplayRequest(str(path), form, ARMS, recall_turns="none", haystack=0, **options))
        plan = replace(plan, recordings=[one for one in plan.recordings if one.conversation.startswith(start)])
        sources = open_sources(plan)
        prepare(plan, plan.recordings, sources, announce)
        return cls(plan, sources)

    def hits(
        self,
        vectors: VectorsOf | None = None,
        change: Callable[[Recording], Recording] = lambda recording: recording,
        arms: Sequence[str] = ARMS,
    ) -> list[Hit]:
        """Return the hits of every arm, with other vectors or changed recordings if they are given."""
        plan, sources = self
        recordings = [change(recording) for recording in plan.recordings]
        if vectors is not None:
            sources = replace(sources, vectors=vectors)
        prepare(plan, recordings, sources, announce)
        found = []
        for recording in recordings:
            play = play_of(plan, recording, tools_of(plan, recording, sources))
            for answer in replay(play, plan.arms, infos=plan.infos):
                probe = answer.point.probe
                if probe is not None and probe.grades and answer.arm in arms:
                    keys = {item.id for item in answer.recall.items[:FIRST]}
                    hit = float(not keys.isdisjoint(probe.grades))
                    found.append(Hit(answer.arm, recording.conversation, answer.point.key, hit))
        return found


def mean_of(hits: Iterable[Hit], arm: str) -> Estimate:
    """Return the share of probes with a hit, with its clustered interval."""
    values: dict[str, list[float]] = {}
    for hit in hits:
        if hit.arm == arm:
            values.setdefault(hit.conversation, []).append(hit.value)
    return clustered(values)


def difference(base: Iterable[Hit], changed: Iterable[Hit], arm: str, other: str | None = None) -> Estimate:
    """Return the paired difference of the hits of an arm, ``changed`` minus ``base``; ``other`` is the changed arm."""
    before = {(hit.conversation, hit.probe): hit.value for hit in base if hit.arm == arm}
    after = {(hit.conversation, hit.probe): hit.value for hit in changed if hit.arm == (other or arm)}
    values: dict[str, list[float]] = {}
    for key in before:
        values.setdefault(key[0], []).append(after[key] - before[key])
    return clustered(values)


def shown(estimate: Estimate, *, signed: bool = False) -> str:
    """Return a mean with its interval, if there are enough conversations for one."""
    form = "{:+.3f}" if signed else "{:.3f}"
    text = form.format(estimate.mean)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({form.format(estimate.low)} to {form.format(estimate.high)})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"| --- | {' | '.join(['---:'] * (len(head) - 1))} |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def pooled(by_set: Mapping[str, Sequence[Hit]]) -> list[Hit]:
    """Return the hits of several sets as one, with conversations named by their set."""
    return [
        hit._replace(conversation=f"{name}/{hit.conversation}", probe=f"{name}/{hit.probe}")
        for name, hits in by_set.items()
        for hit in hits
    ]
