"""Repeat suppression (seed 000; E-55): what was injected lately scores less, and is never deleted."""

from __future__ import annotations

import math


def repeat_factor(times: int, penalty: float, window: int, decay: str = "compounding") -> float:
    """What a score is multiplied by after ``times`` injections within the window.

    ``compounding`` is ``(1 - penalty) ** times``. The others are readings that the seed's words allow, too: ``linear``
    in the share of the window, ``once`` however often, ``literal`` the penalty itself as the factor.
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
    """The optional novelty factor (E-56): less for every recall turn of any session that injected a memory."""
    return 1.0 / (1.0 + 0.15 * math.log1p(times))
