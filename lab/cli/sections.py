"""The commands of ``lab`` by purpose, as ``lab --help`` lists them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

SECTIONS = {
    heading: tuple(names.split())
    for heading, names in {
        "Replay and compare": "demo replay merge score compare missed explain report view diff",
        "Judge": "gate acceptance nightly trend baseline message",
        "Study policies": "ablate saturation governance retention scale silence sweep league latency measures",
        "Operate a live engine": "init canary receipts agree apply rollback config memory store conformance",
        "Govern memories": "ledger pack episodes facts graph observe",
        "Operate a live engine": "init canary receipts agree apply rollback config memory store "
        "ledger pack conformance",
        "Files": "recordings golden runs cache export import migrate doctor",
    }.items()
}


class SectionedHelp(TyperGroup):
    """A group of commands whose help lists them in sections. A command without a section is listed at the end.

    typer's types of a context and a formatter are private, hence ``Any``.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the sections."""
        ordered = [name for names in SECTIONS.values() for name in names if name in self.commands]
        return [*ordered, *(name for name in super().list_commands(ctx) if name not in ordered)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections: a heading, and a line for each command."""
        names = self.list_commands(ctx)
        width = max(map(len, names))
        listed = {name for section in SECTIONS.values() for name in section}
        sections = {**SECTIONS, "Other commands": tuple(name for name in names if name not in listed)}
        for heading, section in sections.items():
            rows = [
                (name.ljust(width), command.get_short_help_str(formatter.width - width - 6))
                for name in section
                if (command := self.get_command(ctx, name)) is not None and not command.hidden
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
