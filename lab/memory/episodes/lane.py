"""The verbatim lane: episodes as candidates of a pack (EP-8)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import LabError
from lab.embedding.vectors import Vectors
from lab.memory.episodes.events import RESULT, Event
from lab.memory.episodes.schema import open_episodes
from lab.memory.episodes.search import DEPTH, LEXICAL, OK, Hit, search
from lab.memory.pack.candidate import Candidate, Found


@dataclass(frozen=True, slots=True)
class EpisodesLane:
    """A lane that searches the episodes of a ledger. A pack cites its candidates as evidence and never changes them."""

    path: Path
    mode: str = LEXICAL
    vectors: Vectors | None = None

    @property
    def name(self) -> str:
        """``episodes``."""
        return "episodes"

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return the best events of a scope (None: all) up to ``now_ms``; a lane that failed gives a reason (EP-9)."""
        try:
            with open_episodes(self.path) as connection:
                found = search(
                    connection,
                    query,
                    mode=self.mode,
                    vectors=self.vectors,
                    depth=max(DEPTH, limit),
                    scope=scope,
                    now_ms=now_ms,
                )
        except LabError as error:
            return Found(self.name, searched=False, reason=str(error))
        except OSError as error:
            # A folder that may not be entered, or a name that no file can have.
            return Found(self.name, searched=False, reason=f"{self.path}: cannot be read: {error.strerror}")
        reasons = [f"lexical: {found.lexical_status}"] if found.lexical_status != OK else []
        reasons += [f"vector: {found.vector_status}"] if found.vector_status not in (None, OK) else []
        searched = OK in (found.lexical_status, found.vector_status) or "cjk" in found.lanes
        candidates = [self._candidate(hit) for hit in found.hits[:limit]]
        return Found(self.name, candidates, searched, "; ".join(reasons) or None)

    def _candidate(self, hit: Hit) -> Candidate:
        """Return a hit as a candidate. The result of a tool may come from anywhere, so it is untrusted."""
        event = hit.event
        return Candidate(
            f"ep:{event.event_id}",
            event.summary,
            self.name,
            score=hit.score,
            kind="event",
            detail=text_of(event),
            trust="untrusted" if event.type == RESULT else "unknown",
            scope=event.scope,
            ts_ms=event.ts_ms,
            retrievers=hit.lanes,
            sources=sources_of(event),
        )


def text_of(event: Event) -> str | None:
    """Return the text in the payload of an event; None if it was dropped, or is not a text."""
    value = _object(event.payload_json).get("text")
    return value if isinstance(value, str) else None


def sources_of(event: Event) -> tuple[str, ...]:
    """Return the key of the turn or tool use of a recording; nothing for events of the sidecar."""
    key = _object(event.refs_json).get("key")
    return (key,) if isinstance(key, str) else ()


def _object(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
