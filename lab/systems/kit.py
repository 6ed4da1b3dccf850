"""What a system receives when it is opened: vectors, searches, a clock, a seed, a folder, and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from lab.embedding.embedder import Embedder, VectorsOf
from lab.recordings.model import Memory
from lab.retrieval.contract import Row
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever
from lab.systems.openclaw.memory import row_of


class Search(Protocol):
    """A search for rows: live (:class:`lab.retrieval.retrievers.StoreRetriever`) or from cached candidates."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add new rows."""
        ...

    def remove(self, rows: Sequence[Row]) -> None:
        """Exclude rows from all further results."""
        ...

    def expect(self, texts: Sequence[str]) -> None:
        """Receive the texts of the coming queries."""
        ...

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        """Return a view of the store for a text."""
        ...

    def close(self) -> None:
        """Release resources."""
        ...


class SearchInput(Protocol):
    """What a search needs of a :class:`lab.systems.contract.Ask`."""

    @property
    def text(self) -> str:
        """The user's text."""
        ...

    @property
    def faults(self) -> Faults:
        """Injected faults."""
        ...


# Memories and their rows by key.
Made = Mapping[str, tuple[Memory, Row]]


class Rows:
    """The rows of memories, each created once for all systems of a conversation.

    ``existing``: by key. ``made``: those of other conversations; such a row serves again if it is the same.
    """

    def __init__(self, existing: Mapping[str, Row] | None = None, made: Made | None = None) -> None:
        self._by_key: dict[str, Row] = dict(existing or {})
        self._made = made or {}

    def of(self, memories: Sequence[Memory]) -> list[Row]:
        """Return the rows of memories, in their order."""
        rows = self._by_key
        return [rows.get(memory.key) or rows.setdefault(memory.key, self._of(memory)) for memory in memories]

    def _of(self, memory: Memory) -> Row:
        before, made = self._made.get(memory.key, (None, None))
        if made is not None and before is memory:
            return made
        row = row_of(memory)
        return made if made == row else row

    def known(self, keys: Sequence[str]) -> list[Row]:
        """Return the rows of earlier memories by key."""
        return [self._by_key[key] for key in keys]


class MemoryRetriever:
    """A search as a retriever of the contract: it takes memories and returns candidates."""

    def __init__(self, search: Search, rows: Rows) -> None:
        self._search, self._rows = search, rows
        self.expect, self.close = search.expect, search.close

    def observe(self, memories: Sequence[Memory]) -> None:
        """Add memories created since the last call."""
        self._search.add(self._rows.of(memories))

    def forget(self, keys: Sequence[str]) -> None:
        """Exclude memories from all further results."""
        self._search.remove(self._rows.known(keys))

    def retrieve(self, ask: SearchInput) -> QueryContext:
        """Return a view of the store for a query."""
        return self._search.retrieve(ask.text, ask.faults)


class Clock:
    """The time of the recording, set by the loop."""

    def __init__(self) -> None:
        self.now_ms = 0


@dataclass(slots=True)
class Tools:
    """What all systems of a conversation share.

    ``cached`` opens a search that may answer from cached candidates, ``live`` one that does not and can be written to.
    ``replies``: the conversation has turns of an assistant; it has none if people talk with each other. ``shared`` is
    for arms that share one system (:mod:`lab.systems.budget`). ``others`` are rows of the store that are no memories.
    """

    conversation: str
    embedder: Embedder
    vectors: VectorsOf
    cached: Callable[[Retrieval], Search]
    live: Callable[[Retrieval], StoreRetriever]
    seed: int = 0
    scoping: str = "open"
    prepared: Mapping[str, bytes] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    clock: Clock = field(default_factory=Clock)
    replies: bool = True
    shared: dict[str, Any] = field(default_factory=dict)
    others: Sequence[Memory] = ()


class Kit:
    """The tools of one system in one conversation.

    ``captures``: the system may write; otherwise the loop provides all of its memories. ``prepared`` is what its arm
    built for all conversations (:class:`lab.systems.contract.Prepares`). ``scoping`` says where scopes come from
    (:class:`lab.systems.contract.Ask`). ``replies``: the conversation has turns of an assistant.
    """

    def __init__(self, tools: Tools, arm: str, *, captures: bool = False) -> None:
        self.captures = captures
        self.conversation, self.seed, self.scoping = tools.conversation, tools.seed, tools.scoping
        self.replies = tools.replies
        self.embedder, self.vectors = tools.embedder, tools.vectors
        self.clock, self.rows = tools.clock, tools.rows
        self.prepared, self.shared = tools.prepared.get(arm), tools.shared
        self.others = tools.others
        self._tools = tools
        self._resources = ExitStack()

    def retriever(self, retrieval: Retrieval) -> MemoryRetriever:
        """Return a search for :meth:`lab.systems.contract.SharedRetrieval.open_retriever`, fed by the loop."""
        return MemoryRetriever(self._tools.cached(retrieval), self.rows)

    def search(self, retrieval: Retrieval) -> StoreRetriever:
        """Return an empty private search, which the system may write to."""
        return self._tools.live(retrieval)

    @cached_property
    def scratch(self) -> Path:
        """An empty private folder, deleted when the conversation ends."""
        return Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="recall-lab-")))

    def close(self) -> None:
        """Delete the folder."""
        self._resources.close()


@dataclass(frozen=True, slots=True)
class Workshop:
    """The tools of :meth:`lab.systems.contract.Prepares.prepare`. ``announce`` receives progress messages."""

    embedder: Embedder
    vectors: VectorsOf
    announce: Callable[[str], None] = lambda _: None
