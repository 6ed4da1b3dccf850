"""The recall tool of an agent, under the rules of the profile (E-37)."""

from __future__ import annotations

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.seed.exclusions import BARRED
from lab.systems.openclaw.tools.recall import DEFAULT_LIMIT, Recalled, memory_recall


def agent_recall(
    query: str, config: EngineConfig, memories: Memories, *, limit: int = DEFAULT_LIMIT, scope: str | None = None
) -> Recalled:
    """Recall memories for an agent's query. Profile ``seed`` prefers trusted ones (E-60); the plugin ignores trust."""
    barred = ((),) if config.upstream else BARRED[config.active_phases.trust]
    return memory_recall(query, config, memories, limit=limit, scope=scope, barred=barred)
