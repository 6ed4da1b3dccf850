"""What a system is handed when it is opened: vectors, searches, a clock, a seed, a folder; nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from lab.embedding.embedder import Embedder
from lab.recordings.model import Memory
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.query_context import Found, Retrieval
from lab.retrieval.retrievers import StoreRetriever, VectorsOf
from lab.retrieval.row import Row
from lab.systems.contract import Ask
from lab.systems.openclaw.memory import row_of


class Search(Protocol):
    """Finds rows: live (:class:`lab.retrieval.retrievers.StoreRetriever`) or from what is kept."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows that are new."""
        ...

    def remove(self, rows: Sequence[Row]) -> None:
        """Leave rows out from now on."""
        ...

    def expect(self, texts: Sequence[str]) -> None:
        """Hear which texts will be asked about."""
        ...

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> Found:
        """A view for a text."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class Rows:
    """The rows of memories, each made once for all systems of a conversation; ``made`` are there already, by key."""

    def __init__(self, made: Mapping[str, Row] | None = None) -> None:
        self._by_key: dict[str, Row] = dict(made or {})

    def of(self, memories: Sequence[Memory]) -> list[Row]:
        """Rows in the order of the memories."""
        return [self._by_key.get(one.key) or self._by_key.setdefault(one.key, row_of(one)) for one in memories]

    def known(self, keys: Sequence[str]) -> list[Row]:
        """The rows of memories that were asked for before, by key."""
        return [self._by_key[key] for key in keys]


class Searching:
    """The toolkit's search as a retriever of the contract: memories in, candidates out."""

    def __init__(self, searches: Search, rows: Rows) -> None:
        self._searches, self._rows = searches, rows
        self.expect, self.close = searches.expect, searches.close

    def observe(self, memories: Sequence[Memory]) -> None:
        """Add memories born since the last call."""
        self._searches.add(self._rows.of(memories))

    def forget(self, keys: Sequence[str]) -> None:
        """Leave memories out from now on."""
        self._searches.remove(self._rows.known(keys))

    def retrieve(self, ask: Ask) -> Found:
        """A view for a question."""
        return self._searches.retrieve(ask.text, ask.faults)


class Clock:
    """The time of the recording, which the loop sets."""

    def __init__(self) -> None:
        self.now_ms = 0


@dataclass(slots=True)
class Tools:
    """What all systems of a conversation share.

    ``keeping`` makes a search that may answer from what is kept, ``live`` one that does not, which can be written to.
    """

    conversation: str
    embedder: Embedder
    vectors: VectorsOf
    keeping: Callable[[Retrieval], Search]
    live: Callable[[Retrieval], StoreRetriever]
    seed: int = 0
    scoping: str = "open"
    prepared: Mapping[str, bytes] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    clock: Clock = field(default_factory=Clock)


class Kit:
    """The tools of one system in one conversation.

    ``captures``: the system may write; else everything it remembers is given to it. ``prepared`` is what its arm made
    for all conversations (:class:`lab.systems.contract.Prepares`). ``scoping`` is how scopes are asked for
    (:class:`lab.systems.contract.Ask`).
    """

    def __init__(self, tools: Tools, arm: str, *, captures: bool = False) -> None:
        self.captures = captures
        self.conversation, self.seed, self.scoping = tools.conversation, tools.seed, tools.scoping
        self.embedder, self.vectors = tools.embedder, tools.vectors
        self.clock, self.rows = tools.clock, tools.rows
        self.prepared = tools.prepared.get(arm)
        self._tools = tools
        self._held = ExitStack()

    def retriever(self, retrieval: Retrieval) -> Searching:
        """A search over memories from outside, for :meth:`lab.systems.contract.SharedRetrieval.open_retriever`."""
        return Searching(self._tools.keeping(retrieval), self.rows)

    def search(self, retrieval: Retrieval) -> StoreRetriever:
        """An empty search of the system's own, which it may write to."""
        return self._tools.live(retrieval)

    @cached_property
    def scratch(self) -> Path:
        """A folder of the system's own, empty, which goes when the conversation ends."""
        return Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="recall-lab-")))

    def close(self) -> None:
        """Remove the folder."""
        self._held.close()


@dataclass(frozen=True, slots=True)
class Workshop:
    """What an arm prepares with, where the caches are. ``announce`` hears of progress, in sentences."""

    embedder: Embedder
    vectors: VectorsOf
    announce: Callable[[str], None] = lambda _: None
