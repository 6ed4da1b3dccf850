"""A command returns a result, which is printed as text or as JSON; options are declared once."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lab.base.errors import CheckFailed
from lab.cli import options
from lab.cli.output import emit
from lab.cli.results import Result, changed, print_results
from lab.runs.request import Option, arguments

CLI = Path(options.__file__).parent


def counted(number: int) -> Result:
    found = {"number": number}
    error = CheckFailed("too many") if number > 2 else None
    return Result(found, lambda found: emit(f"number {found['number']}"), error=error)


def run(*words: str) -> Any:
    app = typer.Typer()
    app.command("counted")(counted)
    print_results(app)
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize(("words", "printed"), [((), "number 2"), (("--json",), '{"number": 2}')])
def test_result_is_printed_as_text_or_json(words: tuple[str, ...], printed: str) -> None:
    done = run("2", *words)
    assert (done.stdout.strip(), done.exit_code) == (printed, 0)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_error_is_raised_after_printing(words: tuple[str, ...]) -> None:
    done = run("3", *words)
    assert "3" in done.stdout
    assert isinstance(done.exception, CheckFailed)


@pytest.mark.parametrize(("words", "printed"), [((), ["begins", "number 1"]), (("--json",), ['{"number": 1}'])])
def test_next_result_is_printed_after_text_that_has_no_json(words: tuple[str, ...], printed: list[str]) -> None:
    def begun() -> Result:
        return Result("begins", emit, lambda _: None, then=lambda: counted(1))

    app = typer.Typer()
    app.command()(begun)
    print_results(app)
    assert CliRunner().invoke(app, list(words)).stdout.splitlines() == printed


def test_only_the_wrapper_takes_json() -> None:
    takes = [
        f"{path.name}: {node.name}"
        for path in CLI.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and "as_json" in {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)}
    ]
    assert takes == ["results.py: run"]


def test_result_json_is_that_of_its_object_or_of_its_view() -> None:
    class Found:
        def as_json(self) -> dict[str, int]:
            return {"n": 1}

    assert Result(Found(), print).as_json() == {"n": 1}
    assert Result(Found(), print, lambda found: found.as_json() | {"m": 2}).as_json() == {"n": 1, "m": 2}


def removed(*, write: bool = False, due: bool = True) -> Result:
    receipt = {"counts": {"files": 2}, "left": ["a"], "target": "another"}
    return changed("runs rm", Path("run"), receipt, lambda found: emit(found["target"]), write=write, due=due)


def test_receipt_of_a_change_has_one_shape() -> None:
    assert list(removed().as_json().items()) == [
        ("command", "lab runs rm"),
        ("target", "run"),
        ("written", False),
        ("counts", {"files": 2}),
        ("left", ["a"]),
    ]


@pytest.mark.parametrize(("write", "due", "said"), [(False, True, True), (False, False, False), (True, True, False)])
def test_text_of_a_change_ends_with_how_to_do_it(
    write: bool, due: bool, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    removed(write=write, due=due).show()
    hint = ["Nothing was written; add --write to do it."] if said else []
    assert capsys.readouterr().out.splitlines() == ["run", *hint]


def test_no_help_text_of_an_option_is_written_twice() -> None:
    texts: Counter[str] = Counter(argument.option.help for argument in arguments().values())
    for path in CLI.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
                texts[node.value.value] += 1
    assert len(texts) > 100
    assert [text for text, times in texts.items() if times > 1] == []


def test_every_argument_of_a_replay_is_described() -> None:
    assert all(isinstance(argument.option, Option) and argument.option.help for argument in arguments().values())
    assert arguments()["faults"].flag == "--fault"
    assert arguments()["must_share"].flag == "--must-share"
