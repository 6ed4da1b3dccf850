"""Kill ``lab ledger`` at random times, and check that no observation is lost or doubled and no pointer breaks.

    python tests/trials/ledger_kills.py --kills 100 [--seed N]

Each round captures sessions of two agents, ingests the log, grades the ledger, rotates the log and ingests again, as
cron would, and kills the group of processes at a random moment of each command until it ends by itself. At the end of a
round the ledger must be that of an unbroken round, but for times of grades and the bytes that a kill left in the log.
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
from pathlib import Path

from lab.systems.sidecar import ledger
from lab.systems.sidecar.ledger_archive import pointer

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
PATIENCE = 600


def write_sessions(folder: Path, results: int, draw: random.Random) -> None:
    """Write a session for each of two agents."""
    for name in ("one", "two"):
        lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": name}]
        for number in range(results):
            text = f"{number} " + " ".join(draw.choices(WORDS, k=8))
            message = {"role": "toolResult", "toolName": "exec", "content": [{"type": "text", "text": text}]}
            at = f"2026-11-20T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
            lines.append({"type": "message", "id": f"e{number}", "timestamp": at, "message": message})
        place = folder / "agents" / name / "sessions"
        place.mkdir(parents=True)
        (place / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def commands(folder: Path, sessions: Path) -> list[list[str]]:
    """Return the commands of a round."""
    path, log = str(folder / "l.sqlite"), str(folder / "o.jsonl")
    return [
        ["capture", str(sessions), log, "--write"],
        ["ingest", path, log, "--write"],
        ["grade", path, "--write"],
        ["archive", path, log, "--write"],
        ["capture", str(sessions), log, "--messages", "--write"],
    ]


def run(words: list[str], seconds: float) -> bool:
    """Run a command; kill it after so many seconds. Return whether it ended by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", "ledger", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False
    if process.returncode:
        sys.exit(f"lab ledger {' '.join(words)} ended with {process.returncode}: {said.decode()}")
    return True


def state(folder: Path) -> list[tuple[object, ...]]:
    """Return what the ledger holds, each row with whether its line of the log is found."""
    found = []
    with ledger.open_ledger(folder / "l.sqlite") as connection:
        for row in ledger.observations(connection):
            detail = row.detail
            detail["importance"].pop("graded_at")
            place = pointer(connection, row.id)
            there = place is not None and json.loads(place.read())["summary"] == row.summary
            found.append((*row[:7], json.dumps(detail, sort_keys=True), there))
        for table in ("observations_fts", "observations_fts_tri"):
            indexed = connection.execute(f"SELECT count(*) FROM {table}_docsize").fetchone()[0]
            if indexed != len(found):
                sys.exit(f"{table} has {indexed} rows of {len(found)}")
    return found


def main() -> None:
    """Kill, count, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--results", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="ledger-kills-") as name:
        home = Path(name)
        sessions, unbroken = home / "sessions", home / "unbroken"
        write_sessions(sessions, options.results, draw)
        unbroken.mkdir()
        seconds = []
        for words in commands(unbroken, sessions):
            began = time.monotonic()
            run(words, PATIENCE)
            seconds.append(time.monotonic() - began)
        expected = state(unbroken)
        if len(expected) != 2 * options.results or not all(row[-1] for row in expected):
            sys.exit("the unbroken round lacks observations or pointers")
        kills = rounds = 0
        while kills < options.kills:
            rounds += 1
            folder = home / f"round{rounds}"
            folder.mkdir()
            for words, unbroken_seconds in zip(commands(folder, sessions), seconds, strict=True):
                # Twice at most, so that every command is killed and none is killed for ever.
                for _ in range(2):
                    if kills >= options.kills or run(words, draw.uniform(0.2, 0.95) * unbroken_seconds):
                        break
                    kills += 1
                run(words, PATIENCE)
            found = state(folder)
            if found != expected:
                wrong = next(pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1])
                sys.exit(f"round {rounds}: {len(found)} rows of {len(expected)}; first difference: {wrong}")
        print(
            f"{kills} kills in {rounds} rounds: {len(expected)} observations each, none lost or doubled, all reachable"
        )


if __name__ == "__main__":
    main()
