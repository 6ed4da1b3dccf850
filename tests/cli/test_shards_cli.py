"""``lab replay --shard``, ``--dask`` and ``lab runs merge`` as commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
REPLAY = ("replay", "datasets/tiny", "--format", "lab", "--arm", "hybrid", "--embedder", "hashing", "--out")


@pytest.fixture(scope="module")
def parts(lab: Lab, make_set: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set, its run in one piece, and its two shards."""
    folder = tmp_path_factory.mktemp("parts")
    make_set(folder, "den", "attic", "hall")
    assert lab(*REPLAY, "whole", cwd=folder).returncode == 0
    for number in (1, 2):
        done = lab(*REPLAY, f"part{number}", "--shard", f"{number}/2", cwd=folder)
        assert done.stdout.endswith(f"0 failed. Next: lab runs merge OUT part{number} …\n"), done.stderr
    return folder


def results(run: Path) -> dict[str, Any]:
    """All but timings, whose digests the manifest has, and so its own."""
    found: dict[str, Any] = {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.parent.name != "latency"
    }
    manifest = json.loads(found["manifest.json"])
    assert manifest.pop("sha256")
    digests = manifest.pop("files")
    found["digests"] = {name: one for name, one in digests.items() if not name.startswith("latency/")}
    assert len(found["digests"]) < len(digests)
    return found | {"manifest.json": manifest}


def test_shards_are_listed_merged_and_not_scored_alone(lab: Lab, parts: Path) -> None:
    merged = lab("runs", "merge", "merged", "part2", "part1", "--json", cwd=parts)
    assert json.loads(merged.stdout) == {
        "run": "merged",
        "status": "complete",
        "conversations": {"copied": 3, "there": 0},
        "notes": [],
    }, merged.stderr
    assert results(parts / "merged") == results(parts / "whole")
    again = lab("runs", "merge", "merged", "part1", "part2", cwd=parts)
    assert again.stdout == "merged: 0 conversations copied, 3 already present. Next: lab score merged\n"
    listed = {one["run"]: one for one in json.loads(lab("runs", "list", ".", "--json", cwd=parts).stdout)["runs"]}
    assert [listed["part1"][name] for name in ("shard", "status")] == ["1/2", "complete"]
    assert listed["part1"]["conversations"] + listed["part2"]["conversations"] == 3
    assert "shard" not in listed["merged"]
    assert "complete (shard 2/2, trial)" in lab("runs", "list", ".", cwd=parts).stdout
    for command in ("score", "report"):
        refused = lab(command, "part1", cwd=parts)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "part1: is shard 1/2 of a run, with " in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "merge", "new", "part1"), "shards are missing: 2/2; give all 2"),
        (("runs", "merge", "new", "part1", "whole"), "whole: is a complete run, not a shard"),
        ((*REPLAY, "new", "--shard", "3/2"), "--shard '3/2': expected NUMBER/OF from 1/OF to OF/OF, such as 2/3"),
        ((*REPLAY, "new", "--dask", "here"), "--dask 'here': expected local, or a scheduler's address"),
    ],
)
def test_unusable_shard_is_refused_in_one_line(lab: Lab, parts: Path, words: tuple[str, ...], said: str) -> None:
    ended = lab(*words, cwd=parts)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"error: {said}" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.process
def test_local_dask_cluster_writes_the_same_bytes_quietly(lab: Lab, parts: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    done = lab(*REPLAY, "dask", "--dask", "local", "--jobs", "2", cwd=parts)
    assert done.stdout == (
        "trial: embedder hashing, which is for tests\ndask: 3 done, 0 skipped, 0 failed. Next: lab score dask\n"
    ), done.stderr
    assert sorted(line.split(":")[0] for line in done.stderr.splitlines()) == ["attic", "den", "hall"]
    assert results(parts / "dask") == results(parts / "whole")
