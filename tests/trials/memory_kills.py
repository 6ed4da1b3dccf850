"""Kill processes that change a table of memories at random moments, and check that nothing is lost or doubled.

    python tests/trials/memory_kills.py --kills 100 [--seed N] [--dimension D]

The kills are SIGKILL, spread over four kinds of work: store (one commit a memory), import (200 memories a commit),
forget, and backfill of a table that the plugin made. A worker prints the ids of a change after the table
acknowledged it. After each kill the table must hold every acknowledged memory once, none that was acknowledged as
forgotten, and the change that was under way wholly or not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lab.systems.openclaw.table.schema import Entry

BATCH, FORGOTTEN, BACKFILLED = 200, 400, 300


def entries(count: int, dimension: int) -> list[Entry]:
    """Return new memories with vectors."""
    from lab.retrieval.contract import Row

    ids = [str(uuid.uuid4()) for _ in range(count)]
    vector = [1.0] + [0.0] * (dimension - 1)
    rows = [Row(key, key, f"memory {key}", f"memory {key}", 1, scope="global") for key in ids]
    return [Entry(row, vector, "tool", "trial", "en") for row in rows]


def plugin_table(folder: Path, dimension: int) -> None:
    """Make a table with the columns of the plugin only, as its own process would."""
    from lab.retrieval.quiet import import_lancedb
    from lab.systems.openclaw.table.schema import TABLE, arrow_of, schema

    given = schema(dimension, ())
    data = arrow_of(entries(BACKFILLED, dimension), given, dimension, folder)
    import_lancedb().connect(str(folder)).create_table(TABLE, data, mode="overwrite")


def work(kind: str, folder: Path, dimension: int) -> None:
    """Change the table until killed. Print the ids of each change before (``try``) and after it (``ok``)."""
    from lab.memory.table.lance_table import LanceTable, TableSettings

    def tell(word: str, ids: list[str]) -> None:
        print(json.dumps([word, ids]), flush=True)

    table = LanceTable(folder, create=dimension, settings=TableSettings(compact_every=5, keep_seconds=0), what=kind)
    tell("ready", [])
    while True:
        if kind == "forget":
            chosen = [row.id for row in table.rows()[:3]]
            tell("try", chosen)
            table.delete(chosen)
        elif kind == "backfill":
            tell("try", [])
            table.backfill()
            chosen = []
        else:
            new = entries(1 if kind == "store" else BATCH, dimension)
            chosen = [entry.row.id for entry in new]
            tell("try", chosen)
            table.add(new)
        tell("ok", chosen)
        if kind == "backfill" or not chosen:
            time.sleep(60)


def killed(kind: str, folder: Path, dimension: int, wait: float) -> Iterator[tuple[str, list[str]]]:
    """Start a worker, kill it ``wait`` seconds after it is ready, and yield what it printed."""
    command = [sys.executable, __file__, "--worker", kind, "--folder", folder, "--dimension", str(dimension)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors)
        while not os.fstat(out.fileno()).st_size and process.poll() is None:
            time.sleep(0.005)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            errors.seek(0)
            sys.exit(f"{kind}: the worker ended with {process.returncode}: {errors.read().decode()}")
        out.seek(0)
        said = out.read()
    # The last line may be cut off.
    for line in said[: said.rfind(b"\n") + 1].splitlines():
        word, ids = json.loads(line)
        if word != "ready":
            yield word, ids


class State:
    """What must be in the table, by what was acknowledged."""

    def __init__(self) -> None:
        self.present: set[str] = set()
        self.counts = Counter[str]()

    def check(self, kind: str, folder: Path, said: list[tuple[str, list[str]]]) -> None:
        """Compare the table with what a killed worker said; exit with the difference."""
        from lab.memory.table.lance_table import LanceTable
        from lab.systems.openclaw.table.schema import ADDED

        for word, ids in said:
            if word == "ok":
                self.counts[f"{kind} acknowledged"] += 1
                self.present = self.present - set(ids) if kind == "forget" else self.present | set(ids)
        open_change = set(said[-1][1]) if said and said[-1][0] == "try" else set()
        with LanceTable(folder, read_only=True) as table:
            stored = [row.id for row in table.rows()]
            added = [name for name in ADDED if name in table.columns]
            vectors = table.contents().vectors
        if len(set(stored)) < len(stored):
            sys.exit(f"{kind}: a memory is there twice")
        lost, more = self.present - set(stored), set(stored) - self.present
        if kind == "forget":
            if lost - open_change or more:
                sys.exit(f"forget: {len(lost)} lost, {len(more)} came back")
            changed = lost
        else:
            if lost or more - open_change:
                sys.exit(f"{kind}: {len(lost)} acknowledged memories are lost, {len(more)} are unexpected")
            changed = more
        if changed not in (set(), open_change):
            sys.exit(f"{kind}: half of a change is stored")
        if kind == "backfill" and added not in ([], list(ADDED)):
            sys.exit(f"backfill: only {added} were added")
        if not vectors.any(axis=1).all():
            sys.exit(f"{kind}: a vector is lost")
        self.counts[f"{kind} finished by the kill"] += bool(changed)
        self.present = set(stored)


def prepare(kind: str, folder: Path, dimension: int, state: State) -> None:
    """Give a worker something to do."""
    from lab.memory.table.lance_table import LanceTable

    if kind == "backfill":
        plugin_table(folder, dimension)
    elif kind == "forget" and len(state.present) < FORGOTTEN // 2:
        with LanceTable(folder, create=dimension) as table:
            table.add(entries(FORGOTTEN, dimension))
    else:
        return
    with LanceTable(folder, read_only=True) as table:
        state.present = {row.id for row in table.rows()}


def main() -> None:
    """Kill, check, and print counts."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--worker")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.folder, given.dimension)
        return
    draw = random.Random(given.seed)
    kinds = ("store", "import", "forget", "backfill")
    states, counts = {kind: State() for kind in kinds}, Counter[str]()
    started, busy = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="memory-kills-") as home:
        for number in range(given.kills):
            kind = kinds[number % len(kinds)]
            folder = Path(home) / kind
            folder.mkdir(exist_ok=True)
            prepare(kind, folder, given.dimension, states[kind])
            longest = 0.05 if kind == "backfill" else 0.4
            said = list(killed(kind, folder, given.dimension, draw.uniform(0.0, longest)))
            busy += bool(said) and said[-1][0] == "try"
            states[kind].check(kind, folder, said)
        for state in states.values():
            counts += state.counts
    print(
        f"{given.kills} kills in {time.monotonic() - started:.0f} s (load {os.getloadavg()[0]:.1f}), "
        f"{busy} of them during a change: nothing lost, nothing doubled"
    )
    for name, count in sorted(counts.items()):
        print(f"  {name}: {count}")


if __name__ == "__main__":
    main()
