"""Statistical power: the one calculation behind every minimum detectable effect and every "more conversations".

A test at one-sided level ``level`` over C conversations with standard error ``error`` detects a true difference of
``(t(1 - level) + t(power)) * error`` with probability ``power``; t has C - 1 degrees of freedom. Comparisons and golden
sets use level .025, which is a two-sided test at 5 %; gates use the level of their policy.
"""

from __future__ import annotations

import math

POWER = 0.8
TWO_SIDED = 0.025
# Beyond this, "more conversations like these" is no advice.
MOST_CONVERSATIONS = 10_000


def detectable(error: float, conversations: int, level: float = TWO_SIDED) -> float:
    """Return the minimum detectable effect of a standard error over at least two conversations."""
    return quantiles(conversations, level) * error


def quantiles(conversations: int, level: float = TWO_SIDED) -> float:
    """Return the minimum detectable effect in units of the standard error."""
    return t_quantile(1 - level, conversations - 1) + t_quantile(POWER, conversations - 1)


def design_error(share: float, design_effect: float, n: int) -> float:
    """Return the standard error of a paired difference of hits before it is measured.

    A share of the ``n`` probes differs, by 1 or -1, and correlation within conversations multiplies the variance by
    ``design_effect``.
    """
    return math.sqrt(share * design_effect / n)


def conversations_needed(effect: float, error: float, conversations: int, level: float, least: int = 2) -> int | None:
    """Return how many conversations like these detect a true difference of ``effect`` with 80 % power.

    ``error`` is the standard error over ``conversations``; it shrinks with the square root of their number. ``least``
    is the smallest number at which a test can be significant at all. None means more than any study has.
    """
    few, enough = least - 1, least
    while not _detects(effect, error, conversations, level, enough):
        few, enough = enough, enough * 2
        if enough > MOST_CONVERSATIONS:
            return None
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if _detects(effect, error, conversations, level, middle) else (middle, enough)
    return enough


def _detects(effect: float, error: float, conversations: int, level: float, planned: int) -> bool:
    return detectable(error * math.sqrt(conversations / planned), planned, level) <= abs(effect)


def t_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution."""
    # scipy.stats gives the same value and takes twice as long to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))
