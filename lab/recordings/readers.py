"""The function that reads recordings of any format, and takes some of them by what started them.

Conversations may be left out by what started them, and then their number is said (OR-4). A person's conversations say
what recall is worth to a person; one scheduled job adds hundreds that repeat one prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from lab.base.errors import UnusableInput
from lab.base.files import sha256_file
from lab.base.utf16 import has_lone_surrogate
from lab.golden.lint import probe_problems
from lab.golden.model import GoldenSet, Probe
from lab.recordings.catalogue import in_clone
from lab.recordings.formats import FORMATS, Format, format_named
from lab.recordings.inventory import Inventory
from lab.recordings.model import Recording
from lab.recordings.origins import ALL, ORIGINS, PERSON, UNKNOWN_ORIGIN, Origins, in_words, require_known


def by_origin(recordings: Sequence[Recording]) -> dict[str, int]:
    """Return the number of conversations of each origin, in the order of :data:`ORIGINS`."""
    counts = Counter(recording.origin for recording in recordings)
    return {name: counts[name] for name in ORIGINS if counts[name]}


def of_origins(library: Library, origins: Sequence[str], names: Collection[str] = ()) -> Library:
    """Return a library with the conversations of some origins, and with its counts in ``Library.origins``.

    ``origins`` are names of :data:`ORIGINS`, or ``all``; a person's include those of unknown origin, as nothing says
    otherwise. The notes on what was left out come first. Raises :class:`UnusableInput` for an unknown name, if no
    conversation is left, and for one of ``names`` that is left out.
    """
    require_known(origins)
    wanted = {*ORIGINS} if ALL in origins else {*origins} | ({UNKNOWN_ORIGIN} if PERSON in origins else set())
    taken = tuple(recording for recording in library.recordings if recording.origin in wanted)
    out = tuple(recording for recording in library.recordings if recording.origin not in wanted)
    for recording in out:
        if recording.conversation in names:
            raise UnusableInput(
                f"conversation {recording.conversation!r}: its origin is {recording.origin}; add "
                f"--origin {recording.origin}"
            )
    if not taken:
        there = by_origin(out)
        named = " or ".join(f"--origin {name}" for name in (*there, ALL))
        raise UnusableInput(
            f"{library.path}: has no conversation of origin {' or '.join(origins)}, only {in_words(there)}; use {named}"
        )
    counts = Origins(by_origin(taken), by_origin(out))
    silent = {note for recording in out for note in recording.notes}
    notes = (*counts.notes, *(note for note in library.golden.notes if note not in silent))
    left = {recording.conversation for recording in taken}
    golden = library.golden.of_conversations(left) if out else library.golden
    return replace(library, recordings=taken, golden=replace(golden, notes=notes), origins=counts)


@dataclass(frozen=True, slots=True)
class Library:
    """Recordings in order of conversation id, with their probes and the files they were read from.

    ``names`` maps names that are independent of the folder's location to the files and their companions. ``stored`` is
    the content digest of the memories that replaced the recorded ones, if any. ``digests`` holds, by name, the content
    digest of each file that another process may be writing. ``path`` is the path that was read. ``inventory`` is set
    for formats that report what a path holds, and ``origins`` where conversations were taken by what started them.
    """

    format: Format
    memories: str
    recordings: tuple[Recording, ...]
    golden: GoldenSet
    files: tuple[Path, ...]
    names: dict[str, Path] = field(default_factory=dict)
    stored: str | None = None
    digests: dict[str, str] = field(default_factory=dict)
    inventory: Inventory | None = None
    path: Path = Path()
    origins: Origins | None = None

    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 of the content that was read, by file name."""
        return {name: self.digests.get(name) or sha256_file(path) for name, path in self.names.items()}


def files_of(path: Path, form: Format) -> tuple[Path, ...]:
    """Return the files of a format at ``path``: the file itself, or the matching files of the folder in name order.

    Raises :class:`UnusableInput` if there are none.
    """
    if path.is_file():
        return (path,)
    if not path.exists():
        raise UnusableInput(f"{path}: no such file or folder")
    files = tuple(
        sorted(
            child
            for child in path.glob(form.pattern)
            if child.is_file()
            and not any(name.startswith(".") and name != form.hidden for name in child.relative_to(path).parts)
            and not any(fnmatchcase(child.name, ignored) for ignored in form.ignored)
        )
    )
    if not files:
        elsewhere = in_clone(form.name, path)
        raise UnusableInput(
            f"{path}: this folder has no file that matches {form.pattern}, as format {form.name!r} needs{elsewhere}"
        )
    return files


def not_among(path: Path, format_name: str, out: Path) -> None:
    """Raise :class:`UnusableInput` if ``out`` would later be read as one of the recordings of the folder ``path``."""
    form = format_named(format_name)
    if path.is_dir() and out.resolve().parent == path.resolve() and fnmatchcase(out.name, form.pattern):
        raise UnusableInput(f"{out}: would later be read as one of the recordings in {path}; choose another --out")


def names_of(files: Iterable[Path], form: Format) -> dict[str, Path]:
    """Return the files and their companions, by the last components of their paths."""
    names: dict[str, Path] = {}
    for file in files:
        absolute = file.absolute()
        root = absolute.parents[min(form.depth, len(absolute.parents)) - 1]
        names |= {path.absolute().relative_to(root).as_posix(): path for path in (file, *form.companions(file))}
    return names


def shortest_names(files: Iterable[Path]) -> dict[str, Path]:
    """Return the files by the shortest path suffixes, of equal depth, that are unique."""
    paths = [file.absolute() for file in files]
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(set(paths)):
        depth += 1
    return {"/".join(path.parts[-depth:]): path for path in paths}


def read_library(path: Path, format_name: str, *, memories: str | None = None) -> Library:
    """Read a file or a folder of recordings, with the probes those files contain.

    ``memories`` selects the source of the memories (None: the format's default). Raises :class:`UnusableInput` for
    input that cannot be replayed: a recording without turns, a duplicate conversation, or a probe that names an unknown
    turn or memory.
    """
    form = format_named(format_name)
    chosen = memories or form.memories[0]
    if chosen not in form.memories:
        raise UnusableInput(f"format {form.name!r} has no memories {chosen!r}; choose from: {', '.join(form.memories)}")
    gathered = form.gathered(path)
    if gathered:
        files, pairs = gathered.files, [(recording, GoldenSet()) for recording in gathered.recordings]
    else:
        files = files_of(path, form)
        pairs = [pair for file in files for pair in _read_file(file, form, chosen)]
    recordings = tuple(sorted((recording for recording, _ in pairs), key=lambda recording: recording.conversation))
    if not recordings:
        raise UnusableInput(f"{path}: contains no conversation")
    for before, after in pairwise(recordings):
        if before.conversation == after.conversation:
            raise UnusableInput(f"{path}: conversation {after.conversation!r} occurs twice")
    for recording in recordings:
        if not recording.turns:
            raise UnusableInput(
                f"{path}: conversation {recording.conversation!r} has no turns, so it cannot be replayed"
            )
        _require_writable_names(recording, path)
    golden = GoldenSet(
        tuple(probe for _, gold in pairs for probe in gold.probes),
        gathered.notes if gathered else tuple(note for _, gold in pairs for note in gold.notes),
    )
    # Add all probes at once, because every call of with_golden checks all probes and recordings.
    library = Library(form, chosen, recordings, GoldenSet(), files, names_of(files, form), path=path)
    if gathered:
        names = shortest_names(files)
        digests = {name: gathered.digests[file] for name, file in names.items() if file in gathered.digests}
        library = replace(library, names=names, digests=digests, inventory=gathered.inventory)
    return with_golden(library, golden)


def _read_file(file: Path, form: Format, memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Return what a file holds. If it cannot be read, the error names another format that can read it."""
    try:
        return form.read(file, memories)
    except UnusableInput as error:
        others = [other for other in FORMATS.values() if other is not form and _can_read(other, file)]
        if not others:
            raise
        names = " or ".join(f"--format {other.name}" for other in others)
        raise UnusableInput(f"{error}. It was read as format {form.name!r}; use {names}") from None


def _can_read(form: Format, file: Path) -> bool:
    if form.gather or not file.match(form.pattern):
        return False
    try:
        return bool(form.read(file, form.memories[0]))
    except UnusableInput:
        return False


def _require_writable_names(recording: Recording, path: Path) -> None:
    """Raise :class:`UnusableInput` for a name with a lone surrogate, which no run file or store can hold.

    Texts may contain lone surrogates.
    """
    names = {recording.conversation: None}
    for turn in recording.turns:
        names |= {turn.key: None, turn.scope: None}
    for memory in recording.memories:
        names |= {memory.key: None, memory.scope: None, memory.trust: None}
    broken = has_lone_surrogate("".join(names)) and next(filter(has_lone_surrogate, names))
    if broken:
        raise UnusableInput(
            f"{path}: the name {broken!r} contains a lone surrogate (half a character); use another name"
        )


def with_golden(library: Library, golden: GoldenSet) -> Library:
    """Return the library with more probes. Raises :class:`UnusableInput` for probes that do not fit its recordings."""
    before = library.golden
    joined = GoldenSet(before.probes + golden.probes, before.notes + golden.notes, before.captures + golden.captures)
    check_probes(library.recordings, joined.judged)
    return replace(library, golden=joined)


def check_probes(recordings: Sequence[Recording], probes: Iterable[Probe]) -> None:
    """Raise :class:`UnusableInput` for a duplicate probe, or one that names an unknown conversation, turn or memory."""
    problems = probe_problems(recordings, probes)
    if problems:
        more = f" (and {len(problems) - 1} more; `lab golden lint` lists them)" if len(problems) > 1 else ""
        raise UnusableInput(problems[0] + more)
