"""The commands of ``lab`` by purpose, as ``lab --help`` lists them. A command is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Entry(NamedTuple):
    """A command: the module that registers it, and its line in ``lab --help``."""

    module: str
    help: str


# Heading -> name -> command. A test checks the lines against the commands' own help.
SECTIONS: dict[str, dict[str, Entry]] = {
    "Replay and compare": {
        "demo": Entry("lab.cli.demo", "Replay, score, judge and chart the shipped conversations."),
        "replay": Entry("lab.cli.replay", "Replay recordings turn by turn through one or more arms."),
        "merge": Entry("lab.cli.replay", "Merge the shards of a run."),
        "score": Entry("lab.cli.replay", "Score a run: means of the headline measures by arm."),
        "compare": Entry("lab.cli.compare", "Compare two arms over the same turns."),
        "missed": Entry("lab.cli.missed", "Count the relevant memories that each arm missed, by cause."),
        "explain": Entry("lab.cli.compare", "Explain one turn: why memories were injected or dropped."),
        "report": Entry("lab.cli.report", "Write report.html, report.md and figures/ into a run."),
        "view": Entry("lab.cli.view", "Browse runs turn by turn, with two arms side by side."),
        "diff": Entry("lab.cli.diff", "Compare two runs exactly, column by column of every receipt."),
    },
    "Judge": {
        "gate": Entry("lab.cli.gate", "Judge a run by a policy; list policies, print schemas."),
        "acceptance": Entry("lab.cli.acceptance", "Judge the acceptance criteria of the design documents."),
        "nightly": Entry("lab.cli.nightly", "Replay a plan twice and compare it with approved baselines."),
        "trend": Entry("lab.cli.nightly", "Show the history of nightly runs and its step changes."),
        "baseline": Entry("lab.cli.baseline", "Manage baselines: approved runs, by name."),
        "message": Entry("lab.cli.message", "Write a verdict as a message: text, Slack or e-mail."),
    },
    "Study policies": {
        "ablate": Entry("lab.cli.ablate", "Run the ablation from tier_first_v1 to the full engine."),
        "saturation": Entry("lab.cli.saturation", "Increase the must_remember share and chart every policy."),
        "governance": Entry("lab.cli.governance", "Move the grading thresholds and chart both policies."),
        "retention": Entry("lab.cli.retention", "Say what a retention rule would archive and lose."),
        "scale": Entry("lab.cli.scale", "Replay with more and more memories and chart every arm."),
        "silence": Entry("lab.cli.silence", "Show what a silence threshold saves and what it costs."),
        "sweep": Entry("lab.cli.sweep", "Compare hundreds of configurations over one retrieval."),
        "league": Entry("lab.cli.league", "Compare memory systems on every set at equal tokens."),
        "latency": Entry("lab.cli.latency", "Measure the latency of arms over live stores."),
        "measures": Entry("lab.cli.trec", "List every measure with its definition, range and source."),
    },
    "Operate a live engine": {
        "init": Entry("lab.cli.init", "Judge a change on the sessions of a live host."),
        "canary": Entry("lab.canary.cli.canary", "Switch a live gateway for a limited time, and roll back."),
        "receipts": Entry("lab.canary.cli.receipts", "Audit or print the receipts of a live engine."),
        "agree": Entry("lab.canary.cli.agree", "Compare the recalls of a live engine with the lab's."),
        "apply": Entry("lab.canary.cli.apply", "Print the configuration patch that follows from a verdict."),
        "rollback": Entry("lab.canary.cli.rollback", "Check that switching the policy back undoes the switch."),
        "config": Entry("lab.cli.config", "Resolve and check engine configurations."),
        "memory": Entry("lab.memory.cli.memory", "Store and recall memories in a LanceDB folder."),
        "store": Entry("lab.memory.cli.store", "Indexes and versions of a LanceDB folder."),
    },
    "Govern memories": {
        "ledger": Entry("lab.memory.cli.ledger", "Capture, search and grade the sidecar's ledger."),
        "pack": Entry("lab.memory.cli.pack", "Pack a small bundle with citations for a query."),
        "episodes": Entry("lab.memory.cli.episodes", "Keep conversations as events, and search their exact texts."),
        "facts": Entry("lab.memory.cli.facts", "Keep facts with their dates and evidence."),
        "graph": Entry("lab.memory.cli.graph", "Show how projects, tools, decisions and concepts are related."),
        "observe": Entry("lab.memory.cli.observe", "Compress conversations into logs of observations."),
    },
    "Files": {
        "recordings": Entry("lab.cli.recordings", "List, import, check and convert recordings."),
        "golden": Entry("lab.cli.golden", "Build, check, compare and split golden sets."),
        "runs": Entry("lab.cli.runs", "List and remove run directories, and print their schema."),
        "cache": Entry("lab.cli.cache", "Manage the cache of vectors, tokens, candidates and answers."),
        "export": Entry("lab.cli.trec", "Export a run's judgements and rankings to TREC or BEIR files."),
        "import": Entry("lab.cli.trec", "Score TREC run files."),
        "migrate": Entry("lab.cli.migrate", "Convert files of version 0.1 to this version."),
        "doctor": Entry("lab.cli.checks", "Check that this machine can run the lab."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyCommands(dict[str, Any]):
    """The commands by name, each imported when it is first looked up."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        """Return a command; raise :class:`KeyError` if there is none of this name."""
        if super().__getitem__(name) is None:
            self.update({each: found for each, found in _imported(COMMANDS[name].module).items() if each in COMMANDS})
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command, or ``default`` if there is none of this name."""
        try:
            return self[name]
        except KeyError:
            return default

    def values(self) -> Any:
        """Return all commands, imported."""
        return [self[name] for name in self]

    def items(self) -> Any:
        """Return all names and commands, imported."""
        return [(name, self[name]) for name in self]


def _imported(module: str) -> dict[str, Any]:
    """Return the commands that a module registers."""
    from lab.cli.examples import add_examples

    app = typer.Typer(rich_markup_mode=None)
    import_module(module).add_to(app)
    add_examples(app)
    return dict(typer.main.get_group(app).commands)


class SectionedHelp(TyperGroup):
    """The group of all commands. Its help lists them in sections, and imports none of them.

    typer's types of a context and a formatter are private, hence ``Any``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the sections."""
        del ctx
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections: a heading, and a line for each command."""
        del ctx
        width = max(map(len, COMMANDS))
        for heading, section in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in section.items()])
