"""Guard the retriever that several arms share.

If the retriever raises, the recall of all arms that share it fails. If it raises while memories are added or removed,
all later recalls fail too, because its contents are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.recordings.model import Memory
from lab.replay.seat import Failure, Guarded, failure_of, timed
from lab.systems.contract import Ask, Candidates, Retriever, SharedRetrieval

Retrieved = tuple[Candidates, int] | Failure


class SharedSearch(Guarded):
    """The retriever of one key."""

    def __init__(self, system: SharedRetrieval) -> None:
        super().__init__(system)
        # The last query, which all arms of this key share, and its result.
        self._ask: Ask | None = None
        self._retrieved: Retrieved = Failure("not_asked", "retrieve")
        self._retriever: Retriever | None = self._guarded("open_retriever", system.open_retriever)

    def observe(self, memories: Sequence[Memory]) -> None:
        """Add memories that become visible."""
        if self._retriever is not None:
            retriever = self._retriever
            copies = [replace(memory) for memory in memories] if self._foreign else memories
            self._guarded("retriever.observe", lambda: retriever.observe(copies))

    def forget(self, keys: Sequence[str]) -> None:
        """Remove forgotten memories."""
        if self._retriever is not None:
            retriever = self._retriever
            self._guarded("retriever.forget", lambda: retriever.forget(keys))

    def expect(self, texts: Sequence[str]) -> None:
        """Announce the queries to come."""
        if self._retriever is not None:
            retriever = self._retriever
            self._guarded("retriever.expect", lambda: retriever.expect(texts))

    def retrieve(self, ask: Ask) -> Retrieved:
        """Return the candidates and the nanoseconds of the search, or the failure; one search for each query."""
        if self._ask is not ask:
            self._ask, self._retrieved = ask, self._retrieve(ask)
        return self._retrieved

    def _retrieve(self, ask: Ask) -> Retrieved:
        if self.broken or self._retriever is None:
            return self.broken or Failure("no_retriever", "open_retriever")
        retriever = self._retriever
        try:
            ungraded = replace(ask, grades={}) if self._foreign else ask
            return timed(lambda: retriever.retrieve(ungraded))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a retriever may raise anything
            return failure_of(error, "retrieve", foreign=self._foreign)

    def close(self) -> None:
        """Close the retriever; errors no longer affect results."""
        if self._retriever is not None:
            self._guarded("close", self._retriever.close)
