"""The reflector: prune the log when it has grown too large (OB-5). A pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.systems.observations.log import LEVELS, Observation
from lab.systems.plans import is_past

# The share of its room that a log is pruned to, so that the next reflection is not near.
KEPT = 0.75


def reflect(
    log: Sequence[Observation], room: int, now_ms: int, size: Callable[[Sequence[Observation]], int]
) -> list[Observation]:
    """Return a log of at most :data:`KEPT` of ``room`` tokens, in its order; unchanged if it fits into ``room`` (OB-5).

    Past plans are pruned first, then the least important observations; among equally important ones the longest, which
    cost most, and among equally long ones the oldest. ``size`` returns the tokens of observations.
    """
    if size(log) <= room:
        return list(log)
    order = sorted(range(len(log)), key=lambda at: (*_worth(log[at], now_ms), at))
    low, high = 1, len(log)
    while low < high:
        middle = (low + high) // 2
        if size(_without(log, order[:middle])) <= KEPT * room:
            high = middle
        else:
            low = middle + 1
    return _without(log, order[:low])


def _worth(observation: Observation, now_ms: int) -> tuple[int, int, int]:
    """Return the sort key for pruning: the observations with the smallest values go first."""
    return not is_past(observation.due_ms, now_ms), -LEVELS[observation.level], -len(observation.text)


def _without(log: Sequence[Observation], pruned: Sequence[int]) -> list[Observation]:
    out = {*pruned}
    return [observation for at, observation in enumerate(log) if at not in out]
