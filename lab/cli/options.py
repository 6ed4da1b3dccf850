"""Options that several commands share, with one wording each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.set_registry import golden_at, recordings_at

Recordings = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", parser=recordings_at, help="A recording, a folder of them, or a shipped set: shipped:operators."
    ),
]
GoldenSet = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", parser=golden_at, help="A golden set: a file, a folder of them, or shipped:operators."
    ),
]
AllowFailed = Annotated[
    bool,
    typer.Option(
        "--allow-failed",
        help="Leave out of every arm the turns at which a recall failed; such a run is refused without.",
    ),
]
Format = Annotated[
    str, typer.Option("--format", help="A format of `lab recordings list`: lab, openclaw, realmem, locomo, …")
]
RunFolder = Annotated[Path, typer.Option("--out", help="The run directory: new, or one made with the same arguments.")]
Golden = Annotated[
    Path | None,
    typer.Option(
        parser=golden_at,
        metavar="PATH",
        help="Golden set of the project's own form; by default the one beside datasets/.",
    ),
]
Memories = Annotated[str | None, typer.Option(help="What counts as a memory; each format has a default.")]
MemoriesFrom = Annotated[
    Path | None,
    typer.Option(
        help="A LanceDB folder, or an export of it (.jsonl, .json), whose memories take the place of the "
        "recording's own. It is only read. Texts are embedded anew, unless --vectors says otherwise."
    ),
]
VectorSource = Annotated[
    str,
    typer.Option(
        "--vectors",
        help="embed, or stored: memories have the vectors that the store of --memories-from holds. --embedder must be "
        "the one that made them; some of its texts are compared.",
    ),
]
Source = Annotated[
    str,
    typer.Option(
        help="Where memories come from. given: the recording, or --memories-from. tools: the agent's own tool calls. "
        "captured: an arm that captures has what it captured, and nothing else."
    ),
]
LabelMode = Annotated[
    str | None,
    typer.Option(
        "--labels", help="recorded, sampled, distractors or heuristic-v1; recorded where there are any, else sampled."
    ),
]
MustShare = Annotated[float | None, typer.Option(help="Share of all memories drawn must_remember. [default: 0.10]")]
NiceShare = Annotated[float | None, typer.Option(help="Share drawn nice_to_have; by default .7 of what is not must.")]
HardRules = Annotated[
    int, typer.Option(min=0, help="Hard rules drawn in each conversation from its must_remember memories.")
]
Categories = Annotated[
    str, typer.Option(help="recorded, or detected: preference, decision or todo where the words say so.")
]
Seed = Annotated[int, typer.Option(help="Seed of sampled labels and of the random arm.")]
Scope = Annotated[
    str,
    typer.Option(
        help="none: one pool. recorded: a turn reaches memories of its own scope alone. tags: as its [SCOPE: …] says."
    ),
]
RecallTurns = Annotated[str | None, typer.Option(help="user, all or none; each format has a default.")]
MaxItems = Annotated[
    int | None,
    typer.Option(help="Items injected at most, where the configuration names none. [default: 6; upstream 4]"),
]
StoreName = Annotated[str, typer.Option("--store", help="exact (for quality) or lancedb (the live path).")]
Profile = Annotated[str, typer.Option(help="seed or upstream.")]
Depth = Annotated[int, typer.Option(help="Length of an untiered arm's ranking.")]
Limit = Annotated[int | None, typer.Option(help="Replay the first N conversations alone.")]
Conversations = Annotated[
    list[str] | None, typer.Option("--conversation", help="Replay this conversation alone. Repeat for more.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Processes to use.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="local: a Dask cluster of --jobs processes on this machine; or the address of a scheduler, tcp://host:port.",
    ),
]
ShardOf = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Replay the I-th of N parts alone; `lab merge` joins them."),
]
Embedder = Annotated[
    str,
    typer.Option(
        help="The default model; st:FOLDER, a sentence-transformers model; openai:MODEL@URL, an OpenAI-compatible "
        "endpoint, whose key is in LAB_EMBEDDER_KEY; or hashing: no model, for trials alone."
    ),
]
Config = Annotated[Path | None, typer.Option(help="Engine configuration (JSON) of arms that bring none.")]
FaultNames = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="NAME[=WHEN]",
        help="Make a part fail: embedder_down, input_too_long, fts_error, vector_error, slow_store or docs_missing; "
        "at every turn, at a share of them (=0.1) or at one (=TURN). Repeat for more.",
    ),
]
BASELINES = Path("reports/baselines")
BaselinesFolder = Annotated[
    Path, typer.Option("--baselines", metavar="FOLDER", help="Where baselines are kept; commit it, or share it.")
]
Day = Annotated[
    str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The day it counts for. [default: today]")
]
