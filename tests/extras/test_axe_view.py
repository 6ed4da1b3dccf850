"""The accessibility of the viewer and of the page for judging, as axe-core sees it in a headless Chromium."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from tests.extras.conftest import Serious

TURN = "conversation=harbor-release&turn=harbor-release%2Fs06%2Ft03"
PAGES = (
    "",
    "conversations?sort=flipped",
    "probes?measure=nDCG@6&sort=difference",
    "turns?conversation=harbor-release",
    f"turn?{TURN}&arm=tier_quota_v1",
    "compare",
    "turns?show=odd",
)


@pytest.fixture(scope="module")
def run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    request = ReplayRequest(
        *(str(operators), "lab", ("tier_first_v1", "tier_quota_v1", "hybrid", "oracle")),
        embedder="hashing",
        scope="recorded",
        haystack=0,
    )
    return run_replay(request, tmp_path_factory.mktemp("axe") / "run").run.path


@contextmanager
def _served(*command: str, cwd: Path) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-m", "lab", *command], cwd=cwd, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_viewer_has_no_serious_finding(serious: Serious, run: Path, width: int, dark: bool) -> None:
    with _served("view", str(run), "--port", "0", "--json", "--with-text", cwd=run) as line:
        address = json.loads(line)["address"]
        found = {page: serious(address + page, width, dark=dark) for page in PAGES}
    assert found == {page: [] for page in PAGES}


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_judging_has_no_serious_finding(
    browser: Any, serious: Serious, operators: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    command = ("golden", "pool", str(operators), "--format", "lab", "--turns", "2", "--embedder", "hashing")
    subprocess.run([sys.executable, "-m", "lab", *command, "--out", "pool.jsonl"], cwd=tmp_path, check=True)
    judge = ("golden", "judge", "pool.jsonl", "--out", "gold.jsonl", "--browser", "--port", "0")
    with _served(*judge, cwd=tmp_path) as line:
        address = line.split()[0]
        assert serious(address, width, dark=dark) == []
        # The choice of a type, after all memories are graded.
        browser.press("2")
        browser.until("document.getElementById('items-title').textContent.startsWith('1 of')")
        browser.press("r")
        browser.until("document.getElementById('types') !== null")
        assert serious(address, width, dark=dark) == []
