"""Find doubtful judgements of a probe, also by comparing them with the memories that it does not list."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from lab.golden.changes import marks
from lab.golden.model import ABSENT, NOTHING, TYPES, Probe

if TYPE_CHECKING:
    from lab.recordings.model import Memory, Recording, Turn

# A shorter text, in characters, is too unspecific to count as quoted.
QUOTABLE = 20
# Lengths of the character n-grams that are compared: long enough for a phrase, also in Chinese.
GRAM, LEAKED_GRAM = 3, 8
NUMBER = re.compile(r"[a-z0-9_.:/-]*[0-9][a-z0-9_:/-]*")
# Share of common n-grams at which two texts are near-duplicates, and at which a turn leaks its answer.
NEARLY, LEAKED = 0.75, 0.6


def doubts(probe: Probe, recording: Recording, turn: Turn | None, refused: Collection[str]) -> Iterator[str]:
    """Yield the doubts about a probe, as predicates of "probe <id> …".

    ``turn`` is the turn of the probe, or None for a separate query. ``refused`` holds the keys of memories that were
    judged not relevant.
    """
    memories = {memory.key: memory for memory in recording.memories}
    visible = [memory for memory in recording.memories if turn is None or memory.is_visible_at(turn.seq)]
    judged = dict.fromkeys(refused, "0") | marks(probe)
    relevant = [memories[judgement.memory] for judgement in probe.relevant if judgement.memory in memories]
    if relevant and probe.slices.get("type") == NOTHING:
        yield f"has the type {NOTHING}, but a relevant memory"
    asks_for_absent = probe.slices.get("condition") == ABSENT
    if not probe.relevant and not asks_for_absent and probe.slices.get("type", NOTHING) in set(TYPES) - {NOTHING}:
        yield f"has the type {probe.slices['type']}, but no relevant memory"
    text = turn.text if turn else probe.query or ""
    for memory in relevant:
        if turn and memory.scope not in (turn.scope, "global"):
            yield f"has the scope {turn.scope}, but its relevant memory {memory.key} has the scope {memory.scope}"
        if len(memory.text) >= QUOTABLE and memory.text in text:
            yield f"quotes its relevant memory {memory.key}"
        elif len(memory.text) >= QUOTABLE and _contained_share(memory.text, text) >= LEAKED:
            yield f"contains most of its relevant memory {memory.key}"
    for newer in visible:
        for older in newer.supersedes:
            if judged.get(older) in ("1", "2") and older in memories:
                yield f"judges {older} relevant, which {newer.key} had already superseded"
    yield from _duplicates(relevant, visible, judged, {memory.key: _replaced(memory, visible) for memory in relevant})


def _duplicates(
    relevant: list[Memory], visible: list[Memory], judged: dict[str, str], replaced: dict[str, set[str]]
) -> Iterator[str]:
    """Yield the duplicates of relevant memories that are judged differently or not at all."""
    reported: set[frozenset[str]] = set()
    runs = {memory.key: _runs(memory.text, GRAM) for memory in (*relevant, *visible)}
    for memory in relevant:
        for other in visible:
            pair = frozenset((memory.key, other.key))
            if len(pair) == 1 or pair in reported or other.scope != memory.scope or other.key in replaced[memory.key]:
                continue
            reported.add(pair)
            mark, gold = judged.get(other.key), judged[memory.key]
            if _plain(memory.text) == _plain(other.text):
                if mark is not None and mark != gold:
                    yield f"judges {memory.key} {gold} but {other.key} {mark}, which has the same text"
                elif mark is None:
                    yield f"lists {memory.key} but not {other.key}, which has the same text"
            elif (
                mark is None
                and _numbers(memory.text) == _numbers(other.text)
                and _jaccard(runs[memory.key], runs[other.key]) >= NEARLY
            ):
                yield f"lists {memory.key} but not {other.key}, which has nearly the same text"


def _replaced(memory: Memory, visible: list[Memory]) -> set[str]:
    """Return the keys of the memories that this memory supersedes or that supersede it; they are naturally similar."""
    return {*memory.supersedes, *(other.key for other in visible if memory.key in other.supersedes)}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _numbers(text: str) -> set[str]:
    """Return the numbers, dates and identifiers of a text; texts that differ in them are not duplicates."""
    return set(NUMBER.findall(text.casefold()))


def _runs(text: str, length: int) -> set[str]:
    plain = _plain(text)
    return {plain[start : start + length] for start in range(max(1, len(plain) - length + 1))}


def _jaccard(left: set[str], right: set[str]) -> float:
    """Return the Jaccard similarity, or 0 if it cannot reach :data:`NEARLY`."""
    # Sizes rule out most pairs without computing the intersection.
    if min(len(left), len(right)) < NEARLY * max(len(left), len(right)):
        return 0.0
    return len(left & right) / len(left | right)


def _contained_share(memory: str, text: str) -> float:
    runs = _runs(memory, LEAKED_GRAM)
    return len(runs & _runs(text, LEAKED_GRAM)) / len(runs)
