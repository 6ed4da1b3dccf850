"""ABBA blocks and the open loop, with a fake clock."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from lab.studies.latency.work import Clock, abba, open_loop, stretches

SECOND = 1_000_000_000


class HandClock(Clock):
    """A clock that advances only by waiting and by work."""

    def __init__(self) -> None:
        self.time = 7
        self.waits: list[int] = []

    def now(self) -> int:
        return self.time

    def wait_until(self, point: int) -> None:
        self.waits.append(point)
        self.time = max(self.time, point)

    def work(self, nanoseconds: int) -> None:
        self.time += nanoseconds


def test_abba_alternates_the_order() -> None:
    assert list(abba("ABC", 4)) == [(0, list("ABC")), (1, list("CBA")), (2, list("ABC")), (3, list("CBA"))]


@pytest.mark.parametrize("arms", ["AB", "ABC", "ABCD"])
def test_abba_block_balances_positions(arms: str) -> None:
    places: Counter[str] = Counter()
    for _, order in abba(arms, 2):
        places.update({arm: place for place, arm in enumerate(order)})
    assert len(set(places.values())) == 1


def test_stretches_give_every_arm_every_turn_once() -> None:
    found = list(stretches("AB", 5))
    assert [arm for arm, _ in found] == list("ABBA")
    assert [sorted([*found[0][1], *found[3][1]]), sorted([*found[1][1], *found[2][1]])] == [[*range(5)], [*range(5)]]


def test_open_loop_fast_server_starts_on_time() -> None:
    clock = HandClock()
    served = list(open_loop(clock, 10, range(4), lambda _: clock.work(30_000_000)))
    assert [one.intended for one in served] == [7 + place * SECOND // 10 for place in range(4)]
    assert [one.latency for one in served] == [30_000_000] * 4
    assert clock.waits == [one.intended for one in served]


def test_open_loop_slow_response_delays_count() -> None:
    """One response of 350 ms at ten per second: a closed loop would report the others as fast."""
    clock = HandClock()
    spent = [350_000_000, 10_000_000, 10_000_000, 10_000_000, 10_000_000]
    served = list(open_loop(clock, 10, range(5), lambda turn: clock.work(spent[turn])))
    assert [one.latency // 1_000_000 for one in served] == [350, 260, 170, 80, 10]
    assert [one.ended - one.started for one in served] == spent
    assert [one.intended - 7 for one in served] == [place * SECOND // 10 for place in range(5)]


def test_open_loop_overloaded_server_latency_grows() -> None:
    clock = HandClock()
    served = list(open_loop(clock, 20, range(6), lambda _: clock.work(SECOND // 10)))
    steps = [later.latency - sooner.latency for sooner, later in pairwise(served)]
    assert steps == [SECOND // 20] * 5


def test_monotonic_clock_waits_until_the_point() -> None:
    clock = Clock()
    point = clock.now() + 3_000_000
    clock.wait_until(point)
    assert clock.now() >= point
    # A point that has passed is not waited for: a negative time to sleep would be refused.
    clock.wait_until(point - SECOND)
