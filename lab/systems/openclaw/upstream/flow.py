"""Automatic recall of the public plugin (E-18): the stages of a turn, in order."""

from __future__ import annotations

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState
from lab.systems.openclaw.upstream.stages import PluginTurn, budget, select, slots, todo, working_set

STAGES = (
    ("scope", stages.scope),
    ("trivial", stages.trivial),
    ("embedding", stages.embedding),
    ("select", select),
    ("todo", todo),
    ("docs", stages.docs),
    ("working_set", working_set),
    ("slots", slots),
    ("budget", budget),
)


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> PluginTurn:
    """Run the stages. A failed stage leaves a warning and no receipt."""
    turn = PluginTurn(prompt, config, memories, state)
    return stages.run(turn, STAGES) if config.auto_recall.enabled else turn
