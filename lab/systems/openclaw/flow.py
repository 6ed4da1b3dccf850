"""Automatic recall before a turn, under the profile of a configuration."""

from __future__ import annotations

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn
from lab.systems.openclaw.seed import flow as seed
from lab.systems.openclaw.upstream import flow as upstream

FLOWS = {"seed": seed.recall, "upstream": upstream.recall}


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> Turn:
    """Run the flow of the configuration's profile and return the turn as it left it.

    What is injected is ``context``; it is empty where the prompt was passed over, where nothing was found, and where a
    stage failed, which never raises. ``state`` is changed: it remembers what was injected. Timings are nanoseconds by
    stage, as :mod:`lab.retrieval.stage_timer` books them.
    """
    return FLOWS[config.profile](prompt, config, memories, state)
