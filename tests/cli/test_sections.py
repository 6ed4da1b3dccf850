"""``lab --help`` lists every command once, in sections."""

from __future__ import annotations

from typer.main import get_command
from typer.testing import CliRunner

from lab.cli.main import app
from lab.cli.sections import SECTIONS


def test_every_command_is_in_exactly_one_section():
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(name for name, command in get_command(app).commands.items() if not command.hidden)


def test_help_lists_the_commands_under_their_headings(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(app, ["--help"]).stdout.splitlines()
    headings = [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *SECTIONS]
    after = lines[lines.index("Judge:") :]
    assert [line.split()[0] for line in after[1 : 1 + len(SECTIONS["Judge"])]] == list(SECTIONS["Judge"])
