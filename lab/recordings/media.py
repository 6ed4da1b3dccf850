"""Media of a memory (E-99): read from a store, and named without their paths."""

from __future__ import annotations

import json

from lab.base.errors import UnusableInput
from lab.recordings.model import Memory


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
