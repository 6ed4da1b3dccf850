"""What is doubtful about one probe, seen beside the memories that it did not list."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from lab.golden.changes import marks
from lab.golden.model import NOTHING, TYPES, Probe

if TYPE_CHECKING:
    from lab.recordings.model import Memory, Recording, Turn

# A gold text of fewer characters than this says too little to be quoted.
QUOTABLE = 20
# Runs of so many characters are compared: long enough for a phrase, in Chinese, too.
GRAM, LEAKED_GRAM = 3, 8
NUMBER = re.compile(r"[a-z0-9_.:/-]*[0-9][a-z0-9_:/-]*")
# Share of runs in common from which two texts are nearly the same, and from which a turn gives its answer away.
NEARLY, LEAKED = 0.75, 0.6


def doubts(probe: Probe, recording: Recording, turn: Turn | None, refused: Collection[str]) -> Iterator[str]:
    """Sentences without their subject, the probe. ``refused`` memories were judged and found not relevant."""
    memories = {memory.key: memory for memory in recording.memories}
    seen = [one for one in recording.memories if turn is None or one.is_visible_at(turn.seq)]
    judged = dict.fromkeys(refused, "0") | marks(probe)
    relevant = [memories[one.memory] for one in probe.relevant if one.memory in memories]
    if relevant and probe.slices.get("type") == NOTHING:
        yield f"is of type {NOTHING}, and has gold"
    if not probe.relevant and probe.slices.get("type", NOTHING) in set(TYPES) - {NOTHING}:
        yield f"is of type {probe.slices['type']}, and has no gold"
    text = turn.text if turn else probe.query or ""
    for memory in relevant:
        if turn and memory.scope not in (turn.scope, "global"):
            yield f"is of scope {turn.scope}, its gold {memory.key} of {memory.scope}"
        if len(memory.text) >= QUOTABLE and memory.text in text:
            yield f"quotes its gold {memory.key}"
        elif len(memory.text) >= QUOTABLE and _contained(memory.text, text) >= LEAKED:
            yield f"gives most of its gold {memory.key} away"
    for newer in seen:
        for older in newer.supersedes:
            if judged.get(older) in ("1", "2") and older in memories:
                yield f"wants {older}, which {newer.key} had superseded by then"
    yield from _twins(relevant, seen, judged, {memory.key: _replaced(memory, seen) for memory in relevant})


def _twins(
    relevant: list[Memory], seen: list[Memory], judged: dict[str, str], replaced: dict[str, set[str]]
) -> Iterator[str]:
    """Memories that say what gold says and are judged otherwise, or not at all."""
    told: set[frozenset[str]] = set()
    runs = {memory.key: _runs(memory.text, GRAM) for memory in (*relevant, *seen)}
    for memory in relevant:
        for other in seen:
            pair = frozenset((memory.key, other.key))
            if len(pair) == 1 or pair in told or other.scope != memory.scope or other.key in replaced[memory.key]:
                continue
            told.add(pair)
            mark, gold = judged.get(other.key), judged[memory.key]
            if _plain(memory.text) == _plain(other.text):
                if mark is not None and mark != gold:
                    yield f"judges {memory.key} {gold} and {other.key} {mark}, which says the same"
                elif mark is None:
                    yield f"lists {memory.key}, and not {other.key}, which says the same"
            elif (
                mark is None
                and _numbers(memory.text) == _numbers(other.text)
                and _alike(runs[memory.key], runs[other.key]) >= NEARLY
            ):
                yield f"lists {memory.key}, and not {other.key}, which says nearly the same"


def _replaced(memory: Memory, seen: list[Memory]) -> set[str]:
    """What a memory supersedes, and what supersedes it: alike by nature."""
    return {*memory.supersedes, *(one.key for one in seen if memory.key in one.supersedes)}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _numbers(text: str) -> set[str]:
    """Numbers, dates, identifiers: texts that differ in one of them say something else."""
    return set(NUMBER.findall(text.casefold()))


def _runs(text: str, length: int) -> set[str]:
    plain = _plain(text)
    return {plain[start : start + length] for start in range(max(1, len(plain) - length + 1))}


def _alike(one: set[str], other: set[str]) -> float:
    """Jaccard's share."""
    # Sets of very different sizes cannot be alike, and most are.
    if min(len(one), len(other)) < NEARLY * max(len(one), len(other)):
        return 0.0
    return len(one & other) / len(one | other)


def _contained(memory: str, text: str) -> float:
    runs = _runs(memory, LEAKED_GRAM)
    return len(runs & _runs(text, LEAKED_GRAM)) / len(runs)
