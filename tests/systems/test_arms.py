"""Arms by name on the command line, and their construction."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.shape import to_json
from lab.retrieval.retrievers import Retrieval
from lab.systems.baselines.arm import BaselineArm, OracleArm
from lab.systems.baselines.verbatim import VerbatimArm
from lab.systems.contract import SharedRetrieval
from lab.systems.kit import Kit
from lab.systems.openclaw.arms import FlowArm, PolicyArm
from lab.systems.openclaw.config.resolve import describe, resolve
from lab.systems.openclaw.presets import ABLATION_STEPS, RECOMMENDED, recommended
from lab.systems.openclaw.select.policies import POLICIES
from lab.systems.registry import BUILT_IN, make_arm, parse_arms, systems
from lab.systems.spec import ArmSpec
from tests.playing import kit_for, tools_for

SYSTEMS = tuple(BUILT_IN)
# Those that read the engine's configuration.
ENGINES = tuple(name for name, module in BUILT_IN.items() if "openclaw" in module)
CONFIGURED = (*ENGINES, "vector", "bm25", "hybrid", "recency", "none", "random", "oracle", "verbatim")

SEED_ALONE = (*ABLATION_STEPS, RECOMMENDED)


def file(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def made(spec: ArmSpec) -> Any:
    """Make the arm, of whatever kind."""
    return make_arm(spec)


def test_parse_arms_of_names_alone_has_no_configuration() -> None:
    assert systems() == SYSTEMS
    assert parse_arms(SYSTEMS) == tuple(ArmSpec(name, name, None) for name in SYSTEMS)


def test_parse_arms_uses_the_shared_configuration_without_own_file(tmp_path: Path) -> None:
    three, four = ({"autoRecall": {"maxItems": most}} for most in (3, 4))
    shared, roles_config = file(tmp_path, "shared.json", three), file(tmp_path, "own.json", four)
    assert parse_arms(["bm25", f"tier_quota_v1={roles_config}"], shared) == (
        ArmSpec("bm25", "bm25", three, str(shared), three),
        ArmSpec("tier_quota_v1", "tier_quota_v1", four, str(roles_config), four),
    )


def test_parse_arms_runs_one_system_under_two_names(tmp_path: Path) -> None:
    tight = file(tmp_path, "tight=1.json", {"lab": {"arm": "tier_quota_v1"}, "autoRecall": {"quotas": {"mustMax": 1}}})
    loose = file(tmp_path, "loose.json", {"lab": {"arm": "tier_quota_v1"}})
    specs = parse_arms([f"tight={tight}", f"loose={loose}", "tier_quota_v1"])
    assert [(spec.name, spec.system) for spec in specs] == [
        ("tight", "tier_quota_v1"),
        ("loose", "tier_quota_v1"),
        ("tier_quota_v1", "tier_quota_v1"),
    ]
    arms = [made(spec) for spec in specs]
    must = [(arm.name, arm.config.auto_recall.quota.must_max) for arm in arms]
    assert must == [("tight", 1), ("loose", 2), ("tier_quota_v1", 2)]
    assert [arm.describe().system for arm in arms] == ["tier_quota_v1"] * 3


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no arm given; use --arm, for instance --arm tier_first_v1 (known: tier_first_v1, tier_quota_v1, quota"),
        (
            ["tier_first"],
            "unknown arm 'tier_first'; did you mean 'tier_first_v1'? known: tier_first_v1, tier_quota_v1, quota_flow",
        ),
        (["bm25", ""], "unknown arm ''; known:"),
        (["bm25@abc"], "arm 'bm25@abc': expected a whole number of tokens after @, such as bm25@256, found 'abc'"),
        (["bm25@"], "arm 'bm25@': expected a whole number of tokens after @, such as bm25@256, found ''"),
        (["bm26@abc"], "unknown arm 'bm26@abc'; known:"),
        (["BM25"], "unknown arm 'BM25'; did you mean 'bm25'? known:"),
        (["bm25", "vector", "bm25"], "arm 'bm25' is given twice"),
        (["bm25=nowhere.json"], "nowhere.json: no such file"),
    ],
)
def test_parse_arms_refuses_invalid_arms(texts: list[str], message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        parse_arms(texts)
    assert str(caught.value).startswith(message)


NO_SYSTEM = 'mine.json: names no system; add {"lab": {"arm": SYSTEM}}, in an openclaw.json beside autoRecall'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, f"{NO_SYSTEM} (known: tier_first_v1,"),
        ({"lab": {}}, f"{NO_SYSTEM} (known: "),
        # An openclaw.json with the key at its top.
        ({"lab": {"arm": "engine"}, "plugins": {"entries": {"openclaw-mem-engine": {"config": {}}}}}, NO_SYSTEM),
        ({"lab": {"arm": "best"}}, "unknown arm 'best'; known:"),
        ({"lab": {"arm": 3}}, "mine.json: lab.arm: expected the name of a system, found 3"),
        ({"lab": "bm25"}, f"{NO_SYSTEM} (known: "),
        ([], 'mine.json: expected an object with {"lab": {"arm": SYSTEM}} (known: '),
    ],
)
def test_parse_arms_own_name_needs_a_system_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = file(Path(), "mine.json", value)
    with pytest.raises(UnusableInput) as caught:
        parse_arms([f"mine={path}"])
    assert str(caught.value).startswith(message)


def test_parse_arms_shared_configuration_renames_no_arm(tmp_path: Path) -> None:
    shared = file(tmp_path, "shared.json", {"lab": {"arm": "bm25"}})
    assert [spec.system for spec in parse_arms(["vector"], shared)] == ["vector"]
    with pytest.raises(UnusableInput, match="unknown arm 'mine'"):
        parse_arms(["mine"], shared)


def test_parse_arms_refuses_the_same_name_twice(tmp_path: Path) -> None:
    paths = [file(tmp_path, f"{number}.json", {"lab": {"arm": "bm25"}}) for number in range(2)]
    with pytest.raises(UnusableInput, match="arm 'mine' is given twice"):
        parse_arms([f"mine={path}" for path in paths])


def test_parse_arms_of_invalid_json_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"lab":\n {"arm": }}', encoding="utf-8")
    with pytest.raises(UnusableInput, match=r"broken\.json:2: neither JSON nor JSON5"):
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
def test_make_arm_error_names_the_file_and_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, value: Any, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "my.json", value)
    (spec,) = parse_arms([f"{system}=my.json"])
    with pytest.raises(UnusableInput) as caught:
        make_arm(spec)
    assert str(caught.value).startswith(where)


@pytest.mark.parametrize(
    ("system", "profile", "most"),
    [
        *((system, "seed", 6) for system in CONFIGURED),
        *((system, "upstream", 5) for system in CONFIGURED if system not in SEED_ALONE),
    ],
)
def test_every_system_can_be_made_and_describes_itself(system: str, profile: str, most: int) -> None:
    operators_config = {"autoRecall": {"maxItems": most}}
    arm = made(
        ArmSpec("mine", system, {"autoRecall": {"maxItems": 99}}, profile=profile, max_items=3, depth=20, seed=7)
    )
    config = resolve(recommended(operators_config) if system == RECOMMENDED else operators_config, profile)
    config = ABLATION_STEPS[system].config(config) if system in ABLATION_STEPS else config
    tiered, info = "openclaw" in BUILT_IN[system], arm.describe()
    kind = PolicyArm if system in POLICIES else FlowArm if tiered else BaselineArm
    assert type(arm) is {"verbatim": VerbatimArm, "oracle": OracleArm}.get(system, kind)
    roles_config = {"roles": ["user", "assistant"]} if system == "verbatim" else {}
    assert (info.name, info.system, info.config) == ("mine", system, describe(config) | roles_config)
    assert (info.cutoff, info.depth) == (most, most if tiered else 20)
    assert (info.writes, info.labelled) == (system == "verbatim" or tiered, tiered)
    assert info.stateful == (kind is FlowArm or system == "verbatim")
    # A flow with a Working Set and hard rules may inject more items than its slots.
    assert info.at_most == (None if kind is FlowArm else most)
    assert info.seed == (7 if system == "random" else None)
    assert (arm.name, arm.config, arm.retrieval) == ("mine", config, Retrieval(config.text, config.embedding))
    # A description is plain JSON and makes the same arm again.
    description = json.loads(json.dumps(to_json(info)))
    again = ArmSpec("mine", system, description["config"], profile=profile, depth=20, seed=7)
    assert made(again) == arm
    assert pickle.loads(pickle.dumps(arm)) == arm


@pytest.mark.parametrize("system", SEED_ALONE)
def test_ablation_step_under_upstream_raises(system: str) -> None:
    with pytest.raises(UnusableInput, match="arm 'mine': profile upstream does not support it; use profile seed"):
        make_arm(ArmSpec("mine", system, profile="upstream"))


@pytest.mark.parametrize(
    ("config", "profile", "docs", "shares"),
    [
        ({}, "upstream", False, True),
        ({"docsColdLane": {"enabled": True}}, "upstream", True, True),
        ({"docsColdLane": {"enabled": True}}, "seed", True, True),
        # Only the plugin searches the table that it writes its Working Set into.
        ({"workingSet": {"enabled": True}}, "upstream", False, False),
        ({"workingSet": {"enabled": True, "persist": False}}, "upstream", False, True),
        ({"workingSet": {"enabled": True}}, "seed", False, True),
    ],
)
def test_flow_shares_its_candidates_unless_it_writes_into_them(
    config: dict[str, Any], profile: str, docs: bool, shares: bool
) -> None:
    arm = made(ArmSpec("mine", "engine", config, profile=profile))
    assert (arm.documented, arm.shares) == (docs, shares)
    system = arm.open(kit_for(arm))
    assert system.retrieval_key == (arm.retrieval if shares else None)
    system.close()


@pytest.mark.parametrize("system", CONFIGURED)
def test_every_conversation_opens_its_own_system(system: str) -> None:
    arm, tools = made(ArmSpec("mine", system)), tools_for()
    one, other = (arm.open(Kit(tools, "mine")) for _ in range(2))
    assert one is not other
    assert isinstance(one, SharedRetrieval)
    assert one.retrieval_key == other.retrieval_key == (arm.retrieval if arm.shares else None)
    one.close()
    other.close()


@pytest.mark.parametrize("roles", [[], "user", [1], {"user": 1}, None])
def test_verbatim_with_invalid_roles_raises(roles: Any) -> None:
    with pytest.raises(UnusableInput, match=r"my\.json: roles: expected a list of roles such as"):
        make_arm(ArmSpec("verbatim", "verbatim", {"roles": roles}, "my.json"))


def test_verbatim_keys_besides_roles_are_those_of_hybrid() -> None:
    arm = made(ArmSpec("verbatim", "verbatim", {"roles": ["user"], "autoRecall": {"maxItems": 2}}))
    assert (arm.roles, arm.config.max_items) == (("user",), 2)
    with pytest.raises(UnusableInput, match=r"my\.json: role: unknown key"):
        make_arm(ArmSpec("verbatim", "verbatim", {"role": ["user"]}, "my.json"))
