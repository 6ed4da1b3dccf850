"""``lab --help`` lists every command once, in sections, and imports none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from lab.cli.main import app
from lab.cli.sections import COMMANDS, SECTIONS

COMMAND_FILES = sorted((Path(__file__).resolve().parents[2] / "lab" / "cli").glob("*.py"))


def test_every_command_that_a_module_registers_is_in_one_section():
    listed = [name for names in SECTIONS.values() for name in names]
    assert len(listed) == len(set(listed))
    registering = {file.stem for file in COMMAND_FILES if "\ndef add_to(app: typer.Typer)" in file.read_text("utf-8")}
    within_groups = {"facts_read", "ledger_drift", "ledger_life", "ledger_read", "ledger_writeback"}
    within_groups |= {"memory_files", "self_test", "store_index"}
    assert registering - {entry.module for entry in COMMANDS.values()} <= within_groups


@pytest.mark.parametrize("name", COMMANDS)
def test_line_in_the_help_is_that_of_the_command(name):
    assert get_command(app).commands[name].get_short_help_str(100) == COMMANDS[name].help


def test_help_lists_the_commands_under_their_headings(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(app, ["--help"]).stdout.splitlines()
    headings = [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *SECTIONS]
    after = lines[lines.index("Judge:") :]
    assert [line.split()[0] for line in after[1 : 1 + len(SECTIONS["Judge"])]] == list(SECTIONS["Judge"])


@pytest.mark.process
def test_help_imports_no_command():
    program = (
        "import sys; sys.argv = ['lab', '--help']; from lab.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sorted(name for name in sys.modules if name.startswith('lab.cli.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) <= {"lab.cli.main", "lab.cli.output", "lab.cli.sections"}
