"""The command ``lab``: typer commands, each a few lines over the function of the same name.

Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from lab.cli import (
    ablate,
    baseline,
    cache,
    checks,
    compare,
    config,
    conformance,
    demo,
    diff,
    gate,
    golden,
    latency,
    migrate,
    nightly,
    receipts,
    recordings,
    replay,
    report,
    runs,
    saturation,
    sweep,
    trec,
    view,
)
from lab.cli.output import OutputClosed, complain
from lab.errors import LabError, UnusableInput, describe_unexpected
from lab.files import DISK_FULL
from lab.processes import set_up

INTERRUPTED = 130
# What the system says of a path that nobody can work with: it may not be looked at, or is none.
NO_NAME = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)

app = typer.Typer(
    name="lab",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Replay recorded conversations through an agent-memory engine and measure what it recalls.",
    epilog="Exit codes: 0 done, 1 the thing checked failed, 2 unusable input or usage, "
    "3 inconclusive, or not comparable, 4 could not measure, 130 interrupted.",
)
for room in (
    demo,
    replay,
    compare,
    report,
    view,
    diff,
    gate,
    baseline,
    nightly,
    ablate,
    saturation,
    sweep,
    latency,
    recordings,
    golden,
    config,
    conformance,
    receipts,
    trec,
    runs,
    migrate,
    cache,
    checks,
):
    room.add_to(app)


def _print_version(asked: bool) -> None:
    if asked:
        from lab import __version__

        typer.echo(f"lab {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options of the command itself."""


def _traced(error: Exception) -> str:
    """Keep the traceback in a file that its owner alone can read, for it may quote a text; say where it lies."""
    import tempfile
    import traceback

    try:
        handle, name = tempfile.mkstemp(prefix="lab-trace-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return "its traceback could not be kept"
    return f"its traceback is in {name}, which may quote your texts"


def main() -> None:
    """Run a command and end with the exit code of what went wrong, if anything did."""
    set_up()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except LabError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno in NO_NAME and error.filename:
            complain(f"{error.filename}: {error.strerror}")
            sys.exit(UnusableInput.exit_code)
        if error.errno in DISK_FULL:
            # Of output, or of a temporary file below us.
            complain(f"cannot write {error.filename or 'any more'}: {error.strerror}")
        else:
            complain(f"{describe_unexpected(error)}; {_traced(error)}")
        sys.exit(LabError.exit_code)
    except typer.TyperException as error:
        # A usage error knows how to show itself, with the usage of its command; any other is a sentence.
        show = getattr(error, "show", None)
        show() if show else complain(error.format_message())
        sys.exit(error.exit_code)
    except (OutputClosed, BrokenPipeError):
        # What is still in the buffer must go somewhere when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        # Never 1: to whoever asked a gate, that says that the candidate failed.
        complain(f"{describe_unexpected(error)}: a defect of the lab, not of your input; {_traced(error)}")
        sys.exit(LabError.exit_code)
    if code == INTERRUPTED:
        complain("interrupted; run the same command again to go on")
    sys.exit(code if isinstance(code, int) else 0)
