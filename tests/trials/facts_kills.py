"""Kill ``lab memory facts`` at random times, and check that no fact is lost or doubled and that the view is rebuilt.

    python tests/trials/facts_kills.py --kills 100 [--seed N]

Each round imports the values of many subjects over time, imports values that supersede them, asserts one fact and
rebuilds the view. The process group of each command is killed at a random time after its first write, twice at most,
before the command may end by itself. After each kill the file must be the beginning of that of an unbroken round, and a
query must work. At the end of a round both files must be the unbroken ones, except for the times of assertions.
"""

from __future__ import annotations

import json
import math
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.base.formatting import counted
from lab.memory.facts import store
from lab.memory.facts.store import view_path
from lab.memory.facts.view import View
from tests.memory.ledger.ledgers import filled
from tests.trials.kills import arguments, kills_of, run_after_write

TIME = re.compile(rb'"created_at": "[^"]*"')
HEADER = re.compile(rb'^.*"recall-lab.facts.view.v0".*\n')


def line(subject: int, value: str, since: str, **more: object) -> dict[str, object]:
    """Return a claim on the status of a subject."""
    claim: dict[str, object] = {"subject": f"service {subject}", "predicate": "status", "object": value}
    return claim | {"valid_from": since, "source_refs": ["obs:1"], "assertion_ref": "note:trial"} | more


def write_lines(path: Path, claims: list[dict[str, object]]) -> Path:
    """Write claims as JSON Lines."""
    path.write_text("".join(json.dumps(claim) + "\n" for claim in claims))
    return path


def commands(folder: Path, home: Path) -> Iterator[list[str]]:
    """Yield the commands of a round; remove the view before the last one, which makes it again."""
    facts, ledger = str(folder / "facts.jsonl"), ["--ledger", str(home / "ledger.sqlite"), "--write"]
    one = ["--from", "2026-11-03", "--source", "obs:1", "--assertion", "note:trial"]
    yield ["memory", "facts", "import", facts, str(home / "first.jsonl"), *ledger]
    yield ["memory", "facts", "import", facts, str(home / "second.jsonl"), *ledger]
    yield ["memory", "facts", "assert", facts, "gateway", "status", "live", *one, *ledger]
    view_path(folder / "facts.jsonl").unlink()
    yield ["memory", "facts", "rebuild", facts, "--write"]


def state(folder: Path) -> tuple[bytes, bytes]:
    """Return the assertions and the view without the times of assertions, and without their digest in the header."""
    facts = folder / "facts.jsonl"
    view = view_path(facts)
    return tuple(TIME.sub(b"", HEADER.sub(b"", path.read_bytes())) if path.exists() else b"" for path in (facts, view))  # type: ignore[return-value]  # a tuple of two


def check_after_kill(folder: Path, expected: bytes) -> None:
    """Exit unless the complete lines are the beginning of the unbroken file, and the facts can be read."""
    path = folder / "facts.jsonl"
    if path.exists():
        assertions = store.read(path)
        if not expected.startswith(TIME.sub(b"", assertions.data)):
            sys.exit(f"{path}: is not the beginning of an unbroken file")
        if len(View(assertions.records)) != len(assertions.records):
            sys.exit(f"{path}: holds a fact twice")


def main() -> None:
    """Kill, count, and print."""
    options = arguments(__doc__, subjects=2000)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="facts-kills-") as name:
        home = Path(name)
        filled(home / "ledger.sqlite", [{"summary": "the services are up"}])
        subjects = range(options.subjects)
        write_lines(home / "first.jsonl", [line(number, "live", "2026-11-01") for number in subjects])
        unbroken = home / "unbroken"
        unbroken.mkdir()
        unbroken_commands = commands(unbroken, home)
        seconds = [run_after_write(next(unbroken_commands), unbroken, math.inf)[1]]
        ids = [record.id for record in store.read(unbroken / "facts.jsonl").records if hasattr(record, "id")]
        write_lines(
            home / "second.jsonl",
            [line(number, "retired", "2026-11-05", supersedes=[ids[number]]) for number in subjects],
        )
        seconds += [run_after_write(words, unbroken, math.inf)[1] for words in unbroken_commands]
        expected = state(unbroken)
        if expected[0].count(b"\n") != 2 * options.subjects + 1:
            sys.exit("the unbroken round lacks facts")
        kills = rounds = mid_file = 0
        while kills < options.kills:
            rounds += 1
            folder = home / f"round{rounds}"
            folder.mkdir()
            for _ in kills_of(commands(folder, home), seconds, folder, draw, options.kills - kills):
                kills += 1
                check_after_kill(folder, expected[0])
                lines = (folder / "facts.jsonl").read_bytes().count(b"\n") if any(folder.iterdir()) else 0
                mid_file += lines not in (0, options.subjects, 2 * options.subjects, 2 * options.subjects + 1)
            if state(folder) != expected:
                sys.exit(f"round {rounds}: the files are not those of an unbroken round")
            if leftovers := [path.name for path in folder.iterdir() if path.suffix == ".part"]:
                sys.exit(f"round {rounds}: temporary files are left: {', '.join(leftovers)}")
        print(
            f"{counted(kills, 'kill')} after a first write, {mid_file} of them between two facts of an import, in "
            f"{counted(rounds, 'round')} of {2 * options.subjects + 1} facts: none lost or doubled, every view rebuilt"
        )


if __name__ == "__main__":
    main()
