"""What the receipts and figures of each conversation depend on, as digests (IN-8).

A run lists them, so that two runs can be compared conversation by conversation while the recordings grow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from lab.golden.model import Judgement, Probe
from lab.recordings.model import Memory, Turn
from lab.replay.plan import Plan
from lab.runs.manifest import Content


def contents_of(plan: Plan) -> dict[str, Content]:
    """Return the content of each conversation of a plan, by name.

    Memories that no turn can recall are left out: what a store receives after a conversation's last turn changes
    nothing in it. The order of a store's rows counts, but not their numbers.
    """
    contents = {}
    for recording in plan.recordings:
        end = len(recording.turns)
        seen = [memory for memory in plan.memories_of(recording) if memory.visible_from <= end]
        if any(memory.place is not None for memory in seen):
            seen.sort(key=lambda memory: -1 if memory.place is None else memory.place)
        contents[recording.conversation] = Content(
            turns_digest(recording.turns), _digest(map(_memory, seen)), _digest(map(_probe, plan.probes(recording)))
        )
    return contents


def turns_digest(turns: Iterable[Turn]) -> str:
    """Return a digest of turns in order, without what the live engine did at them."""
    return _digest(
        [turn.key, turn.session, turn.role, turn.text, turn.time_ms, turn.scope, turn.speaker, turn.said]
        + [turn.index_text] * bool(turn.index_text)
        for turn in turns
    )


def _memory(memory: Memory) -> list[object]:
    provenance = [memory.source_kind, memory.source_ref, memory.lang]
    # Not the number of its row: the list is in the order of the rows.
    return [
        *(memory.key, memory.text, memory.index_text, memory.visible_from, memory.visible_until, memory.created_at),
        *(memory.category, memory.scope, memory.label, memory.supersedes, memory.trust, memory.hard_rule),
        memory.embedded,
        *(provenance if any(provenance) else ()),
        *([] if memory.due_at is None else [memory.due_at]),
    ]


def _probe(probe: Probe) -> list[object]:
    return [
        *(probe.id, probe.turn, probe.query, probe.capture, sorted(probe.irrelevant), sorted(probe.slices.items())),
        *(sorted(map(_judgement, part)) for part in (probe.relevant, probe.forbidden)),
    ]


def _judgement(judgement: Judgement) -> list[object]:
    # Its reason changes no figure.
    return [judgement.memory, judgement.grade]


def _digest(values: Iterable[object]) -> str:
    """Return a sha256 (hex) of values, one at a time: a store may have a million memories."""
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(json.dumps(value).encode())
        hashed.update(b"\n")
    return hashed.hexdigest()
