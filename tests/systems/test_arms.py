"""Arms as they are named on the command line, and what comes of a name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab.systems.arms import SYSTEMS, ArmSpec, make_arm, parse_arms

from lab.errors import UnusableInput
from lab.systems.baselines import SEARCHING, SEARCHLESS, Baseline
from lab.systems.contract import Retrieval
from lab.systems.openclaw.arms import POLICIES, FlowRecall, TieredRecall
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.ladder import RUNGS
from lab.systems.openclaw.recommended import ARM as RECOMMENDED
from lab.systems.openclaw.recommended import recommended

SEED_ALONE = (*RUNGS, RECOMMENDED)


def file(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_names_alone_bring_no_configuration() -> None:
    assert parse_arms(SYSTEMS) == tuple(ArmSpec(name, name, None) for name in SYSTEMS)


def test_a_shared_configuration_is_that_of_arms_without_one_of_their_own(tmp_path: Path) -> None:
    shared = file(tmp_path, "shared.json", {"autoRecall": {"maxItems": 3}})
    own = file(tmp_path, "own.json", {"autoRecall": {"maxItems": 4}})
    assert parse_arms(["bm25", f"tier_quota_v1={own}"], shared) == (
        ArmSpec("bm25", "bm25", {"autoRecall": {"maxItems": 3}}, str(shared)),
        ArmSpec("tier_quota_v1", "tier_quota_v1", {"autoRecall": {"maxItems": 4}}, str(own)),
    )


def test_one_system_runs_under_two_names(tmp_path: Path) -> None:
    tight = file(tmp_path, "tight=1.json", {"lab": {"arm": "tier_quota_v1"}, "autoRecall": {"quotas": {"mustMax": 1}}})
    loose = file(tmp_path, "loose.json", {"lab": {"arm": "tier_quota_v1"}})
    specs = parse_arms([f"tight={tight}", f"loose={loose}", "tier_quota_v1"])
    assert [(spec.name, spec.system) for spec in specs] == [
        ("tight", "tier_quota_v1"),
        ("loose", "tier_quota_v1"),
        ("tier_quota_v1", "tier_quota_v1"),
    ]
    arms = [make_arm(spec, profile="seed", max_items=6, depth=50, seed=0) for spec in specs]
    must = [(arm.name, arm.config.auto_recall.quota.must_max) for arm in arms]
    assert must == [("tight", 1), ("loose", 2), ("tier_quota_v1", 2)]
    assert [arm.describe()["system"] for arm in arms] == ["tier_quota_v1"] * 3


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no arm given; use --arm, for instance --arm tier_first_v1 (known: tier_first_v1, tier_quota_v1, quota"),
        (["tier_first"], "unknown arm 'tier_first'; known: tier_first_v1, tier_quota_v1, quota_flow"),
        (["bm25", ""], "unknown arm ''; known:"),
        (["BM25"], "unknown arm 'BM25'; known:"),
        (["bm25", "vector", "bm25"], "arm 'bm25' is given twice"),
        (["bm25=nowhere.json"], "nowhere.json: no such file"),
    ],
)
def test_what_cannot_be_an_arm_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        parse_arms(texts)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "unknown arm 'mine'; known:"),
        ({"lab": {}}, "unknown arm 'mine'; known:"),
        ({"lab": {"arm": "best"}}, "unknown arm 'best'; known:"),
        ({"lab": {"arm": 3}}, "unknown arm 3; known:"),
        ({"lab": "bm25"}, "unknown arm 'mine'; known:"),
        ([], "unknown arm 'mine'; known:"),
    ],
)
def test_a_name_of_ones_own_needs_a_system_in_its_file(tmp_path: Path, value: Any, message: str) -> None:
    path = file(tmp_path, "mine.json", value)
    with pytest.raises(UnusableInput) as caught:
        parse_arms([f"mine={path}"])
    assert str(caught.value).startswith(message)


def test_the_system_of_a_shared_configuration_renames_no_arm(tmp_path: Path) -> None:
    shared = file(tmp_path, "shared.json", {"lab": {"arm": "bm25"}})
    assert [spec.system for spec in parse_arms(["vector"], shared)] == ["vector"]
    with pytest.raises(UnusableInput, match="unknown arm 'mine'"):
        parse_arms(["mine"], shared)


def test_the_same_name_twice_is_refused_even_with_other_files(tmp_path: Path) -> None:
    paths = [file(tmp_path, f"{number}.json", {"lab": {"arm": "bm25"}}) for number in range(2)]
    with pytest.raises(UnusableInput, match="arm 'mine' is given twice"):
        parse_arms([f"mine={path}" for path in paths])


def test_a_file_that_is_no_json_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"lab":\n {"arm": }}', encoding="utf-8")
    with pytest.raises(UnusableInput, match=r"broken\.json:2: not JSON"):
        parse_arms([f"mine={path}"])


@pytest.mark.parametrize("system", ["bm25", "tier_first_v1"])
@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"autoRecal": {}}, "my.json: autoRecal: unknown key; known:"),
        ({"autoRecall": {"quota": {}}}, "my.json: autoRecall.quota: unknown key; known:"),
        ({"autoRecall": {"quotas": {"nice": 1}}}, "my.json: autoRecall.quotas.nice: unknown key; known:"),
        ({"lab": {"textLane": {"stem": 1}}}, "my.json: lab.textLane.stem: expected true or false, found 1"),
        ([1], "my.json: expected an object, found a list"),
    ],
)
def test_an_error_in_an_arms_file_names_the_file_and_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, value: Any, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "my.json", value)
    (spec,) = parse_arms([f"{system}=my.json"])
    with pytest.raises(UnusableInput) as caught:
        make_arm(spec, profile="seed", max_items=6, depth=50, seed=0)
    assert str(caught.value).startswith(where)


@pytest.mark.parametrize(
    ("system", "profile", "most"),
    [*((one, "seed", 6) for one in SYSTEMS), *((one, "upstream", 5) for one in SYSTEMS if one not in SEED_ALONE)],
)
def test_every_system_can_be_made_and_describes_itself(system: str, profile: str, most: int) -> None:
    spec = ArmSpec("mine", system, {"autoRecall": {"maxItems": 99}})
    arm = make_arm(spec, profile=profile, max_items=3, depth=20, seed=7)
    asked = {"autoRecall": {"maxItems": most}}
    config = resolve(recommended(asked) if system == RECOMMENDED else asked, profile)
    config = RUNGS[system].config(config) if system in RUNGS else config
    tiered = system not in (*SEARCHING, *SEARCHLESS)
    assert spec.tiered is tiered
    assert type(arm) is (TieredRecall if system in POLICIES else FlowRecall if tiered else Baseline)
    expected = {"name": "mine", "system": system, "depth": most if tiered else 20, "config": config.describe()}
    assert arm.describe() == (expected | {"seed": 7} if system == "random" else expected)
    assert (arm.name, arm.config, arm.retrieval) == ("mine", config, Retrieval(config.text, config.embedding))


@pytest.mark.parametrize("system", SEED_ALONE)
def test_a_rung_needs_what_the_public_plugin_has_not(system: str) -> None:
    with pytest.raises(UnusableInput, match="arm 'mine': the public plugin has nothing of the kind; use profile seed"):
        make_arm(ArmSpec("mine", system, None), profile="upstream", max_items=3, depth=20, seed=7)


@pytest.mark.parametrize(
    ("config", "profile", "docs", "owner"),
    [
        ({}, "upstream", False, None),
        ({"docsColdLane": {"enabled": True}}, "upstream", True, None),
        ({"docsColdLane": {"enabled": True}}, "seed", True, None),
        # Only the plugin searches the table that it writes its Working Set into.
        ({"workingSet": {"enabled": True}}, "upstream", False, "mine"),
        ({"workingSet": {"enabled": True, "persist": False}}, "upstream", False, None),
        ({"workingSet": {"enabled": True}}, "seed", False, None),
    ],
)
def test_a_flow_shares_its_candidates_unless_it_writes_into_them(
    config: dict[str, Any], profile: str, docs: bool, owner: str | None
) -> None:
    arm = make_arm(ArmSpec("mine", "engine", config), profile=profile, max_items=None, depth=50, seed=0)
    assert arm.retrieval.docs == (arm.config.docs if docs else None)
    assert arm.retrieval.owner == owner


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_fresh_arm_is_the_same_arm(system: str) -> None:
    arm = make_arm(ArmSpec("mine", system, None), profile="seed", max_items=None, depth=50, seed=3)
    fresh = arm.fresh()
    assert (fresh.name, fresh.retrieval, fresh.describe()) == (arm.name, arm.retrieval, arm.describe())
    # An arm that has a past starts without one.
    assert (fresh is arm) is not isinstance(arm, FlowRecall)
