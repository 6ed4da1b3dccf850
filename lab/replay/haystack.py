"""Add memories of other conversations to a conversation, so that recall must find its memories among many.

A conversation of a data set has few memories, so that six slots hold a large share of them and even a random arm hits.
The added memories, the haystack, come from the other conversations of the set and are distractors: none was judged
relevant, and near-duplicates of memories of the host conversation are left out. Systems receive them like its own.

* **Which.** Those of conversations in a language of the host first, then the others, each group ordered by a hash of
  the seed, the host and the key. So the haystack depends on nothing else, not even on the golden set, and a smaller
  haystack is a subset of a larger one. Pools, replays and later judgements see the same memories.
* **When.** At the same relative position: a memory created after 30 % of its conversation's turns appears after 30 % of
  the host's turns.
* **Where.** The scopes of a conversation are mapped to those of the host's memories in turn, so that queries of every
  scope of the host reach some of them.
* **What is left out.** Near-duplicates (E-34) of any memory of the host, which may be right answers; texts already
  added; and hard rules: a rule of one operator does not bind another, and a recall would have to inject all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from pathlib import Path
from typing import NamedTuple

from lab.base.draw import draw
from lab.base.errors import UnusableInput
from lab.base.files import digest
from lab.base.formatting import counted
from lab.base.set_registry import DEMO, HAYSTACKS, recordings_at, shipped_name
from lab.golden.model import GoldenSet, Judgement, Probe, added_key, is_added
from lab.recordings.formats import FORMATS
from lab.recordings.model import GLOBAL, Memory, Recording
from lab.recordings.readers import Library, read_library
from lab.runs.manifest import Haystack, HaystackCounts
from lab.systems.openclaw.memory import is_hard_rule
from lab.systems.openclaw.near_duplicate import NearDuplicates, normal_text


class TooFew(UnusableInput):
    """A set has too few memories for a haystack; ``most`` is the largest possible."""

    def __init__(self, message: str, most: int) -> None:
        super().__init__(message)
        self.most = most


class Supply(NamedTuple):
    """A set that memories are taken from. ``name`` is blank for the set of the host conversations."""

    name: str
    recordings: Sequence[Recording]


def default_haystack(path: Path) -> int:
    """Return how many memories a replay of ``path`` adds to each conversation by default."""
    return HAYSTACKS.get(shipped_name(path) or "", 0)


def fill(
    hosts: Sequence[Recording], library: Library, number: int, sets: Sequence[str], seed: int
) -> tuple[tuple[Recording, ...], Haystack]:
    """Return conversations of a library with ``number`` added memories each, and what was added.

    ``sets`` are names of sets (:func:`read_supplies`) that fill what the library lacks. Raises as
    :func:`with_haystack`.
    """
    others, digests = read_supplies(sets, library.path)
    supplies = [*own_supplies(library.recordings, library.path), *others]
    recordings, counts = with_haystack(hosts, supplies, number, seed, library.path)
    return recordings, Haystack(number, seed, counts, digests)


def own_supplies(recordings: Sequence[Recording], path: Path) -> list[Supply]:
    """Return the recordings as supplies of their own haystacks.

    In the shipped set, the conversations of the demo come first, so that its figures stay the same when conversations
    are added.
    """
    if not default_haystack(path):
        return [Supply("", recordings)]
    first = [recording for recording in recordings if recording.conversation in DEMO]
    others = [recording for recording in recordings if recording.conversation not in DEMO]
    return [Supply("", first), Supply("", others)]


class _Source(NamedTuple):
    """A conversation that memories are taken from.

    ``scopes`` are those of its memories, numbered from its place in the set. ``from_start`` ranks the memories that
    exist before the first turn.
    """

    recording: Recording
    set_name: str
    scopes: dict[str, int]
    from_start: dict[str, int]

    @property
    def conversation(self) -> str:
        return self.recording.conversation


class _Candidate(NamedTuple):
    """A memory that may be added, and the key that it would have."""

    memory: Memory
    source: _Source
    key: str


class _Chosen(NamedTuple):
    added: list[_Candidate]
    counts: HaystackCounts


def with_haystack(
    hosts: Sequence[Recording], supplies: Sequence[Supply], number: int, seed: int, path: Path
) -> tuple[tuple[Recording, ...], dict[str, HaystackCounts]]:
    """Return the conversations with ``number`` added memories each, and what was counted, by conversation.

    Supplies are used in order. Raises :class:`TooFew`, which names ``path``, if a conversation can be given fewer, and
    :class:`UnusableInput` if a memory of a host has a key of the haystack.
    """
    sources = [[_source(supply.name, *numbered) for numbered in enumerate(supply.recordings)] for supply in supplies]
    recordings: list[Recording] = []
    counts: dict[str, HaystackCounts] = {}
    lacking: list[tuple[int, str]] = []
    for host in hosts:
        added, counted_of = _choose(host, sources, number, seed)
        counts[host.conversation] = counted_of
        if len(added) < number:
            lacking.append((len(added), host.conversation))
        if not lacking:
            recordings.append(_joined(host, added))
    if lacking:
        most, conversation = min(lacking)
        left_out = counts[conversation]
        names = [str(path), *(supply.name for supply in supplies if supply.name)]
        raise TooFew(
            f"haystack {number}: {' and '.join(names)} {'supply' if len(names) > 1 else 'supplies'} at most {most} for "
            f"every conversation (least for {conversation!r}, "
            f"without {counted(left_out.duplicates, 'near-duplicate')} and "
            f"{counted(left_out.hard_rules, 'hard rule')}); use --haystack {most}, or add another set with "
            "--haystack-from SET[:FORMAT]",
            most,
        )
    return tuple(recordings), counts


def _source(set_name: str, place: int, recording: Recording) -> _Source:
    scopes = dict.fromkeys(memory.scope or GLOBAL for memory in recording.memories)
    first = [memory.key for memory in recording.memories if not memory.visible_from]
    return _Source(
        recording,
        set_name,
        {scope: number for number, scope in enumerate(scopes, place)},
        {key: rank for rank, key in enumerate(first)},
    )


def _choose(host: Recording, sources: Sequence[Sequence[_Source]], number: int, seed: int) -> _Chosen:
    """Return up to ``number`` memories for a host, in the order in which they are chosen."""
    near = NearDuplicates(memory.text for memory in host.memories)
    texts: set[str] = set()
    added: list[_Candidate] = []
    duplicates = hard_rules = 0
    for candidate in _candidates(host, sources, seed):
        if len(added) == number:
            break
        memory = candidate.memory
        if memory.hard_rule or is_hard_rule(memory.text):
            hard_rules += 1
        elif (normal := normal_text(memory.text).text or memory.text) in texts or near.has(memory.text):
            duplicates += 1
        else:
            texts.add(normal)
            added.append(candidate)
    others = sum(bool(candidate.source.set_name) for candidate in added)
    return _Chosen(added, HaystackCounts(len(added), duplicates, hard_rules, others))


def _candidates(host: Recording, sources: Sequence[Sequence[_Source]], seed: int) -> Iterator[_Candidate]:
    """Yield all memories of other conversations that their own conversation can recall, in the order of choice."""
    languages = set(host.language.split("+"))
    for of_set in sources:
        candidates = [
            _Candidate(memory, source, added_key(source.conversation, memory.key, source.set_name))
            for source in of_set
            if source.set_name or source.conversation != host.conversation
            for memory in source.recording.memories
            if memory.visible_from <= len(source.recording.turns)
        ]
        yield from sorted(
            candidates,
            key=lambda candidate: (
                languages.isdisjoint(candidate.source.recording.language.split("+")),
                draw(seed, f"haystack {host.conversation} {candidate.key}"),
                candidate.key,
            ),
        )


def _joined(host: Recording, candidates: Sequence[_Candidate]) -> Recording:
    """Return the host with the added memories, ordered by the turn that first recalls them, then by time."""
    own = {memory.key for memory in host.memories}
    for candidate in candidates:
        if candidate.key in own:
            raise UnusableInput(f"{host.conversation}: memory {candidate.key!r} has a key of the haystack; rename it")
    scopes = list(dict.fromkeys(memory.scope or GLOBAL for memory in host.memories)) or [GLOBAL]
    keys = {candidate.key for candidate in candidates}
    added = sorted((_placed(candidate, host, scopes, keys) for candidate in candidates), key=_birth)
    memories: list[Memory] = list(merge(host.memories, added, key=_birth))
    # Memories are in the order of creation. Only the added ones give way to those before and after; ties are allowed.
    floor = 0
    for index, memory in enumerate(memories):
        if memory.key in keys and memory.created_at < floor:
            memories[index] = replace(memory, created_at=floor)
        floor = max(floor, memories[index].created_at)
    ceiling = floor
    for index in reversed(range(len(memories))):
        memory = memories[index]
        if memory.key in keys and memory.created_at > ceiling:
            memories[index] = replace(memory, created_at=ceiling)
        ceiling = min(ceiling, memories[index].created_at)
    return replace(host, memories=tuple(memories))


def _birth(memory: Memory) -> tuple[int, int]:
    return memory.visible_from, memory.created_at


def _placed(candidate: _Candidate, host: Recording, scopes: Sequence[str], keys: set[str]) -> Memory:
    """Return a memory as the host has it: its key, times and scope; ``keys`` are those of the whole haystack."""
    memory, source = candidate.memory, candidate.source.recording
    scope = candidate.source.scopes[memory.scope or GLOBAL]
    until = memory.visible_until
    born = _turn_of(memory.visible_from, source, host)
    prefix = candidate.key.removesuffix(memory.key)
    return replace(
        memory,
        key=candidate.key,
        visible_from=born,
        created_at=_time_of(memory, candidate.source, host),
        scope=scopes[scope % len(scopes)],
        supersedes=tuple(prefix + older for older in memory.supersedes if prefix + older in keys),
        visible_until=None if until is None else max(born, _turn_of(until, source, host)),
    )


def _turn_of(seq: int, source: Recording, host: Recording) -> int:
    """Return the turn of the host at the relative position of turn ``seq``; what is not at the start stays so."""
    return max(seq * len(host.turns) // len(source.turns), min(seq, 1))


def _time_of(memory: Memory, source: _Source, host: Recording) -> int:
    """Return the time of creation of a memory in the host.

    It lies between the turns that its relative position lies between. Memories that exist from the start take the times
    of those of the host, in order.
    """
    turns = host.turns
    if memory.visible_from:
        length = len(source.recording.turns)
        place, rest = divmod(memory.visible_from * len(turns), length)
        before = turns[max(place - 1, 0)].time_ms
        after = turns[min(max(place, 1), len(turns) - 1)].time_ms
        return before + (after - before) * rest // length
    first = [other.created_at for other in host.memories if not other.visible_from]
    if not first:
        return max(0, turns[0].time_ms - 1)
    return first[source.from_start[memory.key] * len(first) // len(source.from_start)]


def read_supplies(texts: Sequence[str], path: Path) -> tuple[list[Supply], dict[str, str]]:
    """Return the sets named ``PATH[:FORMAT]``, and the digests of their contents, by name.

    A set is named after its file or folder; the format is that of the ``lab`` unless given. ``path`` is that of the
    recordings. Raises :class:`UnusableInput` for a set that cannot be read, is named twice, or is the set itself.
    """
    supplies: list[Supply] = []
    digests: dict[str, str] = {}
    for text in texts:
        where, format_name = supply_format(text)
        location = recordings_at(where)
        name = location.stem if location.is_file() else location.resolve().name
        if location.resolve() == path.resolve():
            raise UnusableInput(f"--haystack-from {text}: is the set that is replayed; it supplies memories anyway")
        if name in digests:
            raise UnusableInput(f"--haystack-from {text}: another set is also called {name!r}; rename one of them")
        library = read_library(location, format_name)
        digests[name] = digest([library.memories, library.checksums()])
        supplies.append(Supply(name, library.recordings))
    return supplies, digests


def supply_format(text: str) -> tuple[str, str]:
    """Split ``PATH[:FORMAT]`` of a haystack's set into its path and its format, which is ``lab`` if none is named."""
    where, colon, format_name = text.rpartition(":")
    return (where, format_name) if colon and format_name in FORMATS else (text, "lab")


def without_absent(golden: GoldenSet, recordings: Iterable[Recording]) -> GoldenSet:
    """Return the golden set without judgements of haystack memories that the recordings were not given."""
    known = {recording.conversation: {memory.key for memory in recording.memories} for recording in recordings}

    def present(probe: Probe) -> Probe:
        keys = known.get(probe.conversation, set())

        def among(judgements: tuple[Judgement, ...]) -> tuple[Judgement, ...]:
            return tuple(entry for entry in judgements if not is_added(entry.memory) or entry.memory in keys)

        irrelevant = tuple(key for key in probe.irrelevant if not is_added(key) or key in keys)
        return replace(probe, relevant=among(probe.relevant), forbidden=among(probe.forbidden), irrelevant=irrelevant)

    return replace(golden, probes=tuple(map(present, golden.probes)))
