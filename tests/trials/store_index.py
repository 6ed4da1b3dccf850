"""Time searches of a table of memories before and after indexes and upkeep, at several sizes.

    python tests/trials/store_index.py --rows 10000 100000 [--queries 200] [--dimension 384] [--commits 500]

The memories are sentences of words drawn by Zipf's law, in eight scopes, with random unit vectors of so many numbers.
They are written in so many commits, which leaves as many files. Each query searches words and vectors as a recall of
the engine does: one scope, two labels, the best 24 of each. Printed are the median and the 95th percentile of the
milliseconds of both searches together, and of each, for the table

* as it was written;
* with indexes on text and filters (``lab memory index build``);
* with an index on the vectors too (``lab memory index build --vector-from 256``);
* after upkeep (``lab memory index optimize``);
* with a tenth of new memories, in a hundred commits, that are in no index yet;
* after upkeep again.

Each state is measured after a warm-up. Wait for an idle machine: the load is printed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lab.memory.store.index import Status, Thresholds, build, status
from lab.memory.table.lance_table import LanceTable, TableSettings
from lab.retrieval.contract import Row
from lab.systems.openclaw.table.schema import VECTOR, Entry

WORDS, SCOPES, LIMIT, WARM = 5_000, 8, 24, 10
LABELS = ("must_remember", "nice_to_have", "unknown", "ignore")
NEVER = Thresholds()


class Drawn:
    """Sentences and vectors, from one seed."""

    def __init__(self, dimension: int) -> None:
        self.random = np.random.default_rng(0)
        self.dimension = dimension
        shares = 1 / np.arange(10, WORDS + 10)
        self.shares = shares / shares.sum()
        self.number = 0

    def text(self, words: int) -> str:
        """Return a sentence of so many words."""
        return " ".join(f"w{word:04d}" for word in self.random.choice(WORDS, words, p=self.shares))

    def vectors(self, count: int) -> np.ndarray:
        """Return unit vectors, float32 ``[count, dimension]``."""
        drawn = self.random.normal(size=(count, self.dimension)).astype(np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)  # type: ignore[no-any-return]  # norm() is untyped

    def entries(self, count: int) -> Iterator[Entry]:
        """Yield new memories."""
        for vector in self.vectors(count):
            self.number += 1
            identity, text = f"{self.number:08d}", self.text(14)
            scope, label = f"scope{self.random.integers(SCOPES)}", str(self.random.choice(LABELS))
            row = Row(
                identity, identity, text, text, 1_760_000_000_000 + self.number, "fact", label, scope, "user", 0.5
            )
            yield Entry(row, vector, "tool", "trial", "en")


def write(table: LanceTable, drawn: Drawn, rows: int, commits: int) -> None:
    """Append memories in so many commits."""
    for part in range(commits):
        table.add(list(drawn.entries(rows * (part + 1) // commits - rows * part // commits)))


def search(table: LanceTable, text: str, vector: Any, scope: str) -> tuple[float, float]:
    """Search words and vectors, and return the milliseconds of each."""
    from lancedb.query import MatchQuery

    where = f"scope = '{scope}' AND importance_label IN ('must_remember', 'nice_to_have')"

    def words(opened: Any) -> None:
        opened.search(MatchQuery(text, "text"), query_type="fts").where(where, prefilter=True).limit(LIMIT).to_arrow()

    def near(opened: Any) -> None:
        query = opened.search(vector, vector_column_name=VECTOR).distance_type("l2")
        query.where(where, prefilter=True).limit(LIMIT).to_arrow()

    took = []
    for lane in (words, near):
        started = time.perf_counter_ns()
        table.ask(lane)
        took.append((time.perf_counter_ns() - started) / 1e6)
    return took[0], took[1]


def measure(table: LanceTable, what: str, queries: int, dimension: int, seconds: float) -> None:
    """Print one row of the table."""
    drawn = Drawn(dimension)
    drawn.random = np.random.default_rng(1)
    vectors = drawn.vectors(queries + WARM)
    took = np.array(
        [search(table, drawn.text(6), vector, f"scope{drawn.random.integers(SCOPES)}") for vector in vectors][WARM:]
    )
    found: Status = status(table, NEVER)
    both = took.sum(axis=1)
    cells = [f"{np.quantile(times, share):.1f}" for times in (both, took[:, 0], took[:, 1]) for share in (0.5, 0.95)]
    size = f"{found.bytes / 1e6:.0f}"
    print(f"| {found.rows:,} | {what} | {found.fragments} | {size} | {seconds:.1f} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--commits", type=int, default=500)
    given = parser.parse_args()
    print("| rows | state | files | MB | s | both p50 | both p95 | words p50 | words p95 | vectors p50 | vectors p95 |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    settings = TableSettings(compact_every=1 << 30, compact_on_close=1 << 30)
    for rows in given.rows:
        drawn = Drawn(given.dimension)
        with (
            tempfile.TemporaryDirectory(prefix="store-index-") as home,
            LanceTable(Path(home) / "lancedb", create=given.dimension, settings=settings) as table,
        ):

            def timed(what: str, step: Any, table: LanceTable = table) -> Any:
                started = time.monotonic()
                done = step()
                measure(table, what, given.queries, given.dimension, time.monotonic() - started)
                return done

            timed("as written", lambda: write(table, drawn, rows, given.commits))  # noqa: B023 - called at once
            timed("indexes on text and filters", lambda: build(table, NEVER))
            done = timed("and on vectors", lambda: build(table, Thresholds(vector_rows=1)))
            timed("after upkeep", lambda: table.compact())
            timed("a tenth more", lambda: write(table, drawn, rows // 10, 100))  # noqa: B023 - called at once
            timed("after upkeep again", lambda: table.compact())
            print(f"vector index over {rows:,} rows: finds {done.agreement:.1%} of the nearest ten", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {given.queries} queries a row")


if __name__ == "__main__":
    main()
