"""What people and programs see: tables on stdout, one JSON object with ``--json``, everything else on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lab.formatting import without_credentials
from lab.report.tables import folded, text_table

# Findings of a kind that are printed.
SHOWN = 20
# What a terminal would obey and not show: control characters, and marks that reverse the direction of a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# What the log of a CI service would obey: GitHub's commands, at a line's start or in its older form anywhere.
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class OutputClosed(Exception):
    """Whoever read our output has closed it: there is nobody left to tell."""


def escape_controls(text: str) -> str:
    """Return ``text`` as a terminal and a CI log may show it: what either would obey is written as an escape.

    Ids, notes, labels and messages of other programs hold whatever their author put there. Line breaks and tabs stay;
    half a character, which no terminal can show, becomes a question mark.
    """
    text = text.encode("utf-8", "replace").decode()
    text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return _COMMAND.sub(lambda found: f"{found[1] or ''}\\u{ord(found[0][-1]):04x}", text)


def emit_json(value: Any) -> None:
    """Print one JSON object. It starts with a brace, so no line of it is a command."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    _write(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def emit(text: str = "") -> None:
    """Print a line, made :func:`escape_controls`."""
    _write(escape_controls(text))


def _write(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        raise OutputClosed from None


def emit_folded(text: str) -> None:
    """Print a sentence, folded at 80 columns."""
    emit(folded(text))


def emit_trial(reasons: Sequence[str]) -> None:
    """Print what makes a run a trial, first of all; nothing where it is none."""
    from lab.runs.trial import trial_line

    if said := trial_line(reasons):
        emit_folded(said)


def emit_notes(notes: Sequence[str]) -> None:
    """Print sentences, each folded at 80 columns."""
    for note in notes:
        emit_folded(note)


def emit_list(kind: str, lines: Sequence[str]) -> None:
    """Print findings, a line each; of many the first alone."""
    for line in lines[:SHOWN]:
        emit_folded(f"{kind}: {line}")
    if len(lines) > SHOWN:
        emit(f"{kind}: … and {len(lines) - SHOWN} more (--json lists all)")


def announce(text: str) -> None:
    """Say something about progress, on stderr."""
    sys.stderr.write(escape_controls(without_credentials(text)) + "\n")
    sys.stderr.flush()


def command_ci(command: str) -> None:
    """Give a command to the CI service, on stderr: a line that it obeys, whose data the caller has escaped."""
    sys.stderr.write(_CONTROL.sub("?", command) + "\n")
    sys.stderr.flush()


def complain(text: str) -> None:
    """Say what went wrong, in one line, on stderr."""
    sys.stderr.write(escape_controls(without_credentials(f"error: {' '.join(text.split())}")) + "\n")


def emit_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, *, whole_keys: bool = False
) -> None:
    """Print a table; see :func:`lab.report.tables.text_table`."""
    emit(text_table(headers, rows, left, whole_keys=whole_keys))
