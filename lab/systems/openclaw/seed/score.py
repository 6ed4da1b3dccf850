"""The final score of seed 000 (E-56): relevance times factors, each of which can be switched off."""

from __future__ import annotations

from lab.recordings.model import MUST, NICE
from lab.retrieval.fusion import K
from lab.retrieval.row import Candidate, Row
from lab.systems.openclaw.recall.retrieve import POOL_DEPTH, Pool
from lab.systems.openclaw.recall.todo import DAY_MS

# Days after which half of the recency is gone (E-53); other categories fade as notes do.
HALF_LIVES = {"preference": 365.0, "decision": 180.0, "fact": 120.0, "entity": 120.0}
HALF_LIFE = 30.0
SCOPE_MATCH = (1.0, 0.9, 0.8)
PRIORS = {MUST: 1.10, NICE: 1.00}
OTHER_PRIOR = 0.95
# Trust classes that are gated (E-60). What nobody classified passes: the plugin writes "user" and "import".
UNTRUSTED, QUARANTINED = "untrusted", "quarantined"
# Small enough to put what it multiplies behind all else.
UNTRUSTED_FACTOR = 0.001
BEST_RRF = 2.0 / (K + 1)


def relevance(candidate: Candidate, scale: str = "rrf") -> float:
    """A candidate's relevance in 0..1.

    ``rrf``: its fused score over the best possible one. Flat: the tenth of both lanes still has .87, so a penalty of
    .15 undoes every difference in rank. ``reciprocal``: the mean of 1/rank over both lanes. ``similarity``: the cosine
    of unit vectors, floored at 0, raised half way to 1 by a text match in proportion to 1/rank.
    """
    if scale == "reciprocal":
        ranks = (candidate.fts_rank, candidate.vec_rank)
        return sum(1.0 / rank for rank in ranks if rank) / 2.0
    if scale == "similarity":
        cosine = max(0.0, 1.0 - candidate.distance / 2.0) if candidate.vec_rank else 0.0
        return cosine + (1.0 - cosine) * 0.5 / candidate.fts_rank if candidate.fts_rank else cosine
    return candidate.score / BEST_RRF


def over_pool(candidate: Candidate, pool: Pool) -> Candidate:
    """A candidate with its ranks, and its fused score, in the whole pool in place of those in its tier.

    So the best of a weak tier is no longer as good as the best of a strong one. One that its tier's vector lane
    returned and the pool's did not keeps its distance, and stands behind all that the pool ranks.
    """
    fts, near = pool.fts.get(candidate.id), pool.vec.get(candidate.id)
    score = sum(1.0 / (K + rank) for rank in (fts, near and near[0]) if rank)
    if near:
        return candidate._replace(score=score, fts_rank=fts, vec_rank=near[0], distance=near[1])
    return candidate._replace(score=score, fts_rank=fts, vec_rank=POOL_DEPTH + 1 if candidate.vec_rank else None)


def recency(row: Row, now_ms: float) -> float:
    """From 1 for a new memory down to .75: soft by construction."""
    age = max(0.0, (now_ms - row.created_at) / DAY_MS)
    return 0.75 + 0.25 * float(0.5 ** (age / HALF_LIVES.get(row.category, HALF_LIFE)))


def scope_match(place: int) -> float:
    """1 in the primary scope, .9 in the first fallback, .8 in later ones."""
    return SCOPE_MATCH[min(place, len(SCOPE_MATCH) - 1)]


def importance_prior(row: Row) -> float:
    """A prior, not a gate."""
    return PRIORS.get(row.importance_label, OTHER_PRIOR)
