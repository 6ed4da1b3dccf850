"""``lab --help`` lists every command once, in sections, and imports none of them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from lab.cli.main import app
from lab.cli.sections import MOVED, SECTIONS, Entry, Group, LazyCommands
from tests.commands import run_here

LAB = Path(__file__).resolve().parents[2] / "lab"

NAMES = (
    *("init", "demo", "replay", "score", "compare", "explain", "missed", "report", "view", "diff"),
    *("gate", "acceptance", "nightly", "canary", "study", "memory"),
    *("recordings", "golden", "runs", "cache", "config", "doctor"),
)
GROUPS = {name: entry for part in SECTIONS.values() for name, entry in part.items() if isinstance(entry, Group)}
LISTED = [
    *((name, entry) for part in SECTIONS.values() for name, entry in part.items() if isinstance(entry, Entry)),
    *(
        (f"{group} {name}", one)
        for group in GROUPS
        for part in GROUPS[group].sections.values()
        for name, one in part.items()
    ),
]


def command_at(words: str) -> Any:
    command = get_command(app)
    for word in words.split():
        command = command.commands[word]
    return command


def test_names_at_the_top_begin_with_the_main_job():
    assert [name for part in SECTIONS.values() for name in part] == list(NAMES)


# They return a result for commands.
NO_COMMANDS = {"lab.cli.results.changed", "lab.cli.study.finish", "lab.memory.cli.memory_options.finish"}


def test_every_public_function_that_returns_a_result_is_a_command():
    def walk(group: Any) -> Iterator[str]:
        for command in group.commands.values():
            if hasattr(command, "commands"):
                yield from walk(command)
            else:
                yield f"{command.callback.__module__}.{command.callback.__name__}"

    returning = {
        ".".join(("lab", *path.relative_to(LAB).with_suffix("").parts, node.name))
        for folder in ("cli", "canary/cli", "memory/cli")
        for path in (LAB / folder).glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.returns and ast.unparse(node.returns) == "Result"
        if not node.name.startswith("_")
    }
    assert returning - set(walk(get_command(app))) == NO_COMMANDS


@pytest.mark.parametrize(("words", "entry"), LISTED, ids=[words for words, _ in LISTED])
def test_line_in_the_help_is_that_of_the_command(words: str, entry: Entry):
    assert command_at(words).get_short_help_str(100) == entry.help


@pytest.mark.parametrize("old", MOVED)
def test_earlier_spelling_is_answered_with_the_present_one(old: str):
    done = run_here(*old.split(), "--some", "thing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: lab {old} is now lab {MOVED[old]}\n"
    for new in MOVED[old].split(", and lab "):
        command_at(new.removesuffix(" --list"))


@pytest.mark.parametrize("old", ["ledger grade x", "store index build x", "import --qrels x", "nightly --plan x"])
def test_earlier_spelling_with_more_words_is_answered(old: str):
    done = run_here(*old.split())
    assert done.returncode == 2
    assert " is now lab " in done.stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("memory tags delete FOLDER day1 --yes", "--yes is now --write"),
        ("memory backfill FOLDER --dry-run", "there is no --dry-run: without --write, nothing is changed"),
        ("memory index optimize FOLDER --force", "there is no --force: lower --max-fragments or --max-unindexed"),
    ],
)
def test_earlier_option_is_answered_with_what_to_write(words: str, answer: str):
    done = run_here(*words.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {answer}\n")


def test_option_that_the_command_never_had_is_unknown():
    assert "No such option: --yes" in run_here("score", "run", "--yes").stderr


@pytest.mark.parametrize(
    ("typed", "meant"), [("scroe", "score"), ("memory indx", "index"), ("nightly trends", "trend")]
)
def test_unknown_name_is_answered_with_a_similar_one(typed: str, meant: str):
    done = run_here(*typed.split())
    assert done.returncode == 2
    assert f"Did you mean '{meant}'?" in done.stderr


def test_help_lists_the_commands_under_their_headings(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(app, ["--help"]).stdout.splitlines()
    headings = [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *SECTIONS]
    after = lines[lines.index("Judge:") :]
    assert [line.split()[0] for line in after[1 : 1 + len(SECTIONS["Judge"])]] == list(SECTIONS["Judge"])


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [(), *((name,) for name, group in GROUPS.items() if not group.default)], ids=lambda words: " ".join(words)
)
def test_help_imports_no_command(words: tuple[str, ...]):
    program = (
        f"import sys; sys.argv = {['lab', *words, '--help']}; from lab.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sorted(name for name in sys.modules if '.cli.' in name), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) <= {"lab.cli.main", "lab.cli.output", "lab.cli.sections", "lab.cli.values"}


def test_a_fault_of_a_commands_import_is_not_taken_for_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = LazyCommands({"broken": Entry("lab.cli.absent", "It cannot be imported.")}, (), "")
    assert commands.get("other") is None

    def fail(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr("lab.cli.sections.import_module", fail)
    with pytest.raises(KeyError, match=r"lab\.cli\.absent"):
        commands.get("broken")
