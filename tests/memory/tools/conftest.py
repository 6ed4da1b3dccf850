"""A table of memories in memory, and the context in which the tools run on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lab.embedding.embedder import HashingEmbedder
from lab.memory.tools.context import NoVector, ToolContext, Vector
from lab.retrieval.contract import Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import normal_row
from lab.systems.openclaw.table.schema import Entry
from tests.conformance.memory_table import InMemoryTable
from tests.systems.openclaw.docs.conftest import handbook, opened, refs, written

__all__ = ("handbook", "opened", "refs", "written")

NOW = 1_760_000_000_000
EMBEDDER = HashingEmbedder()


def embed(texts: Sequence[str]) -> Sequence[Vector]:
    """Return the vectors of texts."""
    return [vector.tolist() for vector in EMBEDDER.encode(list(texts))]


def failing(reason: str) -> Callable[[Sequence[str]], Sequence[Vector]]:
    """Return an embedder that embeds no text, for a reason."""

    def fail(texts: Sequence[str]) -> Sequence[Vector]:
        raise NoVector(reason)

    return fail


def uuid(number: int) -> str:
    """Return a UUID with this number."""
    return f"00000000-0000-4000-8000-{number:012d}"


def entry(number: int, text: str, **fields: Any) -> Entry:
    """Return a row with its vector; ``fields`` are those of :class:`Row`."""
    row = normal_row(uuid(number), text, text, NOW, category="fact", label="unknown", scope="global")
    return Entry(replace(row, **fields), embed([text])[0])


class Bench:
    """A table and the context of its tools. Every reading of the clock is a millisecond later."""

    def __init__(self, *entries: Entry, upstream: bool = False, read_only: bool = False, **changes: Any) -> None:
        self.table = InMemoryTable(entries, read_only=read_only)
        config = changes.pop("config", EngineConfig())
        if upstream:
            config = replace(config, profile="upstream")
        ids, ticks = count(100), count()
        given: dict[str, Any] = {"embed": embed, "db_path": "/store", "model": "hashing"} | changes
        self.context = ToolContext(
            self.table,
            config,
            lambda: NOW + next(ticks),
            lambda: uuid(next(ids)),
            dimension=EMBEDDER.dimension,
            **given,
        )

    @property
    def rows(self) -> list[Row]:
        """The rows of the table."""
        return list(self.table.rows())

    @property
    def texts(self) -> list[str]:
        """The texts of the rows."""
        return [row.text for row in self.rows]


@pytest.fixture(scope="session")
def bench() -> type[Bench]:
    """Return a factory of tables with a context."""
    return Bench


class Tools:
    """What the tests of the tools share, to be had without an import."""

    now = NOW
    entry = staticmethod(entry)
    uuid = staticmethod(uuid)
    failing = staticmethod(failing)
    embed = staticmethod(embed)


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    """Return the helpers of this file."""
    return Tools
