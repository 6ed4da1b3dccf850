"""The candidates that a lane offers to the packer: one record type for memories, observations, episodes, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lab.recordings.model import UNKNOWN

# The reason of a lane that has no scopes, where one was given.
UNSCOPED = "no_scopes_all_searched"


class Candidate(NamedTuple):
    """One record that a pack may include.

    ``ref`` identifies it permanently and is its citation: ``obs:12``, ``ep:…``, ``fact_…``, ``doc:PATH#2`` or the key
    of a memory. ``text`` is its overview (L1), ``abstract`` one line (L0; "": made from the text) and ``detail`` the
    raw record (L2; None: there is none). ``kind`` is preference, decision, fact, event and so on; ``importance`` a
    label of :data:`lab.recordings.model.LABELS`; ``trust`` trusted, unknown, untrusted or quarantined. ``score`` is its
    relevance in ``lane``, higher is better; ``retrievers`` are the searches that returned it, such as ``fts``. Times
    are UTC milliseconds: ``ts_ms`` is that of its origin, ``due_ms`` that of a plan. ``supersedes`` and ``contradicts``
    are refs of other candidates. ``sources`` are the keys of the turns or memories it came from.
    """

    ref: str
    text: str
    lane: str
    score: float = 0.0
    kind: str = "note"
    abstract: str = ""
    detail: str | None = None
    importance: str = UNKNOWN
    trust: str = "unknown"
    scope: str | None = None
    ts_ms: int = 0
    due_ms: int | None = None
    url: str | None = None
    retrievers: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class Found(NamedTuple):
    """What one lane returned for a query, best first.

    ``searched`` False means that the lane was not searched; ``reason`` says why in a few words without text of
    memories. A lane that failed in part has a ``reason`` and the candidates that it could return.
    """

    lane: str
    candidates: Sequence[Candidate] = ()
    searched: bool = True
    reason: str | None = None


class Lane(Protocol):
    """A source of candidates. A lane never raises if something is missing: it says so in :attr:`Found.reason`."""

    @property
    def name(self) -> str:
        """The name of the lane in a trace, such as ``ledger`` or ``episodes``."""
        ...

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return at most ``limit`` candidates of a scope (None: all) that existed at ``now_ms``."""
        ...
