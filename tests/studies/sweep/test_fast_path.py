"""Fast paths of policies select as the plain policies do, on random candidates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lab.base.utf16 import js_length
from lab.embedding.vectors import Vectors, embedder_named
from lab.recordings.model import LABELS, Memory
from lab.retrieval.contract import Filter, Hit, Lanes
from lab.retrieval.fusion import RRF, Fusion
from lab.retrieval.retrievers import QueryContext
from lab.retrieval.silence import Silence
from lab.systems.contract import Ask
from lab.systems.kit import Kit, Tools
from lab.systems.openclaw.arms import FlowArm, FlowSystem, PolicyArm, PolicySystem
from lab.systems.openclaw.config.settings import AutoRecall, EngineConfig, Phases
from lab.systems.openclaw.memory import DAY_MS
from lab.systems.openclaw.recall.block import Budget
from lab.systems.openclaw.select.outcome import Quota
from lab.systems.openclaw.select.policies import MANY, POLICIES

FAST = [name for name, policy in POLICIES.items() if policy in MANY]
TIES = (0.1, 0.25, 0.25, 0.5)


@dataclass(frozen=True)
class Scored:
    """A view with random scores, many of them equal."""

    memories: Sequence[Memory]
    worded: Sequence[float | None]
    near: Sequence[float]

    def search(self, where: Filter, limit: int) -> Lanes:
        allowed = [
            row
            for row, memory in enumerate(self.memories)
            if (where.labels is None or memory.label in where.labels) and where.scope in (None, memory.scope)
        ]
        fts = sorted((-score, row) for row in allowed if (score := self.worded[row]) is not None)
        vec = sorted((self.near[row], row) for row in allowed)
        return Lanes(
            [Hit(row, -score) for score, row in fts][:limit],
            [Hit(row, 1 / (1 + distance), distance) for distance, row in vec][:limit],
        )


@some.composite
def conversations(draw: some.DrawFn) -> tuple[list[Memory], list[tuple[str, Scored]]]:
    """Memories, and the session and scores of some recall points."""
    memories = [
        Memory(
            f"c/s1/t1#{number}",
            f"memory {number} " + "pear " * draw(some.integers(0, 30)),
            "pears",
            visible_from=0,
            created_at=draw(some.integers(1, 3)) * DAY_MS,
            trust=draw(some.sampled_from(("user", "user", "untrusted", "quarantined"))),
            category=draw(some.sampled_from(("fact", "fact", "todo"))),
            label=draw(some.sampled_from(LABELS)),
            hard_rule=draw(some.integers(0, 6)) == 0,
        )
        for number in range(draw(some.integers(1, 14)))
    ]
    count = len(memories)
    scored = some.builds(
        Scored,
        some.just(memories),
        some.lists(some.none() | some.sampled_from(TIES), min_size=count, max_size=count),
        some.lists(some.sampled_from((*TIES, 1.7)), min_size=count, max_size=count),
    )
    recall_points = some.tuples(some.sampled_from(["s1", "s1", "s2"]), scored)
    return memories, draw(some.lists(recall_points, min_size=1, max_size=5))


def configurations() -> some.SearchStrategy[tuple[AutoRecall, str]]:
    quotas = some.builds(
        Quota, some.integers(0, 4), some.integers(0, 4), some.integers(0, 3), some.just(0), some.just(inf)
    )
    recall = some.builds(
        AutoRecall,
        skip_trivial_prompts=some.just(False),
        quota=quotas,
        strict_caps=some.booleans(),
        repeat_window_turns=some.integers(0, 4),
        repeat_penalty=some.sampled_from((0.0, 0.2, 0.6, 1.0)),
    )
    return some.tuples(recall, some.sampled_from(("compounding", "linear", "once", "literal")))


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("policy", FAST)
@settings(max_examples=int(os.environ.get("LAB_EXAMPLES", "50")))
@given(
    conversations(),
    some.lists(configurations(), min_size=1, max_size=4),
    some.integers(1, 6),
    some.booleans(),
    some.sampled_from((160, 500, 12_000)),
    some.sampled_from((RRF, Fusion(k=1), Fusion("convex"), Fusion("combmnz", "theoretical", 0.3))),
    some.sampled_from((Silence(), Silence("mean", 0.8), Silence("words", 0.03))),
    some.sampled_from((0, 8)),
    some.sampled_from((("prefer", "fallback"), ("off", "live"))),
)
def test_select_many_equals_select(
    policy: str,
    flow: bool,
    conversation: tuple[list[Memory], list[tuple[str, Scored]]],
    drawn: list[tuple[AutoRecall, str]],
    places: int,
    rescored: bool,
    chars: int,
    fusion: Fusion,
    silence: Silence,
    recent_days: int,
    modes: tuple[str, str],
) -> None:
    memories, recall_points = conversation
    score = Phases().score if rescored else ()
    configs = [
        EngineConfig(
            auto_recall=replace(recall, max_items=places, selection_mode=policy),
            budget=Budget(max_chars=chars),
            phases=Phases(
                repeat_decay=decay,
                repeat_exempt_top=places % 3,
                relevance="rrf" if fusion is RRF else "fused",
                relevance_over="pool" if chars == 500 else "tier",
                score=score,
                recent_days=recent_days,
                item_max_chars=60 if chars == 160 else 0,
                trust=modes[0],
                tier_mode=modes[1],
            ),
            fusion=fusion,
            silence=silence,
            todo_stale_ttl_days=8,
        )
        for recall, decay in drawn
    ]
    arms = [(FlowArm if flow else PolicyArm)(f"{at}", policy, config) for at, config in enumerate(configs)]
    assert len({arm.group_key() for arm in arms} - {None}) == 1
    vectors = Vectors(embedder_named("hashing"))

    def none_is_made(_: object) -> None:
        raise AssertionError("candidates are handed over")

    tools = Tools("c", embedder_named("hashing"), vectors, none_is_made, none_is_made)  # type: ignore[arg-type]  # never called
    many = arms[0].open_many(arms, Kit(tools, "0"), memories)
    systems: list[FlowSystem | PolicySystem] = [arm.open(Kit(tools, arm.name)) for arm in arms]
    for one in (many, *systems):
        one.remember(memories)
    rows = tools.rows.of(memories)
    for number, (session, view) in enumerate(recall_points):
        ask = Ask(f"t{number}", "which pears are late", 10 * DAY_MS + number, session=session)
        found = QueryContext(view, rows, {row.id: row for row in rows})
        recalls = many.select_many(ask, found)
        for at, system in enumerate(systems):
            wanted = system.select(ask, found)
            keys = [memories[row].key for row in recalls.injected[at] if row != len(memories)]
            assert keys == [item.id for item in wanted.items[: wanted.injected]]
            assert recalls.chars[at] == js_length(wanted.context)
            kept = sum(memories[row].hard_rule for row in recalls.injected[at] if row != len(memories))
            assert recalls.rules[at] in (0, kept)
