"""``lab study latency`` as a command: tables, JSON, files and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

SMALL = ("--memories", "60", "--turns", "6", "--cold", "0", "--appends", "0", "--embedder", "hashing")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, make_set: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("latency")
    make_set(folder, "den")
    return folder


def test_latency_tables_fit_80_columns_and_match_json(
    installed: Callable[..., object], lab: Callable[..., object], home: Path
) -> None:
    command = ("study", "latency", "datasets/tiny", "--format", "lab", *SMALL, "--arm", "tier_first_v1", "--out", "out")
    # What the processes of the measurement say reaches the standard error of a process alone.
    done = installed(*command, cwd=home)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "n too small" in done.stdout
    assert "from the recordings, 28 resampled from them" in " ".join(done.stdout.split())
    assert "60 memories: building the lancedb store" in done.stderr
    again = lab(*command, "--json", cwd=home)
    assert (again.returncode, again.stderr) == (0, "")
    found = json.loads(again.stdout)
    assert found["warm"][0]["stages"]["turn"]["n"] == 6
    kept = json.loads((home / "out" / "latency.json").read_text("utf-8"))
    assert {name: found[name] for name in kept} == kept
    page = (home / "out" / "latency.html").read_text("utf-8")
    assert ("Memory latency of a turn by store size" in page, "Time of a turn by stage" in page) == (True, True)
    assert (found["page"], found["figures"], (home / "out" / "figures").exists()) == ("out/latency.html", [], False)
    other = lab(*command, "--seed", "1", cwd=home)
    assert (other.returncode, other.stdout) == (2, "")
    assert "this run was made with different arguments: resampling" in other.stderr
    assert "choose another --out, or remove the folder" in other.stderr


def test_latency_notes_arm_outside_the_shared_table(lab: Callable[..., object], home: Path) -> None:
    few = (
        "--memories",
        "20",
        "--turns",
        "2",
        "--warm-up",
        "0",
        "--cold",
        "1",
        "--appends",
        "0",
        "--embedder",
        "hashing",
    )
    arms = ("--arm", "tier_first_v1", "--arm", "verbatim", "--out", "alone")
    command = ("study", "latency", "datasets/tiny", "--format", "lab", *few, *arms)
    said = "Not measured with cold turns: verbatim, which does not search the shared table."
    done = lab(*command, cwd=home)
    assert (done.returncode, said in " ".join(done.stdout.split())) == (0, True), done.stderr
    found = json.loads(lab(*command, "--json", cwd=home).stdout)
    assert (found["left_out"], [one["arm"] for one in found["cold"]]) == (said, ["tier_first_v1"])
