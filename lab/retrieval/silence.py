"""Silence: recall injects nothing if a signal of the search is below a threshold.

A signal is a number in 0..1, computed from the lanes over all memories in scope, whatever their labels. Seed 004 has
such a threshold for each item (``minScore``); docs/silence.md compares the signals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lab.retrieval.contract import Lanes, cosine_of

# How many of the best cosines the signal ``mean`` covers.
HEAD = 6
# The depth to which the lanes are searched for a signal.
DEPTH = 50


def top(lanes: Lanes) -> float | None:
    """Return the highest cosine."""
    return cosine_of(lanes.vec[0].distance) if lanes.vec else None


def mean(lanes: Lanes) -> float | None:
    """Return the mean of the :data:`HEAD` highest cosines."""
    head = [cosine_of(hit.distance) for hit in lanes.vec[:HEAD]]
    return math.fsum(head) / len(head) if head else None


def margin(lanes: Lanes) -> float | None:
    """Return the highest cosine minus the mean of the first :data:`DEPTH`."""
    cosines = [cosine_of(hit.distance) for hit in lanes.vec[:DEPTH]]
    return cosines[0] - math.fsum(cosines) / len(cosines) if cosines else None


def words(lanes: Lanes) -> float | None:
    """Return ``s / (10 + s)`` of the highest BM25 score s; 0 if no memory shares a word."""
    score = lanes.fts[0].score if lanes.fts else 0.0
    return score / (10.0 + score)


SIGNALS: dict[str, Callable[[Lanes], float | None]] = {"top": top, "mean": mean, "margin": margin, "words": words}


# What each signal is, for tables and charts.
ABOUT = {
    "top": "the highest cosine",
    "mean": f"the mean of the {HEAD} highest cosines",
    "margin": f"the highest cosine minus the mean of the first {DEPTH}",
    "words": "the highest BM25 score s, as s / (10 + s)",
}


@dataclass(frozen=True, slots=True)
class Silence:
    """The signal, and the threshold below which recall is silent; 0 means never."""

    signal: str = "top"
    threshold: float = 0.0

    def applies(self, lanes: Lanes) -> bool:
        """Whether recall is silent; it is not if the signal is one of the vector lane and there is no query vector."""
        value = SIGNALS[self.signal](lanes) if self.threshold > 0 else None
        return value is not None and value < self.threshold
