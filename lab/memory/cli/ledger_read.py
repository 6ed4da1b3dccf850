"""``lab memory ledger search``, ``timeline``, ``get`` and ``drift``: find observations, and see labels change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted, shortened
from lab.base.regex import regex
from lab.cli.options import in_utc
from lab.cli.output import emit, emit_folded, emit_table
from lab.cli.results import Result
from lab.memory.ledger import ledger as stored
from lab.memory.ledger import search as searching
from lab.memory.ledger.archive import Pointer, pointer
from lab.memory.ledger.grading import label_of
from lab.memory.ledger.ledger import Observation, open_ledger
from lab.recordings.model import LABELS, TIER_OF, UNKNOWN
from lab.report.tables import folded

if TYPE_CHECKING:
    from lab.memory.ledger.drift import Drift, Part

# A fraction of a second, which a table has no room for.
_FRACTION = regex(r"(?<=:\d\d)\.\d+")
Ledger = Annotated[Path, typer.Argument(metavar="LEDGER", help="The SQLite file of the ledger.")]
Profile = Annotated[str, typer.Option(help="seed, or upstream to behave like the public sidecar.")]
# Periods and scopes that are printed; --json and the page have more.
PARTS_SHOWN = 14


def identity(text: str) -> int:
    """Return the id in ``2`` or ``obs:2``, as packs cite it; raise :class:`UnusableInput` for anything else."""
    if found := searching.ids_in(text):
        return found[0]
    raise UnusableInput(f"{text!r}: is no id of an observation; give a number, or obs: and a number, as in obs:2")


Ids = Annotated[
    list[int],
    typer.Argument(metavar="ID...", parser=identity, help="Ids of observations: 2, or obs:2 as packs cite them."),
]


Scope = Annotated[str | None, typer.Option(help="Only observations of this scope.")]


# Characters of a summary in a table.
SHOWN = 70


# The searches of a ledger, as a receipt names them, in words.
LANES = {
    "fts_original": "full text",
    "fts_en": "full text of English summaries",
    "cjk_like": "substrings",
    "trigram": "trigrams",
}


def search(
    ledger: Ledger,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, or a query in the syntax of FTS5.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of results.")] = 20,
    scope: Scope = None,
    archived: Annotated[bool, typer.Option("--archived", help="Soft-archived observations as well.")] = False,
    by: Annotated[
        str, typer.Option(help="composite (relevance, importance, age, use and state) or relevance alone.")
    ] = "composite",
    now: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            callback=in_utc,
            help="The day (UTC) that ages are measured to. [default: today]",
        ),
    ] = None,
    profile: Profile = "seed",
) -> Result:
    """Search a ledger by words."""
    if by not in ("composite", "relevance"):
        raise UnusableInput(f"--by {by}: expected composite or relevance")
    with open_ledger(ledger) as connection:
        found = searching.search(
            connection,
            query,
            now=now or datetime.now(UTC),
            limit=limit,
            scope=scope,
            include_archived=archived,
            composite=by == "composite",
            upstream=is_upstream(profile),
        )
    return Result(found, _show_found, _found_json)


def _show_found(found: searching.Found) -> None:
    if found.hits:
        _emit_rows([hit.row for hit in found.hits])
    if found.retried is not None:
        searched = f"searched for {found.retried}" if found.retried else "it has no word to search for"
        emit_folded(f"The query is not in the syntax of FTS5; {searched}.")
    hits = ", ".join(f"{LANES[name]} {count}" for name, count in found.receipt["lane_hits"].items() if count)
    emit(f"{counted(len(found.hits), 'result')}. Candidates by kind of search: {hits or 'none'}.")


def _found_json(found: searching.Found) -> dict[str, Any]:
    results = [
        {
            **_row(hit.row),
            "score": hit.score,
            "lanes": list(hit.lanes),
            **({"factors": hit.factors._asdict(), "final_score": hit.factors.score} if hit.factors else {}),
        }
        for hit in found.hits
    ]
    return {"receipt": found.receipt, "retried": found.retried, "results": results}


def timeline(
    ledger: Ledger,
    ids: Ids,
    window: Annotated[int, typer.Option(min=0, max=1000, help="Number of ids before and after each.")] = 4,
) -> Result:
    """Show what was ingested around observations.

    Those that are named are marked with >.
    """
    around = {near for number in ids for near in range(number - window, number + window + 1)}
    with open_ledger(ledger) as connection:
        rows = stored.get(connection, around)
    return Result(
        rows,
        lambda rows: _emit_rows(rows, marked=ids),
        lambda rows: {"observations": [_row(row) for row in rows]},
        error=_missing(ids, rows),
    )


def get(
    ledger: Ledger,
    ids: Ids,
    raw: Annotated[bool, typer.Option("--raw", help="Also show the line of the log that each came from.")] = False,
) -> Result:
    """Show observations with all fields and where they came from.

    Long fields are folded; --json has them as they are.
    """
    with open_ledger(ledger) as connection:
        rows = stored.get(connection, ids)
        error = _missing(ids, rows)
        pointers = {row.id: pointer(connection, row.id) for row in rows}
    lines = {number: place.read() for number, place in pointers.items() if place and raw}

    def show(rows: list[Observation]) -> None:
        for row in rows:
            place = pointers[row.id]
            fields = {**_row(row), "detail": _shown(row.detail)}
            fields["source"] = f"{place.log}, line {place.line}" if place else None
            fields |= {"raw": lines.get(row.id)} if raw else {}
            for name, value in fields.items():
                emit(folded(f"{name}: {'-' if value is None else value}", "  ").lstrip(" "))
            emit()

    def json(rows: list[Observation]) -> dict[str, Any]:
        return {"observations": [_all_fields(row, pointers[row.id], lines.get(row.id)) for row in rows]}

    return Result(rows, show, json, error=error)


def is_upstream(profile: str) -> bool:
    """Return whether a profile is ``upstream``; raise :class:`UnusableInput` for an unknown one."""
    if profile not in ("seed", "upstream"):
        raise UnusableInput(f"--profile {profile}: expected seed or upstream")
    return profile == "upstream"


def _missing(ids: list[int], rows: list[Observation]) -> UnusableInput | None:
    """Return the error of ids that the ledger lacks, None if it has all; raise it if it has none."""
    known = {row.id for row in rows}
    missing = sorted(set(ids) - known)
    error = UnusableInput(f"the ledger has no observation {', '.join(map(str, missing[:5]))}")
    if not known & set(ids):
        raise error
    return error if missing else None


def _all_fields(row: Observation, place: Pointer | None, line: str | None) -> dict[str, Any]:
    source: dict[str, Any] | None = None
    if place is not None:
        source = {"log": str(place.log), "line": place.line, "byte": place.position, "length": place.length}
        source |= {} if line is None else {"raw": line}
    return {**_row(row), "detail": row.detail, "source": source}


def _shown(detail: dict[str, Any]) -> str:
    """Return a detail as JSON, its numbers without the error of binary fractions: 0.45, not 0.44999999999999996."""
    text = json.dumps(detail, ensure_ascii=False)
    return json.dumps(json.loads(text, parse_float=lambda number: float(f"{float(number):.15g}")), ensure_ascii=False)


def _row(row: Observation) -> dict[str, Any]:
    fields = row._asdict()
    del fields["detail_json"]
    return fields


def _emit_rows(rows: list[Observation], marked: Sequence[int] = ()) -> None:
    cells = [
        [
            row.id,
            _FRACTION.sub("", row.ts),
            row.kind or "-",
            row.tool_name or "-",
            label_of(row.detail),
            shortened(row.summary or "", SHOWN),
        ]
        for row in rows
    ]
    headers = ["id", "time", "kind", "tool", "label", "summary"]
    if marked:
        cells = [[">" if row.id in marked else "", *line] for row, line in zip(rows, cells, strict=True)]
        headers = ["", *headers]
    emit_table(headers, cells, left=len(headers))


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
) -> Result:
    """Show the shares of labels by period and scope.

    Exit code 1: the newest period exceeds --most-unknown or --most-change.
    """
    from lab.memory.ledger.drift import drift as of
    from lab.memory.ledger.drift import nouns, read, write_page

    found = of(read(path, arm=arm, tool=tool, graded=thresholds), by)
    if page is not None:
        write_page(found, path.name, page)

    def show(found: Drift) -> None:
        rows = nouns(found.kind)[1]
        _emit_parts(by, rows, found.periods[-PARTS_SHOWN:], len(found.periods))
        emit()
        _emit_parts("scope", rows, found.scopes[:PARTS_SHOWN], len(found.scopes))
        if found.thresholds:
            emit()
            _emit_parts("must from", rows, found.thresholds, len(found.thresholds))
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
    error = CheckFailed(f"{path}: {'; '.join(failed)}") if failed else None
    return Result(found, show, lambda found: {"path": str(path), **found.describe()}, error=error)


def _emit_parts(name: str, rows: str, parts: Sequence[Part], total: int) -> None:
    emit_table(
        [name, rows, *TIER_OF.values()],
        [[part.name, part.total, *(f"{part.share(label):.1%}" for label in LABELS)] for part in parts],
        left=1,
    )
    if total > len(parts):
        emit(f"… of {total}; --json has all.")
