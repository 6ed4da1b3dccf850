"""Long memories are cut to a length instead of dropped; hard rules are never cut."""

from __future__ import annotations

from lab.retrieval.contract import Row
from lab.systems.openclaw.recall.stages import memory_slot
from tests.playing import shipped_answers


def text_of(text: str, most: int) -> str:
    return memory_slot(Row("a", "a", text, text, 0), most).text


def test_memory_slot_cuts_to_units_with_an_ellipsis() -> None:
    assert text_of("a" * 10, 10) == "a" * 10
    assert text_of("a" * 11, 10) == "a" * 9 + "…"
    assert text_of("a" * 11, 0) == "a" * 11


def test_memory_slot_never_leaves_half_a_character() -> None:
    # Each of these characters takes two units.
    assert text_of("😀" * 6, 10) == "😀" * 4 + "…"
    assert text_of("😀" * 6, 11) == "😀" * 5 + "…"


def test_flow_injects_long_memories_cut_and_rules_whole() -> None:
    quotas = {"selectionMode": "tier_quota_v1"}
    every = shipped_answers("engine", {"phases": {"itemMaxChars": 60}}, autoRecall=quotas, budget={"maxChars": 12_000})
    recalls = [answered for answered in every if answered.recall.injected]
    lines = [line for answered in recalls for line in answered.recall.context.split("\n")]
    assert any(line.endswith("…") for line in lines)
    cut = [answered.recall.receipt["shortened"]["count"] for answered in recalls]
    assert 0 < sum(cut) < sum(answered.recall.injected for answered in recalls)
    rules = [answered for answered in recalls if answered.hard_rules]
    assert rules
    assert all(answered.hard_kept == answered.hard_rules for answered in rules)
