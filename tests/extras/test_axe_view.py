"""The accessibility of the viewer and of the page for judging, as axe-core sees it in a headless Chromium.

axe-core is no dependency of the project. To run this test: ``npm install axe-core`` in a folder, and ``AXE_CORE`` set
to its ``axe.min.js``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay

SERIOUS = ("serious", "critical")
RUN = """axe.run(document, { resultTypes: ["violations"] }).then(found => found.violations.map(
    one => [one.id, one.impact, one.nodes[0].html.slice(0, 200)]))"""
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
def axe() -> str:
    """The source of axe-core."""
    path = os.environ.get("AXE_CORE")
    if not path or not Path(path).is_file():
        pytest.skip("axe-core is not at hand: npm install axe-core, and set AXE_CORE to its axe.min.js")
    return Path(path).read_text("utf-8")


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


def _serious(browser: Any, axe: str, address: str, width: int, dark: bool) -> list[list[str]]:
    browser.open(address, width=width, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    browser.ask(f"{axe};0")
    found = browser("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)["result"]["value"]
    return [one for one in found if one[1] in SERIOUS]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_viewer_has_no_serious_finding(browser: Any, axe: str, run: Path, width: int, dark: bool) -> None:
    with _served("view", str(run), "--port", "0", "--json", "--with-text", cwd=run) as line:
        address = json.loads(line)["address"]
        found = {page: _serious(browser, axe, address + page, width, dark) for page in PAGES}
    assert found == {page: [] for page in PAGES}


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_judging_has_no_serious_finding(
    browser: Any, axe: str, operators: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    command = ("golden", "pool", str(operators), "--format", "lab", "--turns", "2", "--embedder", "hashing")
    subprocess.run([sys.executable, "-m", "lab", *command, "--out", "pool.jsonl"], cwd=tmp_path, check=True)
    judge = ("golden", "judge", "pool.jsonl", "--out", "gold.jsonl", "--browser", "--port", "0")
    with _served(*judge, cwd=tmp_path) as line:
        address = line.split()[0]
        assert _serious(browser, axe, address, width, dark) == []
        # The choice of a type, after all memories are graded.
        browser.press("2")
        browser.until("document.getElementById('items-title').textContent.startsWith('1 of')")
        browser.press("r")
        browser.until("document.getElementById('types') !== null")
        assert _serious(browser, axe, address, width, dark) == []
