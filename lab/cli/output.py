"""What people and programs see: tables on stdout, one JSON object with ``--json``, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from textwrap import fill
from typing import Annotated, Any

import typer

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
    emit(fill(text, 80, break_long_words=False, break_on_hyphens=False))


def emit_list(kind: str, lines: Sequence[str]) -> None:
    """Print findings, a line each; of many the first alone."""
    for line in lines[:SHOWN]:
        emit_folded(f"{kind}: {line}")
    if len(lines) > SHOWN:
        emit(f"… and {len(lines) - SHOWN} more {kind}s (--json lists all)")


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
    """Print a table.

    The first ``left`` columns stand to the left, the others to the right; None is a dash. rich keeps it to the width of
    the terminal. The first column is not broken where there are more than three, or ``whole_keys`` asks for it.
    """
    from rich import box
    from rich.console import Console, JustifyMethod
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for place, header in enumerate(headers):
        side: JustifyMethod = "left" if place < left else "right"
        table.add_column(header, justify=side, overflow="fold", no_wrap=place == 0 and (whole_keys or len(headers) > 3))
    for row in rows:
        table.add_row(*(show(cell) for cell in row))
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        emit(line.rstrip())


def show(value: object) -> str:
    """A cell: numbers to three decimals, large ones to none, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"
    return str(value)
