"""The values of a command's parameters, most of them converted without typer.

typer converts every value with pydantic, defaults too. To import pydantic takes as long as all else that a short
command does, and most values are what the command takes already.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

from typer.core import TyperArgument, TyperOption

from lab.base.regex import regex

_NUMBERS = {int: regex(r"[0-9]{1,9}"), float: regex(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")}


class _Values:
    """Stands in for typer's object of the same methods, which it asks for where a value is refused or unusual."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value that typer makes of ``value``; raise what typer raises."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        kind, about = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        try:
            if not several:
                return _plain(value, kind, about)
            if not isinstance(value, str):
                return [_plain(one, get_args(kind)[0], about) for one in value]
        except (ValueError, AssertionError):
            pass
        return _OF_TYPER(param).coerce(value, param=param, ctx=ctx)


def _plain(value: Any, kind: Any, about: Any) -> Any:
    """Return a value of a kind; raise :class:`ValueError` for one that typer is to convert or refuse."""
    if about.parser is not None:
        return about.parser(value)
    if kind is Path and isinstance(value, str | Path) and about.file_okay and about.dir_okay:
        is_special = about.exists or about.writable or about.resolve_path or about.allow_dash or about.path_type
        path = Path(value)
        if not is_special and (os.access(path, os.R_OK) or not about.readable or not path.exists()):
            return path
    elif kind in _NUMBERS and not about.clamp:
        if isinstance(value, str) and _NUMBERS[kind].fullmatch(value):
            value = kind(value)
        if (
            type(value) is kind
            and (about.min is None or value >= about.min)
            and (about.max is None or value <= about.max)
        ):
            return value
    elif kind in (str, bool) and type(value) is kind:
        return value
    raise ValueError(value)


_VALUES, _OF_TYPER = _Values(), TyperOption.get_runtime_param


def convert_plainly() -> None:
    """Let the parameters of commands take their values as this module describes."""
    for kind in (TyperArgument, TyperOption):
        kind.get_runtime_param = lambda _: _VALUES  # type: ignore[assignment,method-assign,return-value]  # same methods
