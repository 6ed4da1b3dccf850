"""The content of a conversation: what changes it, and what does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.events import ToolUse
from lab.recordings.model import Memory, Recording
from lab.replay.plan import Plan, make_plan
from lab.replay.run import contents_of, gold_of
from lab.runs.manifest import Content
from lab.runs.request import ReplayRequest


@pytest.fixture(scope="module")
def plan(operators: Path) -> Plan:
    return make_plan(ReplayRequest(str(operators), "lab", ("hybrid",), limit=2, haystack=0))


def _content(plan: Plan, change: Callable[[Recording], Recording] = lambda recording: recording) -> Content:
    changed = replace(plan, recordings=tuple(map(change, plan.recordings)))
    return contents_of(changed)[plan.recordings[0].conversation]


def test_gold_says_at_which_turns_the_agent_searched_by_itself(plan: Plan) -> None:
    recording = plan.recordings[0]
    probe = next(probe for probe in plan.probes(recording) if probe.turn)
    asked = next(turn.seq for turn in recording.turns if turn.key == probe.turn)
    later = [turn.seq for turn in recording.turns[asked + 1 :]]
    user = next(seq for seq in later if recording.turns[seq].role == "user")

    def slices(at: int, tool: str) -> dict[str, str]:
        uses = {at: (ToolUse("k", tool, 0, "{}"),)}
        turns = [replace(turn, tool_uses=uses.get(turn.seq, ())) for turn in recording.turns]
        changed = replace(plan, recordings=(replace(recording, turns=tuple(turns)),))
        lines = [json.loads(line) for line in gold_of(changed).decode().splitlines()]
        return next(line["slices"] for line in lines if line["probe"] == probe.id)

    assert slices(asked + 1, "memory_recall")["agent_searched"] == "yes"
    assert slices(asked + 1, "memory_search")["agent_searched"] == "yes"
    assert slices(asked + 1, "memory_store")["agent_searched"] == "no"
    # A search for the next message is none for this one.
    assert slices(user, "memory_recall")["agent_searched"] == "no"
    assert "agent_searched" not in json.dumps(gold_of(plan).decode())


def test_content_depends_on_its_conversation_alone(plan: Plan) -> None:
    alone = make_plan(replace(plan.request, limit=1))
    name = plan.recordings[0].conversation
    assert contents_of(alone)[name] == contents_of(plan)[name]
    assert len(set(contents_of(plan).values())) == 2


@pytest.mark.parametrize(
    ("field", "value", "differs"),
    [
        ("text", "another text", "memories"),
        ("label", "ignore", "memories"),
        ("scope", "elsewhere", "memories"),
        ("created_at", 7, "memories"),
        ("supersedes", ("x",), "memories"),
        ("source_ref", "https://example.org", "memories"),
        ("due_at", 7, "memories"),
        ("media_refs", ("a.png",), ""),
    ],
)
def test_change_of_a_memory_changes_the_content(plan: Plan, field: str, value: object, differs: str) -> None:
    def change(recording: Recording) -> Recording:
        first, *rest = recording.memories
        return replace(recording, memories=(replace(first, **{field: value}), *rest))

    assert _content(plan, change).differs(_content(plan)) == differs


def test_change_of_a_turn_or_a_judgement_changes_the_content(plan: Plan) -> None:
    def shorter(recording: Recording) -> Recording:
        return replace(recording, turns=recording.turns[:-1])

    assert "turns" in _content(plan, shorter).differs(_content(plan))
    probe, *others = plan.library.golden.probes
    for judged, differs in (
        (replace(probe, reason="in other words"), ""),
        (replace(probe, relevant=(*probe.relevant, Judgement("x", 1))), "judgements"),
        (replace(probe, irrelevant=("x",)), "judgements"),
        (replace(probe, slices={"type": "todo"}), "judgements"),
    ):
        golden = GoldenSet((judged, *others))
        changed = replace(plan, library=replace(plan.library, golden=golden))
        assert _of(changed, probe).differs(_of(plan, probe)) == differs


def _of(plan: Plan, probe: Probe) -> Content:
    return contents_of(plan)[probe.conversation]


def test_memory_after_the_last_turn_changes_nothing(plan: Plan) -> None:
    def grown(recording: Recording) -> Recording:
        later = Memory("later", "later", "later", len(recording.turns) + 1, 2**50)
        return replace(recording, memories=(*recording.memories, later))

    def seen(recording: Recording) -> Recording:
        return replace(recording, memories=(*recording.memories, Memory("now", "now", "now", 1, 2**50)))

    assert _content(plan, grown) == _content(plan)
    assert _content(plan, seen).differs(_content(plan)) == "memories"


def test_order_of_the_rows_of_a_store_counts_but_not_their_numbers(plan: Plan) -> None:
    def placed(numbers: Callable[[int], int]) -> Callable[[Recording], Recording]:
        return lambda recording: replace(
            recording,
            memories=tuple(replace(memory, place=numbers(row)) for row, memory in enumerate(recording.memories)),
        )

    assert _content(plan, placed(lambda row: row)) == _content(plan, placed(lambda row: 5 * row + 2))
    assert _content(plan, placed(lambda row: row)) != _content(plan, placed(lambda row: -row))
