"""Tests of capture in a replay: when memories are stored, which recalls return them, and what they say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.recordings.model import Recording, Turn
from lab.replay.loop import TurnWrites
from lab.systems.contract import Ask
from lab.systems.kit import Kit
from lab.systems.openclaw.arms import FlowSystem
from lab.systems.openclaw.recall.block import wrap
from tests.playing import arms_named, keys_of, played, tools_for

ENGINES = ("engine", "seed_full", "recommended", "tier_first_v1", "tier_quota_v1")


def talk(*said: tuple[str, str], scope: str = "global") -> Recording:
    """A conversation of turns, one a minute."""
    turns = tuple(
        Turn(f"c/s/{seq}", seq, "s", role, text, 60_000 * (seq + 1), scope) for seq, (role, text) in enumerate(said)
    )
    return Recording("c", turns, ())


SAID = (
    ("user", "I prefer rye bread for breakfast"),
    ("assistant", "noted"),
    ("user", "what bread should we order for breakfast?"),
    ("assistant", "rye"),
    ("assistant", "and butter"),
    ("user", "which bread do I prefer for breakfast?"),
)


@pytest.mark.parametrize("arm", ENGINES)
def test_captured_memory_is_recalled_from_the_next_turn_on(arm: str) -> None:
    wrote: list[TurnWrites] = []
    answers = played(talk(*SAID), arms_named(arm), on_writes=wrote.append, source="captured")
    # An engine with a Working Set pins the memory in it and then does not list it again.
    heard = {answer.point.key: {*keys_of(answer), *answer.recall.pinned} for answer in answers}
    assert (heard["c/s/0"], heard["c/s/2"], heard["c/s/5"]) == (set(), {"c/s/1#0"}, {"c/s/1#0"})
    assert [answer.failure for answer in answers] == [None] * 6
    created = [
        (entry.turn.key, stored)
        for entry in wrote
        for stored in entry.writes.created
        if not stored.id.startswith("working_set:")
    ]
    assert [(turn, stored.id, stored.text, stored.sources) for turn, stored in created] == [
        ("c/s/1", "c/s/1#0", "I prefer rye bread for breakfast", ("c/s/0",))
    ]
    receipts = [entry.writes.receipt for entry in wrote if entry.writes.receipt]
    # One capture for each message with a reply, however many turns the reply has.
    assert [receipt["storedCount"] for receipt in receipts] == [1, 0]


def test_a_session_is_captured_without_the_messages_of_earlier_ones() -> None:
    """A dropped line of an earlier session is not read again, and a message without a reply is not captured later."""
    said = (("s1", "user", "I prefer rye bread for breakfast"), ("s2", "user", "which bread is left today?"))
    turns = [*said, ("s2", "assistant", "white bread")]
    system = arms_named("engine")[0].open(Kit(tools_for([text for _, _, text in turns]), "engine", captures=True))
    wrote = [
        system.observe(Turn(f"c/{session}/{seq}", seq, session, role, text, 60_000 * (seq + 1)))
        for seq, (session, role, text) in enumerate(turns)
    ]
    system.close()
    assert [len(writes.created) for writes in wrote] == [0, 0, 0]
    assert wrote[-1].receipt["scanned"]["userMessages"] == 1


def test_capture_between_people_ends_a_turn_at_every_message() -> None:
    recording = talk(("user", "I prefer rye bread for breakfast"), ("user", "which bread do you prefer?"))
    arm = arms_named("engine")[0]
    tools = tools_for([turn.text for turn in recording.turns])
    tools.replies = False
    system = arm.open(Kit(tools, "engine", captures=True))
    assert [len(system.observe(turn).created) for turn in recording.turns] == [1, 0]
    system.close()


@pytest.mark.parametrize(("scoping", "expected"), [("given", "team"), ("open", "global"), ("tags", "rye")])
def test_captured_memory_takes_the_scope_that_recall_filters_by(scoping: str, expected: str) -> None:
    recording = talk(("user", "[SCOPE: rye]\nI prefer rye bread for breakfast"), ("assistant", "noted"), scope="team")
    said = expected if expected != "global" else "rye"
    arm = arms_named("engine")[0]
    texts = [*(turn.text for turn in recording.turns), "[SCOPE: rye] rye bread"]
    system = arm.open(Kit(tools_for(texts, scoping=scoping), "engine", captures=True))
    for turn in recording.turns:
        system.observe(turn)
    assert isinstance(system, FlowSystem)
    query = "[SCOPE: rye] rye bread"
    recall = system.recall(Ask("c/s/2", query, 180_000, None if scoping == "open" else said, "s", scoping=scoping))
    assert keys_of_items(recall.items) == ["c/s/1#0"]
    assert [item.signals.scope for item in recall.items] == [said]
    system.close()


def keys_of_items(items: Sequence[object]) -> list[str]:
    return [str(getattr(item, "id", "")) for item in items]


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_engine_without_captures_observes_and_stores_nothing(profile: str) -> None:
    wrote: list[TurnWrites] = []
    played(talk(*SAID), arms_named("engine", profile=profile, max_items=5), on_writes=wrote.append)
    assert wrote == []


def rounds(profile: str, end: int | None) -> tuple[set[str], list[str]]:
    """Replay ten rounds in which the host records the injected block in the next message, and capture from that.

    A second engine injects as well; its block ends after ``end`` characters (None: it is whole). Return what the user
    said and what was stored.
    """
    arm = arms_named("engine", profile=profile, max_items=5)[0]
    said = [f"I prefer bread of kind {chr(97 + number) * 9} for meal {number}" for number in range(10)]
    system = arm.open(Kit(tools_for(said), "engine", captures=True))
    stored: list[str] = []
    for number, prompt in enumerate(said):
        recall = system.recall(Ask(f"c/s/{2 * number}", prompt, 60_000 * (2 * number + 1), session="s"))
        other = wrap([("decision", "must_remember", f"We decided on oven {chr(97 + number) * 9}")])
        text = "\n\n".join(filter(None, (recall.context, prompt, other[:end])))
        for seq, role, words in ((2 * number, "user", text), (2 * number + 1, "assistant", "noted")):
            writes = system.observe(Turn(f"c/s/{seq}", seq, "s", role, words, 60_000 * (seq + 1)))
            stored += [entry.text for entry in writes.created]
    system.close()
    return set(said), stored


# Where the budget may cut the block: after its memory, before its last line.
CUT = -len("\n</relevant-memories>")


@pytest.mark.parametrize("end", [None, CUT, CUT - 3])
def test_echo_over_ten_rounds_is_nothing_in_seed(end: int | None) -> None:
    said, stored = rounds("seed", end)
    assert [text for text in stored if text not in said] == []
    assert sorted(stored) == sorted(said)


@pytest.mark.parametrize(("end", "echoes"), [(None, 0), (CUT, 10)])
def test_echo_over_ten_rounds_in_upstream_comes_from_cut_blocks(end: int | None, echoes: int) -> None:
    said, stored = rounds("upstream", end)
    assert len([text for text in stored if text not in said]) == echoes
