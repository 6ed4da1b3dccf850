"""Fixtures: a run of three shipped conversations under two policies and a random arm."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory, open_run
from lab.runs.request import ReplayRequest

ARMS = ("tier_first_v1", "tier_quota_v1", "random", "hybrid")


@pytest.fixture(scope="session")
def replay_request(operators: Path) -> ReplayRequest:
    """The request of the run."""
    golden = operators.parents[1] / "golden" / "operators"
    return ReplayRequest(str(operators), "lab", ARMS, golden=str(golden), scope="recorded", embedder="hashing", limit=3)


@pytest.fixture(scope="session")
def sound(replay_request: ReplayRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The unmodified run, shared by all tests."""
    return run_replay(replay_request, tmp_path_factory.mktemp("sound") / "run").run


@pytest.fixture
def run(sound: RunDirectory, tmp_path: Path) -> RunDirectory:
    """A copy of the run that a test may change."""
    shutil.copytree(sound.path, tmp_path / "run")
    return open_run(tmp_path / "run")


@dataclass(frozen=True)
class Ended:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Lab = Callable[..., Ended]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    """Run a command in this process as its entry point does."""
    from lab.cli.main import main

    def call(*words: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["lab", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return call
