"""The configuration of rsclaw: places, profiles, limits, errors, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.systems.registry import info_of, make_arm, parse_arms
from lab.systems.rsclaw.config import CODE, Settings, describe, resolve
from lab.systems.rsclaw.document import Promotion
from lab.systems.spec import ArmSpec

MEMORY: dict[str, Any] = {
    "auto_recall": True,
    "recall_final_k": 7,
    "retrieval": {"maxTokens": 900},
    "embedder": {"remote": {"url": "http://127.0.0.1:5555/v1", "model": "Qwen3", "query_instruction": None}},
}


def resolved(config: Any = None, **changes: Any) -> Settings:
    return resolve(ArmSpec("rsclaw", "rsclaw", config, "rs.json", **changes))


def test_resolve_without_a_configuration_is_profile_seed() -> None:
    assert resolved() == Settings()


@pytest.mark.parametrize(
    ("config", "run_profile", "profile"),
    [
        ({}, "seed", "seed"),
        ({}, "upstream", "code"),
        ({"lab": {"profile": "seed"}}, "upstream", "seed"),
        ({"lab": {"profile": "code"}}, "seed", "code"),
    ],
)
def test_profile_of_the_file_precedes_that_of_the_run(config: Any, run_profile: str, profile: str) -> None:
    found = resolved(config, profile=run_profile)
    assert found.profile == profile
    assert found == Settings(profile, **(CODE if profile == "code" else {}))


def test_resolve_reads_the_whole_file_of_the_program() -> None:
    whole = {
        "agents": {"defaults": {"model": "x", "memory": MEMORY}, "list": []},
        "evolution": {"preset": "test", "promotion": {"access_only": 4}, "other": 1},
        "gateway": {"port": 18888},
    }
    found = resolved(whole)
    assert (found.final_k, found.max_tokens) == (7, 900)
    assert found.promotion == Promotion(4, 0.6, 2, 0.5)
    assert resolved(MEMORY | {"evolution": whole["evolution"]}) == found


def test_short_form_of_the_remote_embedder_is_read_and_its_instruction_is_said_to_be_without_effect() -> None:
    short = {"embedder": {"remote_url": "http://127.0.0.1:5555/v1"}}
    assert resolved(short).embedder == {"remote": {"url": "http://127.0.0.1:5555/v1"}}
    with pytest.raises(UnusableInput, match="both 'local' and 'remote'"):
        resolved({"embedder": {"remote_url": "x", "local": {"model_dir": "m"}}})
    asked = {"embedder": {"remote": {"url": "u", "model": "m", "query_instruction": "Find: "}}}
    for config, missing in ((short, ()), (MEMORY, ()), (asked, ("embedder.remote.query_instruction",))):
        spec = ArmSpec("rsclaw", "rsclaw", config, "rs.json")
        assert info_of(spec, make_arm(spec)).missing == missing


def test_flags_override_the_profile_one_by_one() -> None:
    found = resolved({"lab": {"profile": "code", "quality": False, "touch": "shown"}})
    assert found == Settings("code", **(CODE | {"quality": False, "touch": "shown"}))


@pytest.mark.parametrize(("given", "kept"), [(0, 1), (1, 1), (12, 12), (99, 12)])
def test_final_k_is_clamped(given: int, kept: int) -> None:
    assert resolved({"recall_final_k": given}).final_k == kept
    assert resolved(max_items=given or None).final_k == (kept if given else 5)
    assert resolved({"recall_final_k": 3}, max_items=6).final_k == 3


@pytest.mark.parametrize(("given", "kept"), [(1, 128), (600, 600), (9999, 4096)])
def test_max_tokens_is_clamped(given: int, kept: int) -> None:
    assert resolved({"retrieval": {"maxTokens": given}}).max_tokens == kept


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "rs.json: expected an object, found a list"),
        (
            {"autoRecall": True},
            "rs.json: unknown key 'autoRecall'; known: auto_recall, recall_final_k, retrieval, embedder",
        ),
        ({"auto_recall": "yes"}, "rs.json: auto_recall: expected true or false, found a string"),
        ({"recall_final_k": 2.5}, "rs.json: recall_final_k: expected a whole number, found 2.5"),
        ({"retrieval": {"maxTokens": "9"}}, "rs.json: retrieval: maxTokens: expected a whole number, found a string"),
        ({"retrieval": {"max": 9}}, "rs.json: retrieval: unknown key 'max'; known: maxTokens"),
        ({"embedder": {"local": {}, "remote": {}}}, "rs.json: embedder: has both 'local' and 'remote'; keep one"),
        ({"embedder": {"cloud": {}}}, "rs.json: embedder: unknown key 'cloud'; known: local, remote"),
        ({"embedder": {"remote": {"model": 3}}}, "rs.json: embedder: remote: model: expected a string, found a number"),
        ({"agents": {"defaults": {"memory": {"k": 1}}}}, "rs.json: unknown key 'k'"),
        ({"agents": {"defaults": []}}, "rs.json: agents: defaults: expected an object, found a list"),
        ({"lab": {"touch": "all"}}, "rs.json: lab: touch: expected hits or vector or shown or none, found 'all'"),
        ({"lab": {"quality": 1}}, "rs.json: lab: quality: expected true or false, found a number"),
        ({"lab": {"speed": 1}}, "rs.json: lab: unknown key 'speed'"),
        ({"lab": {"extractor": "recorded"}}, "names no file; set lab.extractions"),
        ({"lab": {"extractor": "rules", "extractions": "x.jsonl"}}, "'rules' does not read 'x.jsonl'"),
        ({"lab": {"agent": " "}}, "rs.json: lab: agent: is blank"),
        ({"evolution": {"preset": "fast"}}, "rs.json: evolution: preset: expected default or test, found 'fast'"),
        ({"evolution": {"promotion": {"access_only": 1.5}}}, "access_only: expected a whole number from 0, found 1.5"),
        (
            {"evolution": {"promotion": {"both_importance": 2}}},
            "both_importance: expected a number from 0 to 1, found 2",
        ),
    ],
)
def test_resolve_names_file_key_and_value(config: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as error:
        resolved(config)
    assert message in str(error.value)


def test_described_configuration_makes_the_same_arm(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    path.write_text('{"turn": "t", "candidates": [{"kind": "fact", "text": "x", "confidence": 1}]}\n', "utf-8")
    lab = {"profile": "code", "extractions": str(path), "agent": "a", "extraction_ms": 5, "restart": "session"}
    for config in (None, MEMORY, {"lab": lab, "evolution": {"preset": "test"}}):
        spec = ArmSpec("mine", "rsclaw", config, max_items=9)
        arm: Any = make_arm(spec)
        info = info_of(spec, arm)
        again: Any = make_arm(ArmSpec("mine", "rsclaw", info.config, profile="upstream"))
        assert again == arm
        assert info_of(spec, again) == info
    assert list(info.inputs) == ["found.jsonl"]
    assert describe(arm.settings)["lab"]["extractions"] == str(path)


def test_describe_names_the_embedder_of_the_configuration() -> None:
    def named(embedder: Any) -> str | None:
        arm: Any = make_arm(ArmSpec("rsclaw", "rsclaw", {"embedder": embedder}))
        name: str | None = arm.describe().embedder
        return name

    assert named(MEMORY["embedder"]) == "Qwen3"
    assert named({"local": {"model_dir": "~/.rsclaw/models/bge-small-zh/"}}) == "bge-small-zh"
    assert named({}) is None


def test_parse_arms_reads_json5_with_a_second_profile(tmp_path: Path) -> None:
    path = tmp_path / "code.json5"
    path.write_text("{lab: {arm: 'rsclaw', profile: 'code'}, /* five */ recall_final_k: 4,}", "utf-8")
    specs = parse_arms(["rsclaw", f"rsclaw_code={path}"])
    arms: list[Any] = [make_arm(spec) for spec in specs]
    assert [(arm.name, arm.settings.profile, arm.settings.final_k) for arm in arms] == [
        ("rsclaw", "seed", 5),
        ("rsclaw_code", "code", 4),
    ]


@pytest.mark.parametrize("tokens", [64, 256, 4096])
def test_with_tokens_sets_the_budget_and_widens(tokens: int) -> None:
    arm: Any = make_arm(ArmSpec("rsclaw", "rsclaw", MEMORY))
    wide = arm.with_tokens(tokens)
    assert (wide.settings.max_tokens, wide.settings.final_k, wide.name) == (tokens, 12, "rsclaw")
    assert wide.settings.embedder == arm.settings.embedder
