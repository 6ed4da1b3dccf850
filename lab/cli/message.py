"""``lab nightly message``: a verdict as a message to a channel or a mailbox."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.cli.output import emit, emit_json
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.report.message import Message


def message(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="The folder of a nightly run, of a judged run or of a verdict; or a file with what lab gate, "
            "lab nightly run or lab acceptance printed with --json.",
        ),
    ],
    form: Annotated[str, typer.Option("--as", metavar="FORM", help="text, slack or email.")] = "text",
    to: Annotated[
        list[str] | None, typer.Option("--to", metavar="ADDRESS", help="Who gets the e-mail. Repeat for more.")
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--from", metavar="ADDRESS", help="Who sends the e-mail. [default: left to sendmail]")
    ] = None,
    link: Annotated[
        str | None, typer.Option("--link", metavar="URL", help="Where readers find the page. [default: its path]")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", help="Standard error of the command, for a message if it ended without a verdict."),
    ] = None,
) -> Result:
    """Write a verdict as a message: text, Slack or e-mail.

    It says what was decided, why, and what to do, in names, keys and numbers, with
    no text of a turn or a memory. Sends nothing: pipe it into sendmail -t or curl.
    Exit code 0 whatever the verdict is.
    """
    from lab.report.message import as_email, as_slack, as_text, message_at

    shown: dict[str, Callable[[Message], object]] = {
        "text": lambda made: emit(as_text(made).rstrip("\n")),
        "slack": lambda made: emit_json(as_slack(made)),
        "email": lambda made: sys.stdout.write(as_email(made, to or (), sender).decode("ascii")),
    }
    if form not in shown:
        raise UnusableInput(f"--as: unknown form {form!r}; {choices(form, shown)}")
    if form != "email" and (to or sender):
        raise UnusableInput("--to, --from: are for --as email")
    return Result(message_at(path, link, log), shown[form])
