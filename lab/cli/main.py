"""The command ``lab``. Each subcommand is a thin layer over the function of the same name.

A command's module is imported when the command is called (:mod:`lab.cli.sections`), so that ``lab --help`` is fast.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

from lab.base.errors import LabError, UnusableInput, describe_unexpected
from lab.base.processes import set_up
from lab.base.streams import failure
from lab.cli.output import announce, complain, end_progress
from lab.cli.sections import SectionedHelp
from lab.cli.values import convert_plainly

INTERRUPTED = 130
# Errors that mean the path itself is unusable: no permission, or an invalid name.
UNUSABLE_PATH = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
# Commands that return if what they check is sound: their exit code is a verdict, as that of a gate.
CHECKS = (
    "doctor",
    "diff",
    "cache verify",
    "canary audit",
    "canary recover",
    "config check",
    "gate self-test",
    "golden lint",
    "memory facts lint",
    "memory graph path",
    "memory index",
    "memory ledger drift",
    "memory ledger grade",
    "memory tags list",
    "nightly baseline list",
    "recordings validate",
)

# Earlier option -> an option of the commands that had it, and what to write instead.
EARLIER_OPTIONS = {
    "--yes": ("--write", "--yes is now --write"),
    "--dry-run": ("--write", "there is no --dry-run: without --write, nothing is changed"),
    "--receipts": ("--inconclusive-as", "lab gate --receipts AUDIT is now lab gate AUDIT"),
    "--force": ("--max-fragments", "there is no --force: lower --max-fragments or --max-unindexed"),
}

app = typer.Typer(
    name="lab",
    cls=SectionedHelp,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Replay recorded conversations through memory systems of AI agents and measure what they recall.",
    epilog="Exit codes: 0 success, 1 the checked thing failed, 2 unusable input or usage, "
    "3 inconclusive or not comparable, 4 could not measure, 130 interrupted.",
)


def _print_version(version: bool) -> None:
    if version:
        from lab import __version__

        typer.echo(f"lab {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Define the options of ``lab`` itself."""


def _save_traceback(error: Exception) -> str:
    """Save the traceback to a file that only its owner can read, because it may quote texts. Return a message."""
    import tempfile
    import traceback

    try:
        handle, name = tempfile.mkstemp(prefix="lab-trace-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return "the traceback could not be saved"
    return f"the traceback is in {name} (it may quote your texts)"


def main(program: typer.Typer | None = None) -> None:
    """Run a command of ``lab``, or of another program; exit with 0, or with the code of its error."""
    set_up()
    convert_plainly()
    try:
        code = (program or app)(standalone_mode=False)
        end_progress()
        sys.stdout.flush()
    except LabError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno in UNUSABLE_PATH and error.filename:
            complain(f"{error.filename}: {error.strerror}")
            sys.exit(UnusableInput.exit_code)
        from lab.base.files import DISK_FULL

        if error.errno in DISK_FULL:
            # The file is an output, or a temporary file of a library.
            complain(f"cannot write {error.filename or 'any more'}: {error.strerror}")
        else:
            complain(f"{describe_unexpected(error)}; {_save_traceback(error)}")
        sys.exit(LabError.exit_code)
    except typer.TyperException as error:
        end_progress()
        # A usage error prints itself with the usage of its command; any other has only a message.
        show, earlier = getattr(error, "show", None), _earlier_option(error)
        show() if show and not earlier else complain(earlier or error.format_message())
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        # Never exit with 1: from a gate that means that the candidate failed.
        complain(f"{describe_unexpected(error)}: a bug in the lab, not in your input; {_save_traceback(error)}")
        sys.exit(LabError.exit_code)
    if code == INTERRUPTED:
        complain("interrupted; run the same command again to continue")
    sys.exit(_exit_code(code))


def _earlier_option(error: typer.TyperException) -> str:
    """Return what to write instead of an option that the command had earlier; blank for any other error."""
    beside, answer = EARLIER_OPTIONS.get(getattr(error, "option_name", ""), ("", ""))
    context = getattr(error, "ctx", None)
    known = [name for parameter in context.command.params for name in parameter.opts] if context else []
    return answer if beside in known else ""


def _exit_code(code: object) -> int:
    """Return the exit code of a command that returned, or that gave a verdict with its own code.

    A stdout that takes no more leaves a verdict as it is. A command without one has then lost what it was run for.
    """
    error = failure()
    if error is None:
        return code if isinstance(code, int) else 0
    lost = f"stdout: cannot write any more: {error.strerror}; what was printed is incomplete"
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if isinstance(code, int) or any(" ".join(words[:count]) in CHECKS for count in (1, 2, 3)):
        announce(f"warning: {lost}; the exit code is that of the verdict")
        return code if isinstance(code, int) else 0
    complain(lost)
    return LabError.exit_code
