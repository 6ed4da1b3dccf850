"""The timings of an arm do not depend on other arms or their order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lab.replay.loop import replay
from lab.replay.plan import make_plan
from lab.replay.sources import open_sources, play_of, prepare, tools_of
from lab.retrieval.exact import ExactStore, ExactView
from lab.runs.request import ReplayRequest
from lab.systems.openclaw import finish
from lab.systems.openclaw.recall import retrieve
from lab.systems.openclaw.seed import hot_lane

ARMS = ("tier_first_v1", "seed_full", "hybrid", "tier_quota_v1", "bm25")
# Nanoseconds of each kind of work. All else takes no time, so sums show what was timed, and how often.
VIEW, TEXT, FUSE, CHOOSE, WRAP = 10_000_000, 100_000, 7_000, 300, 11


class Hands:
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.now = 0

    def slow(self, patch: pytest.MonkeyPatch, place: Any, name: str, spent: int) -> None:
        """Make each call of a function take this time."""
        work = getattr(place, name)

        def slowly(*given: Any, **named: Any) -> Any:
            self.now += spent
            return work(*given, **named)

        patch.setattr(place, name, slowly)


def timings(operators: Path, arms: tuple[str, ...]) -> dict[tuple[str, str], dict[str, int]]:
    plan = make_plan(ReplayRequest(str(operators), "lab", arms, embedder="hashing", limit=1))
    sources, (recording,) = open_sources(plan), plan.recordings
    prepare(plan, plan.recordings, sources, lambda _: None)
    play = play_of(plan, recording, tools_of(plan, recording, sources))
    with pytest.MonkeyPatch.context() as patch:
        hands = Hands()
        patch.setattr(time, "perf_counter_ns", lambda: hands.now)
        hands.slow(patch, ExactStore, "view", VIEW)
        hands.slow(patch, ExactView, "_search_text", TEXT)
        hands.slow(patch, retrieve, "fuse", FUSE)
        hands.slow(patch, hot_lane, "by_policy", CHOOSE)
        hands.slow(patch, finish, "wrap", WRAP)
        return {(one.point.key, one.arm): one.recall.timings for one in replay(play, plan.arms)}


def test_replay_arms_sharing_a_search_are_timed_as_if_alone(operators: Path) -> None:
    arms = ARMS
    alone = {key: spent for arm in arms for key, spent in timings(operators, (arm,)).items()}
    for order in (arms, arms[::-1], arms[2:] + arms[:2]):
        together = timings(operators, order)
        assert together == {key: alone[key] for key in together}
        assert together.keys() == alone.keys()
    searched = [spent for (_, arm), spent in alone.items() if arm == "tier_first_v1" and spent["search"]]
    assert searched
    for spent in searched:
        assert spent["retrieve"] == VIEW
        # One search and one fusion per tier, and no other time.
        assert spent["search"] % (TEXT + FUSE) == 0
        assert spent["select"] == 0
        assert spent["wrap"] == WRAP
    flow = [spent for (_, arm), spent in alone.items() if arm == "seed_full" and "search" in spent]
    # An arm fuses the pool of a scope itself, to rank relevance and exemptions over it.
    assert all(spent["select"] % FUSE % CHOOSE == 0 < spent["select"] for spent in flow)
