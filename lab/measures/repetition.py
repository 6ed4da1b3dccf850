"""How often the same memories come back, turn after turn.

All of them look at one arm's selections in one conversation, in order. A selection is the tuple of keys that were
injected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

WINDOW = 6
Selections = Sequence[Sequence[str]]


def repeat_rates(selections: Selections, window: int = WINDOW) -> list[float | None]:
    """RepeatRate per turn: the share of its items that were injected in any of the previous ``window`` recall turns.

    None for an empty selection, and for the first turn that has one: nothing could have been repeated there.
    """
    rates: list[float | None] = []
    started = False
    for turn, chosen in enumerate(selections):
        recent = {key for earlier in selections[max(0, turn - window) : turn] for key in earlier}
        rates.append(sum(key in recent for key in chosen) / len(chosen) if chosen and started else None)
        started = started or bool(chosen)
    return rates


def dominance(selections: Selections, window: int = WINDOW) -> list[float | None]:
    """RepeatDominance per turn.

    Over the last ``window`` selections, this one included, the share of slots that the commonest memory took.

    This is the Berger-Parker index. A selection lists a memory once, so the largest value is one over the mean
    selection size.
    """
    values: list[float | None] = []
    for turn in range(len(selections)):
        counts = Counter(key for chosen in selections[max(0, turn - window + 1) : turn + 1] for key in chosen)
        values.append(max(counts.values()) / counts.total() if counts else None)
    return values


def longest_streak(selections: Selections) -> float | None:
    """LongestStreak: the most consecutive recall turns in which one memory was injected; None where none ever was."""
    longest, running = 0, Counter[str]()
    for chosen in selections:
        running = Counter({key: running[key] + 1 for key in chosen})
        longest = max([longest, *running.values()])
    return float(longest) if longest else None


def neighbour_jaccard(selections: Selections) -> list[float | None]:
    """Jaccard per turn.

    How alike this selection and the one before are; None for the first, and where both are empty.
    """
    values: list[float | None] = []
    for turn, chosen in enumerate(selections):
        before = set(selections[turn - 1]) if turn else set()
        union = before | set(chosen)
        values.append(len(before & set(chosen)) / len(union) if turn and union else None)
    return values
