"""The options of a replay, each declared once: type, default and help.

The options of ``lab replay`` and of other commands that replay, the arguments of :func:`lab.replay`, the arguments in a
manifest and the commands on pages all derive from the fields of these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from lab.base.set_registry import golden_at, shown_path
from lab.recordings.origins import ALL, DEFAULT
from lab.systems.spec import LIVE

STORE = (
    "A LanceDB folder, an export of one (.jsonl, .json), or the address of a running rsclaw (http://127.0.0.1:PORT; "
    "its token is read from LAB_RSCLAW_TOKEN), whose memories replace those of the recording. It is only read."
)


class Option(NamedTuple):
    """How a field is given on the command line.

    ``name`` is the option's, if it is not that of the field. ``path`` reads the path in a value, and ``complete`` names
    the function of :mod:`lab.cli.completion` that completes it.
    """

    help: str
    name: str = ""
    metavar: str | None = None
    min: int | None = None
    path: Callable[[str], Path] | None = None
    complete: str = ""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a replay, with the defaults of ``lab replay``; None selects a default when the plan is made."""

    golden: Annotated[
        str | None,
        Option(
            "Golden set in the lab's format. [default: golden/NAME beside datasets/NAME]",
            metavar="PATH",
            path=golden_at,
            complete="sets",
        ),
    ] = None
    store: Annotated[str, Option("exact (for quality) or lancedb (the live path).")] = "exact"
    profile: Annotated[str, Option("Engine profile: seed or upstream.")] = "seed"
    memories: Annotated[
        str | None, Option("What counts as a memory (see lab recordings list FORMAT). [default: by format]")
    ] = None
    labels: Annotated[
        str | None,
        Option(
            "Importance labels: recorded, sampled, distractors or heuristic-v1. "
            "[default: recorded if present, else sampled]"
        ),
    ] = None
    must_share: Annotated[float | None, Option("Share of all memories sampled as must_remember. [default: 0.10]")] = (
        None
    )
    nice_share: Annotated[
        float | None, Option("Share of all memories sampled as nice_to_have. [default: .7 of the rest]")
    ] = None
    seed: Annotated[int, Option("Seed of sampled labels and of the random arm.")] = 0
    scope: Annotated[
        str,
        Option(
            "none: ignore scopes. recorded: a turn can recall only memories of its own scope. tags: scopes are read "
            "from [SCOPE: …] tags."
        ),
    ] = "none"
    recall_turns: Annotated[str | None, Option("Turns to recall at: user, all or none. [default: by format]")] = None
    max_items: Annotated[
        int | None,
        Option("Maximum number of injected items if the configuration sets none. [default: 6; upstream 4]"),
    ] = None
    depth: Annotated[int, Option("Length of the ranking of an untiered arm.")] = 50
    limit: Annotated[int | None, Option("Replay only the first N conversations.")] = None
    conversation: Annotated[tuple[str, ...], Option("Replay only this conversation. Repeat for more.")] = ()
    origin: Annotated[
        tuple[str, ...],
        Option(
            "Take conversations that this started: person (or unknown), group, cron, hook, heartbeat, subagent, acp, "
            "system; all takes everything. Repeat for more.",
            metavar="ORIGIN",
            complete="origins",
        ),
    ] = DEFAULT
    config: Annotated[
        str | None,
        Option("Engine configuration (JSON or YAML) of arms without their own.", path=Path),
    ] = None
    embedder: Annotated[
        str,
        Option(
            "The default model; st:FOLDER, a sentence-transformers model; openai:MODEL@URL, an OpenAI-compatible "
            "endpoint with its key in LAB_EMBEDDER_KEY; or hashing, no model, only for trying things out."
        ),
    ] = "all-MiniLM-L6-v2"
    faults: Annotated[
        tuple[str, ...],
        Option(
            "Inject a fault: embedder_down, input_too_long, fts_error, vector_error, slow_store or docs_missing; at "
            "every turn, at a share of turns (=0.1) or at one (=TURN). Repeat for more.",
            name="fault",
            metavar="NAME[=WHEN]",
        ),
    ] = ()
    memories_from: Annotated[
        str | None, Option(f"{STORE} Texts are embedded again unless --vectors is stored.", metavar="STORE")
    ] = None
    hard_rules: Annotated[
        int, Option("Number of must_remember memories per conversation to sample as hard rules.", min=0)
    ] = 0
    categories: Annotated[
        str, Option("recorded, or detected: preference, decision or todo, detected from the words.")
    ] = "recorded"
    vectors: Annotated[
        str,
        Option(
            "embed, or stored: use the vectors in the store of --memories-from. --embedder must be the model that "
            "made them, which is checked on a sample of the texts."
        ),
    ] = "embed"
    source: Annotated[
        str,
        Option(
            "Source of the memories. given: the recording, or --memories-from. tools: the agent's tool calls. "
            "captured: what the arm itself captured during the replay."
        ),
    ] = "given"
    haystack: Annotated[
        int | None,
        Option(
            "Number of memories of other conversations to add to each conversation, as distractors. "
            "[default: 400 for shipped:operators and shipped:harms, else 0]",
            min=0,
        ),
    ] = None
    haystack_from: Annotated[
        tuple[str, ...],
        Option(
            "Fill --haystack from this set where the recordings have too few memories. Repeat for more.",
            metavar="SET[:FORMAT]",
        ),
    ] = ()
    answers: Annotated[
        str,
        Option(
            "live, or recorded: use the answers of external systems and rerankers in an earlier run, and call none."
        ),
    ] = LIVE
    allow_remote: Annotated[
        bool,
        Option("Allow an external system (NAME=http:URL) on another machine. It receives the texts of the recording."),
    ] = False


@dataclass(frozen=True)
class _Set:
    """The recordings of a replay and its arms, which come before its options in a manifest."""

    path: Annotated[str, Option("A recording, a folder of recordings, or a shipped set: shipped:operators.")]
    format: Annotated[
        str,
        Option(
            "Format of the recordings: lab, openclaw, … (see lab recordings list). Required unless PATH is shipped."
        ),
    ]
    arms: Annotated[
        tuple[str, ...],
        Option(
            "An arm; NAME=FILE for one with its own configuration; NAME=exec:COMMAND or NAME=http:URL for an external "
            "system; NAME=plugin:FOLDER for an OpenClaw plugin. Repeat for more.",
            name="arm",
            complete="systems",
        ),
    ]


@dataclass(frozen=True)
class ReplayRequest(Options, _Set):
    """The arguments of ``lab replay`` as given; None selects the default."""

    @property
    def shown(self) -> str:
        """The path of the recordings as a user gives it."""
        return shown_path(self.path)

    @property
    def recordings(self) -> str:
        """The recordings as words of a command, with their format unless the set is shipped."""
        return self.shown if self.shown != self.path else f"{quote(self.path)} --format {self.format}"

    @classmethod
    def of_manifest(cls, values: Mapping[str, Any]) -> ReplayRequest:
        """Return the arguments from a manifest, with its lists as tuples; one without origins replayed all."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**{"origin": (ALL,)} | given)


class Argument(NamedTuple):
    """A field of :class:`ReplayRequest`: the name of its option, its type, default and :class:`Option`."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """The option, such as ``--must-share``."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_many(self) -> bool:
        """Whether the option may be repeated."""
        return bool(self.type == tuple[str, ...])


@cache
def arguments() -> dict[str, Argument]:
    """Return the arguments of a replay by field, in the order of a manifest."""
    hints = get_type_hints(ReplayRequest, include_extras=True)
    described = {}
    for field in fields(ReplayRequest):
        kind, option = get_args(hints[field.name])
        default = None if field.default is MISSING else field.default
        described[field.name] = Argument(option.name or field.name, kind, default, option)
    return described
