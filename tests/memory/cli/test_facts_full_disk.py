"""A disk that is full while facts are imported: one line, complete facts alone, and the same command goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.memory.facts import store
from lab.memory.facts.store import view_bytes, view_path
from tests.commands import run_here
from tests.memory.cli.test_ledger_full_disk import largest_file
from tests.memory.facts.stores import place

MANY = 300


@pytest.mark.parametrize("kilobytes", [0, 1, 40, 100, 150, 190])
def test_import_on_a_full_disk_goes_on_later(tmp_path: Path, kilobytes: int) -> None:
    here, claims = place(tmp_path), tmp_path / "claims.jsonl"
    row = {"predicate": "uses", "object": "x", "valid_from": "2026-11-01", "source_refs": ["obs:1"]}
    lines = [json.dumps({**row, "subject": f"service {n}", "assertion_ref": "note:x"}) for n in range(MANY)]
    claims.write_text("".join(f"{line}\n" for line in lines))
    command = ("memory", "facts", "import", here.facts, claims, "--ledger", here.ledger, "--write")
    with largest_file(kilobytes << 10):
        done = run_here(*command)
    assert done.returncode == 4, done.stdout
    assert "cannot write" in done.stderr
    assert "a bug in the lab" not in done.stderr
    before = len(store.read(here.facts, new=True).records)
    again = run_here(*command)
    assert f"{MANY - before} facts asserted, {before} before." in again.stdout, again.stderr
    assert len(here.view) == MANY
    assert view_path(here.facts).read_bytes() == view_bytes(store.read(here.facts))
