"""Composite score of a search (LD-8): relevance times importance, age, use and state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from lab.memory.ledger.grades import label_of
from lab.memory.ledger.ledger import Observation
from lab.memory.ledger.times import moment
from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.fusion import K

ACTIVE, SOFT_ARCHIVED = "active", "soft-archived"
STATES = ("captured", "categorized", ACTIVE, "consolidated", "stale", SOFT_ARCHIVED)
WEIGHTS = {MUST: 1.2, NICE: 1.0, UNKNOWN: 1.0, IGNORE: 0.8}
GATES = {"consolidated": 0.9, "stale": 0.5, SOFT_ARCHIVED: 0.0}
# Days after which a memory of this kind counts half; other kinds count as notes.
HALF_LIFE = {
    "preference": 365,
    "decision": 180,
    "learning": 180,
    "fact": 120,
    "entity": 120,
    "plan": 60,
    "note": 30,
    "tool": 30,
    "event": 14,
}
LARGEST_BOOST = 1.3
# A larger number of uses is a mistake of its writer; floats are exact up to here.
MOST_USES = 2**53
DAY = timedelta(days=1)


class Factors(NamedTuple):
    """The factors of one result. Their product is its score; a factor that is switched off is 1."""

    relevance: float
    importance: float
    recency: float
    use: float
    state: float

    @property
    def score(self) -> float:
        """The product."""
        return self.relevance * self.importance * self.recency * self.use * self.state


def state_of(detail: Mapping[str, Any]) -> str:
    """Return the state of a memory's life: active unless the detail says otherwise.

    A memory with a time of archival and no state was archived before there were states.
    """
    lifecycle = detail.get("lifecycle")
    if not isinstance(lifecycle, Mapping):
        return ACTIVE
    state = str(lifecycle.get("state") or "").strip().lower()
    if state in STATES:
        return state
    return SOFT_ARCHIVED if str(lifecycle.get("archived_at") or "").strip() else ACTIVE


def used_count(detail: Mapping[str, Any]) -> int:
    """Return how often a memory was used, at most :data:`MOST_USES`; 0 if that is not recorded."""
    lifecycle = detail.get("lifecycle")
    try:
        count = int(lifecycle.get("used_count") or 0) if isinstance(lifecycle, Mapping) else 0
    except (TypeError, ValueError, OverflowError):
        return 0
    return min(max(0, count), MOST_USES)


def factors(row: Observation, rank: int, now: datetime, off: frozenset[str] = frozenset()) -> Factors:
    """Return the factors of the result at ``rank`` (from 0); ``off`` names those to switch off.

    Age is measured to the start of the day (UTC) of ``now``, so that a day's searches agree. A time that lies ahead or
    cannot be read is no age.
    """
    detail = row.detail
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    time = moment(row.ts)
    age = max(0.0, (day - time) / DAY) if time else 0.0
    half_life = HALF_LIFE.get((row.kind or "note").strip().lower(), HALF_LIFE["note"])
    found = Factors(
        relevance=1 / (K + rank + 1),
        importance=WEIGHTS[label_of(detail)],
        recency=0.5 ** (age / half_life),
        use=min(LARGEST_BOOST, 1 + 0.1 * math.log1p(used_count(detail))),
        state=GATES.get(state_of(detail), 1.0),
    )
    return found._replace(**dict.fromkeys(off, 1.0))
