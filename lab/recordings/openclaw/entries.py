"""Entries of a transcript: how a file's lines become entries, and which of them are on the active branch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

# An entry that selects another one as the end of the active branch: ``{"type": "leaf", "targetId": …}``.
LEAF = "leaf"


class Entry(NamedTuple):
    """One line of a transcript (counted from 1) with its id.

    The id is made of the line's number where the entry has none, or that of another. ``mark`` is what the entry is
    known by in another copy of the transcript: the id that it was given, or the sha256 of its line.
    """

    line: int
    id: str
    value: dict[str, Any]
    mark: str


class Spoilt(NamedTuple):
    """A line that is no entry: its number (0 for an event of a database that has none) and why."""

    line: int
    reason: str


class Transcript(NamedTuple):
    """The entries of one session in order, the lines that are none, and how many lines there are."""

    entries: list[Entry]
    spoilt: list[Spoilt]
    lines: int

    def spoilt_notes(self, *, is_file: bool) -> list[str]:
        """Sentences on the lines that are no entries; the last line of a file may have been cut off."""
        lines = [one.line for one in self.spoilt]
        if not is_file:
            return [
                f"{f'event {one.line - 1} (seq)' if one.line else 'an event'} {one.reason} and was skipped"
                for one in self.spoilt
            ]
        notes = []
        if lines and lines[-1] == self.lines:
            notes.append(f"the last line, {lines.pop()}, is cut off and was skipped")
        if lines:
            notes.append(f"lines that are no JSON entries skipped (first line {lines[0]}): {len(lines)}")
        return notes


def parse(lines: Iterable[tuple[int, bytes | Spoilt]]) -> Transcript:
    """Parse numbered lines of JSON. What is no object with a ``type`` is kept apart; blank lines are no lines."""
    entries: list[Entry] = []
    spoilt: list[Spoilt] = []
    known: set[str] = set()
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
            # Half a character or a control character can stand in JSON, and in no key of a turn.
            identity = given if given and given.isprintable() and given not in known else f"line{number}"
            known.add(identity)
            entries.append(Entry(number, identity, value, given or hashlib.sha256(line.strip()).hexdigest()))
        else:
            spoilt.append(Spoilt(number, "is no JSON object with a type"))
    return Transcript(entries, spoilt, number)


def parse_file(data: bytes) -> Transcript:
    """Parse the bytes of a JSON Lines file."""
    return parse(enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1))


def active_branch(entries: list[Entry], leaf: str | None = None) -> tuple[list[Entry], int]:
    """Return the entries from the root to the end of the active branch, and how many name a parent that is missing.

    The end is the entry with the id ``leaf``, else the last one. An entry of type ``leaf`` leads to the one that it
    selects. A log only grows, so a parent stands before its children. Where it is missing (its line was spoilt), and
    in files of version 1, which know no parents, the entry before is taken.
    """
    places: dict[str, int] = {}
    parents: list[int] = []
    lost = 0
    for place, entry in enumerate(entries):
        field = "targetId" if entry.value["type"] == LEAF and "targetId" in entry.value else "parentId"
        parent = entry.value.get(field, "")
        before = place - 1
        if parent is None:
            before = -1
        elif isinstance(parent, str) and parent in places:
            before = places[parent]
        elif field in entry.value:
            lost += 1
        parents.append(before)
        places[str(entry.value.get("id", entry.id))] = place
    branch: list[Entry] = []
    place = len(entries) - 1 if leaf is None else places.get(leaf, len(entries) - 1)
    while place >= 0:
        branch.append(entries[place])
        place = parents[place]
    return branch[::-1], lost
