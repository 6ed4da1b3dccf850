"""What people and programs see: tables on stdout, one JSON object with ``--json``, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lab.report.tables import folded, text_table

# Findings of a kind that are printed.
SHOWN = 20
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class ReaderLeft(Exception):
    """Whoever read our output has closed it: there is nobody left to tell."""


def emit_json(value: Any) -> None:
    """Print one JSON object."""
    emit(json.dumps(value, ensure_ascii=False))


def emit(text: str = "") -> None:
    """Print a line; half a character, which no terminal can show, becomes a question mark."""
    try:
        sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")
    except BrokenPipeError:
        raise ReaderLeft from None


def emit_folded(text: str) -> None:
    """Print a sentence, folded at 80 columns."""
    emit(folded(text))


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
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def complain(text: str) -> None:
    """Say what went wrong, in one line, on stderr."""
    sys.stderr.write(f"error: {' '.join(text.split())}\n")


def emit_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, *, whole_keys: bool = False
) -> None:
    """Print a table; see :func:`lab.report.tables.text_table`."""
    emit(text_table(headers, rows, left, whole_keys=whole_keys))
