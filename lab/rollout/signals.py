"""Signals as exceptions, so that a canary that is told to end rolls back first."""

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
    before: dict[int, Any] = {}
    for name in ("SIGTERM", "SIGHUP"):
        with suppress(AttributeError, ValueError):
            number = getattr(signal, name)
            before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
