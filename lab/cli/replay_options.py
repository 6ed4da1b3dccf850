"""What a replay is asked, as options: each is told once, and every command that replays takes those it has use for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from lab.cli import options


class Option(NamedTuple):
    """An option: its name, annotation, default, field of ``ReplayRequest``, and whether it may be repeated."""

    name: str
    annotation: Any
    default: Any
    field: str
    many: bool = False


def _option(name: str, annotation: Any, default: Any = None, field: str | None = None, *, many: bool = False) -> Option:
    return Option(name, annotation, default, field or name, many)


OPTIONS = {
    one.field: one
    for one in (
        _option("golden", options.Golden),
        _option("store", options.StoreName, "exact"),
        _option("profile", options.Profile, "seed"),
        _option("memories", options.Memories),
        _option("memories_from", options.MemoriesFrom),
        _option("source", options.Source, "given"),
        _option("labels", options.LabelMode),
        _option("must_share", options.MustShare),
        _option("nice_share", options.NiceShare),
        _option("hard_rules", options.HardRules, 0),
        _option("categories", options.Categories, "recorded"),
        _option("seed", options.Seed, 0),
        _option("scope", options.Scope, "none"),
        _option("recall_turns", options.RecallTurns),
        _option("max_items", options.MaxItems),
        _option("depth", options.Depth, 50),
        _option("limit", options.Limit),
        _option("conversation", options.Conversations, many=True),
        _option("fault", options.FaultNames, field="faults", many=True),
        _option("config", options.Config),
        _option("embedder", options.Embedder, "all-MiniLM-L6-v2"),
        _option("vectors", options.VectorSource, "embed"),
    )
}


# What is recalled, how it is labelled, when, and in which conversations.
LABELLED = (
    *("golden", "labels", "must_share", "nice_share", "hard_rules", "categories", "seed"),
    *("scope", "recall_turns", "limit", "conversation"),
)


def asks(
    *fields: str, arms: Sequence[str] = (), fixed: bool = False, told: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the recordings, their format and these options to a command, which gets one ``ReplayRequest`` first.

    ``arms`` are those by default, ``told`` how the help names them; with ``fixed`` there is no option for them.
    """
    chosen = [OPTIONS[field] for field in fields]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # Importing what a replay is would be felt by every command: here it is a name.
        names = {**command.__globals__, "ReplayRequest": object}
        own = list(inspect.signature(command, eval_str=True, globals=names).parameters.values())[1:]
        parameters = [
            _parameter("path", options.Recordings),
            _parameter("format", options.Format),
            *(one for one in own if one.name != "as_json"),
            *([] if fixed else [_parameter("arm", _arm_option(told or ", ".join(arms)), None)]),
            *(_parameter(one.name, one.annotation, one.default) for one in chosen),
            *(one for one in own if one.name == "as_json"),
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            from lab.replay.plan import ReplayRequest

            values = {one.field: _plain(given.pop(one.name), many=one.many) for one in chosen}
            named = tuple(arms if fixed else given.pop("arm") or arms)
            command(ReplayRequest(str(given.pop("path")), given.pop("format"), named, **values), **given)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # Typer reads it
            [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        )
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _arm_option(default: str) -> Any:
    shown = f" [default: {default}]" if default else ""
    about = f"An arm, or NAME=FILE for one with its own configuration. Repeat for more.{shown}"
    return Annotated[list[str] | None, typer.Option("--arm", help=about)]


def _plain(value: Any, *, many: bool) -> Any:
    """A value as ``ReplayRequest`` keeps it."""
    if many:
        return tuple(value or ())
    return str(value) if isinstance(value, Path) else value
