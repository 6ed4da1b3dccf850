"""Import a downloaded data set: copy its files atomically and add a data card and checksums."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.files import atomic_file, atomic_folder, folder_matches, sha256_file, write_atomically
from lab.recordings.card import CARD, SUMS, card, counts, sums
from lab.recordings.catalogue import Entry, Known, entry_of, identified
from lab.recordings.readers import Library, format_named, read_library

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
