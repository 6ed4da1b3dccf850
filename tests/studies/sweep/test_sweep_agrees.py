"""Many configurations at once select, pack and score as each alone, on real recordings."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.measures.score import score_run, summarise
from lab.replay.candidates import from_cached, read_cached, save_cached
from lab.replay.loop import replay
from lab.replay.plan import Plan, make_plan
from lab.replay.run import run_replay
from lab.replay.sources import play_of, prepared_sources, tools_of
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.studies.sweep.grid import Grid, grid_of
from lab.studies.sweep.groups import MEASURES, PROBES, Group, Writer, grouped, seated
from lab.studies.sweep.sweep import sweep
from lab.systems.openclaw.select.policies import MANY, POLICIES
from lab.systems.registry import info_of, make_arm
from lab.systems.spec import ArmSpec

FAST = [name for name, policy in POLICIES.items() if policy in MANY]
AXES: dict[str, list[Any]] = {
    "autoRecall.selectionMode": [*FAST, "tier_quota_v1", "tier_quota_v1"],
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
    """Return configurations drawn from all axes; every third is selection-only."""
    chance = random.Random(seed)
    specs = []
    for number in range(count):
        point = {path: [chance.choice(values)] for path, values in AXES.items()}
        system = ("seed_full", "quota_repeat", "tier_quota_v1", "engine", "quota_flow", "tier_first_v1")[number % 6]
        config = dict(NO_DIGEST) if system in ("seed_full", "engine") else {}
        grid = grid_of({"arm": system, "config": config, "grid": point}, "drawn")
        specs.append(ArmSpec(f"{number}", system, grid.specs()[0].config))
    return specs


def with_arms(asked: ReplayRequest, specs: list[ArmSpec]) -> Plan:
    plan = make_plan(asked)
    arms = tuple(make_arm(one) for one in specs)
    infos = tuple(info_of(spec, arm) for spec, arm in zip(specs, arms, strict=True))
    return replace(plan, specs=tuple(specs), arms=arms, infos=infos)


def both_ways(plan: Plan) -> tuple[int, int]:
    """Compare every injected row and length with the engine's; return the number of blocks and groups."""
    sources = prepared_sources(plan)
    blocks = 0
    groups = [one for one in grouped(plan.arms) if one.together]
    fast = [at for group in groups for at in group.indices]
    assert len(fast) > len(plan.arms) * 2 / 3
    alone = [Group((at,), together=False) for at in fast]
    for recording in plan.recordings:
        kept = read_cached(plan, recording)
        tools = tools_of(plan, recording, sources, from_cached(kept, lambda one: sources.retriever(one, "exact")))
        play = play_of(plan, recording, tools)
        done = []
        for some in (groups, alone):
            books = seated(plan.arms, some, play.memories)
            writer = Writer(books, play.memories)
            for answered in replay(play, [book.arm for book in books]):
                assert answered.failure is None
                writer.take(answered)
            done.append({place: (book, at) for book in books for at, place in enumerate(book.indices)})
        save_cached(plan, recording, kept)
        many, single = done
        for place in fast:
            (group, at), (own, _) = many[place], single[place]
            pairs = zip(play.recall_points, group.recalls, own.recalls, group.heard, own.heard, strict=True)
            for point, mine, wanted, heard, wanted_heard in pairs:
                blocks += 1
                injected = mine.injected[at]
                where = (plan.arms[place].name, point.key)
                assert injected[injected != len(play.memories)].tolist() == wanted.injected[0].tolist(), where
                assert mine.chars[at] == wanted.chars[0], where
                assert heard == wanted_heard, where
    return blocks, len(groups) * len(plan.recordings)


@pytest.mark.parametrize("scope", ["recorded", "none"])
def test_selections_are_the_engines_on_the_shipped_set(operators: Path, scope: str) -> None:
    asked = ReplayRequest(
        str(operators), "lab", ("tier_quota_v1",), scope=scope, hard_rules=2, limit=1, embedder="hashing"
    )
    blocks, groups = both_ways(with_arms(asked, drawn_specs(24, 5)))
    assert blocks > 500
    assert groups > 10


@pytest.mark.full
def test_selections_are_the_engines_on_a_persona(realmem: Path) -> None:
    # The hashing embedder's vectors are sparse and tie far more often than a model's.
    asked = ReplayRequest(
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
def test_tally_equals_a_scored_run(tmp_path: Path, operators: Path, working_set: bool) -> None:
    value = {**GRID, "config": {**GRID["config"], "workingSet": {"enabled": working_set}}}
    grid: Grid = grid_of(value, "a grid")
    asked = ReplayRequest(str(operators), "lab", (), scope="recorded", hard_rules=1)
    found = sweep(asked, grid, tmp_path / "sweep", announce=lambda _: None)
    means = found.means()[0]
    # A run scores its arms at one cutoff, so that arms of as many items are replayed together.
    together: dict[int, list[str]] = {6: ["hybrid"], 3: []}
    rows = {"hybrid": len(grid.specs())}
    for number, spec in enumerate(grid.specs()):
        config = tmp_path / f"{number}.json"
        config.write_text(json.dumps({**spec.config, "lab": {**spec.config.get("lab", {}), "arm": spec.system}}))
        together[spec.config["autoRecall"]["maxItems"]].append(f"point{number}={config}")
        rows[f"point{number}"] = number
    for items, arms in together.items():
        run = run_replay(replace(asked, arms=tuple(arms)), tmp_path / f"run{items}").run
        assert (run.cutoff, len(run.arms)) == (items, len(arms))
        scored = summarise(score_run(run), read_gold(run), run.arms)["arms"]
        for arm in run.arms:
            for at, measure in enumerate(MEASURES):
                name = f"{measure}@{items}" if measure in PROBES and measure != "FalseRecall" else measure
                wanted, mine = scored[arm]["measures"][name], means[rows[arm], at]
                assert (wanted is None and np.isnan(mine)) or mine == pytest.approx(wanted, abs=1e-12), (arm, measure)
