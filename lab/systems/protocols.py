"""What an arm or a system may offer besides the contract: token budgets, other queries, evidence that it works.

:mod:`lab.systems.budget` uses the first two, :mod:`lab.replay.sources` the next two, :mod:`lab.replay.admission` the
others. All are optional.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from lab.recordings.model import Memory, Turn
from lab.systems.contract import Arm, Ask
from lab.systems.kit import Kit


@runtime_checkable
class TakesTokens(Protocol):
    """An arm with a token budget of its own."""

    def with_tokens(self, tokens: int) -> Arm:
        """Return the same arm with its own budget set to ``tokens``, as near as its rules allow."""
        ...


@runtime_checkable
class Widens(Protocol):
    """An arm without a token budget of its own, whose ranking can be cut at any budget."""

    def widened(self, items: int) -> Arm:
        """Return the same arm that injects up to ``items`` items, or as many as its rules allow."""
        ...


@runtime_checkable
class Rephrases(Protocol):
    """An arm that embeds another text than the prompt, so that all of them can be embedded in bulk."""

    def query_for(self, prompt: str) -> str:
        """Return the text that a system of this arm embeds for a prompt; blank if it embeds none."""
        ...


class Step(NamedTuple):
    """What a system is given, in order: memories ``born`` and ``gone`` (keys), queries, and a turn, or None."""

    born: Sequence[Memory]
    gone: Sequence[str]
    asks: Sequence[Ask]
    turn: Turn | None


@runtime_checkable
class Rehearses(Protocol):
    """An arm whose systems embed texts of their own making, such as chunks of files: they are embedded in bulk.

    One text alone costs as much as a batch of 16. Texts that a rehearsal misses are embedded when they are needed.
    """

    @property
    def rehearsal_key(self) -> Hashable:
        """What the texts depend on: of arms with equal keys, one is rehearsed; one whose key is None is not."""
        ...

    def rehearse(self, kit: Kit, steps: Iterable[Step]) -> Iterator[str]:
        """Yield the documents that a system of this arm would embed in a conversation; it embeds none."""
        ...


@runtime_checkable
class Claims(Protocol):
    """An arm that says what it is named for, to be proved before it counts."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The names of the proofs that it must give."""
        ...


@runtime_checkable
class Proves(Protocol):
    """A system that counts what took place in it, as evidence."""

    def prove(self) -> Mapping[str, Any]:
        """Return its counters in plain JSON values.

        Known are ``hooks`` and ``tools`` (calls by name), ``stored``, ``embedded``, ``embedder`` (the name of the model
        that it asked), ``lanes`` (answers by lane: ``fts``, ``vec``) and ``model_calls``.
        """
        ...
