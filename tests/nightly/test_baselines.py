"""Baselines: named by content, written atomically, and checked for damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, Incomplete, InUse, UnusableInput
from lab.base.files import digest, only_writer
from lab.compare.changes import changes
from lab.nightly import baselines
from lab.nightly.baselines import Approval, approve, damage, find, get, open_baseline, remove
from lab.nightly.nightly_folder import runs_of_nightly_run
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory, open_run
from lab.runs.request import ReplayRequest

DAY, NEXT = "2026-03-01", "2026-03-02"


@pytest.fixture(scope="module")
def runs(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, RunDirectory]:
    """Two runs of one conversation that differ in a knob."""
    folder = tmp_path_factory.mktemp("runs")
    asked = [
        ReplayRequest(str(operators), "lab", ("tier_quota_v1",), embedder="hashing", limit=1, max_items=most)
        for most in (6, 5)
    ]
    one, other = (run_replay(one, folder / str(number)).run for number, one in enumerate(asked))
    return one, other


def test_approve_keeps_the_run_without_timings(runs: tuple[RunDirectory, RunDirectory], tmp_path: Path) -> None:
    run, _ = runs
    found = approve(tmp_path, run, "night", date=DAY, note="the first")
    assert (found.replaced, found.changed) == (None, True)
    assert get(tmp_path, "night") == found.baseline
    kept = open_baseline(found.baseline)
    assert changes(run, kept).changed == 0
    files = sorted(str(path.relative_to(kept.path)) for path in kept.path.rglob("*") if path.is_file())
    receipts = [f"receipts/{run.receipts(name).name}" for name in run.conversations]
    assert files == sorted(["golden.jsonl", "manifest.json", "object.json", *receipts])
    assert kept.path.name == found.baseline.now.object


def test_approve_same_run_twice_changes_nothing(
    runs: tuple[RunDirectory, RunDirectory], tmp_path: Path, files_of: Callable[[Path], dict[str, bytes]]
) -> None:
    run, other = runs
    first = approve(tmp_path, run, "night", date=DAY)
    before = files_of(tmp_path)
    again = approve(tmp_path, run, "night", date=NEXT)
    assert (again.changed, again.baseline, files_of(tmp_path)) == (False, first.baseline, before)
    moved = approve(tmp_path, other, "night", date=NEXT, note="five items")
    assert (moved.replaced, moved.changed) == (first.baseline.now.object, True)
    assert moved.baseline.before == (Approval(first.baseline.now.object, DAY, None),)
    assert approve(tmp_path, run, "other", date=DAY).baseline.now == first.baseline.now
    # Earlier objects of a name are kept while any name refers or referred to them.
    assert len(list((tmp_path / "objects").iterdir())) == 2
    assert remove(tmp_path, "night") == [moved.baseline.now.object]
    assert [one.name for one in baselines.baselines(tmp_path)] == ["other"]
    # That includes earlier objects of the remaining name.
    approve(tmp_path, other, "other", date=NEXT)
    approve(tmp_path, run, "gone", date=DAY)
    assert remove(tmp_path, "gone") == []
    assert sorted(remove(tmp_path, "other")) == sorted([first.baseline.now.object, moved.baseline.now.object])
    with pytest.raises(UnusableInput, match="has no baseline 'other'; baselines: none"):
        get(tmp_path, "other")


@pytest.mark.parametrize("file", ["receipts", "manifest.json", "golden.jsonl", "object.json"])
def test_damage_names_the_file_and_approving_again_repairs_it(
    runs: tuple[RunDirectory, RunDirectory], tmp_path: Path, file: str
) -> None:
    run, _ = runs
    baseline = approve(tmp_path, run, "night", date=DAY).baseline
    path = baseline.path / file if file != "receipts" else next((baseline.path / "receipts").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    (problem,) = damage(baseline)
    assert str(path) in problem
    with pytest.raises(CannotMeasure, match="approve"):
        open_baseline(baseline)
    approve(tmp_path, run, "night", date=DAY)
    assert damage(baseline) == []
    path.unlink()
    assert str(baseline.path) in damage(baseline)[0]


def test_approve_interrupted_is_finished_by_the_next(
    runs: tuple[RunDirectory, RunDirectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = runs
    written: list[Path] = []
    real = baselines.write_atomically

    for stop in range(1, 6):

        def killed(path: Path, data: bytes, stop: int = stop) -> None:
            written.append(path)
            if len(written) == stop:
                raise KeyboardInterrupt
            real(path, data)

        written.clear()
        monkeypatch.setattr(baselines, "write_atomically", killed)
        folder = tmp_path / str(stop)
        with pytest.raises(KeyboardInterrupt):
            approve(folder, run, "night", date=DAY)
        assert find(folder, "night") is None
        monkeypatch.setattr(baselines, "write_atomically", real)
        assert changes(run, open_baseline(approve(folder, run, "night", date=DAY).baseline)).changed == 0


def test_approve_invalid_input_is_refused(runs: tuple[RunDirectory, RunDirectory], tmp_path: Path) -> None:
    run, _ = runs
    for name in ("", "  ", " night"):
        with pytest.raises(UnusableInput, match="--name"):
            approve(tmp_path, run, name, date=DAY)
    for date in ("yesterday", "2026-13-01", "20260301", ""):
        with pytest.raises(UnusableInput, match="--date"):
            approve(tmp_path, run, "night", date=date)
    half = tmp_path / "half"
    half.mkdir()
    (half / "manifest.json").write_bytes((run.path / "manifest.json").read_bytes())
    with pytest.raises(Incomplete, match="missing"):
        approve(tmp_path, open_run(half), "night", date=DAY)
    with only_writer(tmp_path / "held"), pytest.raises(InUse):
        approve(tmp_path / "held", run, "night", date=DAY)


def test_baseline_names_may_be_any_text(runs: tuple[RunDirectory, RunDirectory], tmp_path: Path) -> None:
    run, _ = runs
    for name in ("../../escape", "夜/もの", "a.b"):
        assert get(tmp_path, approve(tmp_path, run, name, date=DAY).baseline.name).name == name
    assert {path.parent for path in tmp_path.rglob("*.json") if "objects" not in path.parts} == {tmp_path / "names"}
    path = next((tmp_path / "names").iterdir())
    whole = json.loads(path.read_text())
    changes = (
        {"object": "../../elsewhere"},
        {"name": None},
        {"date": 5},
        {"note": {}},
        {"before": {}},
        {"before": [7]},
    )
    edited = [json.dumps(whole | one) for one in changes]
    for text in ("{}", "[]", "{", json.dumps({"kind": "lab.baseline", "schema_version": 9}), *edited):
        path.write_text(text)
        with pytest.raises(UnusableInput) as raised:
            baselines.baselines(tmp_path)
        assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (None, "has no field 'sets'"),
        ({}, "field 'sets': expected a list, found an object"),
        ([5], "sets: expected an object, found a number"),
        ([{"name": "a", "reproduces": {}}], "set 'a': reproduces: has no field 'changed'"),
        ([{"name": "a", "reproduces": None}], "set 'a' was not replayed, so nothing was approved"),
    ],
)
def test_runs_of_an_edited_nightly_run_are_refused(tmp_path: Path, sets: Any, said: str) -> None:
    nightly_run = {"schema": "lab.nightly.v1"} | ({} if sets is None else {"sets": sets})
    (tmp_path / "nightly.json").write_text(json.dumps(nightly_run))
    with pytest.raises(UnusableInput) as raised:
        runs_of_nightly_run(tmp_path)
    assert said in str(raised.value)


def test_open_baseline_file_outside_the_object_is_refused(
    runs: tuple[RunDirectory, RunDirectory], tmp_path: Path
) -> None:
    run, _ = runs
    baseline = approve(tmp_path, run, "night", date=DAY).baseline
    files = {"../../../stolen": "0" * 64}
    key = digest(files)
    baseline.path.rename(baseline.path.with_name(key))
    other = replace(baseline, now=baseline.now._replace(object=key))
    (other.path / "object.json").write_text(json.dumps(files))
    with pytest.raises(CannotMeasure, match="outside its folder"):
        open_baseline(other)
