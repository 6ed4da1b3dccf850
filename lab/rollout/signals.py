"""Signals while a canary runs: those that end it become exceptions, and during a rollback they are ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    # A second signal would end the rollback that follows the first one.
    _handle(signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt for the first signal that ends a command, ignore later ones; in the main thread alone."""
    with _handled(_interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore the signals that end a command, because a rollback that ends early is none; in the main thread alone."""
    with _handled(signal.SIG_IGN):
        yield


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    before = _handle(handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _handle(handler: Any) -> dict[int, Any]:
    """Set the handler of signals; return the earlier handlers."""
    before: dict[int, Any] = {}
    for name in _ENDING:
        # AttributeError: a system without the signal. ValueError: not the main thread.
        with suppress(AttributeError, ValueError):
            number = getattr(signal, name)
            before[number] = signal.signal(number, handler)
    return before
