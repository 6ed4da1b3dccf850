"""The commands of ``lab`` by purpose, as ``lab --help`` lists them. A command is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import CompletionItem, TyperCommand, TyperGroup  # type: ignore[attr-defined]  # private types

from lab.base.errors import UnusableInput


class Entry(NamedTuple):
    """A command: its module, and its line in the help of its group."""

    module: str
    help: str


class Group(NamedTuple):
    """A group of commands by heading: its line in the help of ``lab``, and what its own help adds to that.

    ``default`` is the command that is meant where none is named.
    """

    help: str
    sections: Mapping[str, Mapping[str, Entry]]
    more: str = ""
    default: str = ""


FILES = "lab.memory.cli.memory_files"
STUDY = Group(
    "Study many settings at once: a table and a chart each.",
    {
        "Commands": {
            "ablate": Entry("lab.cli.study", "Run the ablation from tier_first_v1 to the full engine."),
            "saturation": Entry("lab.cli.study", "Increase the must_remember share and chart every policy."),
            "governance": Entry("lab.cli.study", "Move the grading thresholds and chart both policies."),
            "retention": Entry("lab.cli.study", "Say what a retention rule would archive and lose."),
            "scale": Entry("lab.cli.study", "Replay with more and more memories and chart every arm."),
            "silence": Entry("lab.cli.study", "Show what a silence threshold saves and what it costs."),
            "sweep": Entry("lab.cli.sweep", "Compare hundreds of configurations over one retrieval."),
            "league": Entry("lab.cli.league", "Compare memory systems on every set at equal tokens."),
            "latency": Entry("lab.cli.latency", "Measure the latency of arms over live stores."),
        }
    },
)
GATE = Group(
    "Judge a run by a policy; list policies, print schemas.",
    {
        "Commands": {
            "judge": Entry("lab.cli.gate", "Judge a run, an audit of live receipts, or both, by a policy."),
            "policies": Entry("lab.cli.gate", "List the shipped policies."),
            "schema": Entry("lab.cli.gate", "Print the JSON Schema (2020-12) of verdict.json or of a policy."),
            "verify": Entry("lab.cli.gate", "Check a verdict against its run, and name what differs."),
            "self-test": Entry("lab.cli.self_test", "Test the gate: inject faults and list which are caught."),
        }
    },
    default="judge",
)
NIGHTLY = Group(
    "Replay a plan repeatedly; compare with approved baselines.",
    {
        "Commands": {
            "run": Entry("lab.cli.nightly", "Replay a plan twice and compare it with approved baselines."),
            "trend": Entry("lab.cli.nightly", "Show the history of nightly runs and its step changes."),
            "message": Entry("lab.cli.message", "Write a verdict as a message: text, Slack or e-mail."),
            "baseline": Entry("lab.cli.baseline", "Manage baselines: approved runs, by name."),
        }
    },
)
CANARY = Group(
    "Watch a live engine; switch it for a limited time; roll back.",
    {
        "Look at a live engine": {
            "audit": Entry("lab.canary.cli.receipts", "Check and summarise the receipts in the logs of a live engine."),
            "show": Entry("lab.canary.cli.receipts", "Print the last recall receipts of a log, each on one screen."),
            "limits": Entry("lab.canary.cli.receipts", "Derive the limits of a policy from what this host recorded."),
            "agree": Entry("lab.canary.cli.agree", "Compare the recalls of a live engine with the lab's."),
        },
        "Switch it": {
            "shadow": Entry("lab.canary.cli.shadow", "Try a configuration on the recalls that a live engine made."),
            "plan": Entry("lab.canary.cli.apply", "Write the jobs of Stage A or Stage C."),
            "run": Entry("lab.canary.cli.canary", "Run a canary on a live gateway: Stage B of the rollout."),
            "recover": Entry("lab.canary.cli.canary", "Roll back a canary that was killed."),
            "watch": Entry("lab.canary.cli.canary", "Watch a live engine: Stage C of the rollout."),
            "apply": Entry("lab.canary.cli.apply", "Print the configuration patch that follows from a verdict."),
            "rollback": Entry("lab.canary.cli.apply", "Check that switching the policy back undoes the switch."),
        },
    },
)
MEMORY = Group(
    "Store, search and govern memories.",
    {
        "Memories in a LanceDB folder": {
            "store": Entry("lab.memory.cli.memory", "Store one memory."),
            "recall": Entry("lab.memory.cli.memory", "Search memories as the agent's tool does."),
            "forget": Entry("lab.memory.cli.memory", "Delete one memory by its id, or list candidates for a query."),
            "list": Entry("lab.memory.cli.memory", "List memories, newest first, with secrets replaced."),
            "stats": Entry("lab.memory.cli.memory", "Count memories by scope and category; describe the table."),
            "export": Entry(FILES, "Write memories to a file, oldest first, without vectors."),
            "import": Entry(FILES, "Append the memories of a file in one commit."),
            "docs-ingest": Entry(
                "lab.memory.cli.memory_files", "Update the index of the operator's Markdown documents."
            ),
            "docs-search": Entry(FILES, "Search the documents that docs-ingest indexed."),
            "backfill": Entry(FILES, "Add the columns that an older table lacks."),
            "compact": Entry(FILES, "Merge the files of a table, delete older versions."),
            "index": Entry("lab.memory.cli.store", "Indexes of the table, and when they need upkeep."),
            "tags": Entry("lab.memory.cli.store", "Keep versions of the table under names, and restore them."),
        },
        "Observations, events and facts": {
            "ledger": Entry("lab.memory.cli.ledger", "Capture, search and grade the sidecar's ledger."),
            "pack": Entry("lab.memory.cli.pack", "Pack a small bundle with citations for a query."),
            "episodes": Entry("lab.memory.cli.episodes", "Keep conversations as events, and search their exact texts."),
            "facts": Entry("lab.memory.cli.facts", "Keep facts with their dates and evidence."),
            "graph": Entry("lab.memory.cli.graph", "Show how projects, tools, decisions and concepts are related."),
            "observe": Entry("lab.memory.cli.observe", "Compress conversations into logs of observations."),
        },
    },
    "A LanceDB folder that a running gateway uses is only read, unless --despite-gateway is given.",
)
# Heading -> name -> command. A test checks the lines against the commands' own help.
SECTIONS: dict[str, dict[str, Entry | Group]] = {
    "Replay and compare": {
        "init": Entry("lab.cli.init", "Judge a change on the sessions of a live host."),
        "demo": Entry("lab.cli.demo", "Replay, score, judge and chart the shipped conversations."),
        "replay": Entry("lab.cli.replay", "Replay recordings turn by turn through one or more arms."),
        "score": Entry("lab.cli.score", "Score a run: means of the headline measures by arm."),
        "compare": Entry("lab.cli.compare", "Compare two arms over the same turns."),
        "explain": Entry("lab.cli.compare", "Explain one turn: why memories were injected or dropped."),
        "missed": Entry("lab.cli.missed", "Count the relevant memories that each arm missed, by cause."),
        "report": Entry("lab.cli.report", "Write report.html and report.md into a run."),
        "view": Entry("lab.cli.view", "Browse runs turn by turn, with two arms side by side."),
        "diff": Entry("lab.cli.diff", "Compare two runs exactly, column by column of every receipt."),
    },
    "Judge": {
        "gate": GATE,
        "acceptance": Entry("lab.cli.acceptance", "Judge the acceptance criteria of the design documents."),
        "nightly": NIGHTLY,
        "canary": CANARY,
    },
    "Study and operate": {"study": STUDY, "memory": MEMORY},
    "Files and settings": {
        "recordings": Entry("lab.cli.recordings", "List, import, check and convert recordings."),
        "golden": Entry("lab.cli.golden", "Build, check, compare and split golden sets."),
        "runs": Entry("lab.cli.runs", "List, merge, export and remove run directories."),
        "cache": Entry("lab.cli.cache", "Manage the cache of vectors, tokens, candidates and answers."),
        "config": Entry("lab.cli.config", "Resolve and check engine configurations."),
        "doctor": Entry("lab.cli.checks", "Check that this machine can run the lab."),
    },
}
# Earlier spelling -> present one, without the word lab. The longest one that fits is answered.
MOVED = {
    **{name: f"study {name}" for name in STUDY.sections["Commands"]},
    **{name: f"memory {name}" for name in MEMORY.sections["Observations, events and facts"]},
    **{name: f"canary {name}" for name in ("agree", "apply", "rollback")},
    **{name: f"nightly {name}" for name in ("trend", "message", "baseline")},
    **{name: f"runs {name}" for name in ("merge", "export", "import")},
    "nightly": "nightly run",
    "measures": "score --list",
    "receipts": "canary audit, and lab canary show",
    "receipts audit": "canary audit",
    "receipts show": "canary show",
    "store": "memory tags, and lab memory index",
    "store index": "memory index",
    "store tag": "memory tags add",
    "store list": "memory tags list",
    "store checkout": "memory tags checkout",
    "store delete": "memory tags delete",
}


class LazyCommands(dict[str, Any]):
    """The commands of a group by name, each imported when it is first looked up."""

    def __init__(self, entries: Mapping[str, Entry | Group], words: tuple[str, ...], default: str) -> None:
        super().__init__(dict.fromkeys(entries))
        self._entries, self._words, self._default = entries, words, default

    def __getitem__(self, name: str) -> Any:
        """Return a command; raise :class:`KeyError` if there is none of this name."""
        if super().__getitem__(name) is None:
            entry, kind = self._entries[name], DefaultCommand if name == self._default else TyperCommand
            self[name] = (
                _group(entry, (*self._words, name))
                if isinstance(entry, Group)
                else _imported(name, entry, self._words, kind)
            )
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command, or ``default`` if there is none of this name."""
        # A KeyError of a command's own import is not one of its name.
        if name not in self:
            return default
        return self[name]

    def values(self) -> Any:
        """Return all commands, imported."""
        return [self[name] for name in self]

    def items(self) -> Any:
        """Return all names and commands, imported."""
        return [(name, self[name]) for name in self]


def _imported(name: str, entry: Entry, words: tuple[str, ...], kind: type[TyperCommand]) -> Any:
    """Return a command of the group with the given words.

    Its module has under its name a function, a tuple of the functions of a group, or the group.
    """
    from lab.cli.examples import add_examples
    from lab.cli.results import command_name, print_results

    app, module, own = typer.Typer(rich_markup_mode=None), import_module(entry.module), name.replace("-", "_")
    # A function cannot be called ``import``, nor should it be ``list``.
    found = getattr(module, own, None) or getattr(module, f"{own}_")
    if isinstance(found, tuple):
        functions, found = found, typer.Typer(no_args_is_help=True, help=entry.help)
        for function in functions:
            found.command(command_name(function))(function)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name, cls=kind)(found)
    print_results(app)
    add_examples(app, *words)
    return typer.main.get_group(app).commands[name]


def _group(group: Group, words: tuple[str, ...]) -> LazyGroup:
    text = f"{group.help} {group.more}".strip()
    more = {"help": text, "no_args_is_help": True, "rich_markup_mode": None}
    return LazyGroup(group.sections, words, group.default, name=words[-1], **more)


def require_present(words: Sequence[str]) -> None:
    """Raise :class:`UnusableInput`, with the present spelling, if the words begin with an earlier one."""
    for count in (2, 1):
        old = " ".join(words[:count])
        if old in MOVED:
            raise UnusableInput(f"lab {old} is now lab {MOVED[old]}")


class DefaultCommand(TyperCommand):
    """The default command of a group. Its help lists all commands of the group."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands of the group."""
        super().format_options(ctx, formatter)
        if ctx.parent is not None:
            ctx.parent.command.format_commands(ctx.parent, formatter)


class LazyGroup(TyperGroup):
    """A group of commands. Its help lists them in sections, and imports none of them.

    typer's types of a context and a formatter are private, hence ``Any``.
    """

    def __init__(
        self,
        sections: Mapping[str, Mapping[str, Entry | Group]],
        words: tuple[str, ...],
        default: str = "",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._sections, self._words, self._default = sections, words, default
        entries = {name: one for part in sections.values() for name, one in part.items()}
        self.commands = LazyCommands(entries, words, default)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command. A group that was a command before answers the options of that one."""
        # A shell that completes the first word may want a command.
        if self._default and not (args[0] in self.commands if args else ctx.resilient_parsing):
            args = [self._default, *args]
        if self._words and args and args[0].startswith("-") and args[0] != "--help" and not ctx.resilient_parsing:
            require_present(self._words)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command by its name; raise :class:`UnusableInput` for an earlier name."""
        if not self._words and args[0] not in self.commands and not ctx.resilient_parsing:
            require_present(args)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Return the commands and the options that begin with a word."""
        entries = {name: entry for section in self._sections.values() for name, entry in section.items()}
        found = [CompletionItem(name, help=one.help) for name, one in entries.items() if name.startswith(incomplete)]
        return found + super(TyperGroup, self).shell_complete(ctx, incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections: a heading, and a line for each command."""
        del ctx
        width = max(map(len, self.commands))
        for heading, section in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in section.items()])


class SectionedHelp(LazyGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(SECTIONS, (), **options)
