"""What repeats from recall to recall, session by session, in the order of the log.

* The repeat rate is that of :mod:`lab.measures.definitions.repeat_rate`: the share of a turn's items that were there in
  any of the previous recall turns of the window; nothing is said of a turn without items, nor of the first that
  has some.
* A streak is the number of recalls in a row that list one id.
* An answer is stale where the hits of both lanes, scores included, are those of one of the previous recalls of the
  window: what was found did not depend on the query. Of an unchanged store two queries give equal scores where they
  are the same words; a frozen index, a cache or an embedder that returns one vector for all gives them always.
* The distinct share is that of different ids among all that recalls list, over windows of so many recalls of the log.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from lab.canary.windows import Worst
from lab.measures.repetition import WINDOW

MOST_SESSIONS = 4096
DISTINCT_OVER = 100
Hits = Sequence[dict[str, Any]]


class _Session(NamedTuple):
    turns: deque[frozenset[str]]
    started: list[bool]
    streaks: dict[str, int]
    # Hashes of what the lanes found: of the vector lane, and of both.
    vectors: deque[int]
    answers: deque[int]


class Repeats:
    """What the last turns of each session listed. The session that was silent longest is forgotten where many are."""

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
        """A recall turn, and the hits of its lanes. Where the line names no session its scope stands for one."""
        kind = "scope" if session is None else "session"
        self._by[kind] += 1
        held = self._session(kind, scope if session is None else session)
        listed = frozenset(ids)
        if listed and held.started[0]:
            self._turns += 1
            self._rates += len(listed & frozenset().union(*held.turns)) / len(listed)
        held.started[0] |= bool(listed)
        held.turns.append(listed)
        self._count_streaks(held.streaks, listed)
        self._count_stale(held, fts, vec)
        self._count_distinct(listed)

    def _session(self, kind: str, name: str) -> _Session:
        held = self._open.get((kind, name))
        if held is None:
            recent = (deque[Any](maxlen=WINDOW) for _ in range(3))
            turns, vectors, answers = recent
            held = self._open[kind, name] = _Session(turns, [False], {}, vectors, answers)
            if len(self._open) > self._most:
                self._open.popitem(last=False)
                self._forgotten += 1
        else:
            self._open.move_to_end((kind, name))
        return held

    def _count_streaks(self, streaks: dict[str, int], listed: frozenset[str]) -> None:
        going_on = {one: streaks.get(one, 0) + 1 for one in listed}
        streaks.clear()
        streaks.update(going_on)
        self._streak = max(self._streak, *going_on.values()) if going_on else self._streak

    def _count_stale(self, held: _Session, fts: Hits, vec: Hits) -> None:
        if not fts and not vec:
            return
        vectors = hash(tuple((hit["id"], hit["score"], hit["distance"]) for hit in vec))
        answer = hash((vectors, *((hit["id"], hit["score"]) for hit in fts)))
        self._answers += 1
        self._stale_answers += answer in held.answers
        self._worst.add(answer in held.answers)
        held.answers.append(answer)
        if vec:
            self._vectors += 1
            self._stale_vectors += vectors in held.vectors
            self._worst_vectors.add(vectors in held.vectors)
            held.vectors.append(vectors)

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
        """The mean over turns, and what it stands on."""
        return {
            "rate": self._rates / self._turns if self._turns else None,
            "window": WINDOW,
            "turns": self._turns,
            "longest_streak": self._streak,
            "distinct_share": self._distinct / self._windows if self._windows else None,
            "distinct_over": DISTINCT_OVER,
            "by": dict(self._by),
            "sessions_forgotten": self._forgotten,
        }

    def stale_as_json(self) -> dict[str, Any]:
        """Stale answers: of recalls that found something, and of those whose vector lane did."""
        return {
            "rate": self._stale_answers / self._answers if self._answers else None,
            "recalls": self._answers,
            "vec_rate": self._stale_vectors / self._vectors if self._vectors else None,
            "vec_recalls": self._vectors,
            "worst_window": self._worst.share,
            "vec_worst_window": self._worst_vectors.share,
            "window": WINDOW,
        }
