"""Output of commands: text and tables or, with ``--json``, one JSON object on stdout; progress and errors on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.formatting import CONTROL, visible, without_credentials
from lab.report.tables import folded, text_table

if TYPE_CHECKING:
    from lab.gate.verdict import Verdict

# Number of findings of a kind to print.
SHOWN = 20
# Workflow commands of GitHub Actions: at the start of a line, or in the older form anywhere.
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class OutputClosed(Exception):
    """The reader of stdout closed the pipe."""


def escape_controls(text: str) -> str:
    """Return ``text`` with everything that could control a terminal or a CI log as a visible escape.

    Ids, notes, labels and messages of other programs are untrusted. Line breaks and tabs stay. A lone surrogate, which
    a terminal cannot show, becomes a question mark.
    """
    return _COMMAND.sub(lambda match: f"{match[1] or ''}\\u{ord(match[0][-1]):04x}", visible(text))


def emit_json(value: Any) -> None:
    """Print one JSON object. It starts with a brace, so a CI log cannot take it for a command."""
    _write(visible(json.dumps(value, ensure_ascii=False)))


def emit(text: str = "") -> None:
    """Print a line, escaped by :func:`escape_controls`."""
    _write(escape_controls(text))


def _write(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        raise OutputClosed from None


def emit_folded(text: str, indent: str = "") -> None:
    """Print a sentence, folded at 80 columns, every line with the indent."""
    emit(folded(text, indent))


def emit_trial(reasons: Sequence[str]) -> None:
    """Print why a run is only a trial; print nothing if it is not."""
    from lab.runs.trial import trial_line

    if warning := trial_line(reasons):
        emit_folded(warning)


def emit_notes(notes: Sequence[str]) -> None:
    """Print sentences, each folded at 80 columns."""
    for note in notes:
        emit_folded(note)


def emit_list(kind: str, lines: Sequence[str]) -> None:
    """Print findings, one per line, up to :data:`SHOWN`."""
    for line in lines[:SHOWN]:
        emit_folded(f"{kind}: {line}")
    if len(lines) > SHOWN:
        emit(f"{kind}: … and {len(lines) - SHOWN} more (--json lists all)")


def announce(text: str) -> None:
    """Print a line of progress to stderr."""
    sys.stderr.write(escape_controls(without_credentials(text)) + "\n")
    sys.stderr.flush()


def announce_folded(text: str) -> None:
    """Print a sentence to stderr, folded at 80 columns; later lines are indented."""
    announce(folded(text, "  ").lstrip(" "))


def report_to_ci(verdicts: Sequence[Verdict]) -> None:
    """On GitHub Actions, append verdicts to the step summary, and print them as workflow commands to stderr.

    Raises :class:`lab.errors.CannotWrite` if the summary cannot be written.
    """
    from lab.files import cannot_write
    from lab.gate.outputs import summary, workflow_commands

    step_summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not step_summary:
        return
    try:
        with Path(step_summary).open("a", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(map(summary, verdicts)))
    except OSError as error:
        raise cannot_write(Path(step_summary), error) from error
    for verdict in verdicts:
        for command in workflow_commands(verdict):
            sys.stderr.write(CONTROL.sub("?", command) + "\n")
    sys.stderr.flush()


def complain(text: str) -> None:
    """Print an error message to stderr, on one line."""
    sys.stderr.write(escape_controls(without_credentials(f"error: {' '.join(text.split())}")) + "\n")


def emit_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, *, whole_keys: bool = False
) -> None:
    """Print a table; see :func:`lab.report.tables.text_table`."""
    emit(text_table(headers, rows, left, whole_keys=whole_keys))
