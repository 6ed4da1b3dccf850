"""One timed turn: how arms are filled and queried, and what happens if a system fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure
from lab.recordings.model import Memory
from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Sources, prepared_sources
from lab.retrieval.retrievers import make_store
from lab.runs.request import ReplayRequest
from lab.studies.latency.bench import (
    LoadedStore,
    PoolWords,
    Subject,
    ask,
    ask_together,
    opened,
    pool_of,
    questions_of,
    retrieval_of,
    tools_over,
)
from lab.systems.contract import ArmInfo, Ask, MemorySystem, Recall
from lab.systems.kit import Kit

SIZE = 700


@pytest.fixture(scope="module")
def plan(operators: Path) -> Plan:
    return make_plan(
        ReplayRequest(str(operators), "lab", ("hybrid", "verbatim", "seed_full", "oracle"), embedder="hashing")
    )


@pytest.fixture(scope="module")
def sources(plan: Plan) -> Sources:
    return prepared_sources(plan)


@pytest.fixture(scope="module")
def loaded(plan: Plan, sources: Sources) -> LoadedStore:
    pool, settings = pool_of(plan, sources), retrieval_of(plan).text
    assert len(pool.real) < SIZE
    made = LoadedStore(
        "exact",
        make_store("exact", pool.dimension, settings),
        tools_over(plan, sources, "exact", pool, SIZE),
    )
    made.fill(pool, 0, SIZE, PoolWords(pool, settings))
    return made


@pytest.fixture
def subjects(loaded: LoadedStore, plan: Plan) -> Iterator[dict[str, Subject]]:
    with opened([loaded], plan) as made:
        yield {one.seat.name: one for one in made}


def test_opened_fills_the_own_table_of_an_arm(subjects: dict[str, Subject], plan: Plan, sources: Sources) -> None:
    """Both search the same memories, including resampled ones, with equal results."""
    for question in questions_of(plan, sources, 12):
        shared, own = (ask(subjects[name], question) for name in ("hybrid", "verbatim"))
        assert [item.id for item in own.recall.items] == [item.id for item in shared.recall.items]
        assert own.timings.keys() == shared.timings.keys()


def test_ask_embeds_the_prompts_that_an_arm_searches_with(
    subjects: dict[str, Subject], plan: Plan, sources: Sources
) -> None:
    prompt = questions_of(plan, sources, 12)[5]
    embedded: dict[str, list[str]] = {}
    for name, subject in subjects.items():
        timings = ask(subject, prompt, embedded.setdefault(name, []).append).timings
        assert timings["turn"] == timings["recall"] + timings.get("embed", 0)
        assert ("embed" in timings) == bool(embedded[name])
    assert embedded == {name: [prompt.prompt] for name in subjects}


def test_ask_gives_gold_only_to_arms_that_need_it(subjects: dict[str, Subject], plan: Plan, sources: Sources) -> None:
    question = next(one for one in questions_of(plan, sources, 200) if one.with_gold.grades)
    assert not question.ask.grades
    assert {item.id for item in ask(subjects["oracle"], question).recall.items} == set(question.with_gold.grades)


@dataclass(frozen=True)
class Breaking:
    """An arm that raises in one of its calls after ``after`` successful ones."""

    where: str
    after: int = 1
    name: str = "breaking"

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "breaking", 6, 6)

    def open(self, kit: Kit) -> BreakingSystem:
        return BreakingSystem(self)


class BreakingSystem(MemorySystem):
    def __init__(self, arm: Breaking) -> None:
        self.arm, self.calls = arm, 0

    def _call(self, where: str) -> None:
        self.calls += where == self.arm.where
        if self.calls > self.arm.after:
            raise RuntimeError("the secret words of a memory")

    def remember(self, memories: Sequence[Memory]) -> None:
        self._call("remember")

    def recall(self, ask: Ask) -> Recall:
        self._call("recall")
        return Recall()


def broken(plan: Plan, arm: Breaking) -> Plan:
    return replace(plan, arms=(arm,), infos=(arm.describe(),))


def test_latency_of_a_raising_system_raises(loaded: LoadedStore, plan: Plan, sources: Sources) -> None:
    first, second = questions_of(plan, sources, 2)
    with opened([loaded], broken(plan, Breaking("recall"))) as (subject,):
        assert not ask(subject, first).passed_over
        with pytest.raises(
            CannotMeasure, match=r"arm 'breaking': recall failed at .*: RuntimeError in recall"
        ) as caught:
            ask(subject, second)
        assert "secret" not in str(caught.value)
        with pytest.raises(CannotMeasure, match="recall failed"):
            ask_together(loaded, [subject.seat], second)
    with (
        pytest.raises(CannotMeasure, match="arm 'breaking': RuntimeError in remember"),
        opened([loaded], broken(plan, Breaking("remember", 0))),
    ):
        pass
