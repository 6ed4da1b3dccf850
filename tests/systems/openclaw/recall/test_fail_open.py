"""If a stage fails, the turn continues without memories (E-24)."""

from __future__ import annotations

from typing import Any

import pytest

from lab.retrieval.contract import Filter, Lanes
from lab.systems.openclaw.arms import recall
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState


class Broken:
    """A store whose searches all fail, with an error message that must not be logged."""

    def search(self, where: Filter, limit: int) -> Lanes:
        raise OSError("a text that nobody should read")


@pytest.mark.parametrize("profile", ["seed", "upstream"])
@pytest.mark.parametrize("mode", ["tier_first_v1", "tier_quota_v1"])
def test_recall_with_a_broken_store_injects_nothing_and_does_not_raise(kit: Any, profile: str, mode: str) -> None:
    config = resolve({"autoRecall": {"selectionMode": mode}}, profile)
    state = RecallState()
    turn = recall(Prompt("what about the gateway", 1), config, Memories(Broken(), [], {}), state)
    assert (turn.context, turn.kept, turn.hits) == ("", (), [])
    assert turn.log == [("warn", "openclaw-mem-engine: autoRecall failed: OSError")]
    if profile == "upstream":
        assert turn.receipt is None
    else:
        assert turn.receipt is not None
        assert turn.receipt["failed"] == {"stage": "select", "error": "OSError"}
        assert (turn.receipt["injectedCount"], turn.receipt["skipped"]) == (0, False)
    # The next turn behaves as if nothing had been injected.
    rows = [kit.row("one", "gateway")]
    assert kit.Talk(rows, config).say("what about the gateway").hits
