"""Keep a rollback going: a signal becomes an exception once, and a terminal that is gone is ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from lab.base.formatting import Announce

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    # A second signal would end the rollback that follows the first one.
    _handle(_pass)
    raise KeyboardInterrupt(signal.Signals(number).name)


def _pass(number: int, frame: FrameType | None) -> None:
    """Do nothing. SIG_IGN would be inherited by the gateway that a restart command starts, which then ignores SIGTERM.

    A handler is set back to the default when a command is executed.
    """
    del number, frame


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt for the first signal that ends a command, ignore later ones; in the main thread alone."""
    with _handled(_interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore the signals that end a command, because a rollback that ends early is none; in the main thread alone."""
    with _handled(_pass):
        yield


def unfailing(tell: Announce) -> Announce:
    """Return a function that announces a text if that is possible.

    A terminal that was closed, or a reader of the output that ended, must not end a rollback.
    """

    def announce(text: str) -> None:
        with suppress(Exception):
            tell(text)

    return announce


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    before = _handle(handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _handle(handler: Any) -> dict[int, Any]:
    """Set the handler of signals; return the earlier handlers. A signal that is ignored stays so, as under nohup."""
    before: dict[int, Any] = {}
    for name in _ENDING:
        # AttributeError: a system without the signal. ValueError: not the main thread.
        with suppress(AttributeError, ValueError):
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    return before
