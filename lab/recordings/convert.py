"""Convert a data set of any format to the ``lab`` format: ``datasets/NAME`` and ``golden/NAME``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.file_names import file_names
from lab.base.files import atomic_folder, folder_matches, write_atomically
from lab.golden.read import read_golden
from lab.golden.write import golden_bytes
from lab.recordings.card import CARD, SUMS, card, counts, sums
from lab.recordings.catalogue import CATALOGUE
from lab.recordings.readers import Library, read_library
from lab.recordings.write import recording_lines


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
        if (golden_set := library.golden.of_conversations({recording.conversation})).judged
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
            names = {recording.conversation}
            if golden.of_conversations(names) != library.golden.of_conversations(names):
                raise UnusableInput(
                    f"{recording.conversation}: the lab format cannot represent its probes without loss"
                )
