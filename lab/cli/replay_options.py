"""The command-line options of a replay, defined once for all commands that replay."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from lab.cli import completion, options


class Option(NamedTuple):
    """An option that sets ``field`` of ``ReplayRequest``. ``annotation`` is Typer's; ``many``: it may be repeated."""

    name: str
    annotation: Any
    default: Any
    field: str
    many: bool = False


def _option(name: str, annotation: Any, default: Any = None, field: str | None = None, *, many: bool = False) -> Option:
    return Option(name, annotation, default, field or name, many)


OPTIONS = {
    option.field: option
    for option in (
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
        _option("haystack", options.Haystack),
        _option("haystack_from", options.HaystackFrom, many=True),
        _option("categories", options.Categories, "recorded"),
        _option("seed", options.Seed, 0),
        _option("scope", options.Scope, "none"),
        _option("recall_turns", options.RecallTurns),
        _option("max_items", options.MaxItems),
        _option("depth", options.Depth, 50),
        _option("limit", options.Limit),
        _option("conversation", options.Conversations, many=True),
        _option("origin", options.Origins, ["person"], many=True),
        _option("fault", options.FaultNames, field="faults", many=True),
        _option("config", options.Config),
        _option("embedder", options.Embedder, "all-MiniLM-L6-v2"),
        _option("vectors", options.VectorSource, "embed"),
        _option("answers", options.Answers, "live"),
        _option("allow_remote", options.AllowRemote, False),
    )
}


# Options for scopes, and for the turns and conversations to replay.
TURNS = ("scope", "recall_turns", "limit", "conversation", "origin")
# The same, with options for gold and labels.
LABELLED = ("golden", "labels", "must_share", "nice_share", "hard_rules", "categories", "seed", *TURNS)


def takes_replay_options(
    *fields: str,
    arms: Sequence[str] = (),
    fixed: bool = False,
    default_arms: str = "",
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the argument PATH, --format and the options of ``fields`` to a command.

    The command receives a ``ReplayRequest`` as its first argument. ``arms`` are the default arms and ``default_arms``
    their description in the help. With ``fixed``, the command always uses ``arms`` and has no --arm. ``defaults``
    replace the default values of options, by field.
    """
    # Help lists the options of every command in the same order.
    order = list(OPTIONS)
    own = defaults or {}
    chosen = [
        OPTIONS[field]._replace(default=own.get(field, OPTIONS[field].default))
        for field in sorted(fields, key=order.index)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # Importing the real ReplayRequest would slow down every command.
        names = {**command.__globals__, "ReplayRequest": object}
        declared = list(inspect.signature(command, eval_str=True, globals=names).parameters.values())[1:]
        parameters = [
            _parameter("path", options.Recordings),
            _parameter("format", options.Format),
            *(parameter for parameter in declared if parameter.name != "as_json"),
            *([] if fixed else [_parameter("arm", _arm_option(default_arms or ", ".join(arms)), None)]),
            *(_parameter(option.name, option.annotation, option.default) for option in chosen),
            *(parameter for parameter in declared if parameter.name == "as_json"),
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            from lab.replay.plan import ReplayRequest

            values = {option.field: _plain(given.pop(option.name), many=option.many) for option in chosen}
            chosen_arms = tuple(arms if fixed else given.pop("arm") or arms)
            command(ReplayRequest(str(given.pop("path")), given.pop("format"), chosen_arms, **values), **given)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # Typer reads it
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _arm_option(default: str) -> Any:
    shown = f" [default: {default}]" if default else ""
    about = (
        "An arm; NAME=FILE for one with its own configuration; NAME=exec:COMMAND or NAME=http:URL for an external "
        f"system; NAME=plugin:FOLDER for an OpenClaw plugin. Repeat for more.{shown}"
    )
    return Annotated[list[str] | None, typer.Option("--arm", autocompletion=completion.systems, help=about)]


def _plain(value: Any, *, many: bool) -> Any:
    """Return a value in the form that ``ReplayRequest`` stores."""
    if many:
        return tuple(value or ())
    return str(value) if isinstance(value, Path) else value
