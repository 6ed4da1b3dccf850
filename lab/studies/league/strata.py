"""Means over several sets, each with the same weight, and the uncertainty of their differences (LG-15).

The conversation is the unit, as in :mod:`lab.compare.statistics`; the sets are strata, so conversations vary within
their set only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lab.compare.statistics import LEAST_CLUSTERS, Estimate, clustered, detectable, t_quantile

Groups = Mapping[str, Sequence[float]]


def stratified(strata: Sequence[Groups]) -> Estimate:
    """Return the mean of the means of the strata; each maps a conversation to its values.

    The variance is the sum of the clustered variances of the strata, divided by the square of their number, with t of
    as many degrees of freedom as there are conversations beyond one in each stratum. There is no interval with fewer
    than :data:`LEAST_CLUSTERS` conversations in all, or if a stratum has only one conversation.
    """
    if len(strata) == 1:
        return clustered(strata[0])
    estimates = [clustered(groups) for groups in strata]
    mean = math.fsum(estimate.mean for estimate in estimates) / len(estimates)
    errors = [estimate.standard_error for estimate in estimates]
    known = [error for error in errors if error is not None]
    clusters = sum(map(len, strata))
    if len(known) < len(errors):
        return Estimate(mean, None, None, None, None, None)
    error = math.sqrt(math.fsum(single**2 for single in known)) / len(strata)
    if clusters < LEAST_CLUSTERS:
        return Estimate(mean, None, None, error, None, None)
    half = t_quantile(0.975, clusters - len(strata)) * error
    return Estimate(mean, mean - half, mean + half, error, None, detectable(error, clusters))


def weighted_sums(strata: Sequence[Groups]) -> list[float]:
    """Return what each conversation adds to the mean of the means, for a sign-flip test of it."""
    return [
        math.fsum(values) / sum(map(len, groups.values())) / len(strata)
        for groups in strata
        for values in groups.values()
    ]
