"""A small run to view, whose texts and keys contain markup."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory, open_run
from lab.runs.request import ReplayRequest

# Texts and names that would run, close or hide something if they stood in a page as they are.
EVIL = '<script>document.title="run"</script><img src=x onerror=alert(1)>"\'></pre></bdi> 山 \u202e'
NAME = 'shop & "<b>co<b>"'
FILE = "/home/ada/wombat.png"
EVIL_SLICE = 'kind"><script>'
LONG = "long" * 40
LABELS = ("must_remember", "nice_to_have", "nice_to_have", "unknown")


def _recording(name: str, sessions: int) -> list[dict[str, Any]]:
    """Two scopes by turns; the first memory of a session takes the place of that of the one before."""
    lines: list[dict[str, Any]] = [{"kind": "recording", "schema": "lab.recording.v1", "conversation": name}]
    for number in range(sessions):
        scope = ("red", "blue")[number % 2]
        lines += [
            {
                "kind": "session",
                "session": f"s{number:02}",
                "time": f"2026-{number // 28 + 1:02}-{number % 28 + 1:02}T09:00:00Z",
                "scope": scope,
            },
            {"kind": "turn", "turn": "t1", "role": "user", "text": f"hello wombat{number} which note {number} {EVIL}"},
        ]
        for part, label in enumerate(LABELS):
            older = [f"{name}/s{number - 1:02}/t1#0"] if number and not part else []
            text = f"note {number} {part} {EVIL} {LONG}"
            own: dict[str, Any] = {"scope": "global"} if part == 1 and number % 4 == 1 else {}
            own |= {"media_refs": [FILE, FILE], "media_kind": f"image {EVIL}"} if part == 1 else {}
            lines.append({"kind": "memory", "text": text, "importance_label": label, "supersedes": older} | own)
        lines += [
            {"kind": "turn", "turn": "t2", "role": "assistant", "text": f"hello back {EVIL}"},
            {
                "kind": "turn",
                "turn": "t3",
                "role": "user",
                "text": f"which note {max(number - 1, 0)} 1 of {sessions} was it?",
            },
        ]
    return lines


def _golden(name: str, sessions: int) -> list[dict[str, Any]]:
    """What was noted a session ago is wanted, and what was replaced since misleads; now and then nothing is needed."""
    wanted = [
        {
            "turn": f"{name}/s{number:02}/t3",
            "relevant": [{"memory": f"{name}/s{number - 1:02}/t1#1", "grade": 2}] if number % 3 else [],
            "forbidden": [{"memory": f"{name}/s{number - 1:02}/t1#0"}],
            "slices": {EVIL_SLICE: f"{number % 2}{EVIL}"},
        }
        for number in range(1, sessions)
    ]
    last = {"memory": f"{name}/s{sessions - 1:02}/t1#2", "grade": 1}
    outside = {"id": f"{name}:last", "conversation": name, "query": "which note", "relevant": [last]}
    return [{"kind": "probe", "type": "paraphrase", **one} for one in (*wanted, outside)]


@pytest.fixture(scope="session")
def walked(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Three conversations through three arms."""
    return _walk(tmp_path_factory.mktemp("view"), {NAME: 11, "plain": 12, "other": 13})


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """One conversation of several hundred turns."""
    return _walk(tmp_path_factory.mktemp("long"), {"long": 190})


def _walk(folder: Path, sessions: dict[str, int]) -> RunDirectory:
    for place, (name, number) in enumerate(sessions.items()):
        for kind, lines in (("set", _recording(name, number)), ("gold", _golden(name, number))):
            (folder / kind).mkdir(exist_ok=True)
            (folder / kind / f"{place}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    arms = ("tier_first_v1", "tier_quota_v1", "quota_repeat")
    asked = ReplayRequest(str(folder / "set"), "lab", arms, golden=str(folder / "gold"), embedder="hashing")
    outcome = run_replay(asked, folder / "run")
    assert outcome.failures == ()
    return outcome.run


@pytest.fixture
def copied(walked: RunDirectory, tmp_path: Path) -> RunDirectory:
    """A copy of it, to be damaged."""
    return open_run(Path(shutil.copytree(walked.path, tmp_path / "run")))


MakeClient = Callable[..., Any]


@pytest.fixture(scope="session")
def client_of() -> MakeClient:
    """A test client of the pages of a run."""
    from starlette.testclient import TestClient

    from lab.view.app import make_app
    from lab.view.live import Live
    from lab.view.pages import Viewer
    from lab.view.runs import Runs

    def make(*runs: RunDirectory, with_text: bool = False, live: Live | None = None) -> TestClient:
        viewer = Viewer(live or Live(Runs(runs)), with_text=with_text)
        return TestClient(make_app(viewer, 8642), "http://127.0.0.1:8642", raise_server_exceptions=False)

    return make
