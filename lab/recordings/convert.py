"""Write data sets: convert one of any format to the ``lab`` format, or import a downloaded one as it is.

A conversion gives ``datasets/NAME`` and ``golden/NAME``. What is written is read back equal by
:mod:`lab.recordings.native`; fields whose value the reader would derive anyway are left out. An import copies the files
atomically. Each folder of recordings gets a data card (README.md) and a checksum file.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.files import (
    atomic_file,
    atomic_folder,
    dump_json,
    file_names,
    folder_matches,
    sha256_file,
    write_atomically,
)
from lab.golden.files import golden_bytes, read_golden
from lab.recordings.catalogue import CATALOGUE, Entry, Known, entry_of, identified
from lab.recordings.formats import format_named
from lab.recordings.model import GLOBAL, PROVENANCE, Memory, Recording, Turn
from lab.recordings.native import SCHEMA
from lab.recordings.origins import PERSON
from lab.recordings.readers import Library, read_library

CARD, SUMS = "README.md", "SHA256SUMS"


def counts(library: Library) -> str:
    """Return a Markdown table with one row per conversation: its language and sizes."""
    rows = [
        "| conversation | language | sessions | turns | memories | probes |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for recording in library.recordings:
        probes = len(library.golden.of(recording.conversation))
        numbers = f"{len(recording.sessions)} | {len(recording.turns)} | {len(recording.memories)} | {probes}"
        rows.append(f"| {recording.conversation} | {recording.language} | {numbers} |")
    return "\n".join(rows)


def card(title: str, facts: Iterable[tuple[str, str]], parts: Sequence[str]) -> bytes:
    """Return a card in Markdown: the title, the facts that are not blank, then ``parts``."""
    listed = "\n".join(f"* **{name}**: {value}" for name, value in facts if value)
    return ("\n\n".join([f"# {title}", listed, *parts]) + "\n").encode()


def sums(checksums: dict[str, str]) -> bytes:
    """Return the checksums in the format of ``sha256sum --check``."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in sorted(checksums.items())).encode()


def recording_lines(recording: Recording) -> bytes:
    """Return one conversation as JSON Lines.

    Raises :class:`UnusableInput` if the format cannot represent it: a session that resumes after another one, memories
    that are not in the order in which they become visible, or a memory that is forgotten before it becomes visible.
    """
    name = recording.conversation
    header = {"kind": "recording", "schema": SCHEMA, "conversation": name, "language": recording.language}
    header |= {"origin": recording.origin} if recording.origin != PERSON else {}
    lines: list[dict[str, Any]] = [header | ({"notes": list(recording.notes)} if recording.notes else {})]
    for before, after in pairwise(recording.memories):
        if after.visible_from < before.visible_from:
            raise UnusableInput(f"{name}: memory {after.key} can be recalled before {before.key}, which is older")
    for memory in recording.memories:
        until = memory.visible_until
        if until is not None and not max(1, memory.visible_from) <= until <= len(recording.turns):
            raise UnusableInput(f"{name}: memory {memory.key} is forgotten before it can be recalled, or after the end")
    writer = _Memories(recording.memories, recording.turns)
    lines += writer.up_to(0, None)
    session, begun = None, set[str]()
    for index, turn in enumerate(recording.turns):
        if turn.session != session:
            session = turn.session
            if session in begun:
                raise UnusableInput(f"{name}: session {session!r} resumes after another session began")
            begun.add(session)
            lines.append({"kind": "session", "session": session, "time": _iso(turn.time_ms), "scope": turn.scope})
            scope, earliest = turn.scope, turn.time_ms
        lines.append(_turn(recording, turn, scope, earliest))
        earliest = turn.time_ms + 1
        lines += writer.up_to(index + 1, turn)
    return b"".join(dump_json(line, indent=None) for line in lines)


def _turn(recording: Recording, turn: Turn, scope: str, earliest: int) -> dict[str, Any]:
    prefix = f"{recording.conversation}/{turn.session}/"
    if not turn.key.startswith(prefix):
        raise UnusableInput(f"{recording.conversation}: the key of turn {turn.key} does not begin with {prefix}")
    line = {"kind": "turn", "turn": turn.key.removeprefix(prefix), "role": turn.role, "text": turn.text}
    line |= {"time": _iso(turn.time_ms)} if turn.time_ms != earliest else {}
    line |= {"speaker": turn.speaker} if turn.speaker != turn.role else {}
    line |= {name: text for name, text in (("said", turn.said), ("index_text", turn.index_text)) if text}
    return line | ({"scope": turn.scope} if turn.scope != scope else {})


class _Memories:
    """Writer of the memory lines, in order; tracks the key and time that a reader would derive."""

    def __init__(self, memories: tuple[Memory, ...], turns: tuple[Turn, ...]) -> None:
        self.memories, self.turns = memories, turns
        self.done = 0
        self.born = -1

    def up_to(self, visible_from: int, turn: Turn | None) -> list[dict[str, Any]]:
        """Return the lines of the memories that become visible at ``visible_from``; ``turn`` is the line above them."""
        lines = []
        ordinal = 0
        while self.done < len(self.memories) and self.memories[self.done].visible_from == visible_from:
            memory = self.memories[self.done]
            self.done += 1
            line: dict[str, Any] = {"kind": "memory"}
            if turn is not None and memory.key == f"{turn.key}#{ordinal}":
                ordinal += 1
            else:
                line |= {"key": memory.key}
            born = max(self.born + 1, turn.time_ms if turn else 0)
            line |= {"time": _iso(memory.created_at)} if memory.created_at != born else {}
            self.born = memory.created_at
            line |= {"text": memory.text}
            line |= {"index_text": memory.index_text} if memory.index_text != memory.text else {}
            line |= {"category": memory.category} if memory.category != "fact" else {}
            line |= {"importance_label": memory.label} if memory.label is not None else {}
            line |= {"scope": memory.scope} if memory.scope != (turn.scope if turn else GLOBAL) else {}
            line |= {"supersedes": list(memory.supersedes)} if memory.supersedes else {}
            line |= {"trust": memory.trust} if memory.trust != "user" else {}
            line |= {"hard_rule": True} if memory.hard_rule else {}
            line |= {name: value for name in PROVENANCE if (value := getattr(memory, name))}
            line |= {} if memory.due_at is None else {"due_at": _iso(memory.due_at)}
            line |= {"media_refs": list(memory.media_refs)} if memory.media_refs else {}
            line |= {"media_kind": memory.media_kind} if memory.media_kind else {}
            until = memory.visible_until
            lines.append(line | ({"forgotten_after": self.turns[until - 1].key} if until else {}))
        return lines


def _iso(time_ms: int) -> str:
    """Return epoch milliseconds as ISO 8601, UTC."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Converted:
    """The paths and sizes of the two folders, and whether they already existed."""

    datasets: str
    golden: str | None
    conversations: int
    turns: int
    memories: int
    probes: int
    recall_turns: str
    already_there: bool

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON-serializable values."""
        return asdict(self)


def convert(
    path: Path,
    format_name: str,
    out: Path,
    *,
    memories: str | None = None,
    name: str | None = None,
    change: Callable[[Library], Library] = lambda library: library,
) -> Converted:
    """Write a data set below ``out`` in the ``lab`` format, after checking that it reads back unchanged.

    ``change`` is applied before writing, for instance to validate scopes.

    Raises :class:`UnusableInput` for unreadable input, for a conversation that the format cannot represent, and if
    ``out`` already holds something else.
    """
    library = change(read_library(path, format_name, memories=memories))
    folder_name = name or format_name
    if not re.fullmatch(r"[\w-][\w.-]*", folder_name):
        raise UnusableInput(f"name {folder_name!r}: use only letters, digits, dots, dashes and underscores")
    files = _files(library, folder_name)
    there = folder_matches(out, {relative: sha256(data).hexdigest() for relative, data in files.items()})
    if not there:
        with atomic_folder(out) as folder:
            for relative, data in files.items():
                write_atomically(folder / relative, data)
            try:
                _check(library, folder, folder_name)
            except UnusableInput as error:
                # The message names a temporary folder, which no longer exists when the user reads it.
                raise UnusableInput(f"{path}: {str(error).removeprefix(f'{folder}/')}") from None
    judged = bool(library.golden.judged)
    return Converted(
        str(out / "datasets" / folder_name),
        str(out / "golden" / folder_name) if judged else None,
        len(library.recordings),
        sum(len(recording.turns) for recording in library.recordings),
        sum(len(recording.memories) for recording in library.recordings),
        len(library.golden.probes),
        library.format.recall_turns,
        there,
    )


def _files(library: Library, folder_name: str) -> dict[str, bytes]:
    """Return the content of every file to write, by its path below the output folder."""
    names = file_names(recording.conversation for recording in library.recordings)
    recordings = {
        f"{names[recording.conversation]}.jsonl": recording_lines(recording) for recording in library.recordings
    }
    golden = {
        f"{names[recording.conversation]}.jsonl": golden_bytes(golden_set.judged)
        for recording in library.recordings
        if (golden_set := library.golden.alone(recording.conversation)).judged
    }
    files = _folder(library, f"datasets/{folder_name}", recordings)
    return files | (_folder(library, f"golden/{folder_name}", golden) if golden else {})


def _folder(library: Library, prefix: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of one of the two folders, with its card and checksums."""
    known = next((entry for entry in CATALOGUE if entry.format == library.format.name), None)
    facts = (
        ("Converted from", f"format `{library.format.name}`, memories `{library.memories}`"),
        ("Origin", f"{known.title}: {known.repository}" if known else ""),
        ("Licence", known.licence if known else "the licence of the source"),
        ("Recall", f"default of the source format: `--recall-turns {library.format.recall_turns}`"),
    )
    sources = [f"| {name} | `{checksum}` |" for name, checksum in sorted(library.checksums().items())]
    made_from = "\n".join(["| source | sha256 |", "| --- | --- |", *sources])
    extra = {
        CARD: card(prefix, facts, [counts(library), made_from]),
        SUMS: sums({name: sha256(data).hexdigest() for name, data in files.items()}),
    }
    return {f"{prefix}/{name}": data for name, data in (files | extra).items()}


def _check(library: Library, folder: Path, folder_name: str) -> None:
    """Raise :class:`UnusableInput` if the written files do not read back as an equal library."""
    reread = {
        recording.conversation: recording
        for recording in read_library(folder / "datasets" / folder_name, "lab").recordings
    }
    for recording in library.recordings:
        again = reread.get(recording.conversation)
        if again != recording or again.origin != recording.origin:
            raise UnusableInput(
                f"{recording.conversation}: the lab format cannot represent this conversation without loss"
            )
    if library.golden.judged:
        golden = read_golden(folder / "golden" / folder_name)
        for recording in library.recordings:
            if golden.alone(recording.conversation) != library.golden.alone(recording.conversation):
                raise UnusableInput(
                    f"{recording.conversation}: the lab format cannot represent its probes without loss"
                )


LICENCES = "LICENSE*"


@dataclass(frozen=True, slots=True)
class File:
    """An imported file: its name in the folder, its SHA-256, and its version."""

    name: str
    sha256: str
    version: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The imported files and sizes, and whether the folder already held them."""

    folder: str
    files: tuple[File, ...]
    conversations: int
    probes: int
    already_there: bool

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the files whose version is unknown."""
        return tuple(file.name for file in self.files if file.version == UNKNOWN)

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON-serializable values."""
        return asdict(self) | {"unknown": self.unknown}


UNKNOWN, PUBLISHED, BESIDE = "unknown version", "as published", "licence"


def take(path: Path, format_name: str, out: Path, *, only_known: bool = False) -> Taken:
    """Copy a data set into ``out``, with a data card and checksums.

    Raises :class:`UnusableInput` for unreadable input or if ``out`` already holds something else, and
    :class:`CheckFailed` if ``only_known`` is set and a file's version is unknown.
    """
    form = format_named(format_name)
    entry = entry_of(form.name)
    if "**" in form.pattern and path.resolve() in out.resolve().parents:
        raise UnusableInput(f"{out}: is inside {path}, which would then hold the set twice; choose another --out")
    library = read_library(path, format_name)
    sources = dict(library.names)
    for name in (CARD, SUMS):
        if name in sources:
            raise UnusableInput(
                f"{sources[name]}: this name is reserved for the card and the checksums; rename the file"
            )
    checksums = {name: sha256_file(source) for name, source in sources.items()}
    versions = dict(zip(checksums, map(_version, identified(entry, checksums.values())), strict=True))
    unknown = [name for name, version in versions.items() if version == UNKNOWN]
    if only_known and unknown:
        raise CheckFailed(
            f"{path}: the version of {len(unknown)} of {len(versions)} files is unknown ({unknown[0]}, …); "
            f"`lab recordings list {format_name}` shows the known checksums"
        )
    for source in sorted((path if path.is_dir() else path.parent).glob(LICENCES)):
        if source.is_file():
            sources[source.name], versions[source.name] = source, BESIDE
            checksums[source.name] = sha256_file(source)
    texts = {CARD: _card(entry, library, checksums, versions), SUMS: sums(checksums)}
    there = folder_matches(out, checksums | {name: sha256(text).hexdigest() for name, text in texts.items()})
    if not there:
        with atomic_folder(out) as folder:
            for name, source in sources.items():
                with atomic_file(folder / name) as part:
                    shutil.copyfile(source, part)
                if sha256_file(folder / name) != checksums[name]:
                    raise UnusableInput(f"{source}: changed while it was being copied; run the command again")
            for name, text in texts.items():
                write_atomically(folder / name, text)
    files = tuple(File(name, checksums[name], versions[name]) for name in sorted(checksums))
    return Taken(str(out), files, len(library.recordings), len(library.golden.probes), there)


def _version(known: Known | None) -> str:
    return UNKNOWN if known is None else f"known: {known.part}" if known.part else PUBLISHED


def _card(entry: Entry, library: Library, checksums: dict[str, str], versions: dict[str, str]) -> bytes:
    rows = [f"| {name} | {versions[name]} | `{checksums[name]}` |" for name in sorted(checksums)]
    commit = f", commit {entry.commit}" if entry.commit else ""
    facts = (
        ("Origin", f"{entry.repository}{f', {entry.path}' if entry.path else ''}{commit}"),
        ("Licence", entry.licence),
        ("The whole set", entry.holds),
        ("Good for", entry.good_for),
        ("Read with", f"`--format {entry.format}`"),
    )
    files = "\n".join(["| file | version | sha256 |", "| --- | --- | --- |", *rows])
    return card(entry.title, facts, [counts(library), files])
