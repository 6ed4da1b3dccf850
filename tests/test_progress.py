"""Lines of progress say how many parts are done, and how long the others take."""

from __future__ import annotations

import pytest

from lab.base import progress as module
from lab.base.progress import Progress, each_once


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the clock shows."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def test_progress_says_the_time_left(clock: list[float]) -> None:
    progress = Progress(4)
    assert progress.begin("attic") == "attic (1 of 4)"
    clock[0] = 20
    assert progress.next("attic: done") == "attic: done (1 of 4, 60 s left)"
    clock[0] = 60
    assert progress.next("den: done") == "den: done (2 of 4, 60 s left)"
    assert progress.begin("loft") == "loft (3 of 4, 60 s left)"


def test_progress_ignores_parts_of_an_earlier_process(clock: list[float]) -> None:
    progress = Progress(10, done=7)
    clock[0] = 30
    assert progress.next("attic") == "attic (8 of 10, 60 s left)"


def test_short_times_and_the_last_part_have_no_time_left(clock: list[float]) -> None:
    progress = Progress(2)
    clock[0] = 4
    assert progress.next("attic") == "attic (1 of 2)"
    clock[0] = 400
    assert progress.next("den") == "den (2 of 2)"


def test_each_once_announces_notes_once_and_progress_always() -> None:
    lines: list[str] = []
    announce = each_once(lines.append)
    for _ in range(2):
        announce("attic: its own memory is ignored")
        announce(Progress(1).next("attic: done"))
    assert lines == ["attic: its own memory is ignored", "attic: done (1 of 1)", "attic: done (1 of 1)"]
