"""The files of a league for other programs: league.json, league.csv and times.csv (LG-18)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from lab.base.files import dump_json, write_atomically
from lab.measures.latency import Quantile
from lab.studies.league.league import League
from lab.studies.league.table import BOUNDED, COLUMNS

JSON, CSV, TIMES_CSV = "league.json", "league.csv", "times.csv"
OWN = "own"


def write_outputs(league: League, out: Path) -> list[Path]:
    """Write the files into the folder of the league; return their paths."""
    files = {
        out / JSON: dump_json(league.as_json()),
        out / CSV: _csv(_header(), _rows(league)),
        out / TIMES_CSV: _csv(_TIMES, _times(league)),
    }
    for path, content in files.items():
        write_atomically(path, content)
    return list(files)


def _header() -> list[str]:
    columns = ["set", "arm", "status", "budget", "conversations"]
    for name in COLUMNS:
        columns += [name, f"{name}_n"]
        if name in BOUNDED:
            columns += [f"{name}_low", f"{name}_high"]
    return columns


def _rows(league: League) -> list[list[object]]:
    statuses = {standing.arm: standing.status for standing in league.standings}
    rows: list[list[object]] = []
    for row in (*league.overall, *league.rows):
        cells: list[object] = [row.set, row.arm, statuses[row.arm], row.budget or OWN, row.conversations]
        for name in COLUMNS:
            cell = row.cells.get(name)
            cells += ["", ""] if cell is None else [_number(cell.mean), cell.n]
            if name in BOUNDED:
                cells += ["", ""] if cell is None else [_number(cell.low), _number(cell.high)]
        rows.append(cells)
    return rows


_TIMES = (
    "set",
    "arm",
    "budget",
    "embeds",
    "recalls",
    "p50_ms",
    "p95_ms",
    "sampled",
    "p50_with_embedding_ms",
    "p95_with_embedding_ms",
)


def _times(league: League) -> list[list[object]]:
    return [
        [
            times.set,
            times.arm,
            times.budget or OWN,
            str(times.embeds).lower(),
            times.recall.n,
            _ms(times.recall.p50),
            _ms(times.recall.p95),
            times.with_embedding.n,
            _ms(times.with_embedding.p50),
            _ms(times.with_embedding.p95),
        ]
        for times in league.times
    ]


def _ms(value: Quantile | None) -> str:
    return "" if value is None else f"{value.value:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
