"""Markers: what a test needs and takes, and a guard that fails a test that needs or takes more than it says."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder

HERE = Path(__file__).parent
# Folders whose tests are of commands, pages and whole runs.
SLOW = ("benchmarks", "cli", "docs", "mutants", "nightly", "peers", "recipes", "report", "sweep")
# The shipped and the public recordings are replayed, which is no unit.
BY_FIXTURE = {
    **dict.fromkeys(("operators", "realmem", "locomo"), "slow"),
    "browser": "browser",
    "installed": "process",
    "running": "process",
    "model": "model",
}
# Which markers allow what.
ALLOWED = {"process": {"slow", "process", "browser"}, "model": {"slow", "model"}}
# What a run notes of its commit and its machine comes from these.
TOOLS = ("git", "uname")
# Processor seconds after which a test that is not slow has hung: a regular expression that backtracks, or a loop.
# Slow ones, such as mutants, end what hangs themselves.
HUNG = 60


class Guard:
    """Knows the markers of the running test."""

    def __init__(self) -> None:
        self._markers: set[str] | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the markers, for fixtures of the test as well."""
        self._markers = {one.name for one in item.iter_markers()}
        if "slow" not in self._markers:
            signal.signal(signal.SIGPROF, _end)
            signal.setitimer(signal.ITIMER_PROF, HUNG)
        try:
            return (yield)
        finally:
            if "slow" not in self._markers:
                signal.setitimer(signal.ITIMER_PROF, 0)
            self._markers = None

    def watched(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that fails a test whose markers do not allow ``kind``."""

        def checked(*arguments: Any, **named: Any) -> Any:
            if self._markers is not None and not ALLOWED[kind] & self._markers:
                command = arguments[1] if len(arguments) > 1 else named.get("args")
                if not (isinstance(command, tuple | list) and command and command[0] in TOOLS):
                    pytest.fail(f"needs @pytest.mark.{kind}: {command or call.__qualname__}")
            return call(*arguments, **named)

        return checked


def _end(*_: object) -> None:
    pytest.fail(f"hung: it takes more than {HUNG} seconds of processor time")


def pytest_configure(config: pytest.Config) -> None:
    """Put the guard in place."""
    guard = Guard()
    config.pluginmanager.register(guard)
    for owner, name, kind in (
        (subprocess.Popen, "__init__", "process"),
        (BaseProcess, "start", "process"),
        (SentenceTransformerEmbedder, "_load", "model"),
    ):
        setattr(owner, name, guard.watched(kind, getattr(owner, name)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no slow test where none is wanted."""
    is_slow = collection_path.parent == HERE and collection_path.name in SLOW
    return True if is_slow and "not slow" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by folder and by fixture."""
    for item in items:
        if set(item.path.relative_to(HERE).parts) & set(SLOW):
            item.add_marker("slow")
        for fixture, marker in BY_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
