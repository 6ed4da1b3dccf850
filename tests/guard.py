"""Markers: what a test needs and takes, and a guard that fails a test that needs or takes more than it says."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder
from tests.durations import Times, marks, names_of

HERE = Path(__file__).parent
# Folders whose tests need what few machines have, or look for faults that nobody knows.
FULL = ("benchmarks", "matrix", "mutants", "peers", "recipes")
BY_FIXTURE = {
    # The shipped and the public recordings are replayed.
    **dict.fromkeys(("operators", "realmem", "locomo"), "slow"),
    "browser": "full",
    "disk": "process",
    "executed": "process",
    "extended": "process",
    "installed": "process",
    "running": "process",
    "model": "model",
}
# Which markers allow what.
ALLOWED = {"process": {"slow", "process", "full"}, "model": {"slow", "model", "full"}}
# What a run notes of its commit and its machine comes from these, and the fonts of a drawing.
TOOLS = ("fc-list", "git", "uname")
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
        quick = not {"slow", "full"} & self._markers
        if quick:
            signal.signal(signal.SIGPROF, _end)
            signal.setitimer(signal.ITIMER_PROF, HUNG)
        try:
            return (yield)
        finally:
            if quick:
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
    # The workers measure, not the process that hands out the tests.
    if (path := os.environ.get("LAB_TEST_TIMES")) and config.option.dist == "no":
        config.pluginmanager.register(Times(Path(path)))
    for owner, name, kind in (
        (subprocess.Popen, "__init__", "process"),
        (BaseProcess, "start", "process"),
        (SentenceTransformerEmbedder, "_load", "model"),
    ):
        setattr(owner, name, guard.watched(kind, getattr(owner, name)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no test of ``nox -s full`` where none is wanted."""
    left_out = collection_path.parent == HERE and collection_path.name in FULL
    return True if left_out and "not full" in config.option.markexpr else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collect without looking for garbage, then or later: what is collected is kept."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by folder, by fixture, and by what was measured."""
    known = BY_FIXTURE | marks()
    for item in items:
        if item.path.relative_to(HERE).parts[0] in FULL:
            item.add_marker("full")
        for name in (*names_of(item), *getattr(item, "fixturenames", ())):
            if name in known:
                item.add_marker(known[name])
