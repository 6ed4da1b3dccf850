"""Signals that end a canary: the first one is raised, and nothing ends the rollback that follows."""

from __future__ import annotations

import os
import signal

import pytest

from lab.canary.rollout.commands import raised, undisturbed

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("first", NUMBERS)
def test_signals_after_the_first_are_ignored(first: signal.Signals) -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with raised():
        with pytest.raises(KeyboardInterrupt, match=first.name):
            os.kill(os.getpid(), first)
        for number in NUMBERS:
            os.kill(os.getpid(), number)
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_signals_during_a_rollback_are_ignored() -> None:
    with raised(), undisturbed():
        for number in NUMBERS:
            os.kill(os.getpid(), number)


@pytest.mark.parametrize("ignored", NUMBERS)
def test_signal_that_is_ignored_stays_ignored(ignored: signal.Signals) -> None:
    """A command under nohup goes on after the logout."""
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        with raised():
            os.kill(os.getpid(), ignored)
            with undisturbed():
                os.kill(os.getpid(), ignored)
            assert signal.getsignal(ignored) is signal.SIG_IGN
        assert signal.getsignal(ignored) is signal.SIG_IGN
    finally:
        signal.signal(ignored, before)
