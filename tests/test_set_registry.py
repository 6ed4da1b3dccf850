"""Shipped sets, and golden sets beside recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.base.set_registry import datasets_beside, golden_beside, recordings_at, shipped, shipped_sets


def test_golden_and_datasets_folders_are_paired(tmp_path: Path) -> None:
    for place in ("datasets/a", "golden/a", "datasets/b", "other/a"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "datasets" / "a" / "one.jsonl").touch()
    golden = tmp_path / "golden" / "a"
    assert golden_beside(tmp_path / "datasets" / "a") == golden_beside(tmp_path / "datasets/a/one.jsonl") == golden
    assert golden_beside(tmp_path / "datasets" / "b") is None
    assert golden_beside(tmp_path / "other" / "a") is None
    assert datasets_beside(golden) == tmp_path / "datasets" / "a"
    for name, said in (("golden/none", "no such file or folder"), ("other/a", "no recordings found beside it")):
        with pytest.raises(UnusableInput, match=said):
            datasets_beside(tmp_path / name)


def test_unknown_shipped_set_is_refused() -> None:
    assert [recordings_at(f"shipped:{name}") for name in shipped_sets()] == [
        shipped("datasets", name) for name in shipped_sets()
    ]
    with pytest.raises(UnusableInput, match=r"shipped:none: no such shipped set; known: shipped:"):
        recordings_at("shipped:none")
