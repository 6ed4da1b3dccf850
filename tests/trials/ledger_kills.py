"""Kill ``lab memory ledger`` at random times, and check that no observation is lost or doubled and no pointer breaks.

    python tests/trials/ledger_kills.py --kills 100 [--seed N]

Each round captures the sessions of an agent, ingests the log, grades the ledger and rotates the log, as cron would;
then a second agent has sessions as well, and it captures, ingests with grades and rotates again. The process group of
each command is killed at a random time after its first write, twice at most, before the command may end by itself. At
the end of a round the ledger must be that of an unbroken round, except for the times of grades and the bytes that a
kill left in the log.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
from pathlib import Path

from lab.base.formatting import counted
from lab.memory.ledger import ledger
from lab.memory.ledger.archive import pointer
from tests.trials.kills import arguments, kills_of, run_after_write

WORDS = (
    "basil",
    "choir",
    "gateway",
    "timeout",
    "decided",
    "never",
    "prefer",
    "決定",
    "backup",
    "TODO",
    "fixed",
    "error",
)


def write_home(home: Path, agents: tuple[str, ...], results: int) -> Path:
    """Write a home of OpenClaw with a session for each agent; an agent has the same session in every home."""
    for name in agents:
        draw = random.Random(name)
        lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": name}]
        for number in range(results):
            text = f"{number} " + " ".join(draw.choices(WORDS, k=8))
            message = {"role": "toolResult", "toolName": "exec", "content": [{"type": "text", "text": text}]}
            at = f"2026-11-20T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
            lines.append({"type": "message", "id": f"e{number}", "timestamp": at, "message": message})
        folder = home / "agents" / name / "sessions"
        folder.mkdir(parents=True)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return home


def commands(folder: Path, before: Path, after: Path) -> list[list[str]]:
    """Return the commands of a round over the homes of before and after the second agent."""
    path, log = str(folder / "l.sqlite"), str(folder / "o.jsonl")
    return [
        ["memory", "ledger", "capture", str(before), log, "--write"],
        ["memory", "ledger", "ingest", path, log, "--write"],
        ["memory", "ledger", "grade", path, "--write"],
        ["memory", "ledger", "archive", path, log, "--write"],
        ["memory", "ledger", "capture", str(after), log, "--write"],
        ["memory", "ledger", "ingest", path, log, "--grade", "--write"],
        ["memory", "ledger", "archive", path, log, "--write"],
    ]


def state(folder: Path) -> list[tuple[object, ...]]:
    """Return the rows of the ledger, each with whether its line of the log is found."""
    rows = []
    with ledger.open_ledger(folder / "l.sqlite") as connection:
        for row in ledger.observations(connection):
            detail = row.detail
            detail["importance"].pop("graded_at")
            source = pointer(connection, row.id)
            is_reachable = source is not None and json.loads(source.read())["summary"] == row.summary
            rows.append((*row[:7], json.dumps(detail, sort_keys=True), is_reachable))
        for table in ("observations_fts", "observations_fts_tri"):
            indexed = connection.execute(f"SELECT count(*) FROM {table}_docsize").fetchone()[0]
            if indexed != len(rows):
                sys.exit(f"{table} has {indexed} rows of {len(rows)}")
    return rows


def main() -> None:
    """Kill, count, and print."""
    options = arguments(__doc__, results=6000)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="ledger-kills-") as name:
        home = Path(name)
        homes = (
            write_home(home / "before", ("one",), options.results),
            write_home(home / "after", ("one", "two"), options.results),
        )
        unbroken = home / "unbroken"
        unbroken.mkdir()
        seconds = [run_after_write(words, unbroken, math.inf)[1] for words in commands(unbroken, *homes)]
        expected = state(unbroken)
        if len(expected) != 2 * options.results or not all(row[-1] for row in expected):
            sys.exit("the unbroken round lacks observations or pointers")
        kills = rounds = 0
        while kills < options.kills:
            rounds += 1
            folder = home / f"round{rounds}"
            folder.mkdir()
            for _ in kills_of(commands(folder, *homes), seconds, folder, draw, options.kills - kills):
                kills += 1
            rows = state(folder)
            if rows != expected:
                difference = next((pair for pair in zip(rows, expected, strict=False) if pair[0] != pair[1]), None)
                sys.exit(f"round {rounds}: {len(rows)} rows, expected {len(expected)}; first difference: {difference}")
        print(
            f"{counted(kills, 'kill')} after a first write, in {counted(rounds, 'round')} of "
            f"{counted(len(expected), 'observation')}: none lost or doubled, the line of each reachable"
        )


if __name__ == "__main__":
    main()
