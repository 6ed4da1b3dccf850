"""Kill ``lab memory episodes`` at random times, and check that no event, vector or expiry is lost or doubled.

    python -m tests.trials.episodes_kills --kills 100 [--seed N]

Each round ingests a spool into a ledger with observations, embeds the events and expires old ones; then the spool has
grown, and it does so again. The process group of each command is killed at a random time after its first write, twice
at most, before the command may end by itself. At the end of a round the tables must be those of an unbroken round.
"""

from __future__ import annotations

import json
import math
import os
import random
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from lab.base.formatting import counted
from lab.memory.episodes.events import EVENTS, EXPIRED, FTS, RETENTION, STEMS, VECTORS, Event
from lab.memory.ledger.ingest import ingest as ingest_observations
from tests.trials.kills import arguments, kills_of, run_after_write

WORDS = ("basil", "choir", "gateway", "timeout", "decided", "prefer", "mill", "thursday", "song", "kettle")
NOW = datetime(2026, 11, 20, tzinfo=UTC)
DAY_MS = 86_400_000
State = dict[str, list[tuple[object, ...]]]


def write_spool(path: Path, events: int) -> None:
    """Write a spool; a longer one begins with the same lines. About half of the events are older than they are kept."""
    draw, lines = random.Random(5), []
    for number in range(events):
        text = f"{number} " + " ".join(draw.choices(WORDS, k=12))
        lines.append(
            {
                "schema": "openclaw-mem.episodes.spool.v0",
                "event_id": f"e{number}",
                "ts_ms": int(NOW.timestamp() * 1000) - draw.randint(0, 120) * DAY_MS - number,
                "scope": "global",
                "session_id": f"s{number // 20}",
                "agent_id": "main",
                "type": draw.choice(list(RETENTION)),
                "summary": text,
                "payload": {"text": text},
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def commands(folder: Path, events: int) -> list[list[str]]:
    """Return the commands of a round over a ledger that has observations, and write what they read."""
    path, log = folder / "l.sqlite", folder / "o.jsonl"
    log.write_text('{"ts": "2026-11-20T09:00:00Z", "summary": "clay pots"}\n')
    ingest_observations(path, log, now=NOW)
    words = ["--ledger", str(path), "--write"]
    made = []
    for number, count in (("1", events), ("2", 2 * events)):
        spool = folder / f"spool{number}.jsonl"
        write_spool(spool, count)
        made += [
            ["memory", "episodes", "ingest", str(spool), *words],
            ["memory", "episodes", "embed", "--embedder", "hashing", *words],
            ["memory", "episodes", "expire", "--at", f"{NOW:%Y-%m-%d}", *words],
        ]
    return made


def state(folder: Path) -> State:
    """Return the tables without the times of their changes. Exit if an index disagrees with its table."""
    selected = {
        EVENTS: f"SELECT id, {', '.join(Event._fields)} FROM {EVENTS} ORDER BY id",
        VECTORS: f"SELECT event_row_id, model, dim, vector, norm, search_text_hash FROM {VECTORS} ORDER BY 1",
        EXPIRED: f"SELECT event_id FROM {EXPIRED} ORDER BY 1",
        "observations": "SELECT * FROM observations ORDER BY id",
    }
    connection = sqlite3.connect(folder / "l.sqlite")
    try:
        rows = {table: connection.execute(statement).fetchall() for table, statement in selected.items()}
        for table in (FTS, STEMS):
            connection.execute(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        sys.exit(f"{folder}: {error}")
    finally:
        connection.close()
    return rows


def main() -> None:
    """Kill, compare, and print."""
    options = arguments(__doc__, events=4000)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="episodes-kills-") as name:
        home = Path(name)
        os.environ["LAB_CACHE_DIR"] = str(home / "cache")
        unbroken = home / "unbroken"
        unbroken.mkdir()
        seconds = [run_after_write(words, unbroken, math.inf)[1] for words in commands(unbroken, options.events)]
        expected = state(unbroken)
        expired = sum(str(known).startswith("e") for (known,) in expected[EXPIRED])
        if (
            len(expected[EVENTS]) + expired != 2 * options.events
            or len(expected[EXPIRED]) != 2 * expired
            or not expired
        ):
            sys.exit("the unbroken round lacks events")
        kills = rounds = 0
        while kills < options.kills:
            rounds += 1
            folder = home / f"round{rounds}"
            folder.mkdir()
            for _ in kills_of(commands(folder, options.events), seconds, folder, draw, options.kills - kills):
                kills += 1
            found = state(folder)
            for table, rows in expected.items():
                if found[table] != rows:
                    sys.exit(f"round {rounds}: {table} has {len(found[table])} rows, expected {len(rows)}, or others")
        print(
            f"{counted(kills, 'kill')} after a first write, in {counted(rounds, 'round')} of "
            f"{counted(2 * options.events, 'event')} ({expired:,} expire): none lost or doubled, every index whole"
        )


if __name__ == "__main__":
    main()
