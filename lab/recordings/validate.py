"""Validate recordings as a replay reads them: raise for unreadable input, list errors and warnings for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.base.files import sha256_file
from lab.recordings.catalogue import CATALOGUE, identified
from lab.recordings.inventory import Inventory
from lab.recordings.model import SEARCHED, Recording, equal_conversations
from lab.recordings.readers import Library, read_library

SAME = "these conversations have the same turns, or nearly so, and count as one; keep only one of them"


@dataclass(frozen=True, slots=True)
class Counts:
    """The sizes of one conversation."""

    conversation: str
    sessions: int
    turns: int
    memories: int
    probes: int


@dataclass(frozen=True, slots=True)
class Validation:
    """The sizes of every conversation, the errors and warnings, and the inventory if the format has one.

    ``scopes`` are those of all turns and memories, as often as they occur.
    """

    conversations: tuple[Counts, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    inventory: Inventory | None = None
    scopes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the validation as JSON-serializable values."""
        values = asdict(self)
        del values["scopes"]
        return values | {"inventory": self.inventory.as_json() if self.inventory else None}


def validate(
    path: Path, format_name: str, *, change: Callable[[Library], Library] = lambda library: library
) -> Validation:
    """Read recordings, ``change`` them as the replay would, and check them.

    Raises :class:`lab.base.errors.UnusableInput` for unreadable input.
    """
    library = change(read_library(path, format_name))
    errors: list[str] = []
    # Some readers give the same notes with the recording and with its golden set.
    notes = (note for recording in library.recordings for note in recording.notes)
    warnings = list(dict.fromkeys((*library.golden.notes, *notes)))
    for recording in library.recordings:
        _check(recording, errors, warnings)
    warnings += _other_versions(library)
    warnings += [f"{', '.join(names)}: {SAME}" for names in equal_conversations(library.recordings)]
    counts = tuple(
        Counts(
            recording.conversation,
            len(recording.sessions),
            len(recording.turns),
            len(recording.memories),
            len(library.golden.of(recording.conversation)),
        )
        for recording in library.recordings
    )
    scopes = [turn.scope for recording in library.recordings for turn in recording.turns]
    scopes += [memory.scope for recording in library.recordings for memory in recording.memories]
    return Validation(counts, tuple(errors), tuple(warnings), library.inventory, tuple(scopes))


def _other_versions(library: Library) -> list[str]:
    """Return a warning for each file that has a published name but other content.

    A file that was truncated at the end of a line is readable, so only its checksum shows the damage.
    """
    entries = [entry for entry in CATALOGUE if entry.format == library.format.name]
    return [
        f"{name}: differs from the published file of that name: it is newer, edited or truncated; "
        f"`lab recordings list {entry.format}` shows the known checksums"
        for entry in entries
        for name, path in library.names.items()
        if entry.lists(name) and identified(entry, [sha256_file(path)]) == [None]
    ]


def _check(recording: Recording, errors: list[str], warnings: list[str]) -> None:
    name = recording.conversation
    for what, keys in (
        ("turn", [turn.key for turn in recording.turns]),
        ("memory", [memory.key for memory in recording.memories]),
    ):
        seen: set[str] = set()
        for key in keys:
            if key in seen:
                errors.append(f"{name}: {what} {key} occurs twice")
            seen.add(key)
    errors.extend(
        f"{name}: turn {turn.key} has no text"
        for turn in recording.turns
        if turn.role == "user" and not turn.text.strip()
    )
    errors.extend(
        f"{name}: memory {memory.key} has no text" for memory in recording.memories if not memory.text.strip()
    )
    long = [turn.key for turn in recording.turns if len(turn.text) > SEARCHED]
    long += [memory.key for memory in recording.memories if len(memory.index_text) > SEARCHED]
    warnings.extend(f"{name}: {key} is long: text search reads only its first {SEARCHED:,} characters" for key in long)
    if not recording.memories:
        warnings.append(f"{name}: has no memory, so nothing can be recalled")
    if not any(turn.role == "user" for turn in recording.turns):
        warnings.append(f"{name}: has no user turn")
