"""Check recordings the way a replay reads them: what cannot be read ends at once, what is doubtful is listed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.files import sha256_file
from lab.recordings.catalogue import CATALOGUE, identified
from lab.recordings.equal import equal_conversations
from lab.recordings.inventory import Inventory
from lab.recordings.model import SEARCHED, Recording
from lab.recordings.readers import Library, read_library

SAME = "say the same, turn by turn; as evidence they are one conversation, so leave all but one of them out"


@dataclass(frozen=True, slots=True)
class Counts:
    """What one conversation holds."""

    conversation: str
    sessions: int
    turns: int
    memories: int
    probes: int


@dataclass(frozen=True, slots=True)
class Validation:
    """Counts of every conversation, what was found in them, and what the path holds where a format says more of it."""

    conversations: tuple[Counts, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    inventory: Inventory | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def validate(path: Path, format_name: str) -> Validation:
    """Read recordings and check them. Raises :class:`lab.errors.UnusableInput` for what cannot be read."""
    library = read_library(path, format_name)
    errors: list[str] = []
    warnings = list(library.golden.notes)
    for recording in library.recordings:
        _check(recording, errors, warnings)
    warnings += _other_versions(library)
    warnings += [f"{', '.join(names)}: {SAME}" for names in equal_conversations(library.recordings)]
    counts = tuple(
        Counts(
            one.conversation,
            len(one.sessions),
            len(one.turns),
            len(one.memories),
            len(library.golden.of(one.conversation)),
        )
        for one in library.recordings
    )
    return Validation(counts, tuple(errors), tuple(warnings), library.inventory)


def _other_versions(library: Library) -> list[str]:
    """Files with the name of a published one and other contents: one that was cut at a line's end reads as if whole."""
    entries = [entry for entry in CATALOGUE if entry.format == library.format.name]
    return [
        f"{name}: not the published file of that name: newer, edited, or cut; "
        f"`lab recordings list {entry.format}` has the known checksums"
        for entry in entries
        for name, path in library.names.items()
        if entry.lists(name) and identified(entry, [sha256_file(path)]) == [None]
    ]


def _check(recording: Recording, errors: list[str], warnings: list[str]) -> None:
    name = recording.conversation
    for what, keys in (
        ("turn", [one.key for one in recording.turns]),
        ("memory", [one.key for one in recording.memories]),
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
    warnings.extend(f"{name}: {key} is long: text search takes its first {SEARCHED:,} characters" for key in long)
    if not recording.memories:
        warnings.append(f"{name}: offers no memory, so nothing can be recalled")
    if not any(turn.role == "user" for turn in recording.turns):
        warnings.append(f"{name}: has no user turn")
