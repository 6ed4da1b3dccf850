"""What many tests need: the public recordings and vectors where they are at hand, a cache of their own, a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from lab.base.processes import set_up
from tests.guard import (
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_ignore_collect,
)

pytest_plugins = ["tests.commands_fixtures"]
__all__ = ("pytest_collection", "pytest_collection_modifyitems", "pytest_configure", "pytest_ignore_collect")
# Compiled code is kept, whatever the caller says: otherwise every worker compiles all files of tests at each run, and
# every process that a test starts compiles the lab.
sys.dont_write_bytecode = False
# As every command does, and before numpy is imported: one thread for each product, and fewer looks for garbage.
set_up()
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
SIX = ("harbor-release", "juniper-clinic", "lantern-shop", "orchid-lab", "tea-mountain", "two-desks")
# Folders of a run whose files have a digest in its manifest.
FILED = ("receipts", "latency", "writes")
# Property tests draw the same examples in every run, so that a commit passes or fails for good; the other profile
# draws new ones (CONTRIBUTING.md). Machines are too uneven for a time limit, on an example or on drawing one.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, max_examples=60, **UNTIMED)
settings.register_profile("random", derandomize=False, **UNTIMED)
settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Vectors and tokens of the tests go to a folder of their own, unless ``LAB_CACHE_DIR`` names one to reuse.

    The workers of one test run fill it together: the cache is made for that.
    """
    if "LAB_CACHE_DIR" not in os.environ:
        own = tmp_path_factory.getbasetemp()
        shared_by_all = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
        os.environ["LAB_CACHE_DIR"] = str(shared_by_all / "cache")
        yield
        del os.environ["LAB_CACHE_DIR"]
    else:
        yield


def _shared(*parts: str) -> Path:
    """A file or folder of the public data beside the project; the test is skipped where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"public data {'/'.join(parts)} is not at hand beside the project")
    return path


@pytest.fixture(scope="session")
def shared() -> Callable[..., Path]:
    """Finds public data by its path below the shared folder, or skips."""
    return _shared


@pytest.fixture(scope="session")
def realmem() -> Path:
    """Four personas of RealMem."""
    return _shared("data", "realmem")


@pytest.fixture(scope="session")
def locomo() -> Path:
    """Five conversations of LoCoMo."""
    return _shared("data", "locomo", "locomo5_dev.json")


@pytest.fixture(scope="session")
def vectors() -> Path:
    """Inputs and outputs observed from the public engine."""
    return _shared("parity", "visible")


def _without_haystack(line: str) -> str:
    """A probe without judgements of memories of conversations that are not among the six."""
    from lab.golden.model import is_added

    probe = json.loads(line)
    for part in ("relevant", "forbidden"):
        probe[part] = [one for one in probe[part] if not is_added(one["memory"])]
    return json.dumps(probe, ensure_ascii=False)


@pytest.fixture(scope="session")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six of the shipped recordings with their gold, beside each other as in the project.

    What must hold of all of them is tested in test_shipped_sets.py; the rest is quicker over six.
    """
    own = tmp_path_factory.mktemp("shipped")
    for kind in ("datasets", "golden"):
        folder = own / kind / "operators"
        folder.mkdir(parents=True)
        for name in SIX:
            lines = (ROOT / kind / "operators" / f"{name}.jsonl").read_text("utf-8").splitlines()
            kept = map(_without_haystack, lines) if kind == "golden" else lines
            (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in kept), "utf-8")
    return own / "datasets" / "operators"


@pytest.fixture(scope="session")
def resealed() -> Callable[..., Any]:
    """Takes the digests of a run anew, as somebody would who covers up what was changed, and opens it.

    ``change`` edits the manifest as JSON. What a digest alone would refuse can so be tested by itself.
    """
    from lab.base.files import digest, dump_json, sha256_file
    from lab.runs.directory import open_run

    def reseal(path: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Any:
        manifest = json.loads((path / "manifest.json").read_bytes())
        kept = [path / "golden.jsonl", *(file for folder in FILED for file in path.glob(f"{folder}/*.parquet"))]
        manifest["files"] = {file.relative_to(path).as_posix(): sha256_file(file) for file in kept if file.is_file()}
        change(manifest)
        manifest["run_key"] = digest(manifest["resolved"])
        manifest["sha256"] = digest({name: value for name, value in manifest.items() if name != "sha256"})
        (path / "manifest.json").write_bytes(dump_json(manifest))
        return open_run(path)

    return reseal


@pytest.fixture(scope="session")
def files_of() -> Callable[[Path], dict[str, bytes]]:
    """Return the bytes of each file below a folder, by relative path."""

    def read(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
        }

    return read


class Browser:
    """A tab of a headless Chromium that is spoken to over a pipe: no driver and no port are needed.

    ``asked`` are the addresses of all that was asked for since a page was opened, ``said`` what was complained of.
    """

    def __init__(self, program: str, home: Path) -> None:
        to_read, self_write = os.pipe()
        self_read, to_write = os.pipe()
        words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        words += ["--remote-debugging-pipe", f"--user-data-dir={home}", "about:blank"]
        # The pipe is to be at descriptors 3 and 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", *words],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._out, self._in = os.fdopen(self_write, "wb", 0), os.fdopen(self_read, "rb")
        self._rest, self._number = b"", 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        (page,) = [one for one in self("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self._session = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        self._number += 1
        number = self._number
        session = {"sessionId": self._session} if self._session else {}
        self._out.write(json.dumps({"id": number, "method": method, "params": params} | session).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = self._in.read1(1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        one, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(one)
        if "method" in message:
            self._events.append(message)
        return message

    def open(
        self, address: str, *, width: int = 1280, dark: bool = False, media: str = "", scripts: bool = True
    ) -> None:
        """Show a page, on a screen or as ``media`` says, and wait until it is loaded."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self("Emulation.setScriptExecutionDisabled", value=not scripts)
        # From another page, because an address with another fragment alone loads nothing.
        for url in ("about:blank", address):
            self._events.clear()
            self("Page.navigate", url=url)
            self.wait("Page.loadEventFired")

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript on the page, whatever the page forbids itself."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 10.0) -> None:
        """Wait until an expression is true on the page."""
        end = time.monotonic() + seconds
        while not self.ask(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def press(self, key: str, *, leads: bool = False) -> None:
        """Press a key and let it go; where it ``leads`` to another page, wait for that."""
        self._events.clear()
        code = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36}.get(key, 0)
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        if leads:
            self.wait("Page.loadEventFired")

    def wait(self, event: str) -> dict[str, Any]:
        """Wait for the first of these events since a page was opened or a key pressed, and say what it was."""
        while not self._named(event):
            self._read()
        return dict(self._named(event)[0])

    def _named(self, method: str) -> list[dict[str, Any]]:
        return [one["params"] for one in self._events if one["method"] == method]

    @property
    def asked(self) -> list[str]:
        """Addresses that the page asked for, its own first."""
        return [one["request"]["url"] for one in self._named("Network.requestWillBeSent")]

    @property
    def said(self) -> list[Any]:
        """Exceptions, messages on the console, and what the browser complained of."""
        thrown = [one["exceptionDetails"] for one in self._named("Runtime.exceptionThrown")]
        return thrown + self._named("Runtime.consoleAPICalled") + self._named("Log.entryAdded")

    def close(self) -> None:
        """End it."""
        self("Browser.close")
        self.process.wait(20)
        self._in.close()
        self._out.close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser, if one is installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser is installed: {', '.join(names)}")
    opened = Browser(program, tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()
