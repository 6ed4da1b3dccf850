"""Repetition between the recalls of a session, in the order of the log.

* The repeat rate is defined in :mod:`lab.measures.definitions.repeat_rate`: the share of a turn's items that occurred
  in any earlier recall turn of the window. Turns without items, and the first turn with items, are excluded.
* A streak is the number of consecutive recalls that list the same id.
* An answer is stale if the hits of both lanes, including their scores, equal those of an earlier recall in the window,
  so that the result did not depend on the query. In a healthy store, that happens only for queries with the same words;
  a frozen index, a cache or a constant embedder causes it always.
* The distinct share is the share of distinct ids among all listed ids, over windows of :data:`DISTINCT_OVER` recalls.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from lab.canary.audit.windows import Worst
from lab.measures.repetition import WINDOW

MOST_SESSIONS = 4096
DISTINCT_OVER = 100
Hits = Sequence[dict[str, Any]]


class _Session(NamedTuple):
    turns: deque[frozenset[str]]
    started: list[bool]
    streaks: dict[str, int]
    # Hashes of the hits of the vector lane, and of both lanes.
    vectors: deque[int]
    answers: deque[int]


class Repeats:
    """The items of the last turns of each session; beyond ``most_sessions``, the least recent session is forgotten."""

    def __init__(self, most_sessions: int = MOST_SESSIONS) -> None:
        self._most = most_sessions
        self._open = OrderedDict[tuple[str, str], _Session]()
        self._turns = self._forgotten = self._streak = 0
        self._rates = 0.0
        self._by = {"session": 0, "scope": 0}
        self._vectors = self._stale_vectors = self._answers = self._stale_answers = 0
        self._worst, self._worst_vectors = Worst(), Worst()
        self._ids = set[str]()
        self._listed = self._recalls = self._windows = 0
        self._distinct = 0.0

    def add(self, session: str | None, scope: str, ids: Sequence[str], fts: Hits = (), vec: Hits = ()) -> None:
        """Add a recall turn with the hits of its lanes. Without a session, the scope is used instead."""
        kind = "scope" if session is None else "session"
        self._by[kind] += 1
        state = self._session(kind, scope if session is None else session)
        listed = frozenset(ids)
        if listed and state.started[0]:
            self._turns += 1
            self._rates += len(listed & frozenset().union(*state.turns)) / len(listed)
        state.started[0] |= bool(listed)
        state.turns.append(listed)
        self._count_streaks(state.streaks, listed)
        self._count_stale(state, fts, vec)
        self._count_distinct(listed)

    def _session(self, kind: str, name: str) -> _Session:
        state = self._open.get((kind, name))
        if state is None:
            recent = (deque[Any](maxlen=WINDOW) for _ in range(3))
            turns, vectors, answers = recent
            state = self._open[kind, name] = _Session(turns, [False], {}, vectors, answers)
            if len(self._open) > self._most:
                self._open.popitem(last=False)
                self._forgotten += 1
        else:
            self._open.move_to_end((kind, name))
        return state

    def _count_streaks(self, streaks: dict[str, int], listed: frozenset[str]) -> None:
        streaks_now = {identifier: streaks.get(identifier, 0) + 1 for identifier in listed}
        streaks.clear()
        streaks.update(streaks_now)
        self._streak = max(self._streak, *streaks_now.values()) if streaks_now else self._streak

    def _count_stale(self, state: _Session, fts: Hits, vec: Hits) -> None:
        if not fts and not vec:
            return
        vectors = hash(tuple((hit["id"], hit["score"], hit["distance"]) for hit in vec))
        answer = hash((vectors, *((hit["id"], hit["score"]) for hit in fts)))
        self._answers += 1
        self._stale_answers += answer in state.answers
        self._worst.add(answer in state.answers)
        state.answers.append(answer)
        if vec:
            self._vectors += 1
            self._stale_vectors += vectors in state.vectors
            self._worst_vectors.add(vectors in state.vectors)
            state.vectors.append(vectors)

    def _count_distinct(self, listed: frozenset[str]) -> None:
        if not listed:
            return
        self._ids |= listed
        self._listed += len(listed)
        self._recalls += 1
        if self._recalls == DISTINCT_OVER:
            self._windows += 1
            self._distinct += len(self._ids) / self._listed
            self._ids.clear()
            self._listed = self._recalls = 0

    def as_json(self) -> dict[str, Any]:
        """Return the mean repeat rate over turns, with the numbers behind it."""
        return {
            "rate": self._rates / self._turns if self._turns else None,
            "window": WINDOW,
            "turns": self._turns,
            "longest_streak": self._streak,
            "distinct_share": self._distinct / self._windows if self._windows else None,
            "distinct_over": DISTINCT_OVER,
            "distinct_windows": self._windows,
            "by": dict(self._by),
            "sessions_forgotten": self._forgotten,
        }

    def stale_as_json(self) -> dict[str, Any]:
        """Return the rates of stale answers among recalls with hits, and of stale vector hits among those with any."""
        return {
            "rate": self._stale_answers / self._answers if self._answers else None,
            "recalls": self._answers,
            "vec_rate": self._stale_vectors / self._vectors if self._vectors else None,
            "vec_recalls": self._vectors,
            "worst_window": self._worst.share,
            "vec_worst_window": self._worst_vectors.share,
            "window": WINDOW,
        }
