"""The formats that can be read, and the one way to read them.

A new format is one file and one line in :data:`FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from lab.errors import UnusableInput
from lab.files import sha256_file
from lab.golden.lint import probe_problems
from lab.golden.model import GoldenSet, Probe
from lab.recordings import aider, beam, hermes, ikat, locomo, madial, native, openclaw, realmem, realtalk
from lab.recordings.catalogue import in_clone
from lab.recordings.inventory import Inventory
from lab.recordings.model import Recording
from lab.utf16 import has_lone_surrogate

ReadFile = Callable[[Path, str], list[tuple[Recording, GoldenSet]]]


def nothing_beside(_: Path) -> tuple[Path, ...]:
    """Most files stand alone."""
    return ()


@dataclass(frozen=True, slots=True)
class Format:
    """A format.

    Which files of a folder are its own (``pattern``, and not ``ignored``), what it offers as memories (first is the
    default), when recall happens by default. ``beside`` finds the files that belong to one of them; ``depth`` is how
    many of the last names of its path tell it from the others. ``hidden`` is the one hidden file that is read.
    ``gather`` finds and reads the files of a whole path, where one file alone does not say what to read.
    ``from_tools``: its memories are those that the agent's own tool calls stored.
    """

    name: str
    read: ReadFile
    pattern: str
    memories: tuple[str, ...]
    recall_turns: str
    about: str
    ignored: tuple[str, ...] = ()
    beside: Callable[[Path], tuple[Path, ...]] = nothing_beside
    depth: int = 1
    hidden: str = ""
    gather: Callable[[Path], openclaw.Gathered] | None = None
    from_tools: bool = False


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format(
            "aider",
            aider.read,
            "*.md",
            ("turns",),
            "user",
            "aider chat histories: one developer's sessions, no gold",
            aider.IGNORED,
            hidden=aider.HISTORY,
        ),
        Format(
            "beam",
            beam.read,
            beam.PATTERN,
            ("turns",),
            "none",
            "BEAM: user and assistant, ten abilities asked for after the chat",
            beside=beam.questions_of,
            depth=3,
        ),
        Format(
            "hermes",
            hermes.read,
            hermes.PATTERN,
            ("turns",),
            "user",
            "logs of a Hermes agent: a day of chats, no gold",
            hermes.IGNORED,
        ),
        Format(
            "ikat",
            ikat.read,
            "**/*_topics.json",
            ("statements",),
            "user",
            "TREC iKAT: statements of a user, every utterance judged",
        ),
        Format(
            "lab",
            native.read,
            "*.jsonl",
            ("recorded",),
            "user",
            "this project's own JSON Lines, one conversation a file",
        ),
        Format(
            "locomo",
            locomo.read,
            "*.json",
            ("turns", "observations"),
            "none",
            "LoCoMo-10: two people, questions asked after the last session",
        ),
        Format(
            "madial",
            madial.read,
            madial.PATTERN,
            ("archive",),
            "user",
            "MADial-Bench: dialogues over an archive, English and Chinese",
            madial.IGNORED,
            madial.memories_of,
        ),
        Format(
            "openclaw",
            openclaw.read,
            "*.jsonl",
            ("recorded",),
            "user",
            "OpenClaw's sessions: ~/.openclaw, or what of it is given",
            gather=openclaw.gather,
            from_tools=True,
        ),
        Format(
            "realmem",
            realmem.read,
            "*.json",
            ("extracted",),
            "user",
            "RealMem: user and assistant, gold on turns inside the sessions",
        ),
        Format(
            "realtalk",
            realtalk.read,
            "*.json",
            ("turns",),
            "none",
            "REALTALK: two real people, questions asked after the last session",
        ),
    )
}

# Other readings of a format, which its notes and its page name.
VARIANTS: dict[str, Format] = {
    openclaw.ARCHIVED: replace(
        FORMATS["openclaw"],
        name=openclaw.ARCHIVED,
        about="the same, and the sessions that were reset or deleted",
        gather=openclaw.gather_all,
    )
}


@dataclass(frozen=True, slots=True)
class Library:
    """What was read: recordings in order of conversation id, their probes, and the files they came from.

    ``names`` has what belongs to those files as well, by names that do not depend on where they lie. ``stored`` is the
    digest of the memories that took the place of the recordings' own, if any did. ``digests`` are, by name, of what was
    read of files that another process may write meanwhile. ``path`` is where it was read. ``inventory`` says what the
    path holds, where that is more than its files.
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

    def checksums(self) -> dict[str, str]:
        """Return the sha256 of what was read, by the names of files."""
        return {name: self.digests.get(name) or sha256_file(path) for name, path in self.names.items()}


def format_named(name: str) -> Format:
    """The format of that name, or :class:`UnusableInput` that lists the names."""
    try:
        return (FORMATS | VARIANTS)[name]
    except KeyError:
        raise UnusableInput(f"unknown format {name!r}; known: {', '.join(sorted(FORMATS | VARIANTS))}") from None


def files_of(path: Path, form: Format) -> tuple[Path, ...]:
    """The files of one format at ``path``: the file itself, or those of the folder by name."""
    if path.is_file():
        return (path,)
    if not path.exists():
        raise UnusableInput(f"{path}: no such file or folder")
    found = tuple(
        sorted(
            child
            for child in path.glob(form.pattern)
            if child.is_file()
            and not any(name.startswith(".") and name != form.hidden for name in child.relative_to(path).parts)
            and not any(fnmatchcase(child.name, ignored) for ignored in form.ignored)
        )
    )
    if not found:
        elsewhere = in_clone(form.name, path)
        raise UnusableInput(
            f"{path}: no {form.pattern} file in this folder, which format {form.name!r} reads{elsewhere}"
        )
    return found


def not_among(path: Path, format_name: str, out: Path) -> None:
    """Refuse to write a file where the next reading of a folder would take it for one of its recordings."""
    form = format_named(format_name)
    if path.is_dir() and out.resolve().parent == path.resolve() and fnmatchcase(out.name, form.pattern):
        raise UnusableInput(f"{out}: would be read as one of the recordings in {path}; choose another --out")


def names_of(files: Iterable[Path], form: Format) -> dict[str, Path]:
    """The files, and those that belong to them, by the last names of their paths."""
    names: dict[str, Path] = {}
    for file in files:
        absolute = file.absolute()
        root = absolute.parents[min(form.depth, len(absolute.parents)) - 1]
        names |= {one.absolute().relative_to(root).as_posix(): one for one in (file, *form.beside(file))}
    return names


def shortest_names(files: Iterable[Path]) -> dict[str, Path]:
    """Name each file by as few of the last names of its path as tell it from the others."""
    paths = [file.absolute() for file in files]
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(set(paths)):
        depth += 1
    return {"/".join(path.parts[-depth:]): path for path in paths}


def read_library(path: Path, format_name: str, *, memories: str | None = None) -> Library:
    """Read a file or a folder of recordings with their gold.

    ``memories`` chooses what the recording offers as memories; ``golden`` adds probes that live in files of their
    own. Raises :class:`UnusableInput` for anything that cannot be replayed: no turns, one conversation twice, a probe
    that names what is not there.
    """
    form = format_named(format_name)
    chosen = memories or form.memories[0]
    if chosen not in form.memories:
        raise UnusableInput(f"format {form.name!r} has no memories {chosen!r}; it has: {', '.join(form.memories)}")
    gathered = form.gather(path) if form.gather else None
    if gathered:
        files, pairs = gathered.files, [(one, GoldenSet()) for one in gathered.recordings]
    else:
        files = files_of(path, form)
        pairs = [pair for file in files for pair in form.read(file, chosen)]
    recordings = tuple(sorted((recording for recording, _ in pairs), key=lambda recording: recording.conversation))
    if not recordings:
        raise UnusableInput(f"{path}: holds no conversation")
    for before, after in pairwise(recordings):
        if before.conversation == after.conversation:
            raise UnusableInput(f"{path}: conversation {after.conversation!r} occurs twice")
    for recording in recordings:
        if not recording.turns:
            raise UnusableInput(f"{path}: conversation {recording.conversation!r} has no turns: nothing to replay")
        _require_writable_names(recording, path)
    golden = GoldenSet(
        tuple(probe for _, gold in pairs for probe in gold.probes),
        gathered.notes if gathered else tuple(note for _, gold in pairs for note in gold.notes),
    )
    # All at once: to check is to go through every recording.
    library = Library(form, chosen, recordings, GoldenSet(), files, names_of(files, form), path=path)
    if gathered:
        names = shortest_names(files)
        digests = {name: gathered.digests[file] for name, file in names.items() if file in gathered.digests}
        library = replace(library, names=names, digests=digests, inventory=gathered.inventory)
    return with_golden(library, golden)


def _require_writable_names(recording: Recording, path: Path) -> None:
    """Refuse names with half a surrogate pair: no file of a run and no store can hold one. Texts may have some."""
    names = {recording.conversation: None}
    for turn in recording.turns:
        names |= {turn.key: None, turn.scope: None}
    for memory in recording.memories:
        names |= {memory.key: None, memory.scope: None, memory.trust: None}
    broken = has_lone_surrogate("".join(names)) and next(filter(has_lone_surrogate, names))
    if broken:
        raise UnusableInput(
            f"{path}: the name {broken!r} holds half a character (a lone surrogate); write it otherwise"
        )


def with_golden(library: Library, golden: GoldenSet) -> Library:
    """The same recordings with more probes; :class:`UnusableInput` for probes that do not fit them."""
    joined = GoldenSet(library.golden.probes + golden.probes, library.golden.notes + golden.notes)
    check_probes(library.recordings, joined.probes)
    return replace(library, golden=joined)


def check_probes(recordings: Sequence[Recording], probes: Iterable[Probe]) -> None:
    """Refuse probes that name an unknown conversation, turn or memory, or occur twice."""
    problems = probe_problems(recordings, probes)
    if problems:
        more = f" (and {len(problems) - 1} more; `lab golden lint` lists them)" if len(problems) > 1 else ""
        raise UnusableInput(problems[0] + more)
