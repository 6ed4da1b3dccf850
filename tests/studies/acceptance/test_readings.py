"""What the four readings of the quotas inject, with the real embedder, and how their floor is calibrated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.set_registry import recordings_at
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.studies.acceptance.arms import cast_in, cast_of
from lab.studies.acceptance.readings import OF_REALMEM, PROBES_OF_REALMEM, floor_for
from lab.systems.registry import info_of, make_arm, parse_arms
from tests.playing import shipped_answers

pytestmark = pytest.mark.slow
MUST = (
    "A kiln firing of stoneware goes to cone 6, at 1222 degrees.",
    "A kiln firing starts with a slow ramp of 60 degrees an hour.",
    "After a kiln firing, the lid stays shut until the kiln is below 100 degrees.",
    "A kiln firing of glazed pots holds the top temperature for ten minutes.",
    "Every kiln firing is logged with its cone, its ramp and its hold.",
)
NICE = (
    "Umbrellas with eight ribs survive a storm.",
    "The red umbrella hangs behind the back door.",
    "Wet umbrellas are dried open and never rolled up.",
    "Grandmother collected paper umbrellas from Kyoto.",
)
KILN = "How do I set up the kiln firing of the next load of pots?"
SUNSET = "What a lovely sunset over the sea tonight."
EIGHT = [str(number) for number in range(1, 9)]
# What an arm recalls at a turn: how many memories on the kiln and on umbrellas.
Counts = Mapping[tuple[str, str], tuple[int, int]]


@pytest.fixture(scope="module")
def recalled(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    """Return what the arms recall at eight questions on the kiln and then at a sentence on a sunset."""
    folder = tmp_path_factory.mktemp("kiln")
    lines: list[dict[str, Any]] = [
        {
            "kind": "recording",
            "schema": "lab.recording.v1",
            "conversation": "kiln",
            "language": "en",
            "title": "A kiln",
        },
        {"kind": "session", "session": "s", "time": "2026-04-02T08:00:00+02:00", "scope": "pots"},
        {"kind": "turn", "turn": "0", "role": "user", "text": "Some notes on the kiln and on umbrellas."},
    ]
    for label, texts in (("must_remember", MUST), ("nice_to_have", NICE)):
        lines += [{"kind": "memory", "text": text, "category": "fact", "importance_label": label} for text in texts]
    for number, text in enumerate([KILN] * 8 + [SUNSET], 1):
        lines.append({"kind": "turn", "turn": str(number), "role": "user", "text": text})
    file = folder / "kiln.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    request = ReplayRequest(str(file), "lab", (), scope="recorded", recall_turns="all")
    cast = cast_of(request, ("tier_quota_v1", "seed_full"), folder / "arms", OF_REALMEM)
    arms = [arm for arm in cast.arms if arm.partition("=")[0] in cast.judged]
    run = run_replay(replace(request, arms=tuple(arms)), folder / "run").run

    def counts(keys: list[str]) -> tuple[int, int]:
        must = sum(int(key.rpartition("#")[2]) < len(MUST) for key in keys)
        return must, len(keys) - must

    rows = read_table(run.receipts("kiln")).to_pylist()
    return {(row["arm"], row["turn"].rpartition("/")[2]): counts(row["item_key"]) for row in rows}


def at_the_kiln(recalled: Counts, arm: str) -> set[tuple[int, int]]:
    return {recalled[arm, turn] for turn in EIGHT}


def test_strict_cap_fills_the_slots_with_umbrellas(recalled: Counts) -> None:
    for arm in ("tier_quota_v1", "seed_full"):
        assert at_the_kiln(recalled, arm) == {(2, 4)}


def test_best_of_all_tiers_exceeds_the_cap_and_keeps_the_nice_minimum(recalled: Counts) -> None:
    assert at_the_kiln(recalled, "tier_quota_v1-best") == {(4, 2)}
    # The repeat penalty moves must memories below umbrellas in some turns.
    assert at_the_kiln(recalled, "seed_full-best") == {(3, 3), (4, 2)}


def test_floor_leaves_out_umbrellas_so_that_the_cap_yields(recalled: Counts) -> None:
    for arm in ("tier_quota_v1", "seed_full"):
        for reading in ("strict-floor", "best-floor"):
            assert at_the_kiln(recalled, f"{arm}-{reading}") == {(5, 0)}


def test_sunset_recalls_less_only_under_a_floor(recalled: Counts) -> None:
    sunset = {arm: counts for (arm, turn), counts in recalled.items() if turn == "9"}
    assert {arm: sum(counts) for arm, counts in sunset.items() if "floor" not in arm} == dict.fromkeys(
        ("tier_quota_v1", "tier_quota_v1-best", "seed_full", "seed_full-best"), 6
    )
    # Umbrellas are nearer to a sunset than the floor, and nothing on the kiln is.
    assert {counts for arm, counts in sunset.items() if "floor" in arm} == {(0, 3)}


def test_old_policy_has_no_floor_and_receipts_name_what_a_floor_left_out() -> None:
    floor = {"phases": {"minRelevance": 0.9}}
    old, old_floored, new, new_floored = (
        [answered.recall for answered in shipped_answers(system, settings)]
        for system in ("tier_first_v1", "tier_quota_v1")
        for settings in ({}, floor)
    )
    assert [recall.receipt for recall in old] == [recall.receipt for recall in old_floored]
    assert sum(recall.injected for recall in new_floored) < sum(recall.injected for recall in new)
    why = [
        {reason for recall in recalls for reason in recall.receipt.get("notInjected", {}).values()}
        for recalls in (new, new_floored)
    ]
    assert why == [{"quota"}, {"quota", "filtered"}]


def request_of(path: str, embedder: str = "hashing") -> ReplayRequest:
    return ReplayRequest(str(recordings_at(path)), "lab", ("vector",), embedder=embedder, haystack=0, limit=1)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "no floor is recorded for embedder hashing; name another set to calibrate it on"),
        ("shipped:operators", r"--floor-from shipped:operators: has conversation .*, which is judged"),
        ("shipped:traps", "the floor would be 0 under hashing, which excludes nothing"),
        ("shipped:capture", "shipped:capture: has no probe with gold"),
        ("nowhere", "nowhere: no such file or folder"),
    ],
)
def test_unusable_calibration_is_named(source: str | None, message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        floor_for(make_plan(request_of("shipped:operators")), source)


def test_shipped_set_has_the_floor_of_realmem() -> None:
    floor = floor_for(make_plan(request_of("shipped:operators", "all-MiniLM-L6-v2")), None)
    assert floor == (
        OF_REALMEM,
        "the cosine that a relevant memory reaches at 95% of 604 probes of RealMem (four personas), all-MiniLM-L6-v2",
    )


@pytest.mark.full
def test_realmem_gives_the_recorded_floor(realmem: Path) -> None:
    plan = make_plan(request_of("shipped:operators", "all-MiniLM-L6-v2"))
    floor = floor_for(plan, f"{realmem}:realmem")
    assert floor.value == OF_REALMEM
    assert f"{PROBES_OF_REALMEM} probes" in floor.origin


def test_variant_of_a_candidate_with_the_older_key_has_the_other_reading(tmp_path: Path) -> None:
    older = tmp_path / "older.json"
    older.write_text('{"autoRecall": {"quotas": {"caps": "strict"}}, "lab": {"arm": "seed_full"}}', "utf-8")
    cast = cast_of(request_of("shipped:operators"), (f"older={older}",), tmp_path, 0.2)
    infos = [info_of(spec, make_arm(spec)) for spec in parse_arms(cast.arms)]
    found = {
        info.name: (info.config["autoRecall"]["quotas"]["wildcard"], info.config["lab"]["phases"]["minRelevance"])
        for info in infos
        if info.name in cast.judged
    }
    assert found == {
        "older": ("strict", 0.0),
        "older-best": ("best", 0.0),
        "older-strict-floor": ("strict", 0.2),
        "older-best-floor": ("best", 0.2),
    }
    # A run with these arms has the same readings; one without them has not.
    assert cast_in(infos, ("older",), "DIR", "", 0.2).readings == cast.readings
    with pytest.raises(
        UnusableInput, match="DIR: has no arm older under the reading strict-floor; give the recordings"
    ):
        cast_in(infos, ("older",), "DIR", "", 0.3)


def test_candidate_without_quotas_has_no_readings(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=r"--readings: candidate observations has no quotas\.wildcard"):
        cast_of(request_of("shipped:operators"), ("observations",), tmp_path, 0.2)
