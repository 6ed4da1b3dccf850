"""Time storing, importing and recalling on a LanceDB folder, with given vectors: no embedder runs.

    python tests/benchmarks/memory_store.py [--count 1000] [--dimension 1536] [--repeats 3]

* one by one: ``memory_store``, one commit a memory, the lock held; closing and its compaction are part of it;
* import: ``memory_import`` of one JSON Lines file in one commit, reading the file included: of texts whose vectors the
  embedder hands out, as in the measurement of the plugin, and of records with their vectors in the file;
* recall: :meth:`LanceTable.nearest` and reading all rows, in a fresh handle, after either way and after a bulk load.

The process opens the table once; starting Python and loading libraries is left out, as in the measurement of the
public plugin (20.7 s for 1,000 stores, 172 ms for an import, on two cores under a load of 2.3 to 5).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from lab.memory.table.lance_table import LanceTable
from lab.memory.tools.context import ToolContext
from lab.memory.tools.importing import memory_import
from lab.memory.tools.store import memory_store
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.table.schema import Entry

PLUGIN_SECONDS = 20.7
WORDS = ("kettle", "lamp", "shelf", "harbour", "garden", "ledger", "window", "bridge", "invoice", "teapot", "river")


def context_of(table: LanceTable, vectors: np.ndarray) -> ToolContext:
    """Return a context whose embedder hands out vectors made beforehand."""
    given = iter(vectors.tolist())

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [next(given) for _ in texts]

    config = resolve(None, "seed")
    return ToolContext(
        table, config, lambda: time.time_ns() // 1_000_000, lambda: str(uuid.uuid4()), embed, table.dimension
    )


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds and CPU seconds."""
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    spent, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    return spent, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def recall_ms(folder: Path, vectors: np.ndarray) -> tuple[float, float]:
    """Return the median milliseconds of a vector search, and of reading all rows, in a fresh handle."""
    with LanceTable(folder, read_only=True) as table:
        table.nearest(vectors[0].tolist(), 8)
        searches = [timed(lambda at=at: table.nearest(vectors[at].tolist(), 8))[0] for at in range(40)]
        rows = [timed(table.contents)[0] for _ in range(5)]
    return 1000 * statistics.median(searches), 1000 * statistics.median(rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=1536)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((given.count, given.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [f"{' '.join(draw.choice(WORDS, 14))} {number}" for number in range(given.count)]
    results: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        results.setdefault(name, []).append(value)

    for _ in range(given.repeats):
        with tempfile.TemporaryDirectory(prefix="memory-store-") as home:
            plain, full = Path(home) / "texts.jsonl", Path(home) / "vectors.jsonl"
            ids = [str(uuid.uuid4()) for _ in texts]
            records = [{"id": key, "text": text} for key, text in zip(ids, texts, strict=True)]
            plain.write_text("".join(json.dumps(record) + "\n" for record in records))
            numbers = vectors.round(6).tolist()
            full.write_text(
                "".join(json.dumps(r | {"vector": v}) + "\n" for r, v in zip(records, numbers, strict=True))
            )
            one, many, bulk = (Path(home) / name for name in ("one", "many", "bulk"))
            table = LanceTable(one, create=given.dimension)
            context = context_of(table, vectors)
            single = table

            def store(context: ToolContext = context, table: LanceTable = single) -> None:
                for text in texts:
                    assert memory_store(context, text, importance=0.5).error is None
                table.close()

            for name, value in zip(("one by one, s", "one by one, CPU s"), timed(store), strict=True):
                note(name, value)
            for way, source in (("with vectors", full), ("of texts", plain)):
                shutil.rmtree(many, ignore_errors=True)
                with LanceTable(many, create=given.dimension) as table:
                    spent = timed(partial(memory_import, context_of(table, vectors), source))
                    note(f"import {way}, s", spent[0])
                    note(f"import {way}, CPU s", spent[1])
                    entries = table.contents()
                    assert len(entries.rows) == given.count
            with LanceTable(bulk, create=given.dimension) as table:
                table.add([Entry(row, vector) for row, vector in zip(*entries, strict=True)])
            for name, folder in (("one by one", one), ("import", many), ("bulk load", bulk)):
                search, rows = recall_ms(folder, vectors)
                note(f"search after {name}, ms", search)
                note(f"all rows after {name}, ms", rows)
        print(f"repeat done (load {os.getloadavg()[0]:.1f})", flush=True)
    print(f"{given.count} memories, vectors of {given.dimension} numbers, median of {given.repeats} (range)")
    for name, values in results.items():
        print(f"  {name:<32} {statistics.median(values):9.3f} ({min(values):.3f} to {max(values):.3f})")
    if given.count == 1000:
        for name in ("one by one, s", "import of texts, s", "import with vectors, s"):
            times = PLUGIN_SECONDS / statistics.median(results[name])
            print(f"  {times:.1f} times as fast as single stores of the plugin: {name}")


if __name__ == "__main__":
    main()
