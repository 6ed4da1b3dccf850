"""``lab config show`` and ``lab config check``: resolve an engine configuration, and check it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.output import emit_folded, emit_next, emit_table
from lab.cli.replay_options import Profile
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.base.config_resolve import Resolved

STDIN = "-"
File = Annotated[
    str | None,
    typer.Argument(
        help="A configuration (JSON, JSON5 or YAML), an openclaw.json with one in it, the folder of a host, or - for "
        "standard input. [default: OPENCLAW_CONFIG_PATH, or openclaw.json in OPENCLAW_STATE_DIR or ~/.openclaw]",
        show_default=False,
    ),
]
HostVersion = Annotated[
    str | None,
    typer.Option(
        help="The OpenClaw version to check for, or none. Default: for a complete openclaw.json its "
        "meta.lastTouchedVersion, or else the newest known version.",
        show_default=False,
        metavar="VERSION",
    ),
]


def show(file: File = None, profile: Profile = "seed") -> Result:
    """Show every value of a resolved configuration and its source."""
    from lab.systems.openclaw.config.resolve import describe, explain_config, resolve, shown
    from lab.systems.openclaw.config.values import missing

    raw, where = _read(file)
    decided = explain_config(raw, profile, where=where, environ=os.environ)
    config = describe(resolve(raw, profile, where=where, environ=os.environ))
    sources = {"decided": [setting._asdict() for setting in decided], "missing": missing(raw)}

    def table(found: dict[str, Any]) -> None:
        rows = [[setting["key"], shown(setting["value"]), setting["by"]] for setting in found["decided"]]
        emit_table(["key", "value", "set by"], rows, left=3, whole_keys=True)
        _emit_missing(found["missing"])

    return Result({"file": where, "profile": profile, "config": config, **sources}, table)


def check(file: File = None, profile: Profile = "seed", host: HostVersion = None) -> Result:
    """List everything that is wrong in a configuration.

    A complete openclaw.json is checked like its host does. An error is a setting
    that the host refuses (exit code 1). A warning is a setting that the host
    accepts but that has no effect. A note is a value that the plugin changes
    silently. Features that the lab does not have are listed as "not implemented
    here". Only the sections meta and plugins are checked. Any other file is
    checked for the lab only, unless --host is given. Files that $include names
    and variables in ${NAME} are resolved as the host does.
    """
    from lab.runs.notes import config_note
    from lab.systems.openclaw.config.file import ENTRY, NOT_IN_SLOT, embedder_of, locate
    from lab.systems.openclaw.config.resolve import check_config, require_profile
    from lab.systems.openclaw.upstream.host import check_host, host_of, with_unset

    resolved, where = _resolved(file)
    value = resolved.value
    checked_host = host_of(value, host)
    if checked_host is None:
        resolved.require_set(())
        report, by = check_config(locate(value, where), profile, where=where), f"under profile {profile}"
    else:
        require_profile(profile)
        report, by = check_host(value, checked_host, where=where), f"that host {checked_host.version} refuses"
        report = with_unset(report, resolved, where)
        if not report.problems:
            locate(value, where)
    found = {
        "file": where,
        "profile": profile if checked_host is None else "upstream",
        "host": checked_host and checked_host._asdict(),
        "ok": not report.problems,
        "embedder": config_note(embedder_of(value)),
        **{name: list(lines) for name, lines in report._asdict().items()},
    }

    def lines(found: dict[str, Any]) -> None:
        if checked_host is not None:
            emit_folded(f"host: {checked_host}")
        if found["embedder"]:
            emit_folded(found["embedder"])
        if value is None:
            emit_folded(f"note: {where}: sets nothing, so every setting has its default")
        for kind, listed in (("error", "problems"), ("warning", "warnings"), ("note", "notes")):
            for line in found[listed]:
                emit_folded(line if kind == "error" and not found["host"] else f"{kind}: {line}")
        if file != STDIN and any(NOT_IN_SLOT in line for line in found["warnings"]):
            command = join(["lab", "canary", "run", where, "--slot", ENTRY, "--restart", "COMMAND"])
            emit_next("A canary switches the memory slot for a while, and back.", command)
        _emit_missing(found["missing"])
        if found["ok"]:
            emit_folded("ok (meta and plugins; openclaw config validate checks the rest)" if found["host"] else "ok")

    count = counted(len(report.problems), "problem")
    return Result(found, lines, error=CheckFailed(f"{where}: {count} {by}") if report.problems else None)


def _emit_missing(missing: Sequence[str]) -> None:
    """List the features that a configuration uses and the lab does not have, or has in one command alone."""
    from lab.systems.openclaw.config.values import NOT_HERE, STORE_ALONE, why_missing

    for why in (NOT_HERE, STORE_ALONE):
        if paths := [path for path in missing if why_missing(path) == why]:
            emit_folded(f"{why}: {', '.join(paths)}")


def _read(file: str | None) -> tuple[Any, str]:
    """Return the engine's configuration from a file or standard input, and the name for messages."""
    from lab.systems.openclaw.config.file import locate, read_keys

    resolved, where = _resolved(file)
    resolved.require_set(*read_keys(resolved.value))
    return locate(resolved.value, where), where


def _resolved(file: str | None) -> tuple[Resolved, str]:
    """Return the configuration in a file or in standard input, as its host uses it, and the name for messages."""
    from lab.base.config_env import config_named
    from lab.base.config_resolve import resolve_config, resolve_value
    from lab.base.config_text import parse_config

    if file != STDIN:
        named = config_named(None if file is None else Path(file))
        return resolve_config(named), str(named)
    try:
        value = parse_config(sys.stdin.buffer.read().decode("utf-8-sig"), "stdin")
    except UnicodeDecodeError as error:
        raise UnusableInput(f"stdin: not UTF-8 text (byte {error.start})") from None
    return resolve_value(value, Path("stdin")), "stdin"


# Of ``lab config``.
config = (show, check)
