"""Options shared by several commands, each declared once. Those of a replay: :mod:`lab.cli.replay_options`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from lab.base.errors import UnusableInput
from lab.base.set_registry import golden_at
from lab.cli import completion

Write = Annotated[bool, typer.Option("--write", help="Do it. Without this option, only say what would be done.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing, as without --write.")]


def require_one(dry_run: bool, write: bool) -> None:
    """Raise :class:`UnusableInput` for a command that is to write and not to write."""
    if dry_run and write:
        raise UnusableInput("--dry-run, --write: give one of them")


def in_utc(time: datetime | None) -> datetime | None:
    """Return a time that was given without a zone as one in UTC."""
    return time.replace(tzinfo=UTC) if time else None


def is_run(path: Path) -> bool:
    """Return whether a folder is a run directory, without the imports that opening it takes."""
    return (path / "manifest.json").is_file()


def require_no_run(out: Path) -> None:
    """Raise :class:`UnusableInput` for an output folder that is a run directory, whose charts would be replaced."""
    if is_run(out):
        raise UnusableInput(f"{out}: is a run directory; choose another --out")


Run = Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")]
GoldenSet = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        parser=golden_at,
        autocompletion=completion.sets,
        help="A golden set: a file, a folder of files, or shipped:operators.",
    ),
]
AllowFailed = Annotated[
    bool,
    typer.Option(
        "--allow-failed",
        help="Accept a run with failed recalls, leaving out their turns for every arm.",
    ),
]
FormatOf = Annotated[str, typer.Option("--format", help="Format of the recordings.")]
Errata = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Errata of the golden set: show each figure with them beside it. Needs the recordings of the run.",
    ),
]
RunFolder = Annotated[Path, typer.Option("--out", help="The run directory: new, or made with the same arguments.")]
Jobs = Annotated[int, typer.Option(min=1, help="Number of processes.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Use Dask. local: a cluster of --jobs processes on this machine; else a scheduler, tcp://host:port.",
    ),
]
ShardOf = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Replay only the I-th of N shards; lab runs merge joins them."),
]
BASELINES = Path("reports/baselines")
BaselinesFolder = Annotated[
    Path, typer.Option("--baselines", metavar="FOLDER", help="Folder of the baselines. Commit it, or share it.")
]
Day = Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The date to record. [default: today]")]

Slides = Annotated[bool, typer.Option("--slides", help="Also draw each figure as a slide (SVG and PNG) in figures/.")]
