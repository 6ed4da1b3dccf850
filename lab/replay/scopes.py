"""Scopes of recordings and stores under the engine's validation (E-31, E-67).

The engine validates a scope where it is written. Replays take recorded scopes as they are, because a scope that a
strict policy refuses becomes the default one, so different projects would become one. ``lab recordings convert
--scopes`` writes validated scopes instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.recordings.model import Recording
from lab.recordings.readers import Library
from lab.systems.openclaw.recall.scope import ScopePolicy, normalise

RAW = "raw"
# Named after scopePolicy.validationMode.
MODES = (RAW, "normalize", "strict")
# The number of scopes to list.
LISTED = 5


def valid_scope(scope: str, mode: str) -> str:
    """Return what a scope becomes under a mode: itself under ``raw``."""
    return scope if mode == RAW else normalise(scope, ScopePolicy(validation_mode=mode)).scope


def scope_notes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return a note for each of the first scopes that a strict policy changes, with the number of its occurrences."""
    notes: list[str] = []
    for scope, count in sorted(Counter(scopes).items()):
        strict, normal = valid_scope(scope, "strict"), valid_scope(scope, "normalize")
        if strict != scope:
            notes.append(
                f"scope {scope!r} ({count} times) is not valid: under validationMode strict it becomes {strict!r}, "
                f"under normalize {normal!r}; replays take it as it is"
            )
    if len(notes) > LISTED:
        return (*notes[:LISTED], f"{len(notes) - LISTED} more scopes are not valid")
    return tuple(notes)


def scopes_of(recordings: Iterable[Recording]) -> list[str]:
    """Return the scope of every turn and memory."""
    scopes: list[str] = []
    for recording in recordings:
        scopes += [turn.scope for turn in recording.turns]
        scopes += [memory.scope for memory in recording.memories]
    return scopes


def with_valid_scopes(library: Library, mode: str) -> Library:
    """Return a library whose scopes are validated, with a note for each conversation in which one changed.

    Raises :class:`UnusableInput` for an unknown mode.
    """
    if mode not in MODES:
        raise UnusableInput(f"unknown scopes {mode!r}; {choices(mode, MODES)}")
    return replace(library, recordings=tuple(_validated(recording, mode) for recording in library.recordings))


def _validated(recording: Recording, mode: str) -> Recording:
    known = dict.fromkeys(scopes_of([recording]))
    become = {scope: valid_scope(scope, mode) for scope in known}
    changed = {scope: valid for scope, valid in become.items() if scope != valid}
    if not changed:
        return recording
    note = f"scopes validated ({mode}): " + ", ".join(f"{scope!r} is now {valid!r}" for scope, valid in changed.items())
    return replace(
        recording,
        turns=tuple(replace(turn, scope=become[turn.scope]) for turn in recording.turns),
        memories=tuple(replace(memory, scope=become[memory.scope]) for memory in recording.memories),
        notes=(*recording.notes, f"{recording.conversation}: {note}"),
    )
