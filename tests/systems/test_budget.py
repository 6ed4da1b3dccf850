"""Arms under a token budget: what is cut, what is shared, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import UnusableInput
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Turn
from lab.replay.loop import Answered, RecallCall, replay
from lab.replay.plan import make_plan, plan_of
from lab.replay.run import run_replay
from lab.runs.directory import open_run
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.budget import WIDE, clipped_in, cut, spans_of, within
from lab.systems.contract import NOTHING, ArmInfo, Ask, Detail, Item, MemorySystem, Recall, Stored, Writes
from lab.systems.kit import Kit
from lab.systems.openclaw.recall.block import wrap
from lab.systems.registry import make_arm, parse_arms
from lab.systems.spec import ArmSpec
from tests.playing import OPERATORS, kit_for, play

BUDGETS = (64, 128, 256, 1200)
ARMS = ("hybrid", "tier_quota_v1", "seed_full", "recommended", "oracle", "random")
TEXTS = st.lists(st.text(min_size=1, max_size=80).filter(str.strip), min_size=1, max_size=8, unique=True)


def replayed(tmp_path: Path, arms: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    options = {"haystack": 60} | options
    request = ReplayRequest(str(OPERATORS), "lab", tuple(arms), embedder="hashing", limit=1, **options)
    run = run_replay(request, tmp_path / "run").run
    return [row for name in run.conversations for row in read_table(run.receipts(name)).to_pylist()]


def of_arm(rows: Sequence[dict[str, Any]], arm: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["arm"] == arm]


def test_budget_holds_for_every_recall_of_every_arm(tmp_path: Path) -> None:
    arms = [f"{arm}@{budget}" for arm in ARMS for budget in BUDGETS]
    rows = replayed(tmp_path, arms)
    assert all(row["tokens"] <= int(row["arm"].partition("@")[2]) for row in rows)
    assert {row["status"] for row in rows} <= {"ok", "skipped"}
    for arm in ("hybrid", "random"):
        # A larger budget injects the same items and more.
        by_budget = [[row["item_key"] for row in of_arm(rows, f"{arm}@{budget}")] for budget in BUDGETS]
        for small, large in pairwise(by_budget):
            assert all(more[: len(keys)] == keys for keys, more in zip(small, large, strict=True))
        assert sum(map(len, by_budget[-1])) > 3 * sum(map(len, by_budget[0]))
    full = [row for row in of_arm(rows, "hybrid@256") if row["visible"] > 40]
    assert len(full) > 20
    for row in full:
        assert row["injected"] == len(row["item_key"]) > 3
        # It stopped at the first item that does not fit.
        assert row["tokens"] > 200


def test_budget_larger_than_the_ranking_equals_the_ranking(tmp_path: Path) -> None:
    rows = replayed(tmp_path, ["bm25@32000", "bm25"], depth=WIDE, haystack=0)
    cut_rows, plain = of_arm(rows, "bm25@32000"), of_arm(rows, "bm25")
    assert [row["item_key"] for row in cut_rows] == [row["item_key"] for row in plain]
    assert any(row["injected"] < len(row["item_key"]) for row in plain)


def test_run_of_budget_arms_remakes_the_same_arms(tmp_path: Path) -> None:
    replayed(tmp_path, ["hybrid@128", "seed_full@256"])
    plan = plan_of(open_run(tmp_path / "run"))
    assert [arm.tokens for arm in plan.arms] == [128, 256]  # type: ignore[attr-defined]  # arms under a budget
    assert [info.cutoff for info in plan.infos] == [WIDE, WIDE]
    assert pickle.loads(pickle.dumps(plan.arms)) == plan.arms


@pytest.mark.parametrize("text", ["hybrid@8", "hybrid@99999999"])
def test_budget_out_of_range_is_named(text: str) -> None:
    with pytest.raises(UnusableInput, match=r"lab\.tokens: expected a whole number from 16 to 32768"):
        parse_arms([text])


@pytest.mark.parametrize("value", [True, "256", 256.0, None, 15])
def test_budget_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(UnusableInput, match=r"config: lab\.tokens: expected a whole number"):
        make_arm(ArmSpec("hybrid", "hybrid", {"lab": {"tokens": value}}))


def test_budget_of_an_unknown_system_names_the_system() -> None:
    with pytest.raises(UnusableInput, match="unknown arm 'hybird'"):
        parse_arms(["hybird@256"])


def test_own_budget_of_the_engine_is_set() -> None:
    spec, other = parse_arms(["seed_full@512", "tier_first_v1@512"])
    arm: Any = make_arm(spec)
    config = arm.inner.config
    assert config.budget.max_chars + config.working_set.max_chars == 4 * 512 - 1
    assert config.max_items == 6
    policy: Any = make_arm(other)
    assert policy.inner.config.max_items == 6
    # The description is that of the arm as configured, with the budget.
    assert policy.describe().config["lab"]["tokens"] == 512


@given(TEXTS, st.integers(1, 200))
def test_cut_keeps_the_longest_prefix_that_fits(texts: list[str], budget: int) -> None:
    items = tuple(Item(str(number), text) for number, text in enumerate(texts))
    context = wrap([("fact", "unknown", text) for text in texts])
    recall = cut(Recall(items, len(items), context), budget, WIDE)
    kept = recall.injected
    assert recall.items == items[:kept]
    assert tokens(recall.context) <= max(budget, 0) or not kept
    if spans_of(context, items) is None:
        return
    expected = [wrap([("fact", "unknown", text) for text in texts[:count]]) for count in range(len(texts) + 1)]
    fitting = [count for count, text in enumerate(expected) if count and tokens(text) <= budget]
    assert kept >= max(fitting, default=0)


def test_cut_rebuilds_the_block_of_the_items_that_stay() -> None:
    texts = ["the first <memory>", "the 'second' one", "x" * 300]
    items = tuple(Item(text, text) for text in texts)
    slots = [("fact", "unknown", text) for text in texts]
    recall = cut(Recall(items, 3, wrap(slots)), 60, WIDE)
    assert recall.context == wrap(slots[:2])
    assert (recall.injected, recall.evicted) == (2, 1)


def test_cut_counts_what_was_dropped_before_and_by_the_cut() -> None:
    items = (Item("a", "alpha"), Item("b", "b" * 300))
    whole = Recall(items, 2, "alpha\n" + "b" * 300, evicted=3, duplicates=1)
    assert (cut(whole, 500, WIDE).evicted, cut(whole, 500, WIDE).duplicates) == (3, 1)
    shorter = cut(whole, 20, WIDE)
    # How many of the items that stay are duplicates is not known.
    assert (shorter.injected, shorter.evicted, shorter.duplicates) == (1, 4, None)


def test_cut_keeps_no_more_items_than_the_cutoff() -> None:
    items = tuple(Item(key, f"item {key}") for key in "abc")
    recall = cut(Recall(items, 3, "\n".join(item.text for item in items)), 500, 2)
    assert (recall.injected, recall.context) == (2, "item a\nitem b")


def test_cut_of_a_text_without_its_items_injects_nothing() -> None:
    items = (Item("a", "alpha beta"), Item("b", "gamma"))
    recall = cut(Recall(items, 2, "a summary in other words " * 40, pinned=("p",)), 50, WIDE)
    assert (recall.injected, recall.context, recall.pinned) == (0, "", ())
    assert recall.receipt["cut"]["found"] is False


@dataclass(frozen=True)
class CountingArm:
    """An arm that counts the calls of its system."""

    calls: dict[str, int]
    name: str = "counting"
    breaks: bool = False
    seed: int | None = None
    stores: str = ""

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "counting", 3, 3, writes=True, seed=self.seed)

    def open(self, kit: Kit) -> Counting:
        self.calls["open"] = self.calls.get("open", 0) + 1
        return Counting(self)


class Counting(MemorySystem):
    def __init__(self, arm: CountingArm) -> None:
        self.arm, self.texts = arm, list[str]()

    def _count(self, call: str) -> None:
        self.arm.calls[call] = self.arm.calls.get(call, 0) + 1

    def remember(self, memories: Sequence[Memory]) -> None:
        self._count("remember")
        if self.arm.breaks:
            raise ValueError
        self.texts += [memory.text for memory in memories]

    def recall(self, ask: Ask) -> Recall:
        self._count("recall")
        items = tuple(Item(text, text) for text in self.texts)
        return Recall(items, len(items), "" if ask.items_only else "\n".join(self.texts))

    def observe(self, turn: Turn) -> Writes:
        self._count("observe")
        if not self.arm.stores:
            return NOTHING
        shown = " ".join(self.arm.stores.split()[:2])
        self.texts.append(shown)
        return Writes((Stored(shown, self.arm.stores, (turn.key,)),))

    def close(self) -> None:
        self._count("close")


def memory(key: str, text: str) -> Memory:
    return Memory(key, text, text, 0, 0)


def test_arms_that_differ_in_budget_share_one_system() -> None:
    calls: dict[str, int] = {}
    base = CountingArm(calls)
    arms = [within(base, budget) for budget in (16, 64)]
    kit = kit_for(base)
    first, second = (arm.open(kit) for arm in arms)
    for system in (first, second):
        system.remember([memory("a", "a" * 40), memory("b", "b" * 80)])
    ask = Ask("t", "text", 0)
    assert (first.recall(ask).injected, second.recall(ask).injected) == (1, 2)
    later = replace(ask, turn="u")
    assert (first.recall(later).injected, second.recall(later).injected) == (1, 2)
    turn = Turn("t", 0, "s", "user", "text", 0)
    for system in (first, second):
        system.observe(turn)
        system.close()
    assert calls == {"open": 1, "remember": 1, "recall": 2, "observe": 1, "close": 1}


def test_arms_that_differ_in_more_than_the_budget_share_nothing() -> None:
    calls: dict[str, int] = {}
    first, second = CountingArm(calls), CountingArm(calls, seed=1)
    kit = kit_for(first)
    systems = [within(arm, 64).open(kit) for arm in (first, second)]
    assert calls["open"] == 2
    systems[0].remember([memory("a", "a" * 40)])
    assert systems[1].recall(Ask("t", "text", 0)).injected == 0


def test_budget_asks_for_the_text_even_where_only_items_are_wanted() -> None:
    base = CountingArm({})
    system = within(base, 16).open(kit_for(base))
    system.remember([memory("a", "a" * 40), memory("b", "b" * 80)])
    assert system.recall(Ask("t", "text", 0, items_only=True)).injected == 1


def test_captured_memory_that_is_injected_in_part_is_clipped() -> None:
    base = CountingArm({}, stores="a statement that the system shortens")
    system = within(base, 64).open(kit_for(base))
    system.observe(Turn("t", 0, "s", "user", "text", 0))
    recall = system.recall(Ask("u", "text", 0))
    assert (recall.context, recall.receipt) == ("a statement", {"clipped": [0]})


def test_failure_of_a_shared_system_reaches_every_budget() -> None:
    base = CountingArm({}, breaks=True)
    kit = kit_for(base)
    for system in [within(base, budget).open(kit) for budget in (16, 64)]:
        with pytest.raises(ValueError):  # noqa: PT011 - it has no message
            system.remember([memory("a", "a")])


def test_explained_cut_names_the_budget() -> None:
    request = ReplayRequest(str(OPERATORS), "lab", ("hybrid@64",), embedder="hashing", limit=1, haystack=0)
    plan = make_plan(request)
    recording = plan.recordings[0]
    calls: list[RecallCall] = []
    causes: set[str] = set()

    def explain(answered: Answered) -> None:
        keys = [memory.key for memory in recording.memories if memory.is_visible_at(answered.point.seq)]
        call: Any = calls[-1]
        told = call.system.explain(call.ask, call.candidates, answered.recall, keys, Detail())
        injected = {item.id for item in answered.recall.items}
        assert set(told.causes) | injected >= set(keys)
        causes.update(told.causes.values())

    for answered in replay(play(recording, plan.probes(recording)), plan.arms, on_recall=calls.append):
        explain(answered)
    assert "budget" in causes


def test_clipped_items_are_found_in_the_text() -> None:
    items = tuple(Item(key, key) for key in "abcd")
    texts = {"a": "first <b> line\n and more", "b": "cut off here and there", "c": "one", "d": 'R&D\'s "quote"'}
    context = "- first &lt;b&gt; line and more\n- cut off here\n- one\n- R&amp;D&#39;s &quot;quote&quot;"
    assert clipped_in(Recall(items, 4, context), texts) == [1]
    assert clipped_in(Recall(items, 1, context), texts) == []
    # Without a memory of that id, the system's own text counts.
    assert clipped_in(Recall((Item("x", "one"), Item("y", "two")), 2, "one"), {}) == [1]
