"""``lab config show`` and ``lab config check``: what an engine configuration comes to, and what is wrong in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table
from lab.errors import CheckFailed, UnusableInput

STDIN = "-"
File = Annotated[str, typer.Argument(help="A configuration, an openclaw.json that holds one, or - for standard input.")]
Profile = Annotated[str, typer.Option(help="seed or upstream.")]
HostVersion = Annotated[
    str | None,
    typer.Option(
        help="The OpenClaw version that the file is for, or none. Default: for a whole openclaw.json its "
        "meta.lastTouchedVersion, or else the newest known version.",
        show_default=False,
        metavar="VERSION",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="Engine configurations: resolve them, check them.")
    group.command("show")(show)
    group.command("check")(check)
    app.add_typer(group, name="config")


def show(file: File, profile: Profile = "seed", as_json: Json = False) -> None:
    """Print every value of a resolved configuration, and what decided it."""
    from lab.systems.openclaw.config.missing import missing
    from lab.systems.openclaw.config.resolve import describe, explain_config, resolve, shown

    raw, where = _read(file)
    decided = explain_config(raw, profile, where=where, environ=os.environ)
    if as_json:
        config = describe(resolve(raw, profile, where=where, environ=os.environ))
        told = {"decided": [one._asdict() for one in decided], "missing": missing(raw)}
        emit_json({"file": where, "profile": profile, "config": config, **told})
        return
    emit_table(
        ["key", "value", "decided by"],
        [[one.key, shown(one.value), one.by] for one in decided],
        left=3,
        whole_keys=True,
    )
    _tell(missing(raw))


def check(file: File, profile: Profile = "seed", host: HostVersion = None, as_json: Json = False) -> None:
    """List everything that is wrong in a configuration.

    A whole openclaw.json is checked as its host would. An error is what the host
    refuses (exit code 1). A warning is a setting that the host accepts but that
    has no effect. A note is a value that the plugin changes without saying so.
    What the lab does not have at all is listed as "not implemented here".
    Only the parts meta and plugins are checked. Any other file is checked for the
    lab alone, unless --host is given.
    """
    from lab.replay.config_notes import config_note
    from lab.systems.openclaw.config.file import embedder_of, locate
    from lab.systems.openclaw.config.resolve import check_config, require_profile
    from lab.systems.openclaw.upstream.host import check_host, host_of

    value, where = _parsed(file)
    meant = host_of(value, host)
    if meant is None:
        found, by = check_config(locate(value, where), profile, where=where), f"under profile {profile}"
    else:
        require_profile(profile)
        found, by = check_host(value, meant, where=where), f"that host {meant.version} refuses"
        if not found.problems:
            locate(value, where)
    embedder = config_note(embedder_of(value))
    if as_json:
        emit_json(
            {
                "file": where,
                "profile": profile if meant is None else "upstream",
                "host": meant and meant._asdict(),
                "ok": not found.problems,
                "embedder": embedder,
                **{name: list(lines) for name, lines in found._asdict().items()},
            }
        )
    else:
        if meant is not None:
            emit_folded(f"host: {meant}")
        if embedder:
            emit_folded(embedder)
        for problem in found.problems:
            emit_folded(f"error: {problem}" if meant else problem)
        for warning in found.warnings:
            emit_folded(f"warning: {warning}")
        for note in found.notes:
            emit_folded(f"note: {note}")
        _tell(found.missing)
        if not found.problems:
            emit("ok" if meant is None else "ok (meta and plugins; openclaw config validate checks the rest)")
    if found.problems:
        count = len(found.problems)
        raise CheckFailed(f"{where}: {count} {'problem' if count == 1 else 'problems'} {by}")


def _tell(missing: Sequence[str]) -> None:
    """Say what a configuration asks for and the lab does not have."""
    from lab.systems.openclaw.config.missing import NOT_HERE

    if missing:
        emit_folded(f"{NOT_HERE}: {', '.join(missing)}")


def _read(file: str) -> tuple[Any, str]:
    """Return the engine's configuration in a file or on standard input, and how to name it."""
    from lab.systems.openclaw.config.file import locate

    value, where = _parsed(file)
    return locate(value, where), where


def _parsed(file: str) -> tuple[Any, str]:
    """Return the whole value in a file or on standard input, and how to name it."""
    from lab.files import parse_json, read_text

    if file != STDIN:
        return parse_json(read_text(Path(file)), file), file
    try:
        return parse_json(sys.stdin.buffer.read().decode("utf-8-sig"), "stdin"), "stdin"
    except UnicodeDecodeError as error:
        raise UnusableInput(f"stdin: not UTF-8 text (byte {error.start})") from None
