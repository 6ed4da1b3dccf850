"""A retriever that several arms share, fed and asked here and nowhere else.

Where it raises, the arms that share it have no candidates: the recall fails, and all later ones too where it broke as
it was fed, for nobody knows what it holds by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from lab.recordings.model import Memory
from lab.replay.seat import Failure, failure_of, is_foreign, timed
from lab.systems.contract import Ask, Candidates, Retriever, SharedRetrieval

T = TypeVar("T")
Retrieved = tuple[Candidates, int] | Failure


class SharedSearch:
    """The retriever of one key; ``broken`` is why it cannot be asked any more."""

    def __init__(self, system: SharedRetrieval) -> None:
        self.broken: Failure | None = None
        self._foreign = is_foreign(system)
        # The last question, which every arm of this key asks, and what was found for it.
        self._asked: Ask | None = None
        self._found: Retrieved = Failure("not_asked", "retrieve")
        self._retriever: Retriever | None = self._guarded("open_retriever", system.open_retriever)

    def observe(self, memories: Sequence[Memory]) -> None:
        """Feed it what is born."""
        if self._retriever is not None:
            retriever = self._retriever
            handed = [replace(one) for one in memories] if self._foreign else memories
            self._guarded("retriever.observe", lambda: retriever.observe(handed))

    def forget(self, keys: Sequence[str]) -> None:
        """Take away what is forgotten."""
        if self._retriever is not None:
            retriever = self._retriever
            self._guarded("retriever.forget", lambda: retriever.forget(keys))

    def expect(self, texts: Sequence[str]) -> None:
        """Say what will be asked."""
        if self._retriever is not None:
            retriever = self._retriever
            self._guarded("retriever.expect", lambda: retriever.expect(texts))

    def retrieve(self, ask: Ask) -> Retrieved:
        """The candidates and the nanoseconds that finding them took, or why there are none: found once a question."""
        if self._asked is not ask:
            self._asked, self._found = ask, self._retrieve(ask)
        return self._found

    def _retrieve(self, ask: Ask) -> Retrieved:
        if self.broken or self._retriever is None:
            return self.broken or Failure("no_retriever", "open_retriever")
        retriever = self._retriever
        try:
            own = replace(ask, grades={}) if self._foreign else ask
            return timed(lambda: retriever.retrieve(own))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a retriever may raise anything
            return failure_of(error, "retrieve", foreign=self._foreign)

    def close(self) -> None:
        """Close it; what breaks here has been measured already."""
        if self._retriever is not None:
            self._guarded("close", self._retriever.close)

    def _guarded(self, stage: str, call: Callable[[], T]) -> T | None:
        if self.broken:
            return None
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a retriever may raise anything
            failure = failure_of(error, stage, foreign=self._foreign)
            if stage != "close":
                self.broken = failure
            return None
