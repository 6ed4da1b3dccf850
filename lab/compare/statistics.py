"""The statistics of a paired comparison.

The conversation is the unit of inference: probes of one conversation are not independent.

Sources: ratio-type clustered t interval and sign-flip randomisation by cluster (Smucker, Allan and Carterette, CIKM
2007, for randomisation; Miller, arXiv 2411.00640, for clustered errors), Holm's step-down correction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

EXACT_UP_TO = 16
DRAWS = 99_999
BLOCK = 4_096


class Estimate(NamedTuple):
    """A mean difference with its clustered uncertainty.

    ``low`` and ``high`` bound the 95 % interval; None where one cluster gives no spread.
    """

    mean: float
    low: float | None
    high: float | None
    standard_error: float | None
    design_effect: float | None
    detectable: float | None


def clustered(differences: Mapping[str, Sequence[float]]) -> Estimate:
    """Mean of all differences.

    Variance ``C/(C-1) * sum((S_c - n_c * mean)^2) / n^2`` over C clusters, t with C - 1 degrees of freedom.

    ``design_effect`` is that variance over the one that would hold were all differences independent. ``detectable``
    is the smallest true difference that a test at 5 % would find with power 80 %.
    """
    sizes = [len(values) for values in differences.values()]
    sums = [math.fsum(values) for values in differences.values()]
    n, clusters = sum(sizes), len(sizes)
    mean = math.fsum(sums) / n
    if clusters < 2:
        return Estimate(mean, None, None, None, None, None)
    variance = (
        clusters
        / (clusters - 1)
        * math.fsum((s - size * mean) ** 2 for s, size in zip(sums, sizes, strict=True))
        / n**2
    )
    error = math.sqrt(variance)
    spread = t_quantile(0.975, clusters - 1)
    independent = math.fsum((value - mean) ** 2 for values in differences.values() for value in values) / (n - 1) / n
    detectable = (spread + t_quantile(0.8, clusters - 1)) * error
    return Estimate(
        mean,
        mean - spread * error,
        mean + spread * error,
        error,
        variance / independent if independent > 0 else None,
        detectable,
    )


def t_quantile(share: float, freedom: int) -> float:
    """A quantile of Student's t."""
    # scipy.stats takes twice as long to import, and computes the same.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def sign_flip(sums: Sequence[float], seed: int = 0, *, one_sided: bool = False) -> float:
    """The p-value of the sum of cluster sums under random signs: exact up to 16 clusters, else 99,999 seeded draws.

    Never 0. ``one_sided``: against sums above 0 alone.
    """
    return sign_flips([sums], seed, one_sided=one_sided)[0]


def sign_flips(measures: Sequence[Sequence[float]], seed: int = 0, *, one_sided: bool = False) -> list[float]:
    """The p-value of each of several lists of cluster sums, as :func:`sign_flip` gives it.

    Those with equally many clusters are held against the same draws, all at once.
    """
    import numpy as np

    found = [math.nan] * len(measures)
    alike: dict[int, list[int]] = {}
    for place, sums in enumerate(measures):
        alike.setdefault(len(sums), []).append(place)
    for clusters, places in alike.items():
        values = np.array([measures[place] for place in places], np.float64).T
        observed = values.sum(axis=0) if one_sided else np.abs(values.sum(axis=0))
        # A tie with the observed sum must count as one in spite of rounding.
        reach = observed - 1e-12 * np.maximum(1.0, np.abs(values).sum(axis=0))
        exact = clusters <= EXACT_UP_TO
        signs = _all_signs(clusters) if exact else _drawn_signs(clusters, seed)
        as_far = np.zeros(len(places), np.int64)
        # Block by block: as floats, the signs of a thousand clusters would be 800 MB.
        for at in range(0, len(signs), BLOCK):
            drawn = signs[at : at + BLOCK].astype(np.float64) @ values
            as_far += np.count_nonzero((drawn if one_sided else np.abs(drawn)) >= reach, axis=0)
        p_values = as_far / len(signs) if exact else (1 + as_far) / (DRAWS + 1)
        for place, p in zip(places, p_values.tolist(), strict=True):
            found[place] = p
    return found


# Every measure of a comparison has the same clusters, and is held against the same draws.
@lru_cache(maxsize=2)
def _drawn_signs(clusters: int, seed: int) -> np.ndarray:
    import numpy as np

    drawn: np.ndarray = np.random.default_rng(seed).integers(0, 2, (DRAWS, clusters), dtype=np.int8)
    drawn *= 2
    drawn -= 1
    return drawn


@lru_cache(maxsize=2)
def _all_signs(clusters: int) -> np.ndarray:
    """Every combination, a row each."""
    import numpy as np

    bits = np.arange(2**clusters)[:, None] >> np.arange(clusters)
    return (1 - 2 * (bits & 1)).astype(np.int8)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjusted p-values over one family."""
    adjusted: dict[str, float] = {}
    highest = 0.0
    for position, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: (pair[1], pair[0]))):
        highest = max(highest, min(1.0, p * (len(p_values) - position)))
        adjusted[name] = highest
    return adjusted


def smallest_p(clusters: int, family: int) -> float:
    """The least Holm-adjusted p that an exact sign-flip over ``clusters`` can give in a family of measures."""
    return min(1.0, family * 2.0 / 2.0**clusters)
