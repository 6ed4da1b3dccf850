"""Compare two arms of a run turn by turn: ``python tests/peers/turns.py RUN LIVE OWN``.

Prints in how many recalls the ids, the injected text, the receipt and the status are equal, which fields of receipts
differ, and the first recalls that differ. Ends with 1 where a text or a status differs: ids of captured memories are
the system's own, so they may differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.cli.output import emit
from lab.runs.directory import open_run
from lab.runs.tables import read_table

Row = dict[str, Any]
# A recall's key: turn number, turn, probe.
Key = tuple[int, str, str | None]
SHOWN = 5


def pairs(run: Path, live: str, own: str) -> Iterator[tuple[Key, Row, Row]]:
    """Yield the two answers at each recall of a run."""
    directory = open_run(run, allow_failed=True)
    for conversation in directory.done():
        answers: dict[Key, dict[str, Row]] = {}
        for row in read_table(directory.receipts(conversation)).to_pylist():
            answers.setdefault((row["seq"], row["turn"], row["probe"]), {})[row["arm"]] = row
        for key, by_arm in answers.items():
            yield key, by_arm[live], by_arm[own]


def equal_parts(one: Row, other: Row) -> dict[str, bool]:
    """Return which parts of two answers are equal."""
    return {
        "ids": _injected(one) == _injected(other),
        "text": one["block"] == other["block"],
        "receipt": one["receipt"] == other["receipt"],
        "status": one["status"] == other["status"],
    }


def differing_fields(one: Row, other: Row) -> tuple[str, ...]:
    """Return the fields of receipts that differ."""
    first, second = json.loads(one["receipt"] or "{}"), json.loads(other["receipt"] or "{}")
    return tuple(field for field in {**first, **second} if first.get(field) != second.get(field))


def _injected(row: Row) -> list[str]:
    injected: list[str] = row["item_key"][: row["injected"]]
    return injected


def main(words: list[str]) -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="turns.py", description="Compare two arms of a run turn by turn.")
    for name in ("run", "live", "own"):
        parser.add_argument(name)
    given = parser.parse_args(words)
    equal, fields, shown = Counter[str](), Counter[tuple[str, ...]](), 0
    count = injecting = 0
    for key, one, other in pairs(Path(given.run), given.live, given.own):
        parts = equal_parts(one, other)
        count += 1
        injecting += bool(one["injected"])
        equal.update(name for name, same in parts.items() if same)
        if not parts["receipt"]:
            fields[differing_fields(one, other)] += 1
        if not (parts["text"] and parts["status"]) and shown < SHOWN:
            shown += 1
            differing = ", ".join(name for name, same in parts.items() if not same)
            failure = one["failure"] or other["failure"] or ""
            emit(f"turn {key[1]}: {differing} {failure}: {_injected(one)} and {_injected(other)}")
    emit(f"{count} recalls, {injecting} with memories; equal: " + ", ".join(f"{n} {equal[n]}" for n in parts_of()))
    for names, times in fields.most_common():
        emit(f"{times} receipts differ in {', '.join(names)}")
    return int(equal["text"] < count or equal["status"] < count)


def parts_of() -> tuple[str, ...]:
    """Return the names of the parts that are compared."""
    return ("ids", "text", "receipt", "status")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
