"""The injections of earlier turns, of one arm in one conversation, so that arms never see each other's history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class History:
    """Ids injected in each recall turn, by session key."""

    def __init__(self) -> None:
        self._turns: dict[str, list[frozenset[str]]] = {}
        self._lifetime: Counter[str] = Counter()

    def recent(self, session: str, window: int) -> Counter[str]:
        """Return in how many of the session's last ``window`` recall turns each id was injected."""
        turns = self._turns.get(session, ())
        return Counter(identity for turn in turns[-window:] for identity in turn) if window > 0 else Counter()

    def times(self, identity: str) -> int:
        """Return how many recall turns of any session injected an id."""
        return self._lifetime[identity]

    def remember(self, session: str, ids: Iterable[str]) -> None:
        """Record a recall turn: the ids of the memories kept in the injected block."""
        turn = frozenset(ids)
        self._turns.setdefault(session, []).append(turn)
        self._lifetime.update(turn)
