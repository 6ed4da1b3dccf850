"""Values of parameters: what is converted without typer, equal to what typer makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import LabError
from lab.cli import values
from lab.cli.main import app

# What a shell may give, and what typer refuses or takes in more than one way.
WORDS = ["", " ", "5", "-5", "05", "1_000", "1.5", "1e3", "nan", " 7", "99999999999", "٣", "true", "off", "/", "-"]
WORDS += ["a\0b", "~", "a//b/", "no/such", "2026-01-31", "seed", "upstream", "hashing", "1/2", "x=1", "a,b", "½"]

CONTEXT = typer.Context(typer.main.get_command(app))


def _parameters(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield from command.params
        if hasattr(command, "commands"):
            yield from _parameters(command)


def _kind(parameter: Any) -> tuple[object, ...]:
    """Return what decides how a parameter converts a value."""
    about = parameter.type_descriptor.parameter_info
    limits = (about.min, about.max, about.parser, about.readable, about.exists, about.file_okay, about.dir_okay)
    formats = about.formats and tuple(about.formats)
    return str(parameter.type_descriptor.annotation), parameter.multiple, parameter.nargs, formats, *limits


@pytest.fixture(scope="module")
def parameters() -> list[Any]:
    """One parameter of each kind that a command has."""
    return list({_kind(one): one for one in _parameters(typer.main.get_command(app))}.values())


def _outcome(convert: Any, parameter: Any, value: object) -> object:
    try:
        made = convert(parameter).coerce(value, param=parameter, ctx=CONTEXT)
    except (typer.BadParameter, LabError, ValueError, AttributeError) as error:
        return type(error), str(error)
    return repr(made), type(made)


def _same(parameter: Any, value: object) -> None:
    ours = _outcome(lambda _: values._VALUES, parameter, value)
    assert ours == _outcome(values._OF_TYPER, parameter, value), (parameter.name, value)


def test_every_parameter_converts_as_typer_does(parameters: list[Any]) -> None:
    assert len(parameters) > 20
    for parameter in parameters:
        several = parameter.multiple or parameter.nargs == -1
        default = parameter.default
        for value in (None, default() if callable(default) else default, *WORDS):
            _same(parameter, value)
        if several:
            for value in ((), tuple(WORDS[:3]), ["5"], [Path("a")]):
                _same(parameter, value)


@given(st.text(max_size=12))
def test_any_text_converts_as_typer_does(parameters: list[Any], text: str) -> None:
    for parameter in parameters:
        _same(parameter, text)
