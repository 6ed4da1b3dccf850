"""What was said: turns in sessions, and the memories that existed at each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

# The scope of what belongs to every project.
GLOBAL = "global"
# Importance labels: what a memory may be graded as.
MUST, NICE, IGNORE, UNKNOWN = "must_remember", "nice_to_have", "ignore", "unknown"
LABELS = (MUST, NICE, IGNORE, UNKNOWN)
# Characters of a text that the text lane searches with, or is searched in: a prompt may hold a whole file.
SEARCHED = 200_000
# The tier that memories of a label belong to.
TIER_OF = {MUST: "must", NICE: "nice", IGNORE: "ignore", UNKNOWN: "unknown"}


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance.

    ``seq`` counts turns of the conversation from 0 and is the replay clock; ``time_ms`` never runs backwards.

    Where a turn is kept as a memory it is injected as ``said`` and searched as ``index_text``; blank: as its ``text``.
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


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as the recording gives it.

    ``visible_from`` is the ``seq`` of the first turn that can recall it, ``visible_until`` that of the first turn that
    can no longer (None: it is never forgotten). ``text`` is injected, ``index_text`` embedded and searched. ``label``
    is None where the recording grades nothing. ``trust`` is who vouches for it; ``hard_rule`` says that it must never
    be lost.

    Two fields are known only of rows read from a store: ``place`` is the row's place in its table (None: memories are
    stored in order of birth), and ``embedded`` is False where the row was stored without an embedding.
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

    def is_forgotten_at(self, seq: int) -> bool:
        """Tell whether it was forgotten before the turn ``seq``."""
        return self.visible_until is not None and self.visible_until <= seq

    def is_visible_at(self, seq: int) -> bool:
        """Tell whether the turn ``seq`` can recall it: it is born by then, and not forgotten."""
        return self.visible_from <= seq and not self.is_forgotten_at(seq)


@dataclass(frozen=True, slots=True)
class Recording:
    """One conversation: its turns in order, its memories in order of birth, and what its reader repaired or noticed."""

    conversation: str
    turns: tuple[Turn, ...]
    memories: tuple[Memory, ...]
    language: str = "en"
    notes: tuple[str, ...] = field(default=())

    @property
    def sessions(self) -> tuple[str, ...]:
        """Session ids in order of their first turn."""
        return tuple(dict.fromkeys(turn.session for turn in self.turns))

    @property
    def has_labels(self) -> bool:
        """Whether any memory carries an importance label of its own."""
        return any(memory.label is not None for memory in self.memories)


def in_birth_order(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    """Give every memory ``created_at = max(previous + 1 ms, recorded time)``: list order is the clock.

    Recorded times of public sets run backwards now and then; the list order is the only safe one.
    """
    ordered: list[Memory] = []
    previous = -1
    for memory in memories:
        previous = max(previous + 1, memory.created_at)
        ordered.append(memory if memory.created_at == previous else replace(memory, created_at=previous))
    return tuple(ordered)
