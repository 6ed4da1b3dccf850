"""The final score of seed 000 (E-56): relevance times factors that can be switched off one by one.

One of them is repeat suppression (E-55): recently injected memories score lower, and are never deleted.
"""

from __future__ import annotations

import math

from lab.recordings.model import MUST, NICE
from lab.retrieval.contract import Candidate, Row, cosine_of
from lab.retrieval.fusion import RRF, Fusion, K
from lab.systems.openclaw.memory import DAY_MS
from lab.systems.openclaw.recall.retrieve import POOL_DEPTH, Pool


def repeat_factor(times: int, penalty: float, window: int, decay: str = "compounding") -> float:
    """Return the score factor after ``times`` injections within the window.

    ``compounding`` is ``(1 - penalty) ** times``. The seed's wording also allows the others: ``linear`` in the share of
    the window, ``once`` regardless of the count, ``literal`` with the penalty itself as the factor.
    """
    if times <= 0:
        return 1.0
    if decay == "linear":
        return 1.0 - penalty * times / window
    if decay == "once":
        return 1.0 - penalty
    if decay == "literal":
        return penalty
    return float((1.0 - penalty) ** times)


def novelty(times: int) -> float:
    """Return the novelty factor (E-56), lower with every recall turn (of any session) that injected it."""
    return 1.0 / (1.0 + 0.15 * math.log1p(times))


# Half-life of recency in days, by category (E-53); HALF_LIFE applies to all other categories.
HALF_LIVES = {"preference": 365.0, "decision": 180.0, "fact": 120.0, "entity": 120.0}
HALF_LIFE = 30.0
SCOPE_MATCH = (1.0, 0.9, 0.8)
PRIORS = {MUST: 1.10, NICE: 1.00}
OTHER_PRIOR = 0.95
# Trust classes that are penalised (E-60). All others pass, including the plugin's "user" and "import".
UNTRUSTED, QUARANTINED = "untrusted", "quarantined"
# Small enough to rank untrusted or outdated memories behind all others.
UNTRUSTED_FACTOR = OUTDATED_FACTOR = 0.001
BEST_RRF = 2.0 / (K + 1)
_new = tuple.__new__


def rank_relevance(rank: int, depth: int) -> float:
    """Return the relevance of a fused rank from 1, on a scale that falls from 1 to 1/``depth`` in equal steps.

    On this scale a factor costs ranks: 0.65 puts the first of 12 candidates behind the fifth. So a penalty changes the
    ranking and deletes nothing (seed 000). Ranks beyond the depth keep the last value.
    """
    return max(1, depth + 1 - rank) / depth


def relevance(candidate: Candidate, scale: str = "rrf", fusion: Fusion = RRF) -> float:
    """Return a candidate's relevance in 0..1 from its scores.

    ``rrf``: its fused score divided by the best possible one. This is flat: rank 10 in both lanes still scores .87, so
    a penalty of .15 outweighs any difference in rank. ``reciprocal``: the mean of 1/rank over both lanes.
    ``similarity``: the cosine of unit vectors, at least 0; a text match moves it towards 1 by half the distance times
    1/rank. ``fused``: the score of the configured fusion divided by the best possible one.
    """
    if scale == "fused":
        return candidate.score / fusion.best
    if scale == "reciprocal":
        ranks = (candidate.fts_rank, candidate.vec_rank)
        return sum(1.0 / rank for rank in ranks if rank) / 2.0
    if scale == "similarity":
        cosine = max(0.0, cosine_of(candidate.distance)) if candidate.vec_rank else 0.0
        return cosine + (1.0 - cosine) * 0.5 / candidate.fts_rank if candidate.fts_rank else cosine
    if fusion is not RRF and fusion != RRF:
        return sum(1.0 / (K + rank) for rank in (candidate.fts_rank, candidate.vec_rank) if rank) / BEST_RRF
    return candidate.score / BEST_RRF


def over_pool(candidate: Candidate, pool: Pool) -> Candidate:
    """Return a candidate with its ranks and fused score in the whole pool instead of its tier.

    This makes the best of a weak tier score lower than the best of a strong one. A candidate that only its tier's
    vector lane returned keeps its distance and ranks behind the pool.
    """
    identity, _, created_at, _, vec_rank, distance = candidate
    fts, near = pool.fts.get(identity), pool.vec.get(identity)
    score = pool.scores.get(identity, 0.0)
    placed = near or (POOL_DEPTH + 1 if vec_rank else None, distance)
    # Does what Candidate(…) does at half the cost.
    return _new(Candidate, (identity, score, created_at, fts, *placed))


def recency(row: Row, now_ms: float) -> float:
    """Return the recency factor, from 1 for a new memory down to .75."""
    age = max(0.0, (now_ms - row.created_at) / DAY_MS)
    return 0.75 + 0.25 * float(0.5 ** (age / HALF_LIVES.get(row.category, HALF_LIFE)))


def scope_match(index: int) -> float:
    """Return 1 for the primary scope (index 0), .9 for the first fallback, .8 for later ones."""
    return SCOPE_MATCH[min(index, len(SCOPE_MATCH) - 1)]


def importance_prior(row: Row) -> float:
    """Return the factor of the importance label, a prior that excludes nothing."""
    return PRIORS.get(row.importance_label, OTHER_PRIOR)
