"""The content of turn pages, checked against receipts and measures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from lab.base.formatting import visible
from lab.measures.score import score_run
from lab.replay.receipts import STALE, SUPERSEDED
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table
from lab.view.index import Index, Pair
from lab.view.recorded import Recorded
from lab.view.turns import Again, Reader, TurnView
from tests.view.conftest import EVIL, FILE

ARM = "tier_first_v1"


@pytest.fixture(scope="module")
def index(walked: RunDirectory) -> Index:
    return Index(walked)


@pytest.fixture(scope="module")
def pair(index: Index) -> Pair:
    return index.pair(None, None)


def readers(index: Index, pair: Pair) -> Iterator[Reader]:
    recorded = [Recorded(index.run)]
    for conversation in index.conversations:
        yield Reader(index, conversation, pair, recorded, with_text=True)


@pytest.fixture(scope="module")
def views(index: Index, pair: Pair) -> dict[str, TurnView]:
    """Every turn of the run, by its key."""
    found = {}
    for reader in readers(index, pair):
        own = [index.number_of(reader.conversation, key) for key in index.turns]
        found |= {one.key: one for one in reader.turns([number for number in own if number is not None], before=True)}
    assert list(found) == index.turns
    return found


def test_repeated_item_shows_when_and_how_often(index: Index, views: dict[str, TurnView]) -> None:
    """By the receipts, recall turn after recall turn; of each turn the share that counts is its RepeatRate."""
    rates = score_run(index.run).of_arm(ARM)["RepeatRate"]
    expected = {at: value for at, value in zip(rates.at, rates.value, strict=True) if value == value}
    seen: set[int] = set()
    for conversation in index.conversations:
        rows = read_table(index.run.receipts(conversation), ("arm", "turn", "is_recall_turn", "injected", "item_key"))
        before: list[list[str]] = []
        for row in (one for one in rows.to_pylist() if one["arm"] == ARM and one["is_recall_turn"]):
            (side,) = (one for one in views[row["turn"]].sides if one.arm == ARM)
            for one in side.items:
                gaps = [len(before) - at for at, keys in enumerate(before) if one.key in keys]
                assert one.again == (Again(min(gaps), len(gaps)) if gaps else None)
                seen |= {*gaps}
            if row["turn"] in expected:
                counted = sum(one.again is not None and one.again.counts for one in side.items)
                assert counted / len(side.items) == expected[row["turn"]]
            before.append(row["item_key"][: row["injected"]])
    assert len(seen) > 1
    assert [Again(ago, 1).counts for ago in (1, 6, 7)] == [True, True, False]


def test_missed_and_one_sided_memories_are_marked(index: Index, views: dict[str, TurnView]) -> None:
    lost = alone = 0
    for view in views.values():
        own = [{one.key for one in side.items} for side in view.sides]
        gold = {key: probe for key, probe in index.gold.items() if probe.conversation == view.conversation}
        for side, keys in zip(view.sides, own, strict=True):
            if view.key in gold:
                wanted = gold[view.key].grades
                assert {one.key: one.grade for one in side.missed} == {
                    key: grade for key, grade in wanted.items() if key not in keys
                }
                assert {one.key: one.grade for one in side.items if one.grade} == {
                    key: grade for key, grade in wanted.items() if key in keys
                }
            lost += len(side.missed)
            for key in keys:
                assert view.alone(key) == (not all(key in some for some in own))
                alone += view.alone(key)
    assert lost
    assert alone


def test_wrong_scope_marks_equal_the_measure(index: Index, views: dict[str, TurnView]) -> None:
    shares = score_run(index.run).of_arm(ARM)["WrongScope"]
    assert any(shares.value)
    for at, share in zip(shares.at, shares.value, strict=True):
        (side,) = (one for one in views[at].sides if one.arm == ARM)
        if side.items:
            assert sum("another scope" in one.marks for one in side.items) / len(side.items) == share
    # What is of every scope is of no other.
    everywhere = [one for view in views.values() for side in view.sides for one in side.items if one.scope == "global"]
    assert everywhere
    assert not any("another scope" in one.marks for one in everywhere)


def test_earlier_turns_end_before_the_turn(views: dict[str, TurnView]) -> None:
    view = views["plain/s03/t3"]
    assert [who for who, _ in view.before] == ["user", "assistant"]
    assert view.text == "which note 2 1 of 12 was it?"
    assert view.text not in [text for _, text in view.before]


def test_pinned_memories_count_as_before_every_item(index: Index, pair: Pair, views: dict[str, TurnView]) -> None:
    """A stale memory is merely superseded where the Working Set holds the one that replaces it."""
    view, side, stale = next(
        (view, side, one) for view in views.values() for side in view.sides for one in side.items if STALE in one.marks
    )
    reader = next(one for one in readers(index, pair) if one.conversation == view.conversation)
    found = reader._of(side.arm).row(side.arm, view.key)
    assert found
    place, row = found
    told = reader._recorded_conversation()
    assert told
    newer = [one.key for one in told.recording.memories if stale.key in one.supersedes]
    for pinned, mark in (([], STALE), (newer, SUPERSEDED)):
        again = reader._side(view.number, side.arm, place, row | {"pinned": pinned}, None, told, explained=False)
        assert next(one for one in again.items if one.key == stale.key).marks[-1] == mark


def test_hits_of_two_arms_use_the_smaller_cutoff(copied: RunDirectory) -> None:
    resolved = copied.manifest.resolved
    arms = tuple(replace(arm, cutoff=3) if arm.name == "tier_quota_v1" else arm for arm in resolved.arms)
    copied.manifest = replace(copied.manifest, resolved=replace(resolved, arms=arms))
    index = Index(copied)
    assert index.pair(ARM, "tier_quota_v1").cutoff == index.pair("tier_quota_v1", ARM).cutoff == 3
    assert index.pair(ARM, "quota_repeat").cutoff == 6


def test_media_are_shown_with_texts_and_without_their_paths(
    client_of: Callable[..., Any], walked: RunDirectory, index: Index, views: dict[str, TurnView]
) -> None:
    view = next(one for one in views.values() if any(item.media for side in one.sides for item in side.items))
    address = f"/turn?{urlencode({'conversation': view.conversation, 'turn': view.key, 'arm': ARM, 'full': '1'})}"
    silent, telling = (client_of(walked, with_text=shown).get(address).text for shown in (False, True))
    lines = re.findall('<p class="soft media"><bdi>(.*?)</bdi></p>', telling)
    assert {unescape(line) for line in lines} == {f"media: image {visible(EVIL)}, 2"}
    assert "media: image" in telling[telling.index('<pre class="explained"') :]
    assert EVIL not in telling
    assert FILE not in unescape(telling)
    assert "media: " not in silent


def test_missed_memory_names_its_media(views: dict[str, TurnView]) -> None:
    missed = [item for view in views.values() for side in view.sides for item in side.missed]
    assert {item.media for item in missed if item.key.endswith("#1")} == {f"media: image {EVIL}, 2"}
    assert {item.media for item in missed if not item.key.endswith("#1")} <= {""}
