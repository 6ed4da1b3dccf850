"""A lane whose first candidates a remote model reorders (RR-7). Whatever goes wrong, the lane's own order stays."""

from __future__ import annotations

from dataclasses import dataclass

from lab.systems.pack.candidate import Found, Lane
from lab.systems.rerank.rerank import rerank
from lab.systems.rerank.settings import Rerank


@dataclass(frozen=True, slots=True)
class RerankedLane:
    """A lane with a reranker."""

    lane: Lane
    settings: Rerank

    @property
    def name(self) -> str:
        """The name of the lane."""
        return self.lane.name

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return what the lane returns, in the order of the reranker.

        The scores stay as they are and move to other candidates, so that the packer compares them as before. The
        reason of an answer that was not used is added to that of the lane. An answer that cannot be recorded is used.
        """
        found = self.lane.search(query, limit, scope=scope, now_ms=now_ms)
        texts = [one.text for one in found.candidates]
        answer = rerank(query, texts, self.settings, arm=f"pack {self.name}", must_record=False)
        if answer.reason is not None:
            reasons = [found.reason] if found.reason else []
            return found._replace(reason="; ".join([*reasons, f"rerank: {answer.reason}"]))
        scores = [one.score for one in found.candidates]
        moved = [found.candidates[position] for position in answer.order]
        return found._replace(
            candidates=tuple(one._replace(score=score) for one, score in zip(moved, scores, strict=True))
        )
