"""The catalogue of known data sets: origin, licence, purpose and the checksums of their files.

Only the project's own set is shipped. For the others, the checksum of a downloaded file identifies its version.
``known_files.txt`` lists one file per line: ``sha256  format/name`` for a file of the authors' repository at the
entry's commit, and ``sha256  format/name  part`` for an excerpt of such a file that is in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_text

RESEARCH = "none stated: research only"
KNOWN_FILES = Path(__file__).with_name("known_files.txt")


@dataclass(frozen=True, slots=True)
class Known:
    """A file whose checksum is known. ``part`` describes an excerpt; it is empty for the published file."""

    name: str
    sha256: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A data set: format, origin (repository, path in it, commit), licence, size, purpose and known files."""

    format: str
    title: str
    repository: str
    path: str
    commit: str
    licence: str
    holds: str
    good_for: str
    files: tuple[Known, ...] = ()

    def lists(self, name: str) -> bool:
        """Return whether a known file has this name."""
        return as_listed(name) in {known.name for known in self.files}

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON-serializable values."""
        return asdict(self)


def entry_of(format_name: str) -> Entry:
    """Return the catalogue entry of a format. Raises :class:`UnusableInput` for a format without one."""
    for entry in CATALOGUE:
        if entry.format == format_name:
            return entry
    known = ", ".join(entry.format for entry in CATALOGUE)
    raise UnusableInput(
        f"the catalogue has no set of format {format_name!r}; known formats: {known}; to use your own sessions, "
        "convert them to the lab format with `lab recordings convert`"
    )


def identified(entry: Entry, checksums: Iterable[str]) -> list[Known | None]:
    """Return the known file of each checksum, or None for an unknown one."""
    return [next((known for known in entry.files if checksum.startswith(known.sha256)), None) for checksum in checksums]


def in_clone(format_name: str, folder: Path) -> str:
    """Return a hint that names the subfolder with the files, if the folder is a clone of the set's repository."""
    folders = (folder / entry.path for entry in CATALOGUE if entry.format == format_name and entry.path)
    return next((f"; they are in {folder_path}" for folder_path in folders if folder_path.exists()), "")


def as_listed(name: str) -> str:
    """Return a file's name in the catalogue, which omits the folder of BEAM's questions."""
    return name.replace("/probing_questions/", "/")


def _known(format_name: str) -> tuple[Known, ...]:
    """Return the known files of a format, in the order of ``known_files.txt``."""
    files = []
    for line in read_text(KNOWN_FILES).splitlines():
        checksum, path, *part = line.split("  ")
        group, name = path.split("/", 1)
        if group == format_name:
            files.append(Known(name, checksum, *part))
    return tuple(files)


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        "realmem",
        "RealMem, personas and their assistant",
        "AvatarMemory/RealMemBench",
        "dataset",
        "67afd0891d",
        "Apache-2.0",
        "10 personas, 2,055 sessions, 14,028 turns, 1,415 probes",
        "the main English set: gold on natural turns, project scopes, repeats",
        _known("realmem"),
    ),
    Entry(
        "locomo",
        "LoCoMo-10, two people over months",
        "snap-research/locomo",
        "data/locomo10.json",
        "3eb6f2c585",
        "CC BY-NC 4.0",
        "10 conversations, 5,882 turns, 1,986 questions",
        "comparison with published figures, questions asked after the chat",
        _known("locomo"),
    ),
    Entry(
        "beam",
        "BEAM, long chats, ten abilities",
        "mohammadtavakoli78/BEAM",
        "chats",
        "b2a3ee8ba1",
        RESEARCH,
        "100K: 20 chats, 5,732 messages, 400 questions; 500K: 35 chats, 38,058 messages, 700 questions",
        "standing instructions, updates, contradictions, abstention, size",
        _known("beam"),
    ),
    Entry(
        "realtalk",
        "REALTALK, real people for 21 days",
        "danny911kr/REALTALK",
        "data",
        "b903e06a97",
        RESEARCH,
        "10 chats, 8,944 turns, 728 questions",
        "real language, real times, noisy gold",
        _known("realtalk"),
    ),
    Entry(
        "ikat",
        "TREC iKAT, personal statements",
        "irlabamsterdam/iKAT",
        "2023/data, 2024/data, 2025/data",
        "05399308a3",
        "MIT",
        "70 topics, 833 utterances, 313 of which need a statement",
        "precision: most turns need no memory",
        _known("ikat"),
    ),
    Entry(
        "madial",
        "MADial-Bench, English and Chinese",
        "hejunqing/MADial-Bench",
        "data/en, data/ch",
        "572e3a10d6",
        "MIT",
        "2 users, 160 dialogues and as many probes in each language",
        "the same probes in two languages",
        _known("madial"),
    ),
    Entry(
        "aider",
        "An aider chat history",
        "Aider-AI/aider",
        "tests/fixtures/chat-history.md",
        "5dc9490bb3",
        "Apache-2.0",
        "1 developer, 678 sessions, 1,775 user messages",
        "replay without gold: latency, size, repeats",
        _known("aider"),
    ),
    Entry(
        "hermes",
        "A Hermes agent's day",
        "vectorize-io/hindsight",
        "hindsight-dev/benchmarks/obs/datasets",
        "da9a588c78",
        "MIT",
        "41 logged conversations, 474 messages, 7.5 hours, in Chinese and translated into English",
        "replay without gold, in Chinese and English",
        _known("hermes"),
    ),
    Entry(
        "lab",
        "operators, the project's own",
        "this project",
        "datasets/operators",
        "",
        "MIT",
        "conversations of operators and their agents, English and Chinese",
        "every behaviour of the seeds; checksums: SHA256SUMS beside it",
    ),
)
