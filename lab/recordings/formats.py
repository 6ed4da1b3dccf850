"""The registry of recording formats.

To add a format, write one module and add one entry to :data:`FORMATS`. A module is imported when its format is read, so
that a run depends on the reader of its own recordings alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.base.errors import UnusableInput
from lab.base.formatting import choices

if TYPE_CHECKING:
    from lab.golden.model import GoldenSet
    from lab.recordings.inventory import Gathered
    from lab.recordings.model import Recording


@dataclass(frozen=True, slots=True)
class Format:
    """A recording format: its module reads files by ``read(path, memories)``.

    In a folder, the format reads the files that match ``pattern`` and none of ``ignored``; hidden files are skipped,
    except one named ``hidden``. ``memories`` lists the possible sources of memories, the default first.
    ``recall_turns`` is the default of ``--recall-turns``. ``beside`` is the function of the module that returns the
    companion files of a file. The last ``depth`` components of a path identify a file. ``gather`` is the function that
    reads a file or folder in one call, for formats whose files cannot be read independently. ``from_tools`` is true if
    the memories were stored by the agent's tool calls.
    """

    name: str
    pattern: str
    about: str
    memories: tuple[str, ...] = ("turns",)
    recall_turns: str = "user"
    ignored: tuple[str, ...] = ()
    beside: str = ""
    depth: int = 1
    hidden: str = ""
    gather: str = ""
    from_tools: bool = False

    @property
    def module(self) -> str:
        """The module that reads the format; a variant's is that of its format."""
        return f"lab.recordings.{'native' if self.name == 'lab' else self.name.partition('-')[0]}"

    def read(self, path: Path, memories: str) -> list[tuple[Recording, GoldenSet]]:
        """Return the recordings of a file with their probes; raise :class:`UnusableInput` if it is unreadable."""
        recordings: list[tuple[Recording, GoldenSet]] = self._function("read")(path, memories)
        return recordings

    def companions(self, path: Path) -> tuple[Path, ...]:
        """Return the files that are read together with a file."""
        files: tuple[Path, ...] = self._function(self.beside)(path) if self.beside else ()
        return files

    def gathered(self, path: Path) -> Gathered | None:
        """Return what is at a path, read in one call; None for a format whose files are read one by one."""
        gathered: Gathered | None = self._function(self.gather)(path) if self.gather else None
        return gathered

    def _function(self, name: str) -> Any:
        return getattr(import_module(self.module), name)


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format(
            "aider",
            "*.md",
            "aider chat histories: one developer's sessions, no gold",
            ignored=("README.md",),
            hidden=".aider.chat.history.md",
        ),
        Format(
            "beam",
            "**/chat.json",
            "BEAM: user and assistant, questions on ten abilities after the chat",
            recall_turns="none",
            beside="questions_of",
            depth=3,
        ),
        Format("hermes", "*hermes*", "logs of a Hermes agent: a day of chats, no gold", ignored=("*.md",)),
        Format(
            "ikat",
            "**/*_topics.json",
            "TREC iKAT: a user's personal statements, every utterance judged",
            ("statements",),
        ),
        Format("lab", "*.jsonl", "this project's JSON Lines format, one conversation per file", ("recorded",)),
        Format(
            "locomo",
            "*.json",
            "LoCoMo-10: two people, questions asked after the last session",
            ("turns", "observations"),
            recall_turns="none",
        ),
        Format(
            "madial",
            "**/*dialogue*.json*",
            "MADial-Bench: dialogues over an archive, English and Chinese",
            ("archive",),
            ignored=("*setting*",),
            beside="memories_of",
        ),
        Format(
            "openclaw",
            "*.jsonl",
            "OpenClaw's sessions: ~/.openclaw or any part of it",
            ("recorded",),
            gather="gather",
            from_tools=True,
        ),
        Format(
            "realmem",
            "*.json",
            "RealMem: user and assistant, gold on turns inside the sessions",
            ("extracted",),
        ),
        Format(
            "realtalk",
            "*.json",
            "REALTALK: two real people, questions asked after the last session",
            recall_turns="none",
        ),
    )
}

# Variants of a format that read more files. Notes and documentation name them; `lab recordings list` does not.
VARIANTS: dict[str, Format] = {
    "openclaw-archived": replace(
        FORMATS["openclaw"],
        name="openclaw-archived",
        about="OpenClaw's sessions, including those that were reset or deleted",
        gather="gather_all",
    )
}


def format_named(name: str) -> Format:
    """Return the format called ``name``. Raises :class:`UnusableInput`, which lists the known names."""
    try:
        return (FORMATS | VARIANTS)[name]
    except KeyError:
        raise UnusableInput(f"unknown format {name!r}; {choices(name, sorted(FORMATS | VARIANTS))}") from None
