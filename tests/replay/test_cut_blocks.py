"""Blocks cut by the plugin's budget: items whose text is incomplete do not count as injected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.systems.openclaw.recall.block import Budget, Slot, compose, pack

LABEL = {"importance_label": "nice_to_have"}


def _slots(*sizes: int) -> list[Slot]:
    return [Slot(str(at), at, "fact", "unknown", "é" * size) for at, size in enumerate(sizes)]


def _protected(maximum: int) -> Budget:
    """All slots are protected, so none is dropped and the block is cut."""
    return Budget(True, maximum, 9, "truncate_oldest")


@pytest.mark.parametrize("comment", ["", "<!-- 😀 -->"])
def test_pack_block_cut_anywhere_keeps_the_complete_slots(comment: str) -> None:
    slots = _slots(3, 0, 40)
    lines = [f"{number}. [fact|unknown] {slot.text}" for number, slot in enumerate(slots, 1)]
    for maximum in range(1, len(compose(slots, comment)) + 3):
        packed = pack(slots, _protected(maximum), comment)
        whole = packed.context.split("\n")
        assert [slot.id for slot in packed.intact] == [slots[at].id for at in range(3) if lines[at] in whole]
        assert packed.kept == tuple(slots)


@pytest.mark.parametrize(("size", "whole"), [(100, 1), (400, 0)])
def test_replay_cut_block_injects_only_complete_items(desk: Any, size: int, whole: int) -> None:
    long = "pears " + "x" * size
    desk.say("cut", ("shop", [("user", "how many pears are there", (long, LABEL))] * 2))
    config = desk.home / "config.json"
    config.write_text(json.dumps({"budget": {"maxChars": 300}}), "utf-8")
    row = desk.rows(desk.run("engine", config=str(config), profile="upstream"))[-1]
    receipt = json.loads(row["receipt"])
    assert (receipt["injectedCount"], row["injected"], len(row["item_key"])) == (1, whole, whole)
    assert row["chars"] == min(300, receipt["budget"]["beforeChars"])


def test_replay_high_verbosity_ignores_items_after_a_cut_comment(desk: Any) -> None:
    memories = [(f"pears in crate {number}", LABEL) for number in range(5)]
    desk.say("comment", ("shop", [("user", "how many pears are there", memory) for memory in memories] * 2))
    config = desk.home / "config.json"
    config.write_text(json.dumps({"autoRecall": {"maxItems": 5}, "receipts": {"verbosity": "high", "maxItems": 5}}))
    row = desk.rows(desk.run("engine", config=str(config), profile="upstream"))[-1]
    assert json.loads(row["receipt"])["injectedCount"] == 1
    assert (row["injected"], row["item_key"], row["chars"]) == (0, [], 1800)


def test_replay_upstream_formats_numbers_as_the_plugin(desk: Any) -> None:
    desk.say("same", ("shop", [("user", "pears", ("pears", LABEL))] * 2))
    text = desk.rows(desk.run("engine", profile="upstream"))[-1]["receipt"]
    assert '"score":1,"distance":0}' in text
    assert " " not in text
    seed = desk.rows(desk.run("engine", out="seed"))[-1]["receipt"]
    assert '"score":1.0,"distance":0.0}' in seed
