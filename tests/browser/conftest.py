"""A headless Chromium, started once and driven over its debugging pipe: no driver and no port are needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One tab. ``asked`` are the addresses of everything that the last page asked for, ``said`` its errors."""

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

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Show a file, and wait until it is loaded."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", media="", features=[scheme])
        self._events.clear()
        self("Page.navigate", url=page.as_uri())
        while not self._named("Page.loadEventFired"):
            self._read()

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript on the page, whatever the page forbids itself."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

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

    def stopped(self) -> dict[str, Any]:
        """Wait for the next request that comes to nothing, and say why."""
        while not self._named("Network.loadingFailed"):
            self._read()
        return dict(self._named("Network.loadingFailed")[0])

    def close(self) -> None:
        """End it."""
        self("Browser.close")
        self.process.wait(20)
        self._in.close()
        self._out.close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser, if one is installed."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser is installed: {', '.join(NAMES)}")
    opened = Browser(program, tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()
