"""Any set that can be read, written in the project's own form: ``datasets/NAME`` with ``golden/NAME`` beside it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import atomic_folder, folder_matches, write_atomically
from lab.golden.read import read_golden
from lab.golden.write import golden_bytes
from lab.recordings.card import CARD, SUMS, card, counts, sums
from lab.recordings.catalogue import CATALOGUE
from lab.recordings.readers import Library, read_library
from lab.recordings.write import recording_lines


@dataclass(frozen=True, slots=True)
class Converted:
    """Where the two folders are, and what they hold."""

    datasets: str
    golden: str | None
    conversations: int
    turns: int
    memories: int
    probes: int
    recall_turns: str
    already_there: bool

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def convert(
    path: Path, format_name: str, out: Path, *, memories: str | None = None, name: str | None = None
) -> Converted:
    """Write a set below ``out`` in the project's own form, and read it back before it is put there.

    Raises :class:`UnusableInput` for what cannot be read, what the form cannot hold, and where ``out`` holds something
    else already.
    """
    library = read_library(path, format_name, memories=memories)
    called = name or format_name
    if not re.fullmatch(r"[\w-][\w.-]*", called):
        raise UnusableInput(f"name {called!r} is no name of a folder: letters, digits, dot, dash and underscore")
    files = _files(library, called)
    there = folder_matches(out, {place: sha256(data).hexdigest() for place, data in files.items()})
    if not there:
        with atomic_folder(out) as folder:
            for place, data in files.items():
                write_atomically(folder / place, data)
            try:
                _check(library, folder, called)
            except UnusableInput as error:
                # The folder that is named will be gone.
                raise UnusableInput(f"{path}: {str(error).removeprefix(f'{folder}/')}") from None
    judged = bool(library.golden.probes)
    return Converted(
        str(out / "datasets" / called),
        str(out / "golden" / called) if judged else None,
        len(library.recordings),
        sum(len(one.turns) for one in library.recordings),
        sum(len(one.memories) for one in library.recordings),
        len(library.golden.probes),
        library.format.recall_turns,
        there,
    )


def _files(library: Library, called: str) -> dict[str, bytes]:
    """Everything that is written, by its path below the folder."""
    names = _file_names([one.conversation for one in library.recordings])
    recordings = {f"{names[one.conversation]}.jsonl": recording_lines(one) for one in library.recordings}
    golden = {
        f"{names[one.conversation]}.jsonl": golden_bytes(probes)
        for one in library.recordings
        if (probes := library.golden.of(one.conversation))
    }
    found = _folder(library, f"datasets/{called}", recordings)
    return found | (_folder(library, f"golden/{called}", golden) if golden else {})


def _folder(library: Library, place: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """One of the two folders with its card and checksums."""
    known = next((one for one in CATALOGUE if one.format == library.format.name), None)
    facts = (
        ("Converted from", f"format `{library.format.name}`, memories `{library.memories}`"),
        ("Origin", f"{known.title}: {known.repository}" if known else ""),
        ("Licence", known.licence if known else "that of what it was made from"),
        ("Recall", f"by default of that format at turns: `--recall-turns {library.format.recall_turns}`"),
    )
    sources = [f"| {name} | `{checksum}` |" for name, checksum in sorted(library.checksums().items())]
    made_from = "\n".join(["| made from | sha256 |", "| --- | --- |", *sources])
    extra = {
        CARD: card(place, facts, [counts(library), made_from]),
        SUMS: sums({name: sha256(data).hexdigest() for name, data in files.items()}),
    }
    return {f"{place}/{name}": data for name, data in (files | extra).items()}


def _file_names(conversations: list[str]) -> dict[str, str]:
    """A file name for each conversation: its own, without what a file system may refuse, and no two alike."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for conversation in conversations:
        plain = re.sub(r"[^\w.-]+", "_", conversation).lstrip(".") or "conversation"
        name, number = plain, 1
        while name.casefold() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.casefold())
        names[conversation] = name
    return names


def _check(library: Library, folder: Path, called: str) -> None:
    """Refuse what reads back as something else: nothing may be lost on the way without a word."""
    again = {one.conversation: one for one in read_library(folder / "datasets" / called, "lab").recordings}
    for one in library.recordings:
        if again.get(one.conversation) != one:
            raise UnusableInput(f"{one.conversation}: the project's own form cannot hold this conversation as it is")
    if library.golden.probes:
        golden = read_golden(folder / "golden" / called)
        for one in library.recordings:
            if golden.of(one.conversation) != library.golden.of(one.conversation):
                raise UnusableInput(f"{one.conversation}: the project's own form cannot hold its probes as they are")
