"""RepeatRate over the ids that receipts list, session by session, in the order of the log.

The definition is that of :func:`lab.measures.repetition.repeat_rates`: the share of a turn's items that were there in
any of the previous recall turns of the window; nothing is said of a turn without items, nor of the first that has some.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from lab.measures.repetition import WINDOW

MOST_SESSIONS = 4096


class _Session(NamedTuple):
    turns: deque[frozenset[str]]
    started: list[bool]


class Repeats:
    """What the last turns of each session listed. The session that was silent longest is forgotten where many are."""

    def __init__(self, most_sessions: int = MOST_SESSIONS) -> None:
        self._most = most_sessions
        self._open = OrderedDict[tuple[str, str], _Session]()
        self._turns = self._forgotten = 0
        self._rates = 0.0
        self._by = {"session": 0, "scope": 0}

    def add(self, session: str | None, scope: str, ids: Sequence[str]) -> None:
        """A recall turn. Where the line names no session its scope stands for one."""
        kind = "scope" if session is None else "session"
        self._by[kind] += 1
        key = (kind, scope if session is None else session)
        held = self._open.get(key)
        if held is None:
            held = self._open[key] = _Session(deque(maxlen=WINDOW), [False])
            if len(self._open) > self._most:
                self._open.popitem(last=False)
                self._forgotten += 1
        else:
            self._open.move_to_end(key)
        listed = frozenset(ids)
        if listed and held.started[0]:
            self._turns += 1
            self._rates += len(listed & frozenset().union(*held.turns)) / len(listed)
        held.started[0] |= bool(listed)
        held.turns.append(listed)

    def as_json(self) -> dict[str, Any]:
        """The mean over turns, and what it stands on."""
        return {
            "rate": self._rates / self._turns if self._turns else None,
            "window": WINDOW,
            "turns": self._turns,
            "by": dict(self._by),
            "sessions_forgotten": self._forgotten,
        }
