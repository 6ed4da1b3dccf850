"""Options shared by several commands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from lab.base.errors import UnusableInput
from lab.base.set_registry import golden_at, is_shipped, recordings_at
from lab.cli import completion

# Commands whose PATH may be a run directory.
TAKES_RUNS = ("acceptance",)

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


def _format_of(context: typer.Context, value: str) -> str:
    """Return the given format, or ``lab`` for a shipped set and for a run, whose manifest says which it is.

    Raises :class:`UnusableInput` if neither applies, or if the path does not exist.
    """
    path = context.params.get("path") or Path()
    takes_run = context.info_name in TAKES_RUNS and is_run(path)
    if value or context.resilient_parsing or is_shipped(path) or takes_run:
        return value or "lab"
    raise missing_format(path)


def missing_format(path: Path) -> UnusableInput:
    """Return the error for recordings whose format was not given; it says so if there are none."""
    if not path.exists():
        return UnusableInput(f"{path}: no such file or folder")
    return UnusableInput("missing option --format: lab recordings list shows the formats")


Recordings = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        parser=recordings_at,
        autocompletion=completion.sets,
        help="A recording, a folder of recordings, or a shipped set: shipped:operators.",
    ),
]
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
Format = Annotated[
    str,
    typer.Option(
        "--format",
        autocompletion=completion.formats,
        # A default in the signature could not stand before arguments without one.
        default_factory=str,
        show_default=False,
        callback=_format_of,
        help="Format of the recordings: lab, openclaw, … (see lab recordings list). Required unless PATH is shipped.",
    ),
]
RunFolder = Annotated[Path, typer.Option("--out", help="The run directory: new, or made with the same arguments.")]
Golden = Annotated[
    Path | None,
    typer.Option(
        parser=golden_at,
        metavar="PATH",
        autocompletion=completion.sets,
        help="Golden set in the lab's format. [default: golden/NAME beside datasets/NAME]",
    ),
]
Memories = Annotated[
    str | None, typer.Option(help="What counts as a memory (see lab recordings list FORMAT). [default: by format]")
]
_STORE = (
    "A LanceDB folder, an export of one (.jsonl, .json), or the address of a running rsclaw (http://127.0.0.1:PORT; "
    "its token is read from LAB_RSCLAW_TOKEN), whose memories replace those of the recording. It is only read."
)
MemoriesFrom = Annotated[
    str | None, typer.Option(metavar="STORE", help=f"{_STORE} Texts are embedded again unless --vectors is stored.")
]
CheckedMemories = Annotated[str | None, typer.Option(metavar="STORE", help=_STORE)]
VectorSource = Annotated[
    str,
    typer.Option(
        "--vectors",
        help="embed, or stored: use the vectors in the store of --memories-from. --embedder must be the model that "
        "made them, which is checked on a sample of the texts.",
    ),
]
Answers = Annotated[
    str,
    typer.Option(
        "--answers",
        help="live, or recorded: use the answers of external systems and rerankers in an earlier run, and call none.",
    ),
]
AllowRemote = Annotated[
    bool,
    typer.Option(
        "--allow-remote",
        help="Allow an external system (NAME=http:URL) on another machine. It receives the texts of the recording.",
    ),
]
Source = Annotated[
    str,
    typer.Option(
        help="Source of the memories. given: the recording, or --memories-from. tools: the agent's tool calls. "
        "captured: what the arm itself captured during the replay."
    ),
]
LabelMode = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help="Importance labels: recorded, sampled, distractors or heuristic-v1. "
        "[default: recorded if present, else sampled]",
    ),
]
MustShare = Annotated[
    float | None, typer.Option(help="Share of all memories sampled as must_remember. [default: 0.10]")
]
NiceShare = Annotated[
    float | None, typer.Option(help="Share of all memories sampled as nice_to_have. [default: .7 of the rest]")
]
HardRules = Annotated[
    int, typer.Option(min=0, help="Number of must_remember memories per conversation to sample as hard rules.")
]
Haystack = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Number of memories of other conversations to add to each conversation, as distractors. "
        "[default: 400 for shipped:operators, else 0]",
    ),
]
HaystackFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--haystack-from",
        metavar="SET[:FORMAT]",
        help="Fill --haystack from this set where the recordings have too few memories. Repeat for more.",
    ),
]
Categories = Annotated[
    str, typer.Option(help="recorded, or detected: preference, decision or todo, detected from the words.")
]
Seed = Annotated[int, typer.Option(help="Seed of sampled labels and of the random arm.")]
Scope = Annotated[
    str,
    typer.Option(
        help="none: ignore scopes. recorded: a turn can recall only memories of its own scope. tags: scopes are "
        "read from [SCOPE: …] tags."
    ),
]
RecallTurns = Annotated[str | None, typer.Option(help="Turns to recall at: user, all or none. [default: by format]")]
MaxItems = Annotated[
    int | None,
    typer.Option(help="Maximum number of injected items if the configuration sets none. [default: 6; upstream 4]"),
]
StoreName = Annotated[str, typer.Option("--store", help="exact (for quality) or lancedb (the live path).")]
Profile = Annotated[str, typer.Option(help="Engine profile: seed or upstream.")]
Depth = Annotated[int, typer.Option(help="Length of the ranking of an untiered arm.")]
Limit = Annotated[int | None, typer.Option(help="Replay only the first N conversations.")]
Conversations = Annotated[
    list[str] | None, typer.Option("--conversation", help="Replay only this conversation. Repeat for more.")
]
Origins = Annotated[
    list[str],
    typer.Option(
        "--origin",
        metavar="ORIGIN",
        autocompletion=completion.origins,
        help="Take conversations that this started: person (or unknown), group, cron, hook, heartbeat, subagent, acp, "
        "system; all takes everything. Repeat for more.",
    ),
]
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
Embedder = Annotated[
    str,
    typer.Option(
        help="The default model; st:FOLDER, a sentence-transformers model; openai:MODEL@URL, an OpenAI-compatible "
        "endpoint with its key in LAB_EMBEDDER_KEY; or hashing, no model, only for trying things out."
    ),
]
Config = Annotated[Path | None, typer.Option(help="Engine configuration (JSON or YAML) of arms without their own.")]
FaultNames = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="NAME[=WHEN]",
        help="Inject a fault: embedder_down, input_too_long, fts_error, vector_error, slow_store or docs_missing; "
        "at every turn, at a share of turns (=0.1) or at one (=TURN). Repeat for more.",
    ),
]
BASELINES = Path("reports/baselines")
BaselinesFolder = Annotated[
    Path, typer.Option("--baselines", metavar="FOLDER", help="Folder of the baselines. Commit it, or share it.")
]
Day = Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The date to record. [default: today]")]

Slides = Annotated[bool, typer.Option("--slides", help="Also draw each figure as a slide (SVG and PNG) in figures/.")]
