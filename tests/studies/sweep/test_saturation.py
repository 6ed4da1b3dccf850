"""The must_remember share increases: every point of the sweep is a replay that could have been run by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.measures.score import score_run, summarise
from lab.replay.labels import MODES as LABEL_MODES
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table, write_points
from lab.studies import relabelled
from lab.studies.draws import SHARES
from lab.studies.points import SaturationPoint as Point
from lab.studies.points import means
from lab.studies.saturation import saturation

POLICIES = ("tier_first_v1", "tier_quota_v1")
SEEDS = 2
SMALL: dict[str, Any] = {"embedder": "hashing", "limit": 3}


@pytest.fixture(scope="module")
def points(operators: Path) -> list[Point]:
    """The sweep over the shipped conversations."""
    return saturation(ReplayRequest(str(operators), "lab", (), **SMALL), seeds=SEEDS)


@pytest.fixture(scope="module")
def kept_out(operators: Path) -> tuple[int, int, int]:
    """Memories, memories that are gold, conversations."""
    plan = make_plan(ReplayRequest(str(operators), "lab", ("none",), **SMALL))
    chosen = {one.conversation for one in plan.recordings}
    judged = {judgement.memory for probe in plan.library.golden.probes for judgement in probe.relevant}
    gold = {memory for memory in judged if memory.partition("/")[0] in chosen}
    return sum(len(one.memories) for one in plan.recordings), len(gold), len(plan.recordings)


@pytest.mark.parametrize(
    ("mode", "share", "seed"),
    [
        ("distractors", 0.01, 0),
        ("distractors", 0.10, 1),
        ("distractors", 0.45, 0),
        ("independent", 0.06, 0),
        ("independent", 0.30, 1),
        ("independent", 1.0, 0),
    ],
)
def test_a_point_is_the_score_of_a_plain_replay_with_the_same_labels(
    operators: Path, points: list[Point], tmp_path: Path, mode: str, share: float, seed: int
) -> None:
    labels = "distractors" if mode == "distractors" else "sampled"
    assert labels in LABEL_MODES
    arms = (*POLICIES, "hybrid", "oracle")
    asked = ReplayRequest(
        str(operators), "lab", arms, labels=labels, must_share=share, nice_share=0.7 * (1 - share), seed=seed, **SMALL
    )
    run = run_replay(asked, tmp_path / "run").run
    summary = summarise(score_run(run), read_gold(run), run.arms)["arms"]
    drawn = {one.arm: one for one in points if (one.mode, one.share, one.seed) == (mode, share, seed)}
    assert tuple(drawn) == POLICIES
    references = {one.arm: one for one in points if one.mode == "reference"}
    for arm in arms:
        point, measures = (drawn | references)[arm], summary[arm]["measures"]
        assert point.hit == pytest.approx(measures["Success@6"], abs=1e-12)
        assert point.repeat == pytest.approx(measures["RepeatRate"], abs=1e-12)
        if arm in POLICIES:
            assert point.gold_nice == (
                None if measures["GoldNice@6"] is None else pytest.approx(measures["GoldNice@6"], abs=1e-12)
            )
            plan = make_plan(asked)
            must = [list(plan.labels_of(one).values()).count("must_remember") for one in plan.recordings]
            assert point.must == sum(must) / len(must)


def test_every_share_mode_and_seed_has_a_point_for_both_policies(
    points: list[Point], kept_out: tuple[int, int, int]
) -> None:
    memories, gold, _ = kept_out
    shares = {"distractors": [one for one in SHARES if one <= 1 - gold / memories], "independent": list(SHARES)}
    assert 0 < len(shares["distractors"]) < len(SHARES)
    expected = {
        (mode, share, seed, arm)
        for mode, some in shares.items()
        for share in some
        for seed in range(SEEDS)
        for arm in POLICIES
    }
    found = [(one.mode, one.share, one.seed, one.arm) for one in points]
    assert len(found) == len(set(found))
    assert set(found) == expected | {("reference", None, None, arm) for arm in ("hybrid", "oracle")}


def test_distractors_never_reach_beyond_the_share_that_is_not_gold(
    points: list[Point], kept_out: tuple[int, int, int]
) -> None:
    memories, gold, conversations = kept_out
    drawn = [one for one in points if one.mode == "distractors"]
    assert max(one.share or 0 for one in drawn) <= 1 - gold / memories
    assert max(one.must or 0 for one in drawn) <= (memories - gold) / conversations


def test_the_pool_grows_with_the_share_and_is_the_same_for_both_policies(points: list[Point]) -> None:
    for mode in ("distractors", "independent"):
        for seed in range(SEEDS):
            grown = {
                arm: [one.must for one in points if (one.mode, one.seed, one.arm) == (mode, seed, arm)]
                for arm in POLICIES
            }
            assert grown[POLICIES[0]] == grown[POLICIES[1]] == sorted(one or 0.0 for one in grown[POLICIES[0]])
            assert len(set(grown[POLICIES[0]])) == len(grown[POLICIES[0]])


def test_values_are_rates_and_references_know_no_draw(points: list[Point]) -> None:
    for one in points:
        assert all(value is None or 0 <= value <= 1 for value in (one.hit, one.gold_nice, one.repeat))
        if one.mode == "reference":
            assert (one.share, one.seed, one.must, one.gold_nice) == (None, None, None, None)
    hits = {one.arm: one.hit for one in points if one.mode == "reference"}
    assert hits["oracle"] == 1.0 >= max(one.hit for one in points)


def test_where_everything_is_must_no_gold_is_nice_and_a_draw_changes_nothing(
    points: list[Point], kept_out: tuple[int, int, int]
) -> None:
    memories, _, conversations = kept_out
    for arm in POLICIES:
        full = [one for one in points if (one.mode, one.share, one.arm) == ("independent", 1.0, arm)]
        assert [one.seed for one in full] == list(range(SEEDS))
        assert {one._replace(seed=0) for one in full} == {full[0]}
        assert (full[0].gold_nice, full[0].must) == (None, memories / conversations)


def test_points_come_back_from_disk(points: list[Point], tmp_path: Path) -> None:
    write_points(Point, points, tmp_path / "deeper" / "saturation.parquet")
    back = [Point(**row) for row in read_table(tmp_path / "deeper" / "saturation.parquet").to_pylist()]
    assert back == points


def recording(home: Path, name: str, memory_at_end: bool) -> Path:
    """Three turns; the only gold of the second is born after it, if at all at the end."""
    folder, golden = home / "datasets" / "late", home / "golden" / "late"
    folder.mkdir(parents=True, exist_ok=True)
    golden.mkdir(parents=True, exist_ok=True)
    lines = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": name},
        {"kind": "session", "session": "s1", "time": "2026-03-01T09:00:00+00:00"},
        *({"kind": "turn", "turn": f"t{turn}", "role": "user", "text": f"pears {turn}"} for turn in (1, 2, 3)),
        {"kind": "memory", "text": "pears are late"},
    ]
    if not memory_at_end:
        lines.insert(3, lines.pop())
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    key = f"{name}/s1/t{3 if memory_at_end else 1}#0"
    probe = {"kind": "probe", "turn": f"{name}/s1/t2", "relevant": [{"memory": key}]}
    (golden / f"{name}.jsonl").write_text(json.dumps(probe) + "\n")
    return folder


@pytest.mark.model
def test_gold_that_is_not_born_yet_is_no_missed_nice_one(tmp_path: Path) -> None:
    """GoldNice speaks of visible gold alone, in a sweep as in a replay."""
    recording(tmp_path, "born", memory_at_end=False)
    folder = recording(tmp_path, "unborn", memory_at_end=True)
    compared = [
        one
        for one in saturation(ReplayRequest(str(folder), "lab", ()), seeds=4)
        if (one.mode, one.share) == ("independent", 0.01)
    ]
    assert {one.gold_nice for one in compared} != {None}
    for point in compared:
        asked = ReplayRequest(str(folder), "lab", POLICIES, labels="sampled", must_share=0.01, nice_share=0.7 * 0.99)
        run = run_replay(replace(asked, seed=point.seed), tmp_path / f"run{point.seed}").run
        measures = summarise(score_run(run), read_gold(run), run.arms)["arms"][point.arm]["measures"]
        assert (point.hit, point.gold_nice) == (measures["Success@6"], measures["GoldNice@6"])


@pytest.mark.model
def test_texts_longer_than_the_limit_are_found_as_a_replay_finds_them(tmp_path: Path) -> None:
    folder = recording(tmp_path, "long", memory_at_end=False)
    path = folder / "long.jsonl"
    path.write_text(path.read_text().replace("pears are late", "pears are late " * 2_000))
    points = saturation(ReplayRequest(str(folder), "lab", ()), seeds=1)
    assert {point.hit for point in points if point.arm == "hybrid"} == {1.0}


@pytest.mark.process
def test_two_processes_draw_the_same_points(tmp_path: Path) -> None:
    recording(tmp_path, "one", memory_at_end=False)
    folder = recording(tmp_path, "two", memory_at_end=False)
    assert saturation(ReplayRequest(str(folder), "lab", ()), seeds=1, jobs=2) == saturation(
        ReplayRequest(str(folder), "lab", ()), seeds=1
    )


@pytest.mark.parametrize("scope", ["none", "recorded", "tags"])
def test_a_sweep_asks_in_the_scope_that_a_replay_asks_in(tmp_path: Path, scope: str) -> None:
    folder = recording(tmp_path, "scoped", memory_at_end=False)
    path = folder / "scoped.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["scope"] = "farm"
    lines[3:4] = [{"kind": "memory", "text": f"pears {one}", "scope": one} for one in ("farm", "shop", "global") * 3]
    lines[-2]["text"] = "[SCOPE: shop] pears"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    points = {
        one.arm: one
        for one in saturation(ReplayRequest(str(folder), "lab", (), scope=scope), seeds=1)
        if (one.mode, one.share) in (("independent", 0.3), ("reference", None))
    }
    arms = (*POLICIES, "hybrid", "oracle")
    asked = ReplayRequest(str(folder), "lab", arms, labels="sampled", must_share=0.3, nice_share=0.7 * 0.7, scope=scope)
    run = run_replay(asked, tmp_path / "run").run
    summary = summarise(score_run(run), read_gold(run), run.arms)["arms"]
    assert {arm: (one.hit, one.repeat) for arm, one in points.items()} == {
        arm: (summary[arm]["measures"]["Success@6"], summary[arm]["measures"]["RepeatRate"]) for arm in arms
    }
    # The relevant memory is of the farm, where the turn that wants it names the shop.
    assert points["oracle"].hit == (0.0 if scope == "tags" else 1.0)


def test_recordings_without_gold_are_refused(tmp_path: Path) -> None:
    folder = recording(tmp_path, "plain", memory_at_end=False)
    (tmp_path / "golden" / "late" / "plain.jsonl").write_text('{"kind": "probe", "turn": "plain/s1/t2"}\n')
    with pytest.raises(UnusableInput, match="has no probe with relevant memories, so there is nothing to score"):
        saturation(ReplayRequest(str(folder), "lab", ()))


def test_means_are_those_of_the_seeds_that_have_a_value() -> None:
    found = means([Point("uniform", 0.5, seed, "a", must, 1.0, None, 0.5) for seed, must in ((0, 2.0), (1, None))])
    assert found == {("uniform 0.50", "a"): [2.0, 1.0, None, 0.5]}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"autoRecall": {"maxItems": 3, "tierSearchMultiplier": 1, "quotas": {"mustMax": 3, "niceMin": 0}}},
        {"autoRecall": {"quotas": {"mustMax": 0, "niceMin": 5, "unknownMax": 4}}, "lab": {"fusion": {"k": 3}}},
        {"lab": {"silence": {"signal": "mean", "threshold": 0.25}}},
    ],
)
def test_policies_select_together_as_each_does_alone(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    (tmp_path / "engine.json").write_text(json.dumps(config))
    asked = ReplayRequest(str(operators), "lab", (), scope="recorded", config=str(tmp_path / "engine.json"), **SMALL)
    arms = make_plan(replace(asked, arms=POLICIES)).arms
    assert [arm.name for arm in relabelled.select_together(arms)] == list(POLICIES)
    together = saturation(asked, seeds=1)
    monkeypatch.setattr(relabelled, "select_together", lambda _: ())
    assert saturation(asked, seeds=1) == together


@pytest.mark.parametrize(
    ("lab", "together"),
    [({"fusion": {"method": "isr"}}, []), ({"phases": {"minRelevance": 0.3}}, ["tier_first_v1"])],
)
def test_policies_with_other_tiers_select_alone(
    operators: Path, tmp_path: Path, lab: dict[str, Any], together: list[str]
) -> None:
    (tmp_path / "engine.json").write_text(json.dumps({"lab": lab}))
    asked = ReplayRequest(str(operators), "lab", POLICIES, config=str(tmp_path / "engine.json"), **SMALL)
    assert [arm.name for arm in relabelled.select_together(make_plan(asked).arms)] == together
