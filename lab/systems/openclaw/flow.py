"""Automatic recall before a turn, under the profile of a configuration."""

from __future__ import annotations

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn
from lab.systems.openclaw.seed import flow as seed
from lab.systems.openclaw.upstream import flow as upstream

FLOWS = {"seed": seed.recall, "upstream": upstream.recall}


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> Turn:
    """Run the flow of the configuration's profile and return the completed turn.

    Its ``context`` is the injected text; it is empty if the prompt was skipped, nothing was selected, or a stage
    failed. Errors of stages are recorded, not raised. ``state`` is updated with what was injected. Timings are
    nanoseconds by stage (:mod:`lab.retrieval.stage_timer`).
    """
    return FLOWS[config.profile](prompt, config, memories, state)
