"""The one seam behind which everything under test stands.

A system *recalls* before a turn and *observes* after it. Most systems here are split in two: a retriever, which finds
candidates and is shared by all arms with the same ``retrieval``, and a selector, which is the arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lab.engine.config import EngineConfig
from lab.engine.memory import Candidate, Row
from lab.engine.store.contract import Filter, Lanes, View
from lab.engine.store.tokens import TextSettings


@dataclass(frozen=True, slots=True)
class Request:
    """One recall.

    Which turn or probe asks, what it asks, in which scope (None: scopes are not enforced), at what time.

    ``relevant`` maps gold keys to grades and is filled for the oracle alone.
    """

    key: str
    text: str
    scope: str | None
    now_ms: int
    relevant: dict[str, int] = field(default_factory=dict)


class Item(NamedTuple):
    """A returned memory: rank is its place in the list.

    Ranks of lanes count from 1; None where the lane did not return it.
    """

    key: str
    id: str
    tier: str
    label: str
    scope: str
    score: float
    fts_rank: int | None
    vec_rank: int | None
    decision: str


@dataclass(frozen=True, slots=True)
class Recall:
    """What a system answers.

    Items in order, how many of them are injected, the exact text, the receipt, and time per stage in nanoseconds.
    """

    items: tuple[Item, ...]
    injected: int
    context: str
    receipt: dict[str, Any]
    timings: dict[str, int]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a retriever found for one request.

    ``view`` is what to search, ``rows`` what it speaks of (numbers in hits are places in it), ``by_id`` the same rows
    by engine id. ``fused`` keeps what arms have in common.
    """

    view: View
    rows: Sequence[Row]
    by_id: Mapping[str, Row]
    fused: dict[tuple[Filter, int], tuple[Lanes, list[Candidate]]] = field(default_factory=dict)


class Retriever(Protocol):
    """The half that looks. It is fed every memory as it is born."""

    def observe(self, rows: Sequence[Row]) -> None:
        """Take in memories born since the last call."""
        ...

    def retrieve(self, request: Request) -> Candidates:
        """Find candidates for a request among what was observed."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class Selector(Protocol):
    """The half that decides: an arm. Arms with equal ``retrieval`` settings share candidates."""

    name: str
    retrieval: TextSettings
    config: EngineConfig
    # Places in a ranking that mean something: a measure with a cutoff beyond it is null.
    depth: int

    def select(self, request: Request, candidates: Candidates) -> Recall:
        """Choose from the candidates.

        Fails open: a request it can do nothing with gives an empty recall with a reason.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Name and configuration, as plain values."""
        ...
