"""Take a downloaded copy of a set in: known or not, with a card, whole or not at all."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.errors import CheckFailed, UnusableInput
from lab.files import atomic_file, atomic_folder, folder_matches, sha256_file, write_atomically
from lab.recordings.card import CARD, SUMS, card, counts, sums
from lab.recordings.catalogue import Entry, Known, entry_of, identified
from lab.recordings.readers import Library, format_named, read_library

LICENCES = "LICENSE*"


@dataclass(frozen=True, slots=True)
class File:
    """A file that was taken: its name in the folder, its checksum, and which version of it that is."""

    name: str
    sha256: str
    version: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken, and whether the folder held it already."""

    folder: str
    files: tuple[File, ...]
    conversations: int
    probes: int
    already_there: bool

    @property
    def unknown(self) -> tuple[str, ...]:
        """The files of an unknown version."""
        return tuple(one.name for one in self.files if one.version == UNKNOWN)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"unknown": self.unknown}


UNKNOWN, PUBLISHED, BESIDE = "unknown version", "as published", "licence"


def take(path: Path, format_name: str, out: Path, *, only_known: bool = False) -> Taken:
    """Copy a set into ``out`` with a card and its checksums.

    Raises :class:`UnusableInput` for what cannot be read, or where ``out`` holds anything else already, and
    :class:`CheckFailed` for an unknown version where ``only_known`` asks for known ones.
    """
    form = format_named(format_name)
    entry = entry_of(form.name)
    if "**" in form.pattern and path.resolve() in out.resolve().parents:
        raise UnusableInput(f"{out}: lies within {path}, which would hold the set twice; choose another --out")
    library = read_library(path, format_name)
    sources = dict(library.names)
    for name in (CARD, SUMS):
        if name in sources:
            raise UnusableInput(f"{sources[name]}: has the name that the card or its checksums are given; rename it")
    checksums = {name: sha256_file(source) for name, source in sources.items()}
    versions = dict(zip(checksums, map(_version, identified(entry, checksums.values())), strict=True))
    strangers = [name for name, version in versions.items() if version == UNKNOWN]
    if only_known and strangers:
        raise CheckFailed(
            f"{path}: {len(strangers)} of {len(versions)} files are of an unknown version ({strangers[0]}, …); "
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
                    raise UnusableInput(f"{source}: changed while it was copied")
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
