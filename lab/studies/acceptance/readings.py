"""The readings of *relevant* and of the slots that the quotas leave, and the floor that makes a memory relevant.

Seed 000 says "mustMax is a cap, not a target", "remaining slot(s): best available across tiers", and "niceMin is a
floor when relevant candidates exist". Whether the cap limits the remaining slots, and what is relevant, are two
questions, so there are four readings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.set_registry import recordings_at, shown_path
from lab.embedding.embedder import DEFAULT_MODEL, QUERY
from lab.embedding.vectors import Vectors
from lab.gate.line import FAIL
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.recordings.model import Recording, equal_conversations
from lab.replay.haystack import supply_format
from lab.replay.plan import Plan, make_plan
from lab.retrieval.retrievers import embedded_text, query_text
from lab.runs.request import ReplayRequest
from lab.studies.acceptance.evidence import Measured

# At this share of the probes, the best relevant memory reaches the floor.
SHARE = 0.95
SHIPPED_SET = "shipped:operators"
# The floor that RealMem gives, for the shipped set: `lab acceptance shipped:operators --readings --floor-from
# realmem/:realmem` calibrates it again.
OF_REALMEM, PROBES_OF_REALMEM = 0.127, 604


class Reading(NamedTuple):
    """A reading: what a wildcard may be (``quotas.wildcard``), and whether there is a floor (``minRelevance``)."""

    name: str
    wildcard: str
    has_floor: bool

    def settings(self, floor: float) -> dict[str, Any]:
        """Return the settings of a configuration that follows this reading."""
        return {
            "autoRecall": {"quotas": {"wildcard": self.wildcard}},
            "lab": {"phases": {"minRelevance": floor if self.has_floor else 0.0}},
        }


READINGS = (
    Reading("strict", "strict", has_floor=False),
    Reading("best", "best", has_floor=False),
    Reading("strict-floor", "strict", has_floor=True),
    Reading("best-floor", "best", has_floor=True),
)


class Floor(NamedTuple):
    """A floor of the cosine, and what it was calibrated on."""

    value: float
    origin: str


class Variant(NamedTuple):
    """A candidate under a reading. The one that the candidate's configuration follows has the candidate's name."""

    arm: str
    of: str
    reading: str


class Compared(NamedTuple):
    """A candidate under a reading beside the old policy: what the gate's policy ``rollout`` says, and the hits.

    ``failed`` are the measures of the critical rules that fail. ``hit`` is Success@k, which decides nothing.
    """

    variant: Variant
    rollout: str
    failed: tuple[str, ...]
    hit: float | None


def compared(measured: Measured, variants: tuple[Variant, ...]) -> Iterator[Compared]:
    """Compare each candidate under each reading with the old policy."""
    policy = read_policy("rollout")
    for variant in variants:
        verdict = judge(replace(policy, candidate=variant.arm), measured.run)
        failed = dict.fromkeys(line.measure for line in verdict.lines if line.critical and line.status == FAIL)
        hit = measured.mean(variant.arm, f"Success@{measured.k}")
        yield Compared(variant, verdict.status, tuple(failed), hit)


def floor_for(plan: Plan, source: str | None) -> Floor:
    """Return the floor for the recordings of a plan.

    ``source`` is the set to calibrate on, ``SET[:FORMAT]``; by default the shipped one, and for conversations of that
    the recorded floor of RealMem. Raises :class:`UnusableInput` if there is none for the embedder, if both sets share a
    conversation, or if the floor would exclude nothing.
    """
    embedder = plan.request.embedder
    where, form = supply_format(source or SHIPPED_SET)
    path = str(recordings_at(where))
    option = f"--floor-from {shown_path(path)}"
    other = make_plan(ReplayRequest(path, form, ("vector",), embedder=embedder, haystack=0))
    shared = _shared(plan.recordings, other.recordings)
    if shared and source is None and embedder == DEFAULT_MODEL:
        return Floor(OF_REALMEM, _origin(PROBES_OF_REALMEM, "RealMem (four personas)", embedder))
    if shared and source is None:
        raise UnusableInput(
            f"--readings: no floor is recorded for embedder {embedder}; name another set to calibrate it on, "
            "--floor-from SET[:FORMAT]"
        )
    if shared:
        raise UnusableInput(
            f"{option}: has conversation {shared}, which is judged; name another set, so that the floor is not "
            "calibrated on what it is judged on"
        )
    best = sorted(_best_cosines(other))
    if not best:
        raise UnusableInput(f"{option}: has no probe with gold to calibrate the floor on; name a set with a golden set")
    value = math.floor(1000 * best[int((1 - SHARE) * len(best))]) / 1000
    if value <= 0:
        raise UnusableInput(
            f"{option}: the floor would be {value:g} under {embedder}, which excludes nothing; name another set"
        )
    return Floor(value, _origin(len(best), shown_path(path), embedder))


def _shared(judged: tuple[Recording, ...], others: tuple[Recording, ...]) -> str | None:
    """Return the name of a conversation that both sets have, under whatever name; None if there is none."""
    for group in equal_conversations([*_named("judged", judged), *_named("floor", others)]):
        if len({name.partition(" ")[0] for name in group}) > 1:
            return group[0].partition(" ")[2]
    return None


def _named(kind: str, recordings: tuple[Recording, ...]) -> Iterator[Recording]:
    return (replace(recording, conversation=f"{kind} {recording.conversation}") for recording in recordings)


def _origin(probes: int, where: str, embedder: str) -> str:
    return f"the cosine that a relevant memory reaches at {SHARE:.0%} of {probes} probes of {where}, {embedder}"


def _best_cosines(plan: Plan) -> Iterator[float]:
    """Yield the highest cosine of a relevant memory at each probe that has any."""
    vectors, limits = Vectors(plan.embedder), plan.retrievals()[0].clamp
    probes: list[tuple[str, list[str]]] = []
    for recording in plan.recordings:
        memories = {memory.key: memory for memory in plan.memories_of(recording)}
        for point in plan.recall_points_of(recording):
            relevant = [memories[key] for key in (point.probe.grades if point.probe else ()) if key in memories]
            texts = [embedded_text(memory.index_text, limits) for memory in relevant if memory.is_visible_at(point.seq)]
            if texts:
                probes.append((query_text(point.text, limits), texts))
    vectors.prepare(list(dict.fromkeys(query for query, _ in probes)), role=QUERY)
    vectors.prepare(list(dict.fromkeys(text for _, texts in probes for text in texts)))
    for query, texts in probes:
        yield float((vectors.of(texts) @ vectors.of([query], QUERY)[0]).max())
