"""Automatic recall as specified by the seeds (E-54): the stages of a turn, in order."""

from __future__ import annotations

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.receipt import lifecycle_receipt
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState
from lab.systems.openclaw.seed.stages import add_working_set, budget, remember, select, slots, trivial
from lab.systems.openclaw.seed.turn import SeedTurn

STAGES = (
    ("scope", stages.scope),
    ("trivial", trivial),
    ("embedding", stages.embedding),
    ("backbone", add_working_set),
    ("select", select),
    ("docs", stages.docs),
    ("slots", slots),
    ("budget", budget),
)


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> SeedTurn:
    """Run the stages and record what was injected, for later turns."""
    turn = SeedTurn(prompt, config, memories, state)
    if config.auto_recall.enabled:
        remember(stages.run(turn, STAGES, failed))
    return turn


def failed(turn: SeedTurn, stage: str, kind: str) -> None:
    """Write a receipt that names the failed stage."""
    receipts = turn.config.receipts
    if receipts.enabled:
        turn.receipt = lifecycle_receipt(
            receipts,
            scope=turn.scope,
            scope_mode=turn.scope_mode,
            rejected=turn.rejected,
            mode=turn.config.auto_recall.selection_mode,
            parts={"failed": {"stage": stage, "error": kind}},
        )
