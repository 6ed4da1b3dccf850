"""A lane with a reranker, over a real endpoint on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.memory.pack.candidate import Candidate, Found, Settings
from lab.memory.pack.packer import gather, pack, trace
from lab.memory.pack.sources import RerankedLane
from lab.systems.openclaw.config.settings import Rerank
from tests.systems.rerank_server import FAULTS, serving


@dataclass(frozen=True, slots=True)
class Fixed:
    """A lane that returns the same candidates for every query."""

    candidates: tuple[Candidate, ...]
    name: str = "fixed"

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        return Found(self.name, self.candidates)


LANE = Fixed(
    (
        Candidate("a", "The choir meets on Monday.", "fixed", 0.9),
        Candidate("b", "Basil needs water every day.", "fixed", 0.5),
        Candidate("c", "The gateway is live.", "fixed", 0.1),
    )
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def test_reranked_lane_gives_the_scores_in_the_new_order() -> None:
    with serving() as server:
        found = RerankedLane(LANE, Rerank(server.url)).search("water for basil", 5, scope=None, now_ms=0)
    assert [(one.ref, one.score) for one in found.candidates] == [("b", 0.9), ("a", 0.5), ("c", 0.1)]
    assert found.reason == "rerank: 2 of 3 moved"


def test_lane_with_one_candidate_says_that_nothing_is_reranked() -> None:
    found = RerankedLane(Fixed(LANE.candidates[:1]), Rerank("http://127.0.0.1:9/")).search("x", 5, scope=None, now_ms=0)
    assert found.reason == "rerank: too few candidates"


def test_answer_that_cannot_be_recorded_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "file"))
    with serving() as server:
        found = RerankedLane(LANE, Rerank(server.url)).search("water for basil", 5, scope=None, now_ms=0)
    assert ([one.ref for one in found.candidates], found.reason) == (["b", "a", "c"], "rerank: 2 of 3 moved")


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_answer_that_cannot_be_used_leaves_the_order_and_a_reason(fault: str) -> None:
    settings = Settings()
    with serving() as server:
        server.fault, reason = FAULTS[fault]
        lane = RerankedLane(LANE, Rerank(server.url, timeout_ms=300))
        done = pack("water for basil", gather([lane], "water for basil", settings), settings)
    assert done.refs == ("a", "b", "c")
    explained = trace(done, "2026-11-20T00:00:00Z", version="x")
    assert explained["lanes"][0]["reason"] == f"rerank: {reason}"
    assert "Basil" not in str(explained["lanes"])
