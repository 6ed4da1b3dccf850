"""The one seam behind which everything under test stands.

A system *recalls* before a turn and *observes* after it. Most systems here are split in two: a retriever, which finds
candidates and is shared by all arms with the same ``retrieval``, and a selector, which is the arm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lab.retrieval.clamp import Clamp
from lab.retrieval.faults import Faults
from lab.retrieval.row import Row
from lab.retrieval.tokens import TextSettings
from lab.systems.openclaw.config.settings import DocsSettings, EngineConfig
from lab.systems.openclaw.recall.turn import Memories

NO_FAULTS: Faults = frozenset()


@dataclass(frozen=True, slots=True)
class Request:
    """One recall.

    Which turn or probe asks, what it asks, in which scope (None: scopes are not enforced), at what time, in which
    session (None: from outside), and whether it belongs to the conversation. ``scoping`` is
    :data:`lab.systems.openclaw.recall.turn.SCOPING`.

    ``relevant`` maps gold keys to grades and is filled for the oracle alone.
    """

    key: str
    text: str
    scope: str | None
    now_ms: int
    session: str | None = None
    remembered: bool = True
    scoping: str = "open"
    faults: Faults = NO_FAULTS
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
    ``pinned`` are the keys of memories that a digest in the text holds whole, ``duplicates`` how many injected items
    say what the digest says (None: there is no digest), ``log`` the lines that the engine would have logged.
    """

    items: tuple[Item, ...]
    injected: int
    context: str
    receipt: dict[str, Any]
    timings: dict[str, int]
    pinned: tuple[str, ...] = ()
    duplicates: int | None = None
    log: tuple[str, ...] = ()


class Retrieval(NamedTuple):
    """What candidates depend on. Arms with equal ones share them.

    ``docs`` are the documents to consult, if any; ``owner`` names the arm that writes into its store, which nobody
    else may share then.
    """

    text: TextSettings = TextSettings()
    clamp: Clamp = Clamp()
    docs: DocsSettings | None = None
    owner: str | None = None


class Retriever(Protocol):
    """The half that looks. It is fed every memory as it is born."""

    def observe(self, rows: Sequence[Row]) -> None:
        """Take in memories born since the last call."""
        ...

    def forget(self, rows: Sequence[Row]) -> None:
        """Take memories that were observed out of every answer from now on."""
        ...

    def expect(self, texts: Sequence[str]) -> None:
        """Say which texts will be asked about, in this order; some may be left out."""
        ...

    def retrieve(self, request: Request) -> Memories:
        """Make everything observed ready to be asked about a request."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


MakeRetriever = Callable[[Retrieval], Retriever]


class Selector(Protocol):
    """The half that decides: an arm. Arms with equal ``retrieval`` settings share candidates."""

    name: str
    config: EngineConfig
    # Places in a ranking that mean something: a measure with a cutoff beyond it is null.
    depth: int

    @property
    def retrieval(self) -> Retrieval:
        """What its candidates depend on."""
        ...

    def fresh(self) -> Selector:
        """The same arm at the start of a conversation, without a past."""
        ...

    def select(self, request: Request, memories: Memories) -> Recall:
        """Choose from what a retriever found.

        Fails open: a request it can do nothing with gives an empty recall with a reason.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Name and configuration, as plain values."""
        ...
