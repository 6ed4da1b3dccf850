"""The data model of a recording: its turns, grouped into sessions, and its memories with their media (E-99)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from lab.base.errors import UnusableInput
from lab.recordings.events import Event, ToolUse
from lab.recordings.origins import PERSON

# The scope of memories and turns that belong to every project.
GLOBAL = "global"
# Importance labels of a memory.
MUST, NICE, IGNORE, UNKNOWN = "must_remember", "nice_to_have", "ignore", "unknown"
LABELS = (MUST, NICE, IGNORE, UNKNOWN)
# Text search reads only this many characters of a query or an indexed text, because a prompt may quote an entire file.
SEARCHED = 200_000
# Who or what a memory's text came from.
SOURCE_KINDS = ("operator", "tool", "web", "import", "system")
PROVENANCE = ("source_kind", "source_ref", "lang")
MEDIA = ("media_refs", "media_kind")
# The tier of each label.
TIER_OF = {MUST: "must", NICE: "nice", IGNORE: "ignore", UNKNOWN: "unknown"}


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance.

    ``seq`` counts the conversation's turns from 0 and is the replay clock. ``time_ms`` is in epoch milliseconds and
    never decreases. If the turn itself becomes a memory, ``said`` is injected and ``index_text`` is searched; where
    either is blank, ``text`` is used instead. ``events`` are what the live engine did at the turn, in order, and
    ``tool_uses`` the calls of tools and their results; they are no part of its identity.
    """

    key: str
    seq: int
    session: str
    role: str
    text: str
    time_ms: int
    scope: str = GLOBAL
    speaker: str = ""
    said: str = ""
    index_text: str = ""
    events: tuple[Event, ...] = field(default=(), compare=False, repr=False)
    tool_uses: tuple[ToolUse, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as recorded.

    ``visible_from`` is the ``seq`` of the first turn that can recall the memory. ``visible_until`` is the ``seq`` of
    the first turn that can no longer recall it (None: it is never forgotten). ``text`` is injected; ``index_text`` is
    embedded and searched. ``label`` is None if the recording has no labels. ``trust`` names the source of the memory;
    ``hard_rule`` marks a memory that recall must never miss.

    ``source_kind`` (one of :data:`SOURCE_KINDS`), ``source_ref`` (the tool, address or transcript) and ``lang`` say
    where the text came from and its language; they are blank if that is not recorded (seed 001). ``media_refs`` name
    the files that belong to it, and ``media_kind`` is what they are, such as ``image`` (E-99). No search uses them.
    ``due_at`` is when a plan is due, in epoch milliseconds (None: the memory has no such field; PL-1).

    Only memories read from a store set ``place`` and ``embedded``. ``place`` is the position of the row in its table
    (None: creation order), and ``embedded`` is False if the row has no embedding.
    """

    key: str
    text: str
    index_text: str
    visible_from: int
    created_at: int
    category: str = "fact"
    scope: str = GLOBAL
    label: str | None = None
    supersedes: tuple[str, ...] = ()
    trust: str = "user"
    hard_rule: bool = False
    place: int | None = None
    embedded: bool = True
    visible_until: int | None = None
    source_kind: str = ""
    source_ref: str = ""
    lang: str = ""
    due_at: int | None = None
    media_refs: tuple[str, ...] = ()
    media_kind: str = ""

    def is_forgotten_at(self, seq: int) -> bool:
        """Return whether the memory was forgotten before turn ``seq``."""
        return self.visible_until is not None and self.visible_until <= seq

    def is_visible_at(self, seq: int) -> bool:
        """Return whether turn ``seq`` can recall the memory: it exists by then and is not forgotten."""
        return self.visible_from <= seq and not self.is_forgotten_at(seq)


@dataclass(frozen=True, slots=True)
class Recording:
    """One conversation: turns in order, memories in creation order, and the reader's notes on repairs and oddities.

    ``origin`` is what started it (:mod:`lab.recordings.origins`). It is no part of its identity, because a copy without
    the host's index may not say it. ``others`` are rows of a store that are no memories: blank ones, and the Working
    Sets that an engine stored. Only profile ``upstream`` searches them, as the plugin does (E-1).
    """

    conversation: str
    turns: tuple[Turn, ...]
    memories: tuple[Memory, ...]
    language: str = "en"
    notes: tuple[str, ...] = field(default=())
    origin: str = field(default=PERSON, compare=False)
    others: tuple[Memory, ...] = ()

    @property
    def sessions(self) -> tuple[str, ...]:
        """Session ids in order of their first turn."""
        return tuple(dict.fromkeys(turn.session for turn in self.turns))

    @property
    def has_labels(self) -> bool:
        """Whether any memory has a recorded importance label."""
        return any(memory.label is not None for memory in self.memories)


class Chat:
    """A conversation as a reader builds it: turns 1 ms or more apart, and the memories that begin at the next turn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turns: list[Turn] = []
        self.memories: list[Memory] = []
        self.clock = 0

    def say(self, session: str, mark: object, role: str, text: str, time_ms: int, **more: Any) -> Turn:
        """Append a turn, whose key ends in ``mark``, and return it."""
        self.clock = max(self.clock + 1, time_ms)
        key = f"{self.name}/{session}/{mark}"
        self.turns.append(Turn(key, len(self.turns), session, role, text, self.clock, **{"speaker": role} | more))
        return self.turns[-1]

    def keep(self, key: str, text: str, index_text: str, **more: Any) -> str:
        """Append a memory and return its key."""
        self.memories.append(Memory(key, text, index_text, len(self.turns), self.clock, **more))
        return key

    def recording(self, notes: Iterable[str], language: str = "en") -> Recording:
        """Return what was built."""
        memories = in_birth_order(self.memories)
        return Recording(self.name, tuple(self.turns), memories, language=language, notes=tuple(notes))


def keys_of(recordings: Iterable[Recording]) -> dict[str, frozenset[str]]:
    """Return the keys of the memories of each conversation."""
    return {one.conversation: frozenset(memory.key for memory in one.memories) for one in recordings}


def in_birth_order(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    """Return the memories with ``created_at = max(previous + 1, recorded time)``, in epoch milliseconds.

    The order of the list wins over recorded times, because the times in public data sets sometimes run backwards.
    """
    ordered: list[Memory] = []
    previous = -1
    for memory in memories:
        previous = max(previous + 1, memory.created_at)
        ordered.append(memory if memory.created_at == previous else replace(memory, created_at=previous))
    return tuple(ordered)


def read_refs(value: object, where: str) -> tuple[str, ...]:
    """Return the files that belong to a memory: a list, or a JSON array as a table keeps it.

    Raises :class:`UnusableInput` for another value, naming ``where`` it is.
    """
    try:
        refs = json.loads(value or "[]") if isinstance(value, str) else value or []
    except (ValueError, RecursionError):
        refs = None
    if not isinstance(refs, list) or not all(isinstance(ref, str) for ref in refs):
        raise UnusableInput(f"{where}: field 'media_refs': expected a list of strings, as JSON")
    return tuple(refs)


def media_line(memory: Memory) -> str:
    """Return kind and number of a memory's files, as in ``media: image, 2``; empty if it has none."""
    count = len(memory.media_refs)
    if not (memory.media_kind or count):
        return ""
    return f"media: {memory.media_kind or 'unknown'}" + (f", {count}" if count else "")


# The field of a run's manifest that lists them.
EQUAL = "equal_conversations"
# Characters of a turn that are hashed at a time.
PIECE = 1 << 16
# Of this many turns of a copy, one may differ from the original; with fewer equal turns, two are no copies.
ONE_DIFFERS, LEAST_EQUAL = 10, 3
# A conversation is compared with so many earlier ones for each turn that they share: stock phrases are in all.
MOST_BESIDE = 50


def equal_conversations(recordings: Iterable[Recording]) -> list[tuple[str, ...]]:
    """Return the groups of two or more conversations that are copies: sorted tuples of names, in sorted order.

    Two conversations are copies if they have the same turns, or if at most a tenth of the turns of the longer one
    differ (one turn, if it has fewer than twenty) and at least three are equal. A turn is its role and text. Order,
    ids, times, memories, case, white space and the conversation's name are ignored. A copy of a copy is in the same
    group. A near copy whose rarest turns are in more than :data:`MOST_BESIDE` earlier conversations may be missed.

    Words are not compared: sessions of one template would pass for a copy with a word changed in every turn.
    """
    groups: dict[frozenset[bytes], list[str]] = {}
    for recording in recordings:
        groups.setdefault(_turns_of(recording), []).append(recording.conversation)
    leader = {turns: turns for turns in groups}

    def led(turns: frozenset[bytes]) -> frozenset[bytes]:
        while leader[turns] is not turns:
            turns = leader[turns]
        return turns

    frequency = Counter(turn for turns in groups for turn in turns)
    having: dict[bytes, list[frozenset[bytes]]] = {}
    for turns in groups:
        # Copies share one of these, because fewer turns may differ. Rare ones are in few other conversations.
        rarest = sorted(turns, key=lambda turn: (frequency[turn], turn))[: _may_differ(turns) + 1]
        for other in dict.fromkeys(other for turn in rarest for other in having.get(turn, ())):
            if led(other) is not led(turns) and _are_copies(turns, other):
                leader[led(turns)] = led(other)
        for turn in rarest:
            if len(having.setdefault(turn, [])) < MOST_BESIDE:
                having[turn].append(turns)
    copies: dict[frozenset[bytes], list[str]] = {}
    for turns, names in groups.items():
        copies.setdefault(led(turns), []).extend(names)
    return sorted(tuple(sorted(names)) for names in copies.values() if len(names) > 1)


def _may_differ(turns: Collection[bytes]) -> int:
    return max(len(turns) // ONE_DIFFERS, 1)


def _are_copies(one: frozenset[bytes], other: frozenset[bytes]) -> bool:
    longer = max(one, other, key=len)
    same = len(one & other)
    return same >= max(len(longer) - _may_differ(longer), LEAST_EQUAL)


def _turns_of(recording: Recording) -> frozenset[bytes]:
    """Return a hash of each turn; equal turns of the conversation are numbered, so that none is lost."""
    seen: Counter[bytes] = Counter()
    name = recording.conversation
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    turns = []
    for turn in recording.turns:
        hashed = sha256(f"{turn.role}\x00".encode())
        # In pieces, because a turn may quote an entire file, and a list of its words takes twenty times its size.
        for begin in range(0, len(turn.text), PIECE):
            piece = turn.text[begin : begin + PIECE]
            words = (pattern.sub("", piece) if name in piece else piece).casefold().split()
            hashed.update(" ".join(words).encode("utf-8", "surrogatepass"))
        digest = hashed.digest()
        seen[digest] += 1
        turns.append(digest + seen[digest].to_bytes(4))
    return frozenset(turns)
