"""A small set of records written by hand, so that a clone alone proves something of parity.

``records/`` holds at least one record of every kind that is checked (docs/design/parity.md). The answers were worked
out by hand from docs/design/engine.md.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.conformance.pack import NAME as PACK
from lab.conformance.real_lancedb import Agreement
from lab.conformance.registry import FUNCTIONS, SEQUENCES
from lab.conformance.run import conformance

RECORDS = Path(__file__).parent / "records"
# Where a record holds what is expected: a search is its own answer.
ANSWERS = ("output", "fts")
# Where the parts of the pack do.
OF_PACK = ("selectedIds", "tooLong", "match", "repos", "first", "second_other_hook_same_key", "after_4001ms")


def lines() -> Iterator[tuple[str, int]]:
    """Every record that expects something, by file and place."""
    for path in sorted(RECORDS.glob("*.jsonl")):
        for place, line in enumerate(path.read_text("utf-8").splitlines()):
            if any(key in json.loads(line) for key in ANSWERS):
                yield path.name, place


def altered(value: Any) -> Any:
    """The value with its first part changed."""
    if isinstance(value, dict):
        first = next(iter(value))
        return {**value, first: altered(value[first])}
    if isinstance(value, list):
        return [altered(value[0]), *value[1:]] if value else ["more"]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "something"


def expectations(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of what the pack expects."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        if key in OF_PACK:
            yield (*path, key)
        else:
            yield from expectations(one, (*path, key))


def test_records_of_every_kind_agree() -> None:
    found = conformance(RECORDS)
    assert [(one.name, one.first_failure) for one in found.files if one.failed] == []
    assert (found.failed, found.skipped) == (0, 0)
    assert found.passed >= 50
    assert {one.name for one in found.files} >= {*FUNCTIONS, *SEQUENCES, PACK}


def test_records_of_searches_agree_with_lancedb() -> None:
    found = conformance(RECORDS).lancedb
    assert isinstance(found, Agreement)
    assert (found.fts_orders_agree, found.vector_orders_agree) == (found.searches, found.vector_searches) == (2, 2)


@pytest.mark.parametrize(("name", "place"), list(lines()))
def test_a_record_with_another_expectation_fails(tmp_path: Path, name: str, place: int) -> None:
    folder = shutil.copytree(RECORDS, tmp_path / "records")
    before = (folder / name).read_text("utf-8").splitlines()
    record = json.loads(before[place])
    key = next(key for key in ANSWERS if key in record)
    record[key] = altered(record[key])
    (folder / name).write_text("\n".join([*before[:place], json.dumps(record), *before[place + 1 :]]), "utf-8")
    (found,) = conformance(folder / name).files
    assert (found.failed, found.first_failure and found.first_failure.line) == (1, place + 1)


@pytest.mark.parametrize("path", list(expectations(json.loads((RECORDS / f"{PACK}.json").read_text("utf-8")))))
def test_a_pack_with_another_expectation_fails(tmp_path: Path, path: tuple[str | int, ...]) -> None:
    pack = json.loads((RECORDS / f"{PACK}.json").read_text("utf-8"))
    holder = pack
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = altered(holder[path[-1]])
    (tmp_path / f"{PACK}.json").write_text(json.dumps(pack), "utf-8")
    (found,) = conformance(tmp_path / f"{PACK}.json").files
    assert found.failed == 1


def test_records_have_ids_that_are_unique_in_their_file() -> None:
    for path in RECORDS.glob("*.jsonl"):
        ids = Counter(json.loads(line)["id"] for line in path.read_text("utf-8").splitlines())
        assert max(ids.values()) == 1, path.name
