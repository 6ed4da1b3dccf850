"""Repeat suppression (seed 000; spec 16.2): what was injected lately scores less, and is never deleted.

The history belongs to one arm in one conversation. It is what that arm itself injected, so two policies never see each
other's past.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable


class History:
    """Ids injected in each recall turn, by session key."""

    def __init__(self) -> None:
        self._turns: dict[str, list[frozenset[str]]] = {}
        self._lifetime: Counter[str] = Counter()

    def recent(self, session: str, window: int) -> Counter[str]:
        """In how many of the session's last ``window`` recall turns each id was injected."""
        turns = self._turns.get(session, ())
        return Counter(identity for turn in turns[-window:] for identity in turn) if window > 0 else Counter()

    def novelty(self, identity: str) -> float:
        """The optional novelty factor (spec 16.3): less for every recall turn of any session that injected an id."""
        return 1.0 / (1.0 + 0.15 * math.log1p(self._lifetime[identity]))

    def remember(self, session: str, ids: Iterable[str]) -> None:
        """Note a recall turn: the ids of the memories that were kept in the injected block."""
        turn = frozenset(ids)
        self._turns.setdefault(session, []).append(turn)
        self._lifetime.update(turn)


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
