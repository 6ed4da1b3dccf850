"""Lines of progress say how many parts are done, and how long the others take."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, active_count
from types import SimpleNamespace

import pytest

from lab.base import progress as module
from lab.base.progress import Progress, beating, each_once


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the clock shows."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def test_progress_says_the_time_left(clock: list[float]) -> None:
    progress = Progress(6)
    assert progress.begin("attic") == "attic (1 of 6)"
    # The first part waits for the model.
    clock[0] = 90
    assert progress.next("attic: done") == "attic: done (1 of 6)"
    clock[0] = 100
    assert progress.next("den: done") == "den: done (2 of 6)"
    clock[0] = 110
    assert progress.next("loft: done") == "loft: done (3 of 6, 30 s left)"
    assert progress.begin("mill") == "mill (4 of 6, 30 s left)"


def test_time_left_follows_the_later_half(clock: list[float]) -> None:
    progress = Progress(40)
    for part in range(20):
        clock[0] += 1 if part < 10 else 4
        line = progress.next("part")
    assert line == "part (20 of 40, 80 s left)"


def test_progress_ignores_parts_of_an_earlier_process(clock: list[float]) -> None:
    progress = Progress(20, done=7)
    for _ in range(3):
        clock[0] += 6
        line = progress.next("attic")
    assert line == "attic (10 of 20, 60 s left)"


def test_short_times_and_the_last_part_have_no_time_left(clock: list[float]) -> None:
    progress = Progress(5)
    for part in range(1, 5):
        clock[0] += 4
        assert progress.next("attic") == (f"attic ({part} of 5, 8 s left)" if part == 3 else f"attic ({part} of 5)")
    clock[0] = 400
    assert progress.next("den") == "den (5 of 5)"


def test_each_once_announces_notes_once_and_progress_always() -> None:
    lines: list[str] = []
    announce = each_once(lines.append)
    for _ in range(2):
        announce("attic: its own memory is ignored")
        announce(Progress(1).next("attic: done"))
    assert lines == ["attic: its own memory is ignored", "attic: done (1 of 1)", "attic: done (1 of 1)"]


def test_beating_says_so_while_the_block_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT", 0.001)
    said: list[str] = []
    heard, before = Event(), active_count()

    def announce(text: str) -> None:
        said.append(text)
        heard.set()

    with beating(announce, "drawing"):
        assert heard.wait(60)
    assert (said[0][:9], said[0][-8:], active_count() <= before) == ("drawing (", " so far)", True)


def test_beating_is_quiet_where_something_was_said(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    beats: list[Callable[[], None]] = []
    ticks = iter([False, False, True])

    class Ticks(Event):
        def wait(self, timeout: float | None = None) -> bool:
            clock[0] += timeout or 0
            return next(ticks)

    def thread(target: Callable[[], None], daemon: bool) -> SimpleNamespace:
        beats.append(target)
        return SimpleNamespace(start=lambda: None, join=lambda: None)

    monkeypatch.setattr(module, "Event", Ticks)
    monkeypatch.setattr(module, "Thread", thread)
    said: list[str] = []
    with beating(said.append, "drawing") as tell:
        tell("drawn")
        beats[0]()
    assert said == ["drawn", "drawing (20 s so far)"]
