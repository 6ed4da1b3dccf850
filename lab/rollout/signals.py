"""Signals while a canary runs: those that end it become exceptions, and during a rollback they are ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM and SIGHUP, as Python does for SIGINT; in the main thread alone."""
    with _handled(("SIGTERM", "SIGHUP"), _interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore the signals that end a command, because a rollback that ends early is none; in the main thread alone."""
    with _handled(("SIGINT", "SIGTERM", "SIGHUP"), signal.SIG_IGN):
        yield


@contextmanager
def _handled(names: tuple[str, ...], handler: Any) -> Iterator[None]:
    before: dict[int, Any] = {}
    for name in names:
        # AttributeError: a system without the signal. ValueError: not the main thread.
        with suppress(AttributeError, ValueError):
            number = getattr(signal, name)
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
