"""The options of a replay that several commands share, from :mod:`lab.runs.request`: type, default and help."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from lab.base.errors import UnusableInput
from lab.base.set_registry import is_shipped, recordings_at
from lab.cli import completion
from lab.cli.options import is_run
from lab.cli.output import announce
from lab.runs.request import STORE, Argument, Options, ReplayRequest, arguments


def _format_of(context: typer.Context, value: str) -> str:
    """Return the given format, or ``lab`` for a shipped set.

    Raises :class:`UnusableInput` if neither applies, if the path does not exist, or if it is a run.
    """
    path = context.params.get("path") or Path()
    if context.resilient_parsing:
        return value
    if is_run(path):
        request = _request_of(path)
        raise UnusableInput(
            f"{path}: is a run, and this command reads recordings; those of the run are {request.shown} "
            f"(--format {request.format})"
        )
    if value or is_shipped(path):
        return value or "lab"
    raise missing_format(path)


def _format_unless_run(context: typer.Context, value: str) -> str:
    """Return the same for a command that takes a run, too, whose manifest says the format."""
    return value if is_run(context.params.get("path") or Path()) else _format_of(context, value)


def _request_of(run: Path) -> ReplayRequest:
    from lab.runs.directory import open_run

    return ReplayRequest.of_manifest(open_run(run).manifest.asked)


def missing_format(path: Path) -> UnusableInput:
    """Return the error for recordings whose format was not given; it says so if there are none."""
    if not path.exists():
        return UnusableInput(f"{path}: no such file or folder")
    return UnusableInput("missing option --format: lab recordings list shows the formats")


def replay_option(field: str, also: str = "") -> Any:
    """Return typer's description of an option of a replay, by its field; ``also`` is added to its help."""
    argument = arguments()[field]
    about = argument.option
    return typer.Option(
        argument.flag,
        metavar=about.metavar,
        min=about.min,
        parser=None if about.path is Path else about.path,
        autocompletion=getattr(completion, about.complete) if about.complete else None,
        help=about.help + also,
    )


def _recordings(also: str = "") -> Any:
    return typer.Argument(
        metavar="PATH",
        parser=recordings_at,
        autocompletion=completion.sets,
        help=arguments()["path"].option.help + also,
    )


def _format_option(callback: Callable[[typer.Context, str], str]) -> Any:
    return typer.Option(
        "--format",
        autocompletion=completion.formats,
        # A default in the signature could not stand before arguments without one.
        default_factory=str,
        show_default=False,
        callback=callback,
        help=arguments()["format"].option.help,
    )


Recordings = Annotated[Path, _recordings()]
RecordingsOrRun = Annotated[Path, _recordings(" Or a run: its recordings and options are used, except those given.")]
Format = Annotated[str, _format_option(_format_of)]
FormatUnlessRun = Annotated[str, _format_option(_format_unless_run)]
Memories = Annotated[str | None, replay_option("memories")]
MemoriesFrom = Annotated[str | None, replay_option("memories_from")]
Haystack = Annotated[int | None, replay_option("haystack")]
HaystackFrom = Annotated[list[str] | None, replay_option("haystack_from")]
Profile = Annotated[str, replay_option("profile")]
Origins = Annotated[list[str], replay_option("origin")]
Embedder = Annotated[str, replay_option("embedder")]
CheckedMemories = Annotated[str | None, typer.Option(metavar="STORE", help=STORE)]

R = TypeVar("R")
REPLAY = tuple(field.name for field in dataclasses.fields(Options))
# Options for scopes, and for the turns and conversations to replay.
TURNS = ("scope", "recall_turns", "limit", "conversation", "origin")
# The same, with options for gold and labels.
LABELLED = ("golden", "labels", "must_share", "nice_share", "hard_rules", "categories", "seed", *TURNS)


def takes_replay_options(
    *fields: str,
    arms: Sequence[str] = (),
    fixed: bool = False,
    has_path: bool = True,
    runs: Literal["", "as recordings", "as it is"] = "",
    default_arms: str = "",
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that adds the argument PATH, --format and the options of ``fields`` to a command.

    The command receives a ``ReplayRequest`` as its first argument. ``arms`` are the default arms and ``default_arms``
    their description in the help. With ``fixed``, the command always uses ``arms`` and has no --arm. Without
    ``has_path`` it has no PATH and no --format, and the request names no recordings. With ``runs``, PATH may be a run,
    which the command opens as it is, or whose recordings and options are used, except those given. ``defaults`` replace
    the default values of options, by field.
    """
    own = defaults or {}
    # Help lists the options of every command in the same order.
    chosen = {field: about for field, about in arguments().items() if field in fields}
    shown = default_arms or ", ".join(arms)
    arm = Annotated[list[str] | None, replay_option("arms", f" [default: {shown}]" if shown else "")]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        # Commands import the class for type checkers alone.
        names = {**command.__globals__, "ReplayRequest": ReplayRequest}
        declared = list(inspect.signature(command, eval_str=True, globals=names).parameters.values())[1:]
        recordings = [
            _parameter("path", RecordingsOrRun if runs == "as recordings" else Recordings),
            _parameter("format", FormatUnlessRun if runs else Format),
        ]
        parameters = [
            _parameter("context", typer.Context),
            *(recordings if has_path else ()),
            *declared,
            *([] if fixed else [_parameter("arm", arm, None)]),
            *(_replay_parameter(field, about, own.get(field, about.default)) for field, about in chosen.items()),
        ]

        @functools.wraps(command)
        def run(context: typer.Context, **given: Any) -> R:
            values = {field: _value(given.pop(about.name), about) for field, about in chosen.items()}
            chosen_arms = tuple(arms if fixed else given.pop("arm") or arms)
            path, form = (str(given.pop("path")), given.pop("format")) if has_path else ("", "")
            request = ReplayRequest(path, form, chosen_arms, **values)
            if runs == "as recordings" and is_run(Path(request.path)):
                # An option of the command's own takes several embedders; that of the run is its default.
                several = {name: about for name, about in arguments().items() if name == "embedder" and name in given}
                request = _from_run(request, chosen | several, context)
            return command(request, **given)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # Typer reads it
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__annotations__["return"] = command.__annotations__["return"]
        return run

    return decorate


def _from_run(request: ReplayRequest, fields: Mapping[str, Argument], context: typer.Context) -> ReplayRequest:
    """Return a request over the recordings of a run, with its options where the command line gives none."""
    of_run = _request_of(Path(request.path))
    given = {
        name
        for name, about in {"format": arguments()["format"], **fields}.items()
        if getattr(context.get_parameter_source(about.name), "name", "") == "COMMANDLINE"
    }
    taken = {name: getattr(of_run, name) for name in ("path", "format", *fields) if name not in given}
    others = [
        about.flag
        for name, about in arguments().items()
        if name not in ("path", "format", "arms", *fields) and getattr(of_run, name) != about.default
    ]
    less = f", but not its {', '.join(others)}" if others else ""
    announce(f"recordings and options of {request.path}: {of_run.shown}{less}")
    return dataclasses.replace(request, **taken)


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _replay_parameter(field: str, about: Argument, default: Any) -> inspect.Parameter:
    """Return the parameter of an option; typer reads several values as a list, and a path as a path."""
    kind: Any = list[str] | None if about.is_many else Path | None if about.option.path else about.type
    return _parameter(
        about.name, Annotated[kind, replay_option(field)], (list(default) or None) if about.is_many else default
    )


def _value(value: Any, about: Argument) -> Any:
    """Return a value in the form that ``ReplayRequest`` stores."""
    if about.is_many:
        return tuple(value or ())
    return str(value) if isinstance(value, Path) else value
