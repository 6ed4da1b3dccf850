"""Leave out conversations by what started them, and say what was left out (OR-4).

A person's conversations say what recall is worth to a person. One scheduled job adds hundreds that repeat one prompt.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.recordings.model import ORIGINS, PERSON, UNKNOWN_ORIGIN, Recording

if TYPE_CHECKING:
    from lab.recordings.readers import Library

ALL = "all"
DEFAULT = (PERSON,)


@dataclass(frozen=True, slots=True)
class Origins:
    """How many conversations of each origin were taken and left out."""

    taken: Mapping[str, int]
    left_out: Mapping[str, int]

    @property
    def is_plain(self) -> bool:
        """Whether there are conversations of persons alone, so that there is nothing to say."""
        return not self.left_out and self.taken.keys() <= {PERSON}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, and what was taken although nothing says that a person started it, as sentences."""
        texts = []
        if self.left_out:
            texts.append(f"left out: {in_words(self.left_out)}; --origin {ALL} takes them")
        others = {name: count for name, count in self.taken.items() if name not in (PERSON, UNKNOWN_ORIGIN)}
        if others:
            persons = self.taken.get(PERSON, 0)
            texts.append(f"origins: {in_words(({PERSON: persons} if persons else {}) | others)}")
        if number := self.taken.get(UNKNOWN_ORIGIN, 0):
            count, what = ("counts as a person's", "it") if number == 1 else ("count as persons'", "them")
            said = counted(number, "conversation")
            texts.append(f"{said} of unknown origin {count}: nothing says what started {what}")
        return tuple(texts)


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts by origin as in ``40 conversations of cron, 3 of subagent``."""
    parts = [f"{count} of {name}" for name, count in counts.items()]
    first, count = next(iter(counts.items()))
    return ", ".join([f"{counted(count, 'conversation')} of {first}", *parts[1:]])


def by_origin(recordings: Sequence[Recording]) -> dict[str, int]:
    """Return the number of conversations of each origin, in the order of :data:`ORIGINS`."""
    counts = Counter(recording.origin for recording in recordings)
    return {name: counts[name] for name in ORIGINS if counts[name]}


def require_known(origins: Sequence[str], where: str = "--origin") -> None:
    """Raise :class:`UnusableInput` for a name that is no origin; the message proposes a similar one."""
    for name in origins:
        if name not in (*ORIGINS, ALL):
            near = difflib.get_close_matches(name.lower(), (*ORIGINS, ALL), 1, 0.6)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UnusableInput(f"{where}: unknown origin {name!r}; {hint}known: {', '.join((*ORIGINS, ALL))}")


def of_origins(library: Library, origins: Sequence[str], names: Collection[str] = ()) -> Library:
    """Return a library with the conversations of some origins, and with its counts in ``Library.origins``.

    ``origins`` are names of :data:`ORIGINS`, or ``all``; a person's include those of unknown origin, as nothing says
    otherwise. The notes on what was left out come first. Raises :class:`UnusableInput` for an unknown name, if no
    conversation is left, and for one of ``names`` that is left out.
    """
    require_known(origins)
    wanted = {*ORIGINS} if ALL in origins else {*origins} | ({UNKNOWN_ORIGIN} if PERSON in origins else set())
    taken = tuple(recording for recording in library.recordings if recording.origin in wanted)
    out = tuple(recording for recording in library.recordings if recording.origin not in wanted)
    for recording in out:
        if recording.conversation in names:
            raise UnusableInput(
                f"conversation {recording.conversation!r}: its origin is {recording.origin}; add "
                f"--origin {recording.origin}"
            )
    if not taken:
        there = by_origin(out)
        named = " or ".join(f"--origin {name}" for name in (*there, ALL))
        raise UnusableInput(
            f"{library.path}: has no conversation of origin {' or '.join(origins)}, only {in_words(there)}; use {named}"
        )
    counts = Origins(by_origin(taken), by_origin(out))
    silent = {note for recording in out for note in recording.notes}
    notes = (*counts.notes, *(note for note in library.golden.notes if note not in silent))
    left = {recording.conversation for recording in taken}
    golden = library.golden.of_conversations(left) if out else library.golden
    return replace(library, recordings=taken, golden=replace(golden, notes=notes), origins=counts)
