"""What an arm or a system may offer besides the contract: token budgets, other queries, evidence that it works.

:mod:`lab.systems.budget` uses the first two, :mod:`lab.replay.sources` the third, :mod:`lab.replay.admission` the
others. All are optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from lab.systems.contract import Arm


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
