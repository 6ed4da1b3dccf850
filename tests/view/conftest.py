"""A small run to walk, whose texts and keys are markup, and a headless browser that is asked over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.replay.plan import Asked
from lab.replay.run import run_replay
from lab.replay.run_directory import RunDirectory, open_run

# Texts and names that would run, close or hide something if they stood in a page as they are.
EVIL = '<script>document.title="run"</script><img src=x onerror=alert(1)>"\'></pre></bdi> 山 \u202e'
NAME = 'shop & "<b>co<b>"'
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
                "time": f"2026-01-{number + 1:02}T09:00:00Z",
                "scope": scope,
            },
            {"kind": "turn", "turn": "t1", "role": "user", "text": f"hello wombat{number} which note {number} {EVIL}"},
        ]
        for part, label in enumerate(LABELS):
            older = [f"{name}/s{number - 1:02}/t1#0"] if number and not part else []
            text = f"note {number} {part} {EVIL} {LONG}"
            lines.append({"kind": "memory", "text": text, "importance_label": label, "supersedes": older})
        lines += [
            {"kind": "turn", "turn": "t2", "role": "assistant", "text": f"hello back {EVIL}"},
            {"kind": "turn", "turn": "t3", "role": "user", "text": f"which note {max(number - 1, 0)} 1 was it?"},
        ]
    return lines


def _golden(name: str, sessions: int) -> list[dict[str, Any]]:
    """What was noted a session ago is wanted, and what was replaced since misleads; now and then nothing is needed."""
    wanted = [
        {
            "turn": f"{name}/s{number:02}/t3",
            "relevant": [{"memory": f"{name}/s{number - 1:02}/t1#1", "grade": 2}] if number % 3 else [],
            "forbidden": [{"memory": f"{name}/s{number - 1:02}/t1#0"}],
        }
        for number in range(1, sessions)
    ]
    last = {"memory": f"{name}/s{sessions - 1:02}/t1#2", "grade": 1}
    outside = {"id": f"{name}:last", "conversation": name, "query": "which note", "relevant": [last]}
    return [{"kind": "probe", "type": "paraphrase", **one} for one in (*wanted, outside)]


@pytest.fixture(scope="session")
def walked(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Three conversations through three arms."""
    folder = tmp_path_factory.mktemp("view")
    for place, name in enumerate((NAME, "plain", "other")):
        for kind, lines in (("set", _recording(name, 11 + place)), ("gold", _golden(name, 11 + place))):
            (folder / kind).mkdir(exist_ok=True)
            (folder / kind / f"{place}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    arms = ("tier_first_v1", "tier_quota_v1", "quota_repeat")
    asked = Asked(str(folder / "set"), "lab", arms, golden=str(folder / "gold"), embedder="hashing")
    outcome = run_replay(asked, folder / "run")
    assert outcome.failures == ()
    return outcome.run


@pytest.fixture
def copied(walked: RunDirectory, tmp_path: Path) -> RunDirectory:
    """A copy of it, to be damaged."""
    return open_run(Path(shutil.copytree(walked.path, tmp_path / "run")))


FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe")
# Becomes the browser, which reads from descriptor 3 and writes to 4.
ON_3_AND_4 = """
import os, sys
from fcntl import F_DUPFD, fcntl
given = [fcntl(int(one), F_DUPFD, 10) for one in sys.argv[1:3]]
for number, one in enumerate(given, 3):
    os.dup2(one, number)
    os.close(one)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless Chromium that is spoken to in the DevTools protocol, over a pipe."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [program, *FLAGS, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", ON_3_AND_4, str(to_browser), str(from_browser), *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Ask for something and wait for the answer; what happens meanwhile goes to ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (got := self._next()).get("id") != self._number:
            self.events.append(got)
        assert "error" not in got, got
        return got["result"]

    def open(self, address: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a page at a width, and wait until it is there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait("Page.loadEventFired")

    def wait(self, event: str) -> None:
        """Wait for an event."""
        while not any(one.get("method") == event for one in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """What a piece of JavaScript comes to."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key that writes something, and let it go."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self) -> bytes:
        """The page as it is seen, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=False)["data"])

    def complaints(self) -> list[Any]:
        """Errors of scripts, and what the console or the policy of the page complained about."""
        bad = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [one["params"] for one in self.events if one.get("method") in bad]

    def asked_for(self) -> list[str]:
        """Every address that the page asked for."""
        return [
            one["params"]["request"]["url"] for one in self.events if one.get("method") == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        """End it."""
        os.close(self._write)
        self._process.terminate()
        self._process.wait(10)
        os.close(self._read)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            some = os.read(self._read, 1 << 16)
            assert some, "the browser has gone"
            self._rest += some
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser; the test is skipped where none is installed."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    found = Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


MakeClient = Callable[..., Any]


@pytest.fixture(scope="session")
def client_of() -> MakeClient:
    """A test client of the pages of a run."""
    from starlette.testclient import TestClient

    from lab.view.app import make_app
    from lab.view.index import Index
    from lab.view.pages import Viewer
    from lab.view.recorded import Recorded

    def make(run: RunDirectory, *, with_text: bool = False) -> TestClient:
        viewer = Viewer(Index(run), Recorded(run), with_text=with_text)
        return TestClient(make_app(viewer, 8642), "http://127.0.0.1:8642", raise_server_exceptions=False)

    return make
