"""Options that ``lab canary run``, ``recover`` and ``watch`` share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.config_env import config_named, config_of
from lab.base.errors import UnusableInput

if TYPE_CHECKING:
    from lab.base.config_resolve import Resolved

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Restarts of real hosts with their plugins took 50 to 200 s.
TIMEOUT = "10m"
Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="The gateway's openclaw.json (JSON5), a link to it, or its folder. [default: OPENCLAW_CONFIG_PATH, or the "
        "file in OPENCLAW_STATE_DIR or ~/.openclaw]",
        # Of a folder and of the default, the file that the host reads.
        default_factory=lambda: config_of(),
        callback=lambda given: config_named(given),
        show_default=False,
    ),
]
Restart = Annotated[str, typer.Option("--restart", help="The command that restarts the gateway.")]
Check = Annotated[
    str | None, typer.Option("--check", help="A command that succeeds once the gateway is up, such as curl -fsS URL.")
]
Timeout = Annotated[str, typer.Option("--timeout", help="The longest time of a restart with its check.")]


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a period such as ``90s``, ``30m``, ``4h`` or ``1d``; a bare number is one of seconds."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)\s?(?:([smhd])|sec|seconds?)?", text.strip().lower())
    if not match or not float(match[1]):
        raise UnusableInput(f"{option} {text!r}: expected a period such as 90s, 30m, 4h or 1d, or a number of seconds")
    return float(match[1]) * UNITS[match[2] or "s"]


def require_command(restart: str) -> None:
    """Raise :class:`UnusableInput` for a blank ``--restart``."""
    if not restart.strip():
        raise UnusableInput("--restart: needs a command, such as 'systemctl --user restart openclaw-gateway'")


def log_file(given: Path | None, resolved: Resolved) -> Path:
    """Return the given log, else the one that a configuration names.

    Raises :class:`UnusableInput` if it names none, or one by a variable that is not set.
    """
    from lab.canary.rollout.follow import log_of
    from lab.canary.rollout.journal import real

    if given is None:
        resolved.require_set(("logging", "file"))
    found = given or log_of(resolved.value, real(resolved.config))
    if found is None:
        raise UnusableInput(f"{resolved.name}: names no logging.file; name the gateway's log with --log")
    return found
