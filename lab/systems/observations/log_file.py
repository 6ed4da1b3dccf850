"""Write the log of a conversation to a file, and continue it after a kill or when the conversation has grown (OB-7).

A file has a header, the lines of the log, and a mark after each run of the observer: the number of entries read by
then, with their digest. Lines after the last mark are unfinished, and are made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import cannot_write, reading, require_finite, write_atomically
from lab.recordings.model import Recording
from lab.systems.observations.log import Observation, lines_of, parse_line
from lab.systems.observations.observer import Entry, Observe
from lab.systems.observations.window import Change, Sizes, Window, size_of_log

SCHEMA = "lab.observations.v1"
HEAD, MARK = f"# {SCHEMA} ", "# read "


class Kept(NamedTuple):
    """Counts of what a command did for a conversation: of ``entries``, those ``observed`` before and ``new``.

    ``buffer``: entries that are still in the raw buffer. ``observations`` in the log, with their ``tokens``;
    ``pruned``: those that reflections of this command removed. ``runs`` of the observer, with ``reflections``.
    """

    conversation: str
    entries: int
    observed: int
    new: int
    buffer: int
    observations: int
    tokens: int
    pruned: int
    runs: int
    reflections: int


class _Read(NamedTuple):
    """An existing file: its log, its number of entries, their digest, and its length without unfinished lines."""

    log: tuple[Observation, ...]
    entries: int
    digest: str
    length: int


def entries_of(recording: Recording, roles: Sequence[str]) -> list[Entry]:
    """Return the turns of the roles that say something, as entries."""
    said = ((turn, turn.said or turn.text) for turn in recording.turns if turn.role in roles)
    return [Entry(turn.key, text, turn.time_ms, (turn.key,)) for turn, text in said if text.strip()]


def keep_log(
    path: Path,
    conversation: str,
    entries: Sequence[Entry],
    sizes: Sizes,
    observe: Observe,
    settings: Mapping[str, Any],
) -> Kept:
    """Write the log of a conversation, or continue it.

    A run of the observer appends its lines; a reflection replaces the file in one step. A kill at any time leaves a
    file that the same call continues to the same bytes. Raises :class:`UnusableInput` for a file that was made with
    other ``settings`` or from other entries, or is not a log.
    """
    head = f"{HEAD}{json.dumps({'conversation': conversation, **settings}, ensure_ascii=True)}\n"
    digests = list(_digests(entries))
    if path.exists():
        read = _read(path, head)
        if read.entries > len(entries) or digests[read.entries] != read.digest:
            raise UnusableInput(
                f"{path}: was made of other turns than those of {conversation}; give its own recording, or remove it"
            )
        _cut(path, read.length)
    else:
        read = _Read((), 0, digests[0], 0)
        write_atomically(path, f"{head}{_mark(0, digests[0])}".encode(), private=True)
    window, count = Window(sizes, observe, read.log), read.entries
    pruned = runs = reflections = 0
    for entry in entries[read.entries :]:
        change = window.add(entry)
        if not change.observed:
            continue
        count += len(change.observed)
        runs, reflections, pruned = runs + 1, reflections + bool(change.pruned), pruned + len(change.pruned)
        _write(path, head, window, change, _mark(count, digests[count]))
    return Kept(
        conversation,
        len(entries),
        read.entries,
        count - read.entries,
        len(window.buffer),
        len(window.log),
        size_of_log(window.log),
        pruned,
        runs,
        reflections,
    )


def _write(path: Path, head: str, window: Window, change: Change, mark: str) -> None:
    if change.pruned:
        write_atomically(path, f"{head}{lines_of(window.log)}{mark}".encode(), private=True)
        return
    try:
        with path.open("ab") as file:
            file.write(f"{lines_of(change.added)}{mark}".encode())
    except OSError as error:
        raise cannot_write(path, error, "; the same command goes on") from error


def _read(path: Path, head: str) -> _Read:
    """Read a file up to its last mark. Raises :class:`UnusableInput` if it is not a log, or has another header."""
    require_finite(path)
    with reading(path):
        # Bytes, because a write that was cut may end within a character.
        lines = path.read_bytes().split(b"\n")[:-1]
    if not lines or not lines[0].startswith(HEAD.encode()):
        raise UnusableInput(f"{path}: is no log of lab memory observe; choose another --out")
    if lines[0].rstrip() != head.encode().rstrip():
        raise UnusableInput(f"{path}: was made with other settings or another observer; use a new --out")
    marks = [number for number, line in enumerate(lines) if line.startswith(MARK.encode())]
    words = lines[marks[-1]].removeprefix(MARK.encode()).split() if marks else []
    if len(words) != 2 or not words[0].isdigit():
        raise UnusableInput(f"{path}: has no complete mark ({MARK.strip()} …); remove the file to make it again")
    log: list[Observation] = []
    for number, line in enumerate(lines[: marks[-1]]):
        if number == 0 or line.startswith(MARK.encode()):
            continue
        observation = parse_line(line.decode("utf-8", "replace").rstrip())
        if observation is None:
            raise UnusableInput(f"{path}:{number + 1}: is no line of a log; mend or remove it")
        log.append(observation)
    length = sum(len(line) + 1 for line in lines[: marks[-1] + 1])
    return _Read(tuple(log), int(words[0]), words[1].decode("ascii", "replace"), length)


def _cut(path: Path, length: int) -> None:
    """Remove what was written after the last mark."""
    if path.stat().st_size > length:
        try:
            with path.open("r+b") as file:
                file.truncate(length)
        except OSError as error:
            raise cannot_write(path, error) from error


def _mark(count: int, digest: str) -> str:
    return f"{MARK}{count} {digest}\n"


def _digests(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the digest of the first 0, 1, 2 and so on entries."""
    hashed = hashlib.sha256()
    yield hashed.hexdigest()[:16]
    for entry in entries:
        hashed.update(f"{entry.key}\0{entry.time_ms}\0{entry.text}\0".encode("utf-8", "surrogatepass"))
        yield hashed.hexdigest()[:16]
