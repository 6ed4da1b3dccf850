"""Parse the lines of a transcript into entries, decompressing zstd data, and find those of the active branch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from lab.base.times import epoch_ms

# The type of an entry that selects another entry as the end of the active branch: ``{"type": "leaf", "targetId": …}``.
LEAF = "leaf"


class Entry(NamedTuple):
    """One line of a transcript (counted from 1) with its id.

    If the recorded id is missing, invalid or a duplicate, ``id`` is derived from the line number. ``mark`` identifies
    the entry across copies of the transcript: the recorded id, or the SHA-256 of its content.
    """

    line: int
    id: str
    value: dict[str, Any]
    mark: str


class Spoilt(NamedTuple):
    """A line that is not an entry: its number (0 for a database event without a number) and the reason."""

    line: int
    reason: str


class Transcript(NamedTuple):
    """The entries of one session in order, the invalid lines, and the number of lines."""

    entries: list[Entry]
    spoilt: list[Spoilt]
    lines: int

    def spoilt_notes(self, *, is_file: bool) -> list[str]:
        """Return notes on the invalid lines; the last line of a file may be truncated."""
        lines = [spoilt.line for spoilt in self.spoilt]
        if not is_file:
            return [
                f"{f'event {spoilt.line - 1} (seq)' if spoilt.line else 'an event'} {spoilt.reason} and was skipped"
                for spoilt in self.spoilt
            ]
        notes = []
        if lines and lines[-1] == self.lines:
            notes.append(f"the last line, {lines.pop()}, is truncated and was skipped")
        if lines:
            notes.append(f"lines that are not JSON entries, skipped (first: line {lines[0]}): {len(lines)}")
        return notes


def text_of(content: Any) -> str:
    """Return the text of a message, whose content is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(part for part in parts if isinstance(part, str))


def parse(lines: Iterable[tuple[int, bytes | Spoilt]]) -> Transcript:
    """Parse numbered lines of JSON. A line that is not an object with a ``type`` is spoilt; blank lines are ignored."""
    entries: list[Entry] = []
    spoilt: list[Spoilt] = []
    seen: set[str] = set()
    number = 0
    for number, line in lines:
        if isinstance(line, Spoilt):
            spoilt.append(line)
            continue
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("type"), str):
            given = value.get("id")
            given = given if isinstance(given, str) else ""
            # JSON may contain lone surrogates and control characters, but the key of a turn may not.
            identity = given if given and given.isprintable() and given not in seen else f"line{number}"
            seen.add(identity)
            entries.append(Entry(number, identity, value, given or content_digest(value)))
        else:
            spoilt.append(Spoilt(number, "is not a JSON object with a type"))
    return Transcript(entries, spoilt, number)


def parse_file(data: bytes) -> Transcript:
    """Parse the bytes of a JSON Lines file."""
    return parse(enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1))


def content_digest(value: dict[str, Any]) -> str:
    """Return the SHA-256 of what an entry says, without its id and its place in the tree."""
    said = {name: part for name, part in value.items() if name not in ("id", "parentId")}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def time_of(entry: Entry) -> int | None:
    """Return the time of an entry, else that of its message, in epoch milliseconds."""
    message = entry.value.get("message")
    times = (epoch_ms(part.get("timestamp")) for part in (entry.value, message) if isinstance(part, dict))
    return next((time_ms for time_ms in times if time_ms is not None), None)


def said_in(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the digests of the users' messages, each with its time, by which copies of a session are known (TE-4)."""
    digests = set()
    for entry in entries:
        message = entry.value.get("message")
        if isinstance(message, dict) and message.get("role") == "user":
            said = json.dumps([time_of(entry), text_of(message.get("content"))])
            digests.add(hashlib.sha256(said.encode()).hexdigest())
    return frozenset(digests)


def merged(older: Transcript, newer: Transcript) -> Transcript:
    """Return the entries of two copies of a session as one log: what both have, and what only one has (TE-4).

    What only the older has comes before what only the newer has, so the log ends where the newer does.
    """
    known = {key for entry in newer.entries for key in _keys(entry)}
    earlier = [entry for entry in older.entries if entry.value["type"] != "session"]
    missing = {entry.line for entry in earlier if not known & set(_keys(entry))}
    places = {key: place for place, entry in enumerate(newer.entries) for key in reversed(_keys(entry))}
    order: list[Entry] = []
    done = 0
    for entry in earlier:
        if entry.line in missing:
            order.append(entry)
            continue
        place = next(places[key] for key in _keys(entry) if key in places)
        order += newer.entries[done : place + 1]
        done = max(done, place + 1)
    order += newer.entries[done:]
    seen: set[str] = set()
    entries = []
    for line, entry in enumerate(order, 1):
        identity = entry.id if entry.id not in seen else f"merged{line}"
        seen.add(identity)
        entries.append(entry._replace(line=line, id=identity))
    return Transcript(entries, [*older.spoilt, *newer.spoilt], len(entries))


def _keys(entry: Entry) -> tuple[Any, ...]:
    """Return what may identify an entry in a copy: its content, and its id at its time."""
    given = entry.value.get("id")
    own = ((given, time_of(entry)),) if isinstance(given, str) and given else ()
    return (content_digest(entry.value), *own)


def parents_of(entries: list[Entry]) -> tuple[list[int], int]:
    """Return the position of each entry's parent (-1: none), and the number of entries whose parent is missing.

    The parent of a ``leaf`` entry is the entry that it selects. Parents come before their children, because a log is
    append-only. The previous entry replaces a missing parent, whose line was spoilt; it is also the parent in files of
    version 1, which have no parent ids.
    """
    positions: dict[str, int] = {}
    parents: list[int] = []
    lost = 0
    for position, entry in enumerate(entries):
        field = "targetId" if entry.value["type"] == LEAF and "targetId" in entry.value else "parentId"
        parent = entry.value.get(field, "")
        before = position - 1
        if parent is None:
            before = -1
        elif isinstance(parent, str) and parent in positions:
            before = positions[parent]
        elif field in entry.value:
            lost += 1
        parents.append(before)
        positions[str(entry.value.get("id", entry.id))] = position
    return parents, lost


def active_branch(entries: list[Entry], leaf: str | None = None) -> tuple[list[Entry], int]:
    """Return the entries of the active branch, root first, and the number of entries whose parent is missing.

    The branch ends at the entry with the id ``leaf``, else at the last entry; see :func:`parents_of`.
    """
    parents, lost = parents_of(entries)
    positions = {str(entry.value.get("id", entry.id)): position for position, entry in enumerate(entries)}
    branch: list[Entry] = []
    position = len(entries) - 1 if leaf is None else positions.get(leaf, len(entries) - 1)
    while position >= 0:
        branch.append(entries[position])
        position = parents[position]
    return branch[::-1], lost


# OpenClaw compresses events of at most 4 MiB. Reading a transcript takes about three times its size in memory.
EVENT_LIMIT = 16 << 20
TRANSCRIPT_LIMIT = 256 << 20


class CannotUnpack(ValueError):
    """The data is not a zstd frame, is truncated, or exceeds the size limit."""


def unpack(data: bytes, limit: int) -> bytes:
    """Return the decompressed data. Raises :class:`CannotUnpack`, also for more than ``limit`` bytes."""
    import pyarrow as pa

    parts = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while part := stream.read(min(1 << 20, limit + 1 - len(parts))):
                parts += part
                if len(parts) > limit:
                    most = f"{limit >> 20} MiB" if limit % (1 << 20) == 0 else f"{limit} bytes"
                    raise CannotUnpack(f"decompresses to more than {most}")
    except OSError as error:
        raise CannotUnpack(f"cannot be decompressed ({str(error).rstrip('.')})") from None
    if data and not parts:
        raise CannotUnpack("cannot be decompressed (no output)")
    return bytes(parts)


def unpack_event(data: bytes, size: object) -> bytes:
    """Return the decompressed event. Raises :class:`CannotUnpack` if it does not have exactly ``size`` bytes."""
    if not isinstance(size, int) or not 1 <= size <= EVENT_LIMIT:
        raise CannotUnpack(f"has an invalid size: {size!r} bytes")
    content = unpack(data, size)
    if len(content) != size:
        raise CannotUnpack(f"decompresses to {len(content)} bytes instead of {size}")
    return content
