"""``lab config show`` and ``lab config check``: what an engine configuration comes to, and what is wrong in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table
from lab.errors import CheckFailed, UnusableInput

STDIN = "-"
File = Annotated[str, typer.Argument(help="A configuration, an openclaw.json that holds one, or - for standard input.")]
Profile = Annotated[str, typer.Option(help="seed or upstream.")]


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    group = typer.Typer(no_args_is_help=True, help="Engine configurations: resolve them, check them.")
    group.command("show")(show)
    group.command("check")(check)
    app.add_typer(group, name="config")


def show(file: File, profile: Profile = "seed", as_json: Json = False) -> None:
    """Print every value of a resolved configuration, and what decided it."""
    from lab.engine.config import describe, explain_config, resolve, shown

    raw, where = _read(file)
    decided = explain_config(raw, profile, where=where, environ=os.environ)
    if as_json:
        config = describe(resolve(raw, profile, where=where, environ=os.environ))
        emit_json({"file": where, "profile": profile, "config": config, "decided": [one._asdict() for one in decided]})
        return
    emit_table(
        ["key", "value", "decided by"],
        [[one.key, shown(one.value), one.by] for one in decided],
        left=3,
        whole_keys=True,
    )


def check(file: File, profile: Profile = "seed", as_json: Json = False) -> None:
    """List everything that is wrong in a configuration. What the engine could not take, and what it would."""
    from lab.engine.config import check_config
    from lab.engine.config_file import embedder_of
    from lab.replay.embedders import config_note

    raw, where = _read(file)
    found = check_config(raw, profile, where=where)
    embedder = config_note(embedder_of(raw))
    if as_json:
        emit_json(
            {
                "file": where,
                "profile": profile,
                "ok": not found.problems,
                "embedder": embedder,
                "problems": list(found.problems),
                "notes": list(found.notes),
            }
        )
    else:
        if embedder:
            emit_folded(embedder)
        for problem in found.problems:
            emit_folded(problem)
        for note in found.notes:
            emit_folded(f"note: {note}")
        if not found.problems:
            emit("ok")
    if found.problems:
        count = len(found.problems)
        raise CheckFailed(f"{where}: {count} {'problem' if count == 1 else 'problems'} under profile {profile}")


def _read(file: str) -> tuple[Any, str]:
    """The value in a file or on standard input, with whatever is around the configuration; and how to speak of it."""
    from lab.engine.config_file import parse_json, read_value

    if file != STDIN:
        return read_value(Path(file)), file
    try:
        return parse_json(sys.stdin.buffer.read().decode("utf-8-sig"), "stdin"), "stdin"
    except UnicodeDecodeError as error:
        raise UnusableInput(f"stdin: not UTF-8 text (byte {error.start})") from None
