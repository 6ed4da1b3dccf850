"""Explain the first difference between a recorded recall and the lab's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.canary.agree.engine import Answer, Deletions, Given, Recorded
from lab.canary.audit.status import FAULT, NO_VECTOR, VECTOR_LANE, meaning_of, name_of
from lab.recordings.events import InjectedBlock, RecordedMemory, ToolEvent
from lab.recordings.model import Memory
from lab.systems.openclaw.recall.working_set import PREFIX

EMBEDDER = "embedder"
# Distances that differ by more than this come from different vectors: recorded ones are sums of 32-bit numbers.
CLOSE = 1e-4
CAUSES = {
    EMBEDDER: "another embedder: the distances of the same memories differ, or the names of the models do",
    "absent": "the store does not hold the recorded memory: it was deleted or replaced, or this is another store",
    "forgotten": "a transcript shows that the memory was deleted",
    "later": "by its time, the memory was stored after the recall",
    "provider_unavailable": "the live result says so: its engine got no vector, and searched by words alone",
    "embedding_input_too_long": "the live result says so: its provider refused the query as too long",
    VECTOR_LANE: "the live vector lane found nothing, although the text lane did: it failed",
    "pinned": "it is a Working Set, or a line of one",
    "label": "the label of the memory is another one now, or no tier contains it",
    "scope": "the memory has another scope now, or another scope was searched",
    "store": "the live search had another number of hits, so its store held other memories then",
    "tie": "both memories have the same score",
    "depth": "the lab's search does not go deep enough to find the memory",
    "budget": "the memory was selected, and the budget dropped or cut it",
    "limit": "one list is longer: the configurations allow different numbers of memories, or one search had no more",
    "trivial": "the lab skipped the prompt as trivial",
    "silent": "the lab kept silent: nothing was relevant enough",
    "todo": "the memory is a TODO past its lifetime",
    "duplicate": "the memory repeats a line of the Working Set",
    "repeat": "the memory was injected recently, and its score was lowered",
    "tier": "the memory's tier was not searched: earlier tiers had filled all slots",
    "slot": "the memory is a candidate, and others took the slots",
    "off": "autoRecall is off in the configuration",
    "profile": "none of these: the profile is not upstream, so its rules are not the plugin's",
    "other": "none of these: the rules of both engines differ, or their text search does",
}
# Reasons of the lab that do not depend on vectors.
_WITHOUT_VECTORS = ("trivial", "scope", "label", "todo", "unborn")
# What the lab says of a memory that it did not inject, as a cause; the others have the same name.
_AS_CAUSE = {"cut": "pinned", "unborn": "later"}


class Match(NamedTuple):
    """A recorded memory, the memory of the store that it is (None: none), and whether only the text matched."""

    recorded: RecordedMemory
    memory: Memory | None
    by_text: bool = False


class Difference(NamedTuple):
    """The first position (from 1) at which the lists differ, its cause, and what each has there (None: the end)."""

    position: int
    cause: str
    recorded: Match | None
    lab: Memory | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the causes are read from besides the recall.

    ``memories`` are those of the store by key. ``model`` is the lab's embedder, ``configured_model`` the one that the
    configuration names (blank: none). ``auto_recall``: it is on. ``upstream``: the rules are the plugin's.
    """

    deleted: Deletions
    memories: Mapping[str, Memory]
    model: str
    configured_model: str
    auto_recall: bool
    upstream: bool


def explained(cause: str) -> str:
    """Return what a cause means. One that is not in :data:`CAUSES` is a reason that live results give."""
    return CAUSES.get(cause) or "the live result gives this reason: a part of its engine did not work"


def live_fault(recorded: Recorded) -> str | None:
    """Return what did not work in the live engine according to its own result; None if it says nothing of the kind."""
    event = recorded.event
    if not isinstance(event, ToolEvent):
        return None
    named = next((reason for reason in event.reasons if meaning_of(reason) == FAULT), None)
    if named is not None:
        return name_of(named)
    # The vector lane always has a nearest neighbour where the text lane found a memory.
    return VECTOR_LANE if event.fts and event.vec == 0 else None


def distances_differ(matches: Sequence[Match], answer: Answer) -> bool | None:
    """Return whether memories in both lists have another distance; None if none has a distance in both."""
    here = {given.key: given.distance for given in answer.memories if given.distance}
    pairs = [
        (match.recorded.distance, here[match.memory.key])
        for match in matches
        if match.memory and match.recorded.distance and match.memory.key in here
    ]
    if not pairs:
        return None
    return any(abs(recorded - (distance or 0.0)) > CLOSE for recorded, distance in pairs)


def other_embedder(recorded: Recorded, matches: Sequence[Match], answer: Answer, facts: Facts) -> bool:
    """Return whether the live engine's vectors were others: by distances, else by the models' names."""
    event = recorded.event
    differ = distances_differ(matches, answer)
    if differ is not None:
        return differ
    if live_fault(recorded) in (*NO_VECTOR, VECTOR_LANE):
        # The live search had no vectors.
        return False
    named = event.model if isinstance(event, ToolEvent) else facts.configured_model
    return bool(named) and named != facts.model


def first_difference(recorded: Recorded, matches: Sequence[Match], answer: Answer, facts: Facts) -> Difference | None:
    """Return the first difference with its cause; None if both lists have the same memories in the same order."""
    keys = [match.memory.key if match.memory else None for match in matches]
    for at in range(max(len(keys), len(answer.memories))):
        match = matches[at] if at < len(matches) else None
        given = answer.memories[at] if at < len(answer.memories) else None
        if match is not None and given is not None and keys[at] == given.key:
            continue
        cause = _cause(recorded, matches, match, given, answer, facts)
        return Difference(at + 1, cause, match, facts.memories.get(given.key) if given else None)
    return None


def _cause(
    recorded: Recorded,
    matches: Sequence[Match],
    match: Match | None,
    given: Given | None,
    answer: Answer,
    facts: Facts,
) -> str:
    """Return the most certain cause: the memory itself, what the live result says, the embedder, then the ranking."""
    if recorded.kind == "injected" and not facts.auto_recall:
        return "off"
    of_memory = _of_memory(recorded, match, facts) if match else None
    if of_memory:
        return of_memory
    event = recorded.event
    if isinstance(event, ToolEvent) and event.searched_scope and event.searched_scope != answer.scope:
        return "scope"
    reason = (answer.reasons or {}).get(match.memory.key) if match and match.memory else None
    if reason in _WITHOUT_VECTORS:
        return _AS_CAUSE.get(reason, reason)
    if (fault := live_fault(recorded)) is not None:
        return fault
    if other_embedder(recorded, matches, answer, facts):
        return EMBEDDER
    if facts.upstream and isinstance(event, ToolEvent) and _hits_differ(event, answer):
        return "store"
    if isinstance(event, InjectedBlock) and event.cut and match is None:
        return "budget"
    of_ranks = _of_ranks(matches, match, given, answer) if match and match.memory else None
    if of_ranks:
        return of_ranks
    if not facts.upstream:
        return "profile"
    return "limit" if match is None or given is None else "other"


def _of_ranks(matches: Sequence[Match], match: Match, given: Given | None, answer: Answer) -> str | None:
    """Return why the lab has another memory, or none, in the place of a recorded one; None if that is unknown."""
    memory, here = match.memory, {each.key: each for each in answer.memories}
    if memory is None:
        return None
    if memory.key in here:
        return "tie" if given is not None and _tied(here[memory.key], given) else None
    reason = (answer.reasons or {}).get(memory.key)
    if reason is not None:
        return _AS_CAUSE.get(reason, reason if reason in CAUSES else "other")
    if answer.scopes and memory.scope not in answer.scopes:
        return "scope"
    if answer.candidates is not None and memory.key not in answer.candidates:
        return "depth"
    return "tie" if given is not None and _recorded_tie(matches, match, given) else None


def _of_memory(recorded: Recorded, match: Match, facts: Facts) -> str | None:
    """Return what the store says against a recorded memory; None if it should have been recalled."""
    shown, memory = match.recorded, match.memory
    if shown.id.startswith(PREFIX):
        return "pinned"
    if memory is None:
        return "absent" if facts.deleted.of(shown) is None else "forgotten"
    ended = facts.deleted.ids.get(memory.key)
    if ended is not None and ended <= recorded.time_ms:
        return "forgotten"
    if memory.created_at > recorded.time_ms:
        return "later"
    if shown.label and shown.label != memory.label:
        return "label"
    if shown.scope and shown.scope != memory.scope:
        return "scope"
    return None


def _hits_differ(event: ToolEvent, answer: Answer) -> bool:
    """Return whether a lane had another number of hits, which depends on the store and not on the ranking."""
    return (event.fts is not None and event.fts != answer.fts) or (event.vec is not None and event.vec != answer.vec)


def _tied(one: Given, other: Given) -> bool:
    return one.tier == other.tier and one.score is not None and one.score == other.score


def _recorded_tie(matches: Sequence[Match], match: Match, given: Given) -> bool:
    """Return whether the recorded memory had the score of the one that took its place, as recorded or in the lab."""
    scores = {each.memory.key: each.recorded.score for each in matches if each.memory}
    score = match.recorded.score
    return score is not None and score in (scores.get(given.key), given.score)
