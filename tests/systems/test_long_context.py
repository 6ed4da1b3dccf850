"""``long_context``, ``placebo`` and the oracle under a budget: what is injected for a number of tokens."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import UnusableInput
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.explain import CAUSES
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.baselines.placebo import CHINESE, ENGLISH, is_chinese, neutral
from lab.systems.contract import Ask, Detail
from lab.systems.registry import info_of, make_arm
from lab.systems.spec import ArmSpec
from tests.playing import OPERATORS, keys_of, kit_for, played

BUDGETS = (64, 256, 1200)


def arm(system: str, config: Any = None, **changes: Any) -> Any:
    return make_arm(ArmSpec(system, system, config, **changes))


def memories(*texts: str, scope: str = "global") -> tuple[Memory, ...]:
    return tuple(Memory(f"c/s/t0#{at}", text, text, 0, at, "fact", scope) for at, text in enumerate(texts))


def rows_of(tmp_path: Path, arms: Sequence[str], **options: Any) -> dict[str, list[dict[str, Any]]]:
    request = ReplayRequest(str(OPERATORS), "lab", tuple(arms), embedder="hashing", **({"limit": 2} | options))
    run = run_replay(request, tmp_path / "run").run
    rows = [row for name in run.conversations for row in read_table(run.receipts(name)).to_pylist()]
    return {arm: [row for row in rows if row["arm"] == arm] for arm in arms}


def test_long_context_is_the_last_memories_in_order() -> None:
    system = arm("long_context", {"tokens": 16}).open(kit_for(arm("long_context")))
    system.remember(memories("one " * 8, "two <b>", "three", "four " * 4))
    system.forget(["c/s/t0#2"])
    recall = system.recall(Ask("c/s/t1", "anything", 1))
    # With the oldest, it would be 18 tokens.
    assert recall.context == "- two &lt;b&gt;\n- four four four four "
    assert [item.id for item in recall.items] == ["c/s/t0#3", "c/s/t0#1", "c/s/t0#0"]
    assert (recall.injected, recall.status) == (2, "ok")
    explained = system.explain(Ask("c/s/t1", "x", 1), None, recall, ["c/s/t0#0", "c/s/t0#1"], Detail())
    assert explained.reasons == {"c/s/t0#0": "2 newer ones filled the last 16 tokens"}
    assert explained.causes == {"c/s/t0#0": "budget"}


def test_long_context_stays_in_the_scope_and_skips_if_nothing_fits() -> None:
    system = arm("long_context", {"tokens": 16}).open(kit_for(arm("long_context")))
    system.remember((*memories("mine"), *[Memory("c/s/t0#9", "x" * 99, "x", 0, 9, "fact", "shop")]))
    home, shop = (system.recall(Ask("c/s/t1", "x", 1, scope)) for scope in ("global", "shop"))
    assert (keys_of_items(home), home.status) == (["c/s/t0#0"], "ok")
    assert (shop.injected, shop.context, shop.status) == (0, "", "skipped")
    explained = system.explain(Ask("c/s/t1", "x", 1, "global"), None, home, ["c/s/t0#9"], Detail())
    assert explained.causes == {"c/s/t0#9": "scope"}


def keys_of_items(recall: Any) -> list[str]:
    return [item.id for item in recall.items[: recall.injected]]


def test_long_context_injects_at_most_a_hundred() -> None:
    system = arm("long_context", {"tokens": 100_000}).open(kit_for(arm("long_context")))
    system.remember(memories(*(f"memory {number}" for number in range(120))))
    recall = system.recall(Ask("c/s/t1", "x", 1))
    assert (recall.injected, len(recall.context.splitlines())) == (100, 100)


def test_long_context_captures_every_turn_of_its_roles() -> None:
    turns = tuple(
        Turn(f"c/s/{seq}", seq, "s", role, text, 1000 * seq)
        for seq, (role, text) in enumerate(
            (("user", "hello there"), ("tool", "42"), ("assistant", "hi"), ("user", " "), ("user", "bye"))
        )
    )
    answers = played(Recording("c", turns, ()), [arm("long_context")], source="captured")
    assert keys_of(answers[-1]) == ["c/s/2#0", "c/s/0#0"]
    assert answers[-1].recall.context == "- hello there\n- hi"
    assert [answer.failure for answer in answers] == [None] * 5


def test_long_context_given_memories_equals_recency_on_shipped_conversations(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ["long_context@256", "recency@256", "long_context@1200"], haystack=0)
    ours, theirs, longer = rows.values()
    assert len(ours) > 40
    for own, other, more in zip(ours, theirs, longer, strict=True):
        assert own["tokens"] <= 256
        assert more["tokens"] <= 1200
        # The frames differ, so one may hold a memory or two more.
        common = min(own["injected"], other["injected"])
        assert own["item_key"][:common] == other["item_key"][:common]
        assert more["item_key"][: own["injected"]] == own["item_key"][: own["injected"]]


@pytest.mark.parametrize("source", ["given", "captured"])
def test_placebo_has_as_many_tokens_as_the_arm_it_is_like(tmp_path: Path, source: str) -> None:
    like = {name: tmp_path / f"{name}.json" for name in ("hybrid", "seed_full", "verbatim")}
    for name, path in like.items():
        path.write_text(json.dumps({"lab": {"arm": "placebo"}, "like": {"lab": {"arm": name}}}), encoding="utf-8")
    arms = [*like, *(f"like_{name}={path}" for name, path in like.items())]
    rows = rows_of(tmp_path, arms, source=source, limit=1, haystack=0)
    run_rows = [row for listed in rows.values() for row in listed]
    by_arm = {name: [row for row in run_rows if row["arm"] == name] for name in like}
    placebos = read_rows(tmp_path, [f"like_{name}" for name in like])
    for name, listed in by_arm.items():
        shadows = placebos[f"like_{name}"]
        assert len(shadows) == len(listed) > 10
        assert [row["tokens"] for row in shadows] == [row["tokens"] for row in listed]
        assert any(row["tokens"] for row in shadows)
        assert {row["injected"] for row in shadows} == {0}
        assert {row["status"] for row in shadows} <= {"ok", "skipped"}


def read_rows(tmp_path: Path, arms: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    rows = [row for path in sorted((tmp_path / "run" / "receipts").iterdir()) for row in read_table(path).to_pylist()]
    return {arm: [row for row in rows if row["arm"] == arm] for arm in arms}


def test_placebo_fills_a_budget_and_hits_nothing(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ["placebo@128", "placebo"], haystack=0)
    assert {row["tokens"] for row in rows["placebo@128"]} == {128}
    assert {row["tokens"] for row in rows["placebo"]} == {256}
    assert all(not row["item_key"] for listed in rows.values() for row in listed)
    # It starts elsewhere from turn to turn, so no cache of a prompt's start profits from it.
    assert len({row["block"] for row in rows["placebo"]}) > 10


@pytest.mark.parametrize(
    ("prompt", "fault", "status"), [("", "", "skipped"), ("pears?", "", "ok"), ("pears?", "embedder_down", "degraded")]
)
def test_placebo_takes_status_and_times_of_the_arm_it_is_like(prompt: str, fault: str, status: str) -> None:
    inner = {"lab": {"arm": "rsclaw"}}
    placebo = arm("placebo", {"like": inner})
    system = placebo.open(kit_for(placebo, "pears ripen", prompt))
    system.remember(memories("pears ripen"))
    recall = system.recall(Ask("c/s/1", prompt, 1, faults=frozenset({fault} - {""})))
    assert recall.status == status
    assert bool(recall.timings) == (status != "skipped")


def test_placebo_forgets_with_the_arm_it_is_like() -> None:
    placebo = arm("placebo", {"like": {"lab": {"arm": "hybrid"}}})
    system = placebo.open(kit_for(placebo, "pears ripen", "pears?"))
    system.remember(memories("pears ripen"))
    ask = Ask("c/s/1", "pears?", 1)
    assert system.recall(ask).context
    system.forget(["c/s/t0#0"])
    assert system.recall(ask).context == ""


def test_placebo_explains_that_it_injects_nothing() -> None:
    placebo = arm("placebo")
    system = placebo.open(kit_for(placebo))
    system.remember(memories("pears"))
    ask = Ask("c/s/1", "pears?", 1)
    explained = system.explain(ask, None, system.recall(ask), ["c/s/t0#0"], Detail())
    assert explained.causes == {"c/s/t0#0": "nothing"}
    assert set(explained.causes.values()) <= set(CAUSES)


@given(st.integers(0, 5000), st.text(max_size=8), st.booleans())
def test_neutral_text_has_exactly_the_tokens(size: int, key: str, chinese: bool) -> None:
    text = neutral(size, 7, key, chinese=chinese)
    # One Chinese character has two tokens.
    assert tokens(text) == (0 if chinese and size == 1 else size)
    assert text == neutral(size, 7, key, chinese=chinese)


def test_neutral_sentences_are_distinct_and_of_one_language() -> None:
    for sentences, chinese in ((ENGLISH, False), (CHINESE, True)):
        assert len(set(sentences)) == len(sentences) >= 30
        assert [is_chinese(text) for text in sentences] == [chinese] * len(sentences)
    assert not is_chinese("")
    assert is_chinese("我們用 pnpm 安裝套件")


def test_oracle_under_a_budget_takes_the_most_that_fit() -> None:
    texts = ("a" * 400, "b" * 41, "c" * 42, "d" * 40, "e" * 4000)
    grades = {"c/s/t0#0": 2, "c/s/t0#1": 1, "c/s/t0#2": 2, "c/s/t0#4": 2}
    rows = {}
    for budget in (10, 21, 22, 150, 4000):
        oracle = arm("oracle").with_tokens(budget)
        system = oracle.open(kit_for(oracle, *texts, "x"))
        retriever = system.open_retriever()
        retriever.observe(memories(*texts))
        ask = Ask("c/s/t1", "x", 1, grades=grades)
        recall = system.select(ask, retriever.retrieve(ask))
        assert tokens(recall.context) <= budget
        rows[budget] = keys_of_items(recall)
        assert {item.id for item in recall.items} == set(grades)
    assert rows[10] == []
    # The line break between two counts: with it, both have 22 tokens.
    assert len(rows[21]) == 1
    # The grade decides the order of what fits, and the length what fits.
    assert rows[22] == ["c/s/t0#2", "c/s/t0#1"]
    assert set(rows[150]) == {"c/s/t0#0", "c/s/t0#1", "c/s/t0#2"}
    assert set(rows[4000]) == set(grades)


def test_oracle_bounds_every_arm_at_the_same_budget(tmp_path: Path) -> None:
    every = "oracle@32000"
    arms = [*(f"{name}@{budget}" for name in ("oracle", "hybrid") for budget in BUDGETS), every]
    rows = rows_of(tmp_path, arms, limit=3, haystack=0)
    relevant = {row["probe"]: {*row["item_key"]} for row in rows[every] if row["probe"]}
    assert len(relevant) > 10

    def hits(name: str) -> dict[str, int]:
        probes = [row for row in rows[name] if row["probe"]]
        return {row["probe"]: len(relevant[row["probe"]] & {*row["item_key"][: row["injected"]]}) for row in probes}

    for budget in BUDGETS:
        best, other = hits(f"oracle@{budget}"), hits(f"hybrid@{budget}")
        assert sum(other.values()) > 0
        assert all(best[probe] >= count for probe, count in other.items())
    for smaller, larger in pairwise(f"oracle@{budget}" for budget in BUDGETS):
        assert all(hits(larger)[probe] >= count for probe, count in hits(smaller).items())


def test_configuration_survives_a_round_trip() -> None:
    for system, config in (
        ("long_context", {"tokens": 500, "roles": ["user"]}),
        ("long_context", None),
        ("placebo", {"tokens": 99}),
        ("placebo", {"like": {"lab": {"arm": "memory_lancedb"}, "recallMaxChars": 500}}),
        ("placebo", {"like": {"lab": {"arm": "hybrid"}, "autoRecall": {"maxItems": 3}}}),
    ):
        budget = arm(system, config).with_tokens(700)
        assert budget.describe().config["tokens"] == 700
        made = arm(system, config)
        info = info_of(ArmSpec(system, system), made)
        again = arm(system, json.loads(json.dumps(info.config)))
        assert again.describe() == made.describe()
        assert again == made
        assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("system", "config", "message"),
    [
        ("long_context", {"token": 5}, "my.json: unknown key 'token'; known: lab, tokens, roles"),
        ("long_context", {"tokens": 15}, "my.json: tokens: expected a whole number from 16 to 1000000, found 15"),
        ("long_context", {"tokens": True}, "my.json: tokens: expected a whole number"),
        ("long_context", {"roles": ["user", "assystant"]}, "my.json: roles: 'assystant' is no role of a turn; did you"),
        ("long_context", {"roles": []}, "my.json: roles: expected a list of roles such as ['user', 'assistant']"),
        ("long_context", 5, "my.json: expected an object, found a number"),
        ("placebo", {"tokens": "5"}, "my.json: tokens: expected a whole number"),
        ("placebo", {"tokens": 64, "like": {}}, "my.json: tokens and like exclude each other"),
        ("placebo", {"like": "hybrid"}, "my.json: like: expected the configuration of an arm"),
        ("placebo", {"like": {"lab": {"arm": "hybird"}}}, "unknown arm 'hybird'; did you mean 'hybrid'? known:"),
        ("placebo", {"size": 1}, "my.json: unknown key 'size'; known: lab, tokens, like"),
    ],
)
def test_refused_configuration_names_file_and_key(system: str, config: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        arm(system, config, where="my.json")
    assert str(caught.value).startswith(message)
