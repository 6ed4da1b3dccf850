"""Runs to compare: the shipped recordings through a few arms, with a stand-in for the embedder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest

MakeRun = Callable[..., RunDirectory]


@pytest.fixture(scope="session")
def make_run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Replay the shipped recordings through the named arms; equal arguments give the same run."""
    made: dict[str, RunDirectory] = {}

    def make(*arms: str, **arguments: Any) -> RunDirectory:
        asked = ReplayRequest(str(operators), "lab", arms, embedder="hashing", **arguments)
        if repr(asked) not in made:
            made[repr(asked)] = run_replay(asked, tmp_path_factory.mktemp("run") / "run").run
        return made[repr(asked)]

    return make
