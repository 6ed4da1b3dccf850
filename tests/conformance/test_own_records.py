"""Tests of a small set of hand-written records, which checks parity without any recorded data.

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

from tests.conformance.pack import NAME as PACK
from tests.conformance.real_lancedb import Agreement
from tests.conformance.registry import FUNCTIONS, SEQUENCES
from tests.conformance.run import conformance

RECORDS = Path(__file__).parent / "records"
# The fields of a record that hold its expectation; the record of a search is itself the expectation.
ANSWERS = ("output", "fts")
# The same for the parts of the pack.
OF_PACK = (
    *("selectedIds", "tooLong", "match", "repos", "first", "second_other_hook_same_key", "after_4001ms"),
    *("result", "receipt"),
)


def lines() -> Iterator[tuple[str, int]]:
    """Yield every record with an expectation, as file and line index."""
    for path in sorted(RECORDS.glob("*.jsonl")):
        for index, line in enumerate(path.read_text("utf-8").splitlines()):
            if any(key in json.loads(line) for key in ANSWERS):
                yield path.name, index


def altered(value: Any) -> Any:
    """Return the value with its first part changed."""
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
    """Yield the paths of the expectations in the pack."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner_value in inner:
        if key in OF_PACK:
            yield (*path, key)
        else:
            yield from expectations(inner_value, (*path, key))


def test_own_records_of_every_kind_agree() -> None:
    result = conformance(RECORDS)
    assert [(file.name, file.first_failure) for file in result.files if file.failed] == []
    assert (result.failed, result.skipped) == (0, 0)
    assert result.passed >= 50
    assert {file.name for file in result.files} >= {*FUNCTIONS, *SEQUENCES, PACK}


def test_own_records_of_searches_agree_with_lancedb() -> None:
    result = conformance(RECORDS).lancedb
    assert isinstance(result, Agreement)
    assert (result.fts_orders_agree, result.vector_orders_agree) == (result.searches, result.vector_searches) == (2, 2)


@pytest.mark.parametrize(("name", "index"), list(lines()))
def test_own_record_with_changed_expectation_fails(tmp_path: Path, name: str, index: int) -> None:
    folder = shutil.copytree(RECORDS, tmp_path / "records")
    before = (folder / name).read_text("utf-8").splitlines()
    record = json.loads(before[index])
    key = next(key for key in ANSWERS if key in record)
    record[key] = altered(record[key])
    (folder / name).write_text("\n".join([*before[:index], json.dumps(record), *before[index + 1 :]]), "utf-8")
    (result,) = conformance(folder / name).files
    assert (result.failed, result.first_failure and result.first_failure.line) == (1, index + 1)


@pytest.mark.parametrize("path", list(expectations(json.loads((RECORDS / f"{PACK}.json").read_text("utf-8")))))
def test_own_pack_with_changed_expectation_fails(tmp_path: Path, path: tuple[str | int, ...]) -> None:
    pack = json.loads((RECORDS / f"{PACK}.json").read_text("utf-8"))
    holder = pack
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = altered(holder[path[-1]])
    (tmp_path / f"{PACK}.json").write_text(json.dumps(pack), "utf-8")
    (result,) = conformance(tmp_path / f"{PACK}.json").files
    assert result.failed == 1


def test_own_records_have_unique_ids_per_file() -> None:
    for path in RECORDS.glob("*.jsonl"):
        ids = Counter(json.loads(line)["id"] for line in path.read_text("utf-8").splitlines())
        assert max(ids.values()) == 1, path.name
