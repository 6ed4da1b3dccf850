"""Repeat suppression (seed 000; E-55): recently injected memories score lower, and are never deleted."""

from __future__ import annotations

import math


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
