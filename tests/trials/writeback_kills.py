"""Kill ``lab memory ledger writeback`` and ``decay`` at random times; check that each row is as before or as after.

    python tests/trials/writeback_kills.py --kills 100 [--rows 6000] [--seed N]

Each round has a ledger and a table of its own. The command is started again until it ends by itself; then ledger and
table must be those of an unbroken run, but for times of archival, which each run takes from its start.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.base.formatting import counted
from lab.memory.ledger import ledger
from lab.memory.ledger.ingest import ingest
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.systems.openclaw.table.schema import TABLE, arrow_of, schema
from tests.memory.tools.lance_tables import DIMENSION, entry, uuid
from tests.trials.kills import ended

AT = "2026-11-23"
PATIENCE = 600
States = dict[str, Any]


def make(folder: Path, rows: int) -> None:
    """Make a ledger of graded observations, every other unused for long, and a table in which none is graded."""
    folder.mkdir()
    log = folder / "o.jsonl"
    with log.open("w") as file:
        for number in range(rows):
            day = "2026-11-20" if number % 2 else "2026-05-01"
            grade = {"score": 0.6, "label": "nice_to_have"}
            detail = {"memory_id": uuid(number), "importance": grade}
            observation = {"ts": f"{day}T00:00:00Z", "kind": "note", "tool_name": "memory_store", "detail": detail}
            file.write(json.dumps({**observation, "summary": f"memory {number}"}) + "\n")
    ingest(folder / "l.sqlite", log, now=datetime(2026, 11, 23, tzinfo=UTC))
    given = schema(DIMENSION, ())
    data = arrow_of([entry(number) for number in range(rows)], given, DIMENSION, folder)
    data = data.set_column(given.get_field_index("importance_label"), "importance_label", [["unknown"] * rows])
    with quiet_lance():
        import_lancedb().connect(str(folder / "store")).create_table(TABLE, data)


def commands(folder: Path, rows: int) -> list[list[str]]:
    """Return the commands of a round."""
    path = str(folder / "l.sqlite")
    return [
        ["writeback", path, str(folder / "store"), "--limit", str(rows), "--batch", "20", "--write"],
        ["decay", path, "--at", AT, "--write"],
    ]


def run(words: list[str], seconds: float) -> bool:
    """Run a command; kill it after so many seconds. Return whether it ended by itself."""
    command = [sys.executable, "-m", "lab", "memory", "ledger", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    return ended(process, seconds)


def state(folder: Path) -> tuple[States, States]:
    """Return the rows of the table by id, and the details of the ledger by id."""
    with quiet_lance():
        table = import_lancedb().connect(str(folder / "store")).open_table(TABLE).to_arrow()
    stored = {row["id"]: row for row in table.to_pylist()}
    if len(stored) != table.num_rows:
        sys.exit(f"{table.num_rows - len(stored)} rows are doubled")
    with ledger.open_ledger(folder / "l.sqlite") as connection:
        return stored, {str(row.id): row.detail for row in ledger.observations(connection)}


def check(found: States, before: States, after: States, name: str) -> None:
    """Exit if a row is missing, or neither as before nor as after."""
    if found.keys() != before.keys():
        sys.exit(f"{name}: {len(found)} rows of {len(before)}")
    for identity, row in found.items():
        if row not in (before[identity], after[identity]):
            sys.exit(f"{name} {identity}: neither as before nor as after: {row}")


def main() -> None:
    """Kill, count, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="writeback-kills-") as name:
        home = Path(name)
        make(home / "before", options.rows)
        shutil.copytree(home / "before", home / "after")
        seconds = []
        for words in commands(home / "after", options.rows):
            began = time.monotonic()
            run(words, PATIENCE)
            seconds.append(time.monotonic() - began)
        before, after = state(home / "before"), state(home / "after")
        changed = [sum(old[key] != new[key] for key in old) for old, new in zip(before, after, strict=True)]
        if changed != [options.rows, options.rows // 2]:
            sys.exit(f"the unbroken round changed {changed} rows")
        kills = rounds = partly = 0
        while kills < options.kills:
            rounds += 1
            folder = home / "round"
            shutil.copytree(home / "before", folder)
            for words, unbroken in zip(commands(folder, options.rows), seconds, strict=True):
                # Three times at most, so that every command is killed and none is killed for ever.
                for _ in range(3):
                    if kills >= options.kills or run(words, draw.uniform(0.2, 1.0) * unbroken):
                        break
                    kills += 1
                    found = state(folder)
                    parts = zip(found, before, after, changed, ("table", "ledger"), strict=True)
                    for one, old, new, most, what in parts:
                        check(one, old, new, what)
                        partly += 0 < sum(row != old[key] for key, row in one.items()) < most
                run(words, PATIENCE)
            if state(folder) != after:
                sys.exit(f"round {rounds}: not the state of an unbroken run")
            shutil.rmtree(folder)
        print(
            f"{counted(kills, 'kill')} in {counted(rounds, 'round')} ({partly} left a part done): "
            f"{counted(options.rows, 'row')} each, none lost"
        )


if __name__ == "__main__":
    main()
