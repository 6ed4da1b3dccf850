"""``lab memory ledger drift``: show how importance labels change over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed
from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table
from lab.recordings.model import LABELS, TIER_OF, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.memory.ledger.drift import Part

# Periods and scopes that are printed; --json and the page have more.
SHOWN = 14


def add_to(ledger: typer.Typer) -> None:
    """Register the command."""
    ledger.command("drift")(drift)


def drift(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A ledger, a LanceDB folder with memories.lance, or a run directory.")
    ],
    by: Annotated[str, typer.Option(help="day or week (ISO 8601), in UTC.")] = "day",
    arm: Annotated[
        str | None, typer.Option(help="Of a run: what this arm injected, instead of the memories of the recordings.")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Of a ledger: only observations of this tool.")] = None,
    most_unknown: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Fail if the newest period has a larger share of unknown memories."),
    ] = None,
    most_change: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Fail if the newest period differs by more from those before (p < .05)."),
    ] = None,
    thresholds: Annotated[
        bool,
        typer.Option(
            "--thresholds",
            help="Grade all memories by heuristic-v1: their labels if must_remember began at .50 to .95.",
        ),
    ] = False,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Show the shares of labels by period and scope.

    Exit code 1: the newest period exceeds --most-unknown or --most-change.
    """
    from lab.memory.ledger.drift import drift as of
    from lab.memory.ledger.drift import nouns, read, write_page

    found = of(read(path, arm=arm, tool=tool, graded=thresholds), by)
    if page is not None:
        write_page(found, path.name, page)
    if as_json:
        emit_json({"path": str(path), **found.describe()})
    else:
        rows = nouns(found.kind)
        _show(by, rows, found.periods[-SHOWN:], len(found.periods))
        emit()
        _show("scope", rows, found.scopes[:SHOWN], len(found.scopes))
        if found.thresholds:
            emit()
            _show("must from", rows, found.thresholds, len(found.thresholds))
        if found.undated:
            emit(f"Without a time, in no {by}: {found.undated}.")
        if found.change is not None:
            emit_folded(
                f"The labels of {found.periods[-1].name} differ from those before by {found.change.distance:.3f} "
                f"(total variation distance, p {found.change.p:.3f})."
            )
        if page is not None:
            emit(f"Page: {page}")
    failed = []
    newest = found.periods[-1] if found.periods else None
    if newest is not None and most_unknown is not None and newest.share(UNKNOWN) > most_unknown:
        failed.append(f"{newest.share(UNKNOWN):.1%} of {newest.name} are unknown, more than {most_unknown:.1%}")
    change = found.change
    if newest is not None and change and most_change is not None and change.distance > most_change and change.p < 0.05:
        failed.append(f"{newest.name} differs from before by {change.distance:.3f}, more than {most_change:.3f}")
    if failed:
        raise CheckFailed(f"{path}: {'; '.join(failed)}")


def _show(name: str, rows: str, parts: Sequence[Part], total: int) -> None:
    emit_table(
        [name, rows, *TIER_OF.values()],
        [[part.name, part.total, *(f"{part.share(label):.1%}" for label in LABELS)] for part in parts],
        left=1,
    )
    if total > len(parts):
        emit(f"… of {total}; --json has all.")
