"""The house rules that no other tool checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "lab").rglob("*.py"))


def _verbs() -> list[str]:
    """Every command of the command, with its group: ``replay``, ``runs rm``."""
    from lab.cli.main import app

    def walk(group: typer.Typer, before: tuple[str, ...]) -> list[str]:
        own = [
            " ".join((*before, command.name or getattr(command.callback, "__name__", "")))
            for command in group.registered_commands
        ]
        deeper = [
            command
            for one in group.registered_groups
            if one.typer_instance is not None
            for command in walk(one.typer_instance, (*before, str(one.name)))
        ]
        return own + deeper

    return walk(app, ())


def test_no_module_passes_400_lines() -> None:
    assert len(MODULES) > 50
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in [*MODULES, *(ROOT / "lab").rglob("*.j2"), *(ROOT / "tests").rglob("*.py")]
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_every_module_says_what_it_is() -> None:
    # An __init__.py without a line of its own only marks its folder.
    silent = [
        str(path.relative_to(ROOT))
        for path in MODULES
        if (tree := ast.parse(path.read_text("utf-8"))).body and not (ast.get_docstring(tree) or "").strip()
    ]
    assert silent == []


def test_the_verbs_are_found() -> None:
    assert {"replay", "score", "compare", "explain", "report", "demo", "runs rm", "golden lint"} <= set(_verbs())


@pytest.mark.parametrize("command", _verbs())
def test_list_of_commands_names_every_command(command: str) -> None:
    assert re.search(rf"\blab {re.escape(command)}\b", (ROOT / "docs/commands.md").read_text("utf-8"))


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md"])
def test_page_names_no_command_that_does_not_exist(page: str) -> None:
    # Between backticks, or at the start of an indented example.
    text = (ROOT / page).read_text("utf-8")
    named = re.findall(r"(?:`|^ {4}(?:\S+/)?)lab ([a-z]+(?: [a-z]+)?)", text, re.MULTILINE)
    # `lab gate DIR` is short for `lab gate judge DIR`.
    known = {*_verbs(), "gate"}
    assert named
    assert [words for words in named if words not in known and words.split()[0] not in known] == []


def test_every_verb_has_json() -> None:
    from lab.cli.main import app

    group = typer.main.get_command(app)
    for name in _verbs():
        command = group
        for word in name.split():
            command = command.commands[word]
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name


def test_every_line_of_a_list_of_verbs_is_whole_in_80_columns() -> None:
    from lab.cli.main import app

    def walk(group: Any) -> Iterator[Any]:
        yield group
        for command in group.commands.values():
            if hasattr(command, "commands"):
                yield from walk(command)

    groups = list(walk(typer.main.get_command(app)))
    assert len(groups) > 5
    for group in groups:
        # What typer leaves of 80 columns beside the longest name.
        room = 72 - max(map(len, group.commands))
        said = {name: command.get_short_help_str(1000) for name, command in group.commands.items()}
        assert {name: line for name, line in said.items() if not 0 < len(line) <= room} == {}
