"""Pools: the items of several arms at some turns, shuffled reproducibly."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.golden.pool import Pool
from lab.replay.pool import ARMS, Chosen, make_pool, material
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table


@pytest.fixture(scope="module")
def replay_request(operators: Path) -> ReplayRequest:
    return ReplayRequest(str(operators / "harbor-release.jsonl"), "lab", ARMS, scope="recorded", embedder="hashing")


@pytest.fixture(scope="module")
def pool(replay_request: ReplayRequest) -> Pool:
    return make_pool(replay_request, 6, Chosen(number=8))


def test_make_pool_holds_what_a_replay_returns(pool: Pool, replay_request: ReplayRequest, tmp_path: Path) -> None:
    run = run_replay(replay_request, tmp_path / "run").run
    rows = read_table(run.receipts("harbor-release"), ("arm", "turn", "item_key")).to_pylist()
    for turn in pool.turns:
        expected: dict[str, dict[str, int]] = {}
        for row in rows:
            if row["turn"] == turn.turn:
                for rank, key in enumerate(row["item_key"][:6], 1):
                    expected.setdefault(key, {})[row["arm"]] = rank
        assert {item.memory: item.arms for item in turn.items} == expected
        assert set(expected) != {None}
        assert {arm for arms in expected.values() for arm in arms} <= set(ARMS)


def test_make_pool_repeated_gives_equal_bytes_without_texts(pool: Pool, replay_request: ReplayRequest) -> None:
    assert make_pool(replay_request, 6, Chosen(number=8)).as_bytes() == pool.as_bytes()
    result = material(pool)["harbor-release"]
    data = pool.as_bytes().decode()
    assert not [memory for memory in result.memories if memory.text in data]


def test_make_pool_order_is_independent_of_ranks(pool: Pool) -> None:
    firsts = [turn.items[0].arms.get("hybrid") for turn in pool.turns]
    assert firsts != [1] * len(firsts)
    again = [tuple(sorted(turn.items, key=lambda item: min(item.arms.values()))) for turn in pool.turns]
    assert [turn.items for turn in pool.turns] != again


def test_make_pool_each_turn_has_its_own_order(pool: Pool) -> None:
    """Items pooled at two turns are ordered differently, so that no memory is always judged first."""
    orders = [[item.memory for item in turn.items] for turn in pool.turns]
    turned = 0
    for one, other in pairwise(orders):
        both = set(one) & set(other)
        turned += [key for key in one if key in both] != [key for key in other if key in both]
    assert turned > 0


def test_make_pool_smaller_sample_is_a_subset_over_all_conversations(operators: Path) -> None:
    both = ReplayRequest(
        str(operators), "lab", ("recency",), embedder="hashing", conversation=("harbor-release", "two-desks")
    )
    few, more = (make_pool(both, 3, Chosen(number=number)) for number in (4, 7))
    names = [turn.turn for turn in few.turns]
    assert [name.split("/")[0] for name in names] == ["harbor-release"] * 2 + ["two-desks"] * 2
    assert set(names) < {turn.turn for turn in more.turns}
    assert {turn.turn for turn in make_pool(replace(both, seed=1), 3, Chosen(number=4)).turns} != set(names)


def test_make_pool_depth_limits_every_arm(replay_request: ReplayRequest) -> None:
    shallow = make_pool(replace(replay_request, arms=("tier_first_v1", "recency")), 2, Chosen(number=3))
    for turn in shallow.turns:
        for arm in ("tier_first_v1", "recency"):
            assert sorted(item.arms[arm] for item in turn.items if arm in item.arms) == [1, 2]


def test_make_pool_turns_by_key_and_by_interval(replay_request: ReplayRequest) -> None:
    alone = replace(replay_request, arms=("recency",))
    every = make_pool(alone, 3, Chosen(every=10))
    named = make_pool(alone, 3, Chosen(keys=(every.turns[1].turn,)))
    assert named.turns == every.turns[1:2]
    result = material(every)["harbor-release"]
    by_key = {memory.key: memory for memory in result.memories}
    at = {turn.key: turn.seq for turn in result.turns}
    assert {len(turn.items) for turn in every.turns} == {3}
    assert all(by_key[item.memory].visible_from <= at[turn.turn] for turn in every.turns for item in turn.items)


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (Chosen(keys=("harbor-release/s01/t02",)), "is not a user turn"),
        (Chosen(keys=("harbor-release/s01/t01",)), "with a memory"),
        (Chosen(every=0), "every 0 is not"),
        (Chosen(number=0), "turns 0 is not"),
        (Chosen(every=2, number=2), "choose turns with one of"),
    ],
)
def test_make_pool_bad_turns_are_refused(replay_request: ReplayRequest, chosen: Chosen, why: str) -> None:
    with pytest.raises(UnusableInput, match=why):
        make_pool(replay_request, 6, chosen)


def test_make_pool_bad_arms_and_depths_are_refused(replay_request: ReplayRequest) -> None:
    with pytest.raises(UnusableInput, match="which a pool precedes"):
        make_pool(replace(replay_request, arms=("oracle",)), 6, Chosen())
    with pytest.raises(UnusableInput, match="depth 0"):
        make_pool(replay_request, 0, Chosen())
    with pytest.raises(UnusableInput, match="500 memories or more"):
        make_pool(replay_request, 499, Chosen())


def test_make_pool_transcript_with_a_store(tmp_path: Path) -> None:
    entries = [{"type": "session", "version": 3, "id": "mine", "timestamp": "2026-03-01T09:00:00Z"}]
    for at in range(4):
        message = {"role": "assistant" if at % 2 else "user", "content": f"What about port {at}?"}
        stamp = f"2026-03-0{at + 2}T09:00:00Z"
        parent = f"e{at - 1}" if at else None
        entries.append({"type": "message", "id": f"e{at}", "parentId": parent, "timestamp": stamp, "message": message})
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    rows = [{"id": f"m{at}", "text": f"Port {at} is open", "createdAt": 1_700_000_000_000 + at} for at in range(5)]
    store = tmp_path / "export.json"
    store.write_text(json.dumps({"items": rows}), encoding="utf-8")
    replay_request = ReplayRequest(
        str(tmp_path / "mine.jsonl"), "openclaw", ("bm25", "recency"), embedder="hashing", memories_from=str(store)
    )
    pool = make_pool(replay_request, 2, Chosen(every=1))
    assert [len(turn.turn.split("/")) for turn in pool.turns] == [3, 3]
    assert {item.memory for turn in pool.turns for item in turn.items} <= {row["id"] for row in rows}
    assert [memory.key for memory in material(pool)["mine"].memories] == [row["id"] for row in rows]
    for option, gone in (
        ("--recordings", replace(pool, recordings="x")),
        ("--memories-from", replace(pool, memories_from="x")),
    ):
        with pytest.raises(
            UnusableInput, match=f"x: not found, but the pool was made from it; name its new path with {option}"
        ):
            material(gone)
    rows[0]["text"] = "Another"
    store.write_text(json.dumps({"items": rows}), encoding="utf-8")
    with pytest.raises(UnusableInput, match="has changed since it was pooled"):
        material(pool)


def test_make_pool_trivial_turns_only_by_key(tmp_path: Path) -> None:
    said = ["The dog is walked twice.", "thanks!", "/clear", "When is the dog walked?", "hi", "And the cat?"]
    lines: list[dict[str, object]] = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": "pets"},
        {"kind": "session", "session": "s1", "time": "2026-03-02T09:00:00Z", "scope": "home"},
    ]
    for at, text in enumerate(said):
        lines.append({"kind": "turn", "turn": f"t{at}", "role": "user", "text": text})
        lines += [{"kind": "memory", "text": f"{text} {place}"} for place in range(2 * (at == 0))]
    path = tmp_path / "pets.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    replay_request = ReplayRequest(str(path), "lab", ("recency",), embedder="hashing")
    messages: list[str] = []
    result = make_pool(replay_request, 1, Chosen(number=9), messages.append)
    assert [turn.turn for turn in result.turns] == ["pets/s1/t3", "pets/s1/t5"]
    assert [line for line in messages if line.startswith("not sampled: 3 user turns that recall skips")]
    named = make_pool(replay_request, 1, Chosen(keys=("pets/s1/t2",)), messages.append)
    assert [turn.turn for turn in named.turns] == ["pets/s1/t2"]
