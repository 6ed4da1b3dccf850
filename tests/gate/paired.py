"""Paired values of two arms whose difference is known, for the rules that judge a difference."""

from __future__ import annotations

from lab.compare.paired import Pairs


def pairs(mean: float, spread: float, conversations: int = 8, measure: str = "Success@6") -> Pairs:
    """Return five pairs per conversation, with conversation differences spread around the mean."""
    result = Pairs(measure, [], [], [], [])
    for number in range(conversations):
        for probe in range(5):
            result.at.append(f"{number}/{probe}")
            result.conversation.append(str(number))
            result.baseline.append(0.5)
            result.candidate.append(0.5 + mean + spread * (-1) ** number * (1 + number // 2))
    return result
