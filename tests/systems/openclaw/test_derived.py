"""The Working Set that a recall stores is reported as a write, and no search and no item returns it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.recordings.model import MUST, Memory, Recording, Turn
from lab.replay.loop import Answered, TurnWrites
from lab.systems.openclaw.arms import DerivedRows
from lab.systems.openclaw.memory import Listing
from lab.systems.openclaw.recall.working_set import working_set_row, working_set_slot
from lab.systems.registry import make_arm, parse_arms
from lab.systems.spec import ArmSpec
from tests.playing import keys_of, played

TEXTS = ("We must use sqlite for the ledger", "I prefer dark mode", "The gateway listens on 18888")
PROMPTS = ("where is the ledger?", "and the gateway?", "and the gateway?")


def recording() -> Recording:
    turns = tuple(Turn(f"c/s/t{at}", at, "s", "user", text, 1_000 * at) for at, text in enumerate(PROMPTS))
    memories = tuple(
        Memory(f"c/s/m{at}", text, text, 0, at, category, label=MUST)
        for at, (text, category) in enumerate(zip(TEXTS, ("decision", "preference", "fact"), strict=True))
    )
    return Recording("c", turns, memories)


def arm(profile: str = "seed", **config: Any) -> Any:
    config = {"workingSet": {"enabled": True}, "autoRecall": {"selectionMode": "tier_quota_v1"}} | config
    return make_arm(ArmSpec("engine", "engine", config, profile=profile))


def answers(one: Any) -> tuple[list[Answered], list[TurnWrites]]:
    wrote: list[TurnWrites] = []
    return played(recording(), [one], on_writes=wrote.append), wrote


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_recall_reports_the_row_that_it_stored(profile: str) -> None:
    result, wrote = answers(arm(profile))
    assert [answer.failure for answer in result] == [None] * 3
    assert [answer.recall.receipt["workingSet"]["persisted"] for answer in result] == [True] * 3
    (first,), (second,) = wrote[0].writes.created, wrote[1].writes.updated
    assert first.id == second.id == "working_set:global"
    # The public plugin pins no preference without a rule word.
    assert {*first.sources, *second.sources} == ({"c/s/m0", "c/s/m1"} if profile == "seed" else {"c/s/m0"})
    assert result[0].recall.context.count(TEXTS[0]) >= 1
    # Seed 000 stores what changed; the public plugin stores the row at every turn.
    assert len(wrote) == (2 if profile == "seed" else 3)
    assert all("working_set:global" not in keys_of(answer) for answer in result)


@pytest.mark.parametrize("change", [{"persist": False}, {"enabled": False}])
def test_recall_without_persistence_stores_nothing(change: dict[str, bool]) -> None:
    result, wrote = answers(arm(workingSet={"enabled": True} | change))
    assert (wrote, [answer.failure for answer in result]) == ([], [None] * 3)
    assert not any(answer.recall.receipt["workingSet"]["persisted"] for answer in result)


def test_read_only_store_is_not_written() -> None:
    assert answers(arm(readOnly=True))[1] == []


def test_store_lists_the_latest_row_of_each_scope() -> None:
    listing = Listing()
    derived = DerivedRows(listing, None)
    old, new, other = (
        working_set_row(working_set_slot(scope, at, text), scope, at, no_vector="provider_unavailable")
        for scope, at, text in (("a", 1, "one"), ("a", 2, "two"), ("b", 3, "one"))
    )
    for row in (old, new, other, replace(new, created_at=9)):
        derived.write(row)
    # The last row has the text of the second, so it is not stored again.
    assert listing.recent(None, ("other",), 9) == [other, new]
    assert (new.trust_tier, new.embedded) == ("system_working_set_noembed", False)


@pytest.mark.parametrize("reason", [None, "embedding_input_too_long"])
def test_working_set_is_embedded_unless_the_provider_is_down(reason: str | None) -> None:
    row = working_set_row(working_set_slot("a", 1, "one"), "a", 1, no_vector=reason)
    assert (row.trust_tier, row.embedded) == ("system_working_set", True)


def test_arm_of_a_file_has_the_older_working_set(tmp_path: Path) -> None:
    path = tmp_path / "v1.json"
    path.write_text(
        json.dumps({"lab": {"arm": "engine", "workingSet": "v1"}, "workingSet": {"enabled": True}}), "utf-8"
    )
    (spec,) = parse_arms([f"v1={path}"])
    result, _ = answers(make_arm(spec))
    assert "[working_set v1] scope=global" in result[0].recall.context
