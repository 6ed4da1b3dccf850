"""Origins: every observation leads to its line, between malformed lines, over batches and logs (LD-10)."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest

from lab.memory.ledger import ingest as ledger_ingest
from lab.memory.ledger import ledger
from lab.memory.ledger.archive import pointer
from lab.memory.ledger.ingest import ingest


def write(log: Path, draw: random.Random, first: int, last: int) -> None:
    """Append observations with these numbers, and malformed, blank and long lines between them."""
    with log.open("ab") as file:
        for number in range(first, last):
            file.write(draw.choice((b"", b"", b"nope\n", b"\n\n", b"[1]\n", b'"' + b"a" * 3000 + b'"\n')))
            file.write(json.dumps({"summary": f"{log.name} {number} " + "羅" * draw.randint(0, 30)}).encode() + b"\r\n")


@pytest.mark.parametrize("batch", [1, 7, 5000])
def test_pointer_of_every_observation_finds_its_line(
    tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_ingest, "BATCH", batch)
    draw, path = random.Random(batch), tmp_path / "l.sqlite"
    logs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for part in range(3):
        for log in logs:
            write(log, draw, 20 * part, 20 * part + 20)
            ingest(path, log)
    with ledger.open_ledger(path) as connection:
        observations = list(ledger.observations(connection))
        pointers = [pointer(connection, row.id) for row in observations]
        assert pointer(connection, 0) is pointer(connection, 121) is None
    for row, found in zip(observations, pointers, strict=True):
        assert found is not None
        assert json.loads(found.read())["summary"] == row.summary
        assert json.loads(found.log.read_bytes().split(b"\n")[found.line - 1])["summary"] == row.summary


def test_observation_of_another_program_has_no_pointer(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", tmp_path / "a.jsonl"
    log.write_text('{"summary": "one"}\n')
    ingest(path, log)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO observations (ts, summary) VALUES ('x', 'theirs')")
    connection.close()
    with log.open("a") as file:
        file.write('{"summary": "three"}\n')
    ingest(path, log)
    with ledger.open_ledger(path) as connection:
        found = [pointer(connection, number) for number in (1, 2, 3)]
    assert [place and place.line for place in found] == [1, None, 2]
