"""Automatic recall before a turn: the stages of both profiles, in the order in which each runs them (spec 4, 16)."""

from __future__ import annotations

import time

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall import phases, stages, upstream
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn

UPSTREAM = (
    ("scope", stages.scope),
    ("trivial", stages.trivial),
    ("embedding", stages.embedding),
    ("select", upstream.select),
    ("todo", upstream.todo),
    ("docs", stages.docs),
    ("working_set", upstream.working_set),
    ("slots", upstream.slots),
    ("budget", upstream.budget),
)
SEED = (
    ("scope", stages.scope),
    ("trivial", stages.trivial),
    ("embedding", stages.embedding),
    ("backbone", phases.backbone),
    ("select", phases.select),
    ("docs", stages.docs),
    ("slots", phases.slots),
    ("budget", phases.budget),
)


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> Turn:
    """Run the flow of the configuration's profile and return the turn as it left it.

    What is injected is ``context``; it is empty where the prompt was passed over, where nothing was found, and where a
    stage failed, which never raises. ``state`` is
    changed: it remembers what was injected. Timings are nanoseconds by stage, searches apart under ``search``.
    """
    tiers = Tiers(memories.view, memories.rows, config.auto_recall.search_limit, memories.shared)
    turn = Turn(prompt, config, memories, state, tiers)
    if not config.auto_recall.enabled:
        return turn
    for name, stage in UPSTREAM if config.upstream else SEED:
        started = time.perf_counter_ns()
        try:
            stage(turn)
        except Exception as error:
            # Whatever breaks, the agent's turn goes on without memories (spec 4).
            stages.fail_open(turn, name, error)
        turn.timings[name] = time.perf_counter_ns() - started
        if turn.done:
            break
    if not config.upstream:
        phases.remember(turn)
    if not turn.done:
        turn.timings["select"] -= tiers.waited
        turn.timings["search"] = tiers.nanoseconds
    return turn
