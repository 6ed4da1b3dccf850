"""Sums of each session for decisions at any time, in the order in which sessions were closed (CN-25).

What happens within a session depends on itself, so a session is one observation, and it counts once it is over. An open
one does not: its share so far depends on when one looks. A session that is seen to begin with a failed recall has the
share 1 then, whatever it will have at its end; tests that used it would find damage in sound engines.

A line's own session counts; else the one of the host's transcript, if the caller knows it; else the scope. A session is
over when the log goes on for :data:`GAP` without it. One that does not end is cut after :data:`MOST_EVENTS` recalls,
and goes on as another: then the promise of a test holds if each part's mean is within the limit, given those before.

Memory is bounded: at most :data:`MOST` sessions are kept apart, then neighbours are added up, two by two.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

# Seconds of the log without a recall of a session after which it is over.
GAP = 30 * 60
# Recalls after which a session is cut; a damaged line counts as one.
MOST_EVENTS = 100
# Sessions that are kept apart, and that are open at once.
MOST = 4096
ERRORS, DAMAGE = "errors.rate", "damage.rate"
# The session that a line names, one of the host's transcripts, or none.
NAMED, TRANSCRIPT, SCOPE = KINDS = ("session", "transcript", "scope")
Key = tuple[str, str]
# The session of lines before the first that has one.
_UNNAMED = (SCOPE, "")
Sums = dict[str, tuple[float, float]]


@dataclass(slots=True)
class _Open:
    """A session that goes on: its recalls, the time of its last one, and its sums by measure.

    ``events`` are its recalls, its failed recalls without a receipt, and its damaged lines.
    """

    recalls: int = 0
    time: float | None = None
    failures: int = 0
    events: int = 0
    sums: dict[str, list[float]] = field(default_factory=dict)

    def add(self, sums: Sums, before: Sums) -> None:
        """Add what grew since the line before."""
        for measure, (part, of) in sums.items():
            old = before.get(measure, (0, 0))
            if (part, of) != old:
                own = self.sums.setdefault(measure, [0, 0])
                own[0] += part - old[0]
                own[1] += of - old[1]


class Sessions:
    """The sessions of a log; every line of the engine belongs to one."""

    def __init__(self) -> None:
        self._open = OrderedDict[Key, _Open]()
        self._before: Sums = {}
        self._last: Key | None = None
        self._by = dict.fromkeys(KINDS, 0)
        self._closed: list[_Open] = []
        # Sessions in each of the closed ones.
        self._each = 1
        self._joined: _Open | None = None
        self._count = 0

    def add(
        self, key: Key | None, time: float | None, sums: Sums, *, recall: bool = False, failed: bool = False
    ) -> None:
        """Add a line, after which the whole log has these sums; without a key, it is of the session before it.

        A recall failed if ``failed``: the engine warned, with or without a receipt.
        """
        key = key or self._last or _UNNAMED
        if _UNNAMED in self._open and key not in self._open:
            # What comes before the first recall belongs to it.
            self._open[key] = self._open.pop(_UNNAMED)
        self._last = key
        session = self._open.get(key)
        if session and time is not None and session.time is not None and abs(time - session.time) > GAP:
            self._close(key)
            session = None
        if session is None:
            session = self._open[key] = _Open()
        is_damaged = sums[DAMAGE][0] > self._before.get(DAMAGE, (0, 0))[0]
        session.add(sums, self._before)
        session.events += recall or failed or is_damaged
        self._before = sums
        session.failures += failed
        if recall or failed:
            session.recalls += recall
            session.time = time if time is not None else session.time
            self._open.move_to_end(key)
            self._by[key[0]] += recall
        self._end(time)
        if session.events >= MOST_EVENTS and key in self._open:
            self._close(key)

    def _end(self, time: float | None) -> None:
        """Close the sessions that are over, the one longest silent first."""
        while self._open:
            key, oldest = next(iter(self._open.items()))
            is_over = time is not None and oldest.time is not None and time - oldest.time > GAP
            if not is_over and len(self._open) <= MOST:
                return
            self._close(key)

    def close_all(self) -> None:
        """Close every session: the log ends here, by a decision that does not depend on what it holds."""
        for key in list(self._open):
            self._close(key)

    def _close(self, key: Key) -> None:
        session = self._open.pop(key)
        if not session.events:
            # Only lines between sessions, such as a start of the engine.
            return
        failed, receipts = session.sums.get(ERRORS, (0, 0))
        # Under profile seed, a failed recall writes a receipt as well.
        errors = max(session.failures, failed)
        session.sums[ERRORS] = [errors, receipts - failed + errors]
        self._count += 1
        self._joined = session if self._joined is None else _joined(self._joined, session)
        if self._count % self._each == 0:
            self._closed.append(self._joined)
            self._joined = None
        if len(self._closed) >= MOST:
            pairs = zip(self._closed[::2], self._closed[1::2], strict=True)
            self._closed = [_joined(*pair) for pair in pairs]
            self._each *= 2

    def as_json(self) -> dict[str, Any]:
        """Return the sums of the closed sessions as columns, in the order of closing.

        ``each`` is the number of sessions in one entry. ``by`` counts recalls by what names their session.
        """
        rows = self._closed
        names = dict.fromkeys(name for row in rows for name in row.sums)
        return {
            "by": dict(self._by),
            "gap_minutes": GAP // 60,
            "cut_after": MOST_EVENTS,
            "closed": self._count,
            "open": len(self._open),
            "each": self._each,
            "ended": [_iso(row.time) for row in rows],
            "recalls": [row.recalls for row in rows],
            "sums": {
                name: {
                    "part": [round(row.sums.get(name, (0, 0))[0], 6) for row in rows],
                    "of": [row.sums.get(name, (0, 0))[1] for row in rows],
                }
                for name in names
            },
        }


def _joined(first: _Open, second: _Open) -> _Open:
    sums = {
        name: [sum(pair) for pair in zip(first.sums.get(name, (0, 0)), second.sums.get(name, (0, 0)), strict=True)]
        for name in dict.fromkeys((*first.sums, *second.sums))
    }
    return _Open(first.recalls + second.recalls, second.time, sums=sums)


def _iso(time: float | None) -> str | None:
    return None if time is None else f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"
