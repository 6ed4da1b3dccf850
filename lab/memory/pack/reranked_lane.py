"""A lane whose first candidates a remote model reorders (RR-7). If anything goes wrong, the lane's own order stays."""

from __future__ import annotations

from dataclasses import dataclass

from lab.memory.pack.candidate import Found, Lane
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
        """Return the candidates of the lane in the order of the reranker.

        The list of scores stays as it is and is assigned to the candidates in their new order, so that the packer
        compares them as before. How many moved, or why the answer was not used, is added to the lane's reason. An
        answer that cannot be recorded is used all the same.
        """
        found = self.lane.search(query, limit, scope=scope, now_ms=now_ms)
        texts = [one.text for one in found.candidates]
        answer = rerank(query, texts, self.settings, arm=f"pack {self.name}", must_record=False)
        said = answer.reason or (f"{answer.moved} of {answer.sent} moved" if answer.sent else "too few candidates")
        found = found._replace(reason="; ".join([*([found.reason] if found.reason else []), f"rerank: {said}"]))
        if answer.reason is not None:
            return found
        scores = [one.score for one in found.candidates]
        moved = [found.candidates[position] for position in answer.order]
        return found._replace(
            candidates=tuple(one._replace(score=score) for one, score in zip(moved, scores, strict=True))
        )
