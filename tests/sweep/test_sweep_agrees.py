"""Many configurations at once select, pack and score as the engine does one by one, on real recordings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab.systems.arms import ArmSpec, make_arm, parse_arms

from lab.measures.score import read_gold, score_run, summarise
from lab.replay.candidates import from_kept, read_kept, save_kept
from lab.replay.loop import replay
from lab.replay.plan import Asked, Plan, make_plan
from lab.replay.run import run_replay
from lab.replay.sources import open_sources, prepare
from lab.sweep.frames import Known, group_key
from lab.sweep.grid import Grid, grid_of
from lab.sweep.many import Alone, Many, grouped
from lab.sweep.sweep import sweep
from lab.sweep.tally import MEASURES
from lab.systems.contract import Selector
from lab.utf16 import js_length

AXES: dict[str, list[Any]] = {
    "autoRecall.selectionMode": ["tier_quota_v1", "tier_quota_v1", "tier_quota_v1", "tier_first_v1"],
    "autoRecall.maxItems": [1, 2, 4, 6, 12],
    "autoRecall.tierSearchMultiplier": [1, 2, 5],
    "autoRecall.includeUnknownFallback": [True, True, False],
    "autoRecall.quotas": [
        {"mustMax": must, "niceMin": nice, "unknownMax": unknown, "caps": caps}
        for must, nice, unknown in ((0, 0, 0), (1, 3, 1), (2, 2, 1), (6, 0, 6), (3, 12, 2))
        for caps in ("strict", "reservation")
    ],
    "autoRecall.repeatPenalty": [0, 0.1, 0.35, 1],
    "autoRecall.repeatWindowTurns": [0, 1, 3, 10],
    "budget.maxChars": [200, 420, 900, 1800, 12000],
    "budget.minRecentSlots": [0, 1, 3],
    "budget.overflowAction": ["truncate_oldest", "truncate_oldest", "truncate_tail"],
    "lab.phases.repeat": [True, True, True, False],
    "lab.phases.repeatDecay": ["compounding", "linear", "once", "literal"],
    "lab.phases.repeatHistory": ["session", "conversation"],
    "lab.phases.repeatCounts": ["recall_turns", "all_user_turns"],
    "lab.phases.relevance": ["rrf", "reciprocal", "similarity"],
    "lab.phases.relevanceOver": ["tier", "pool"],
    "lab.phases.score.recency": [True, False],
    "lab.phases.score.importancePrior": [True, False],
    "lab.phases.score.relevance": [True, True, False],
    "lab.phases.minRelevance": [0, 0, 0.3],
    "lab.phases.recencyWindowDays": [0, 0, 30],
    "lab.phases.hardRules": [True, False],
}
NO_DIGEST = {"workingSet": {"enabled": False}}


def drawn_specs(count: int, seed: int) -> list[ArmSpec]:
    """Configurations drawn from all axes at once; every third is selection alone."""
    chance = random.Random(seed)
    specs = []
    for number in range(count):
        point = {path: [chance.choice(values)] for path, values in AXES.items()}
        system = ("seed_full", "quota_repeat", "tier_quota_v1", "engine", "quota_flow", "tier_first_v1")[number % 6]
        config = dict(NO_DIGEST) if system in ("seed_full", "engine") else {}
        grid = grid_of({"arm": system, "config": config, "grid": point}, "drawn")
        specs.append(ArmSpec(f"{number}", system, grid.specs()[0].config))
    return specs


def with_arms(asked: Asked, specs: list[ArmSpec]) -> Plan:
    from dataclasses import replace

    plan = make_plan(asked)
    arms = tuple(make_arm(one, profile="seed", max_items=None, depth=50, seed=0) for one in specs)
    return replace(plan, specs=tuple(specs), arms=arms)


def both_ways(plan: Plan) -> tuple[int, int]:
    """Hold every injected row and every length against the engine's; return how many blocks and groups there were."""
    sources = open_sources(plan)
    prepare(plan, plan.recordings, sources, lambda _: None)
    blocks = groups = 0
    assert sum(group_key(arm) is not None for arm in plan.arms) > len(plan.arms) * 2 / 3
    for recording in plan.recordings:
        rows, happening = plan.rows_of(recording), plan.moments_of(recording)
        known = Known(rows)
        many, others = grouped([arm for arm in plan.arms if group_key(arm)], known)
        assert not others
        groups += len(many)
        alone = {arm.name: Alone(arm, known) for arm in plan.arms}
        arms: list[Selector] = [*many, *plan.arms]

        def make_live(retrieval: Any) -> Any:
            return sources.retriever(retrieval, "exact")

        kept = read_kept(plan, recording)
        for one in replay(recording, rows, happening, arms, from_kept(kept, make_live, {}), scoping=plan.scoping):
            if not isinstance(one.arm, Many):
                alone[one.arm.name].take(one, js_length(one.recall.context))
        save_kept(plan, recording, kept)
        for group in many:
            for at, name in enumerate(group.members):
                for moment, wanted, chars in zip(happening, alone[name].injected, alone[name].chars, strict=True):
                    blocks += 1
                    place = happening.index(moment)
                    mine = group.injected[place][at]
                    assert mine[mine != known.none].tolist() == wanted[0].tolist(), (name, moment.key)
                    assert group.chars[place][at] == chars[0], (name, moment.key)
    return blocks, groups


@pytest.mark.parametrize("scope", ["recorded", "none"])
def test_selections_are_the_engines_on_the_shipped_set(operators: Path, scope: str) -> None:
    asked = Asked(str(operators), "lab", ("tier_quota_v1",), scope=scope, hard_rules=2, limit=2)
    blocks, groups = both_ways(with_arms(asked, drawn_specs(36, 5)))
    assert blocks > 1000
    assert groups > 20


def test_selections_are_the_engines_on_a_persona(realmem: Path) -> None:
    # Vectors of the embedder for tests are sparse, and tie far more often than a model's.
    asked = Asked(
        *(str(realmem / "Kenta_Tanaka_dialogues_256k.json"), "realmem", ("tier_quota_v1",)),
        labels="sampled",
        hard_rules=1,
        embedder="hashing",
    )
    blocks, _ = both_ways(with_arms(asked, drawn_specs(12, 11)))
    assert blocks > 1500


GRID = {
    "arm": "engine",
    "config": {"autoRecall": {"selectionMode": "tier_quota_v1"}, "budget": {"maxChars": 900}},
    "grid": {
        "autoRecall.repeatPenalty": [0.1, 0.5],
        "autoRecall.maxItems": [3, 6],
        "lab.phases.relevance": ["similarity", "rrf"],
    },
}


@pytest.mark.parametrize("working_set", [False, True])
def test_measures_are_those_of_a_scored_run(tmp_path: Path, operators: Path, working_set: bool) -> None:
    value = {**GRID, "config": {**GRID["config"], "workingSet": {"enabled": working_set}}}
    grid: Grid = grid_of(value, "a grid")
    asked = Asked(str(operators), "lab", (), scope="recorded", hard_rules=1)
    found = sweep(asked, grid, tmp_path / "sweep", announce=lambda _: None)
    means = found.means()[0]
    for number, spec in enumerate([*grid.specs(), *parse_arms(["hybrid"])]):
        config = tmp_path / f"{number}.json"
        if spec.config is not None:
            import json

            config.write_text(json.dumps({**spec.config, "lab": {**spec.config.get("lab", {}), "arm": spec.system}}))
        name = f"one={config}" if spec.config is not None else "hybrid"
        run = run_replay(
            Asked(str(operators), "lab", (name,), scope="recorded", hard_rules=1), tmp_path / f"run{number}"
        ).run
        scored = summarise(score_run(run), read_gold(run), run.arms)["arms"][run.arms[0]]["measures"]
        k = run.cutoff
        for at, measure in enumerate(MEASURES):
            name = f"{measure}@{k}" if measure in ("Success", "R", "nDCG", "GoldNice") else measure
            wanted = scored[name]
            mine = means[number, at]
            assert (wanted is None and np.isnan(mine)) or mine == pytest.approx(wanted, abs=1e-12), (number, measure)
