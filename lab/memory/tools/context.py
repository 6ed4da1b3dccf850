"""The context that every tool receives, and the result that it returns (E-84)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from lab.base.errors import UnusableInput
from lab.memory.tools.preflight import Preflight
from lab.retrieval.clamp import clamp
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall.receipt import NAME
from lab.systems.openclaw.table.schema import MemoryTable

Vector: TypeAlias = Sequence[float]
# Returns one vector for each text, or raises :class:`NoVector`.
Embed: TypeAlias = Callable[[Sequence[str]], Sequence[Vector]]
TOO_LONG, UNAVAILABLE = "embedding_input_too_long", "provider_unavailable"
READ_ONLY = "readonly_mode"
# Texts that are embedded by one call.
BATCH = 256


class NoVector(Exception):
    """A text could not be embedded. ``reason``: embedding_input_too_long, or provider_unavailable."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Embedded(NamedTuple):
    """The vector of a text, or the reason why there is none; the vector is then zero."""

    vector: Vector
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool: ``text`` for the agent, ``details`` in JSON with the receipt, and the lines it logged.

    A refused call has ``details["error"]``.
    """

    text: str
    details: dict[str, Any]
    log: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        """The code of the refusal, or None."""
        return self.details.get("error")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The table and the services of a call.

    ``now_ms`` returns epoch milliseconds and ``new_id`` a new UUID. ``embed`` is None if no provider is configured;
    ``dimension`` is the length of the table's vectors. ``db_path``, ``table_name`` and ``model`` are only reported.
    ``read_only_source`` says what made the tools read-only, for instance ``config:readOnly``. ``preflight`` runs before
    a memory is stored.
    """

    table: MemoryTable
    config: EngineConfig
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    embed: Embed | None
    dimension: int
    db_path: str = ""
    table_name: str = "memories"
    model: str = ""
    read_only_source: str = "config:readOnly"
    preflight: Preflight | None = None

    @property
    def upstream(self) -> bool:
        """Whether the tools behave as those of the public plugin."""
        return self.config.upstream

    @property
    def read_only(self) -> bool:
        """Whether the configuration or the table refuses writes."""
        return self.config.read_only or self.table.read_only

    @property
    def backend(self) -> dict[str, Any]:
        """The table, as receipts name it."""
        return {"dbPath": self.db_path, "tableName": self.table_name}

    def timed(self, started: int) -> dict[str, Any]:
        """Return the end of most receipts: the table, and the milliseconds since ``started``."""
        return self.backend | {"latencyMs": max(0, self.now_ms() - started)}

    def refuse_write(self, tool: str, action: str, *, receipt: bool = True, hint: str = "", **more: Any) -> ToolResult:
        """Return the refusal of a write in read-only mode; ``action`` completes "Refusing to ...".

        ``more`` are further details.
        """
        source = self.read_only_source if self.config.read_only else "table"
        details: dict[str, Any] = {
            "error": READ_ONLY,
            "tool": tool,
            "readOnly": True,
            "readOnlySource": source,
            **more,
        }
        text = f"Refusing to {action}: {NAME} is running in read-only mode.{hint}"
        return ToolResult(text, details | ({"receipt": self.backend} if receipt else {}))

    def without_provider(self) -> ToolResult:
        """Return the refusal of a call that needs vectors where no provider is configured."""
        text = f"{NAME} is not configured (missing embedding.apiKey / OPENAI_API_KEY)."
        return ToolResult(text, {"error": "missing_api_key"})

    def vectors(self, texts: Sequence[str]) -> list[Embedded]:
        """Embed texts, clamped (E-50). If a batch fails, embed its texts one by one, so that only some fail."""
        clamped = [clamp(text, self.config.embedding).text for text in texts]
        found: list[Embedded] = []
        for start in range(0, len(clamped), BATCH):
            batch = clamped[start : start + BATCH]
            embedded = self._embedded(batch)
            if len(batch) > 1 and embedded[0].reason is not None:
                embedded = [self._embedded([text])[0] for text in batch]
            found += embedded
        return found

    def zero(self, reason: str) -> Embedded:
        """Return the zero vector, with which a text is stored that could not be embedded."""
        return Embedded([0.0] * self.dimension, reason)

    def _embedded(self, texts: Sequence[str]) -> list[Embedded]:
        if self.embed is None:
            return [self.zero(UNAVAILABLE)] * len(texts)
        try:
            vectors = self.embed(texts)
        except NoVector as failure:
            return [self.zero(failure.reason)] * len(texts)
        except Exception:
            # Whatever fails in a provider, the tools keep working (seed 001).
            return [self.zero(UNAVAILABLE)] * len(texts)
        if len(vectors) != len(texts):
            raise UnusableInput(f"the embedder returned {len(vectors)} vectors for {len(texts)} texts")
        for vector in vectors:
            if len(vector) != self.dimension:
                raise UnusableInput(
                    f"the embedder returns {len(vector)} numbers a text, the table has {self.dimension}; "
                    "use the model that the table was made with"
                )
        return [Embedded(vector) for vector in vectors]
