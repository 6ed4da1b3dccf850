"""Hostile names in policies and recordings: verdicts are well-formed, and no control character reaches a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from tests.cli.terminal import all_written

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "a\\u001b[2J\\u009b31m\\uffff\\n::error::x\\r##[error]y"
POLICY = f"""name = "{HOSTILE}"
about = "{HOSTILE}"
minimum_conversations = 2
[comparison]
baseline = "recency"
candidate = "none"
[[guard]]
measure = "Success@6"
margin = 0.01
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two conversations with hostile names, sessions, slices and labels, and a policy with a hostile name."""
    folder = tmp_path_factory.mktemp("hostile")
    for kind in ("datasets", "golden"):
        text = (ROOT / kind / "traps" / "kiln-room.jsonl").read_text("utf-8")
        (folder / kind / "hostile").mkdir(parents=True)
        for number in range(2):
            name = json.dumps(f"::error::{number}\x1b[2J\x9b\u202e\uffff")[1:-1]
            copy = text.replace("kiln-room", name).replace('"type": "', f'"type": "{name}')
            (folder / kind / "hostile" / f"{number}.jsonl").write_text(copy, "utf-8")
    asked = ReplayRequest(str(folder / "datasets/hostile"), "lab", ("recency", "none"), embedder="hashing")
    run_replay(asked, folder / "run")
    (folder / "policy.toml").write_text(POLICY, "utf-8")
    return folder


def on_a_terminal(command: str, cwd: Path) -> str:
    """Return what a command writes to a pseudo terminal."""
    keys, inside = pty.openpty()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TERM": "xterm",
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }
    words = [sys.executable, "-m", "lab", *command.split()]
    process = subprocess.Popen(words, stdin=inside, stdout=inside, stderr=inside, cwd=cwd, env=environment)
    os.close(inside)
    written = all_written(keys)
    assert process.wait(60) in (0, 1, 3), written
    os.close(keys)
    return written.decode()


@pytest.mark.parametrize(
    "command",
    [
        "recordings validate datasets/hostile --format lab",
        "golden lint golden/hostile",
        "replay datasets/hostile --format lab --embedder hashing --arm recency --out again",
        "score run --slices",
        "compare run --all --slices",
        "gate run --policy policy.toml",
        "diff run run",
        "runs list .",
    ],
)
def test_hostile_names_reach_no_terminal_as_written(command: str, place: Path) -> None:
    # The lab's own progress clears its line, which no hostile name does.
    written = on_a_terminal(command, place).replace("\x1b[2K", "")
    assert {one for one in written if not one.isprintable() and one not in "\r\n\uffff"} == set()
    assert not [line for line in written.splitlines() if line.lstrip().startswith("::") or "##[" in line]


def test_verdict_of_hostile_names_is_well_formed(place: Path) -> None:
    on_a_terminal("gate run --policy policy.toml --out verdict", place)
    suite = ElementTree.fromstring((place / "verdict/verdict.xml").read_bytes()).find("testsuite")
    assert suite is not None
    policy = json.loads((place / "verdict/verdict.json").read_bytes())["policy"]
    # What the policy calls itself stands nowhere.
    assert policy.startswith("policy.toml (sha256 ")
    assert suite.get("name") == f"gate {policy}"
    metrics = (place / "verdict/verdict.prom").read_text("utf-8")
    assert metrics.endswith("# EOF\n")
    assert not [line for line in metrics.split("\n") if line.startswith("::")]
