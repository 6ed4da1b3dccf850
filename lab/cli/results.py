"""What a command returns: text and JSON are two views of one object, so that they cannot disagree."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import typer

from lab.cli.output import Json, emit_json, emit_unless_written

T = TypeVar("T")


class Result:
    """What a command found, with its views, and the error or exit that is raised once it is printed.

    ``show`` prints the text. ``json`` returns the JSON object; without it, what was found is one, or has ``as_json``.
    ``then`` goes on once this is printed, and may return the next result; what has no JSON object (None) is text alone.
    """

    def __init__(
        self,
        found: T,
        show: Callable[[T], object],
        json: Callable[[T], Any] | None = None,
        *,
        error: Exception | None = None,
        then: Callable[[], Result | None] = lambda: None,
    ) -> None:
        self.show = functools.partial(show, found)
        self.as_json = functools.partial(json, found) if json else getattr(found, "as_json", lambda: found)
        self.error, self.then = error, then


def changed(
    command: str,
    target: Path,
    receipt: Mapping[str, Any],
    show: Callable[[dict[str, Any]], object],
    *,
    write: bool,
    due: bool = True,
    error: Exception | None = None,
) -> Result:
    """Return the result of a change: its JSON object names the command, what it changes, and whether it did.

    Its text ends with how to do it, unless it is done or nothing is ``due``.
    """
    head = {"command": f"lab {command}", "target": str(target), "written": write}

    def text(found: dict[str, Any]) -> None:
        show(found)
        emit_unless_written(write or not due)

    return Result({**head, **receipt, **head}, text, error=error)


def command_name(function: Callable[..., object]) -> str:
    """Return the name of the command that a function is, such as ``import`` of ``import_``."""
    return function.__name__.rstrip("_").replace("_", "-")


def print_results(app: typer.Typer) -> None:
    """Add ``--json`` to every command of an app that returns a :class:`Result`, and print what it returns."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            print_results(group.typer_instance)
    for command in app.registered_commands:
        if command.callback is not None and command.callback.__annotations__.get("return") in ("Result", Result):
            command.callback = _printing(command.callback)


def _printing(command: Callable[..., Result]) -> Callable[..., None]:
    """Return a command that prints the result of another one as text, or as JSON with ``--json``.

    A parameter of the other one that is a record of options stands for its fields.
    """
    declared = inspect.signature(command, eval_str=True).parameters
    records: dict[str, Any] = {
        name: about.annotation for name, about in declared.items() if is_dataclass(about.annotation)
    }
    inner = {name: inspect.signature(record, eval_str=True).parameters for name, record in records.items()}

    @functools.wraps(command)
    def run(*, as_json: bool, **given: Any) -> None:
        made = {name: record(**{one: given.pop(one) for one in inner[name]}) for name, record in records.items()}
        result: Result | None = command(**given, **made)
        while result is not None:
            if not as_json:
                result.show()
            elif (found := result.as_json()) is not None:
                emit_json(found)
            if result.error is not None:
                raise result.error
            # What follows may take a while, and a pipe or a file holds text back.
            sys.stdout.flush()
            result = result.then()

    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    given = [one for name, about in declared.items() for one in inner.get(name, {name: about}).values()]
    parameters = [*(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in given), option]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
