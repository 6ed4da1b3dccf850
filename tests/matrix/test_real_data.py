"""Every command of studies, reports and the gate on the first turns of real data, from empty and from warm caches."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Done, run_here
from tests.matrix.first_turns import FORMATS

# Each replays what it is given, from a cache that is empty the first time.
OF_RECORDINGS = {
    "sweep": ("study", "sweep"),
    "ablate": ("study", "ablate"),
    "saturation": ("study", "saturation", "--jobs", "1"),
    "governance": ("study", "governance", "--jobs", "1"),
    "scale": ("study", "scale", "--haystack", "0", "--haystack", "5"),
    "silence": ("study", "silence"),
    "latency": (
        *("study", "latency", "--memories", "200", "--turns", "5", "--warm-up", "1"),
        *("--cold", "0", "--appends", "0"),
    ),
    "acceptance": ("acceptance",),
    "run": ("replay", *(word for arm in ("tier_first_v1", "tier_quota_v1", "hybrid") for word in ("--arm", arm))),
}
OF_A_RUN = {
    "score": ("score", "run"),
    "compare": ("compare", "run"),
    "missed": ("missed", "run"),
    "retention": ("study", "retention", "run"),
    "report": ("report", "run"),
    "rollout": ("gate", "run", "--policy", "rollout"),
    "nightly": ("gate", "run", "--policy", "nightly", "--against", "approved", "--out", "nightly"),
}
# A latency is measured anew, and a scale has times.
TIMED = {"latency", "scale"}
TIME = re.compile(r"\d+(\.\d+)? (ms|s|µs)\b")
Play = Callable[[str], dict[str, Done]]


@pytest.fixture(params=sorted(FORMATS))
def played(request: pytest.FixtureRequest, shared: Callable[..., Path], tmp_path: Path) -> Play:
    """Runs every command on a format in a folder of its own; the second time, the caches are filled."""
    name = request.param
    source = FORMATS[name](shared, tmp_path / "data" / name.partition(" ")[0])
    cache = tmp_path / "cache"

    def play(folder: str) -> dict[str, Done]:
        done = {}
        (tmp_path / folder).mkdir()

        def go(called: str, *words: str | Path) -> None:
            done[called] = run_here(*words, cwd=tmp_path / folder, LAB_CACHE_DIR=str(cache))

        form = name.partition(" ")[0]
        set_words = ("study", "league", f"{source}:{form}", "--tokens", "128,256", "--out", "league")
        for called, words in OF_RECORDINGS.items():
            if folder == "cold":
                shutil.rmtree(cache, ignore_errors=True)
            go(called, *words, source, "--format", form, "--embedder", "hashing", "--out", called)
        if folder == "cold":
            shutil.rmtree(cache, ignore_errors=True)
        go("league", *set_words, "--embedder", "hashing")
        shutil.copytree(tmp_path / folder / "run", tmp_path / folder / "approved")
        for called, words in OF_A_RUN.items():
            go(called, *words)
        return done

    return play


def test_commands_work_on_real_data_from_an_empty_cache_and_a_warm_one(played: Play, tmp_path: Path) -> None:
    cold, warm = played("cold"), played("warm")
    for called, first in cold.items():
        again = warm[called]
        # What a set cannot answer is said in one line, or not measurable here; 4, could not measure, is none of these.
        assert first.returncode in (0, 1, 2, 3), (called, first.stderr)
        if first.returncode == 2:
            assert first.stderr.splitlines()[-1].startswith("error: "), (called, first.stderr)
        assert again.returncode == first.returncode, (called, again.stderr)
        if called not in TIMED:
            assert TIME.sub("", again.stdout) == TIME.sub("", first.stdout), called
    assert cold["run"].returncode == cold["score"].returncode == cold["report"].returncode == 0
    same = run_here("diff", tmp_path / "cold" / "run", tmp_path / "warm" / "run")
    assert same.returncode == 0, same.stdout


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_real_model_answers_the_same_from_a_warm_cache(name: str, shared: Callable[..., Path], tmp_path: Path) -> None:
    form = name.partition(" ")[0]
    source = FORMATS[name](shared, tmp_path / "data" / form)
    for folder in ("cold", "warm"):
        words = (*OF_RECORDINGS["run"], source, "--format", form, "--out", tmp_path / folder, "--score")
        done = run_here(*words, LAB_CACHE_DIR=str(tmp_path / "cache"))
        assert done.returncode == 0, done.stderr
    same = run_here("diff", tmp_path / "cold", tmp_path / "warm")
    assert same.returncode == 0, same.stdout
