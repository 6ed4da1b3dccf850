"""The engine's configuration under both profiles: defaults, clamping, errors that name the key, and value sources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.retrieval.clamp import Clamp
from lab.retrieval.tokens import TextSettings
from lab.systems.openclaw.config.resolve import check_config, describe, explain_config, resolve, shown
from lab.systems.openclaw.config.settings import (
    AutoRecall,
    DocsSettings,
    EngineConfig,
    Phases,
    ReceiptSettings,
    WorkingSetSettings,
)
from lab.systems.openclaw.config.table import LAB, PLUGIN, PROFILES, Knob, Section
from lab.systems.openclaw.config.values import NOT_HERE, finite, number_in_range, parse_env_boolean
from lab.systems.openclaw.recall.block import Budget
from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.select.outcome import Quota
from tests.conformance.plugin_config import parse, resolve_section
from tests.sketch import SKETCH

KEY = "sk-FAKE-never-shown"


def recall(**values: Any) -> dict[str, Any]:
    return {"autoRecall": values}


def lane(**values: Any) -> dict[str, Any]:
    return {"lab": {"textLane": values}}


def phases(**values: Any) -> dict[str, Any]:
    return {"lab": {"phases": values}}


def by(raw: Any, profile: str, key: str, **more: Any) -> tuple[Any, str]:
    (decided,) = [decided for decided in explain_config(raw, profile, **more) if decided.key == key]
    return decided.value, decided.by


@pytest.mark.parametrize("raw", [None, {}, {"autoRecall": {}}, {"autoRecall": None, "lab": {"textLane": {}}}])
def test_resolve_seed_defaults(raw: Any) -> None:
    config = resolve(raw, "seed")
    assert config == EngineConfig("seed")
    assert (config.max_items, config.auto_recall.strict_caps, config.text.lane) == (6, True, "index")
    assert config.working_set == WorkingSetSettings(False, True, 1200, 3, 200, 180)


def test_resolve_upstream_defaults() -> None:
    config = resolve(None, "upstream")
    off: dict[str, Any] = {"repeat_window_turns": 0, "repeat_penalty": 0.0, "dedupe_backbone": False}
    assert config.auto_recall == AutoRecall(True, 4, True, 8, strict_caps=False, **off)
    assert config.working_set == WorkingSetSettings(False, True, 240, 2, 120, 100)
    assert config.text == TextSettings("none", True, "scan")
    assert (config.phases.repeat, config.phases.score, config.phases.pinned_counts) == (False, (), "extra")
    assert (config.budget, config.scope_policy, config.receipts) == (Budget(), ScopePolicy(), ReceiptSettings())
    assert (config.docs, config.embedding) == (DocsSettings(by_path=False), Clamp())
    assert config.todo_stale_ttl_days == 7


def test_resolve_accepts_the_seeds_example_under_seed_only() -> None:
    config = resolve(SKETCH, "seed")
    assert (config.auto_recall.selection_mode, config.working_set.enabled) == ("tier_quota_v1", True)
    problems = check_config(SKETCH, "upstream").problems
    assert [line.split(": ", 2)[1] for line in problems] == [
        "autoRecall.repeatWindowTurns",
        "autoRecall.repeatPenalty",
        "autoRecall.dedupeBackbone",
    ]
    assert problems[0].endswith("unknown key in profile 'upstream'; it exists in profile 'seed' only")


def test_resolve_puts_every_section_in_its_record() -> None:
    raw = {
        "autoRecall": {
            "maxItems": 4,
            "quotas": {"mustMax": 1, "niceMin": 3, "unknownMax": 0, "caps": "reservation"},
            "tierSearchMultiplier": 5,
            "includeUnknownFallback": False,
            "repeatPenalty": 1,
        },
        "autoCapture": {"todoStaleTtlDays": 30},
        "scopePolicy": {"defaultScope": "Team X", "fallbackScopes": ["team x", "b", "b"], "maxScopeLength": 8},
        "budget": {"maxChars": 900, "overflowAction": "truncate_tail"},
        "receipts": {"verbosity": "high"},
        "docsColdLane": {"enabled": True, "sourceRoots": ["docs"], "scopeMap": {"a b": ["/x", "y"]}},
        "embedding": {"maxChars": 400, "maxBytes": 900},
        "readOnly": True,
        "lab": {
            "arm": "tier_quota_v1",
            "textLane": {"stopWords": "none", "stem": False, "lane": "scan"},
            "phases": {"repeatDecay": "linear", "minRelevance": 0.25, "score": {"novelty": True, "recency": False}},
        },
    }
    config = resolve(raw, "seed")
    assert config.auto_recall == AutoRecall(
        max_items=4,
        quota=Quota(1, 3, 0),
        tier_search_multiplier=5,
        include_unknown_fallback=False,
        strict_caps=False,
        repeat_penalty=1.0,
    )
    assert config.scope_policy == ScopePolicy(default_scope="team-x", fallback_scopes=("team-x", "b"), max_length=8)
    assert config.budget == Budget(max_chars=900, overflow_action="truncate_tail")
    assert config.docs == DocsSettings(enabled=True, source_roots=("docs",), scope_map=(("a-b", ("x", "y")),))
    assert (config.embedding, config.read_only, config.todo_stale_ttl_days) == (Clamp(400, 400, 900), True, 30)
    factors = ("relevance", "scope_match", "importance_prior", "novelty")
    phases = Phases(repeat_decay="linear", min_relevance=0.25, score=factors)
    assert (config.text, config.phases) == (TextSettings("none", False, "scan"), phases)


@pytest.mark.parametrize(
    ("profile", "raw", "key", "expected"),
    [
        ("seed", recall(maxItems=0), "autoRecall.maxItems", (1, "clamped from 0")),
        ("seed", recall(maxItems=99), "autoRecall.maxItems", (6, "clamped from 99")),
        ("seed", recall(maxItems=6), "autoRecall.maxItems", (6, "config")),
        ("seed", recall(maxItems=4.0), "autoRecall.maxItems", (4, "config")),
        ("seed", recall(maxItems=2.9), "autoRecall.maxItems", (2, "clamped from 2.9")),
        ("upstream", recall(maxItems=6), "autoRecall.maxItems", (5, "clamped from 6")),
        ("upstream", {}, "autoRecall.maxItems", (4, "profile default")),
        ("seed", recall(quotas={"mustMax": -1}), "autoRecall.quotas.mustMax", (0, "clamped from -1")),
        ("seed", recall(repeatWindowTurns=51), "autoRecall.repeatWindowTurns", (50, "clamped from 51")),
        ("seed", recall(repeatPenalty=1.5), "autoRecall.repeatPenalty", (1.0, "clamped from 1.5")),
        ("seed", {"autoCapture": {"maxItemsPerTurn": 9}}, "autoCapture.maxItemsPerTurn", (4, "clamped from 9")),
        (
            "upstream",
            {"autoCapture": {"todoStaleTtlDays": 99}},
            "autoCapture.todoStaleTtlDays",
            (90, "clamped from 99"),
        ),
        ("seed", {"embedding": {"maxChars": 300}}, "embedding.headChars", (300, "clamped from 500")),
        (
            "seed",
            {"scopePolicy": {"defaultScope": "A b"}},
            "scopePolicy.defaultScope",
            ("a-b", "normalised from 'A b'"),
        ),
        ("seed", {"autoRecall": False}, "autoRecall.enabled", (False, "config")),
        ("seed", {"workingSet": True}, "workingSet.enabled", (False, "profile default")),
        ("seed", phases(score="rrf_only"), "lab.phases.score.recency", (False, "config")),
        ("seed", {"dbPath": "~/db"}, "dbPath", ("~/db", NOT_HERE)),
    ],
)
def test_explain_config_names_the_source_of_a_value(
    profile: str, raw: Any, key: str, expected: tuple[Any, str]
) -> None:
    assert by(raw, profile, key) == expected


@pytest.mark.parametrize("profile", PROFILES)
def test_resolve_reads_the_environment_only_if_passed(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_MEM_ENGINE_READONLY", "1")
    assert resolve({}, profile).read_only is False
    switch = {"OPENCLAW_MEM_ENGINE_READONLY": "off"}
    assert resolve({"readOnly": True}, profile, environ=switch).read_only is False
    assert by({"readOnly": True}, profile, "readOnly", environ=switch) == (False, "environment")
    unclear = {"OPENCLAW_MEM_ENGINE_READONLY": "perhaps"}
    assert by({"readOnly": True}, profile, "readOnly", environ=unclear) == (True, "config")


def test_resolve_max_items_of_configuration_beats_the_option() -> None:
    assert resolve(None, "seed", max_items=3).max_items == 3
    assert resolve(recall(maxItems=2), "seed", max_items=3).max_items == 2
    assert by({}, "upstream", "autoRecall.maxItems", max_items=3) == (3, "max-items")


@pytest.mark.parametrize(("profile", "count"), [("seed", 0), ("seed", 7), ("upstream", 6), ("seed", -1)])
def test_resolve_max_items_outside_the_profiles_range_raises(profile: str, count: int) -> None:
    with pytest.raises(UnusableInput, match=rf"max-items {count} is not in 1\.\.[56], which profile '{profile}'"):
        resolve(None, profile, max_items=count)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"autorecall": {}}, "my.json: autorecall: unknown key; known: autoCapture, autoRecall, budget, dbPath"),
        (recall(maxitems=3), "my.json: autoRecall.maxitems: unknown key; known: dedupeBackbone, enabled"),
        (
            recall(quotas={"x": 1}),
            "my.json: autoRecall.quotas.x: unknown key; known: caps, mustMax, niceMin, per, unknown",
        ),
        ({"weijiMemoryPreflight": {"x": 1}}, "my.json: weijiMemoryPreflight.x: unknown key; known: command"),
        (
            {"lab": {"stopWords": "none"}},
            "my.json: lab.stopWords: unknown key; known: arm, fusion, phases, profile, rerank, silence, textLane",
        ),
        ({"budget": {"maxChars": "abc"}}, "my.json: budget.maxChars: expected a number, found 'abc'"),
        (recall(maxItems=True), "my.json: autoRecall.maxItems: expected a number, found true"),
        (recall(quotas={"niceMin": None}), "my.json: autoRecall.quotas.niceMin: expected a number, found null"),
        (
            recall(trivialMinChars=float("inf")),
            "my.json: autoRecall.trivialMinChars: expected a number, found Infinity",
        ),
        (recall(quotas=[2, 2, 1]), "my.json: autoRecall.quotas: expected an object, found a list"),
        (
            recall(quotas={"caps": "soft"}),
            "my.json: autoRecall.quotas.caps: expected one of reservation, strict, found 'soft'",
        ),
        (
            recall(includeUnknownFallback=1),
            "my.json: autoRecall.includeUnknownFallback: expected true or false, found 1",
        ),
        ({"autoRecall": 3}, "my.json: autoRecall: expected true, false or an object, found a number"),
        ({"dbPath": " "}, "my.json: dbPath: is blank"),
        ({"embedding": {"maxBytes": 0}}, "my.json: embedding.maxBytes: expected a number from 1, found 0"),
        (
            {"scopePolicy": {"fallbackScopes": ["a", 5]}},
            "my.json: scopePolicy.fallbackScopes: item 2: expected a string",
        ),
        ({"docsColdLane": {"scopeMap": {"a": "b"}}}, "my.json: docsColdLane.scopeMap: a: expected a list of strings"),
        (
            {"docsColdLane": {"scopeMap": []}},
            "my.json: docsColdLane.scopeMap: expected an object of lists, found a list",
        ),
        (lane(stopWords="german"), "my.json: lab.textLane.stopWords: expected one of none, english, found 'german'"),
        (lane(stem="yes"), "my.json: lab.textLane.stem: expected true or false, found 'yes'"),
        (phases(score="all"), "my.json: lab.phases.score: expected rrf_only, v1_full or an object, found 'all'"),
        (phases(repeatDecay="sudden"), "my.json: lab.phases.repeatDecay: expected one of compounding, linear"),
        ({"lab": {"profile": "upstream"}}, "my.json: lab.profile: the configuration is for profile 'upstream'"),
        ({"dbPath": 10**400}, f"my.json: dbPath: expected a string, found 1{'0' * 59}…"),
        ([1], "my.json: expected an object, found a list"),
        ("tier_first_v1", "my.json: expected an object, found a string"),
    ],
)
def test_resolve_invalid_key_raises_with_file_and_path(raw: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        resolve(raw, "seed", where="my.json")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("raw", [SKETCH, phases(repeat=False), recall(quotas={"caps": "strict"})])
def test_resolve_seed_only_key_under_upstream_raises(raw: Any) -> None:
    with pytest.raises(UnusableInput, match="unknown key in profile 'upstream'; it exists in profile 'seed' only"):
        resolve(raw, "upstream")


def test_resolve_unknown_profile_raises() -> None:
    with pytest.raises(UnusableInput, match="unknown profile 'default'; known: seed, upstream"):
        resolve(None, "default")


def test_check_config_lists_every_problem_else_warnings_and_notes() -> None:
    broken = {"a": 1, "budget": {"maxChars": "x", "enabled": "on"}, "receipts": 4}
    assert len(check_config(broken, "seed").problems) == 4
    fine = check_config({"autoRecall": {"maxItems": 9}, "workingSet": True}, "seed", where="my.json")
    assert fine.problems == ()
    assert fine.notes == ("my.json: autoRecall.maxItems: 6, clamped from 9",)
    assert fine.warnings == (
        'my.json: workingSet: true means the defaults, which leave it off; write {"enabled": true} to switch it on',
    )


@pytest.mark.parametrize("name", [name for name, entry in PLUGIN.items() if isinstance(entry, Section)])
@pytest.mark.parametrize("profile", PROFILES)
def test_resolve_accepts_booleans_for_sections_as_the_plugin_does(name: str, profile: str) -> None:
    for value in (True, False):
        checked = check_config({name: value}, profile)
        assert not checked.problems or "expected" in checked.problems[0]


@pytest.mark.parametrize(
    "raw",
    [
        {"embedding": {"apiKey": KEY}},
        {"embedding": {"apiKey": [KEY]}},
        {"embedding": KEY},
        {"embedding": {"apikey": KEY}},
        {"apiKey": KEY},
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_errors_never_repeat_a_providers_key(raw: Any, profile: str) -> None:
    outputs: list[Any] = [check_config(raw, profile)]
    if not outputs[0].problems:
        config = resolve(raw, profile)
        outputs += [config, describe(config), explain_config(raw, profile)]
    assert KEY not in repr(outputs)


@pytest.mark.parametrize(
    ("max_items", "multiplier", "limit"), [(6, 2, 12), (1, 1, 1), (6, 6, 36), (5, 3, 15), (40, 2, 50), (60, 2, 60)]
)
def test_search_limit_follows_items_and_multiplier(max_items: int, multiplier: int, limit: int) -> None:
    assert AutoRecall(max_items=max_items, tier_search_multiplier=multiplier).search_limit == limit


@pytest.mark.parametrize(
    ("profile", "raw"),
    [
        ("seed", None),
        ("upstream", None),
        ("seed", SKETCH),
        ("seed", {"embedding": {"maxBytes": 9, "model": "text-embedding-3-large"}, "readOnly": True}),
        ("seed", phases(score={"recency": False}, recencyWindowDays=7, hardRules=False)),
        ("upstream", {"docsColdLane": {"scopeMap": {"a": ["x"]}}, "autoRecall": {"routeAuto": {"dbPath": "x"}}}),
    ],
)
def test_describe_is_plain_json_that_resolves_to_the_same_config(profile: str, raw: Any) -> None:
    config = resolve(raw, profile)
    described = describe(config)
    assert json.loads(json.dumps(described)) == described
    read = {name for name, entry in PLUGIN.items() if isinstance(entry, Section) and entry.here}
    assert set(described) == read | {"lab", "readOnly"}
    assert resolve(described, profile) == config
    assert describe(resolve(described, profile)) == described


def test_describe_accepts_a_config_built_by_hand() -> None:
    described = describe(EngineConfig(auto_recall=AutoRecall(max_items=3, quota=Quota(1, 1, 1))))
    assert (described["autoRecall"]["maxItems"], described["autoRecall"]["quotas"]["mustMax"]) == (3, 1)
    assert (described["autoCapture"]["todoStaleTtlDays"], described["autoCapture"]["maxItemsPerTurn"]) == (7, 2)


@pytest.mark.parametrize(
    ("section", "kind", "other"),
    [
        (PLUGIN["autoRecall"], AutoRecall, {"quota", "quotas_per", "strict_caps"}),
        (PLUGIN["scopePolicy"], ScopePolicy, {"max_length", "skip_fallback_on_invalid"}),
        (PLUGIN["budget"], Budget, set()),
        (PLUGIN["workingSet"], WorkingSetSettings, {"variant"}),
        (PLUGIN["receipts"], ReceiptSettings, set()),
        (PLUGIN["docsColdLane"], DocsSettings, {"by_path"}),
        (LAB.keys["phases"], Phases, set()),
        (LAB.keys["textLane"], TextSettings, set()),
    ],
)
def test_every_field_of_a_record_has_a_key_in_the_table(section: Section | Knob, kind: type, other: set[str]) -> None:
    assert isinstance(section, Section)
    keys = {"".join(f"_{one.lower()}" if one.isupper() else one for one in key) for key in section.keys}
    assert set(kind.__match_args__) - keys == other


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "openclaw-mem-engine config must be an object"),
        ({"b": 1, "embedding": 5, "a": 2}, "openclaw-mem-engine config has unknown keys: b, a"),
        ({"lab": {}}, "openclaw-mem-engine config has unknown keys: lab"),
        (SKETCH, "autoRecall config has unknown keys: repeatWindowTurns, repeatPenalty, dedupeBackbone"),
        (recall(quotas={"caps": "strict"}), "autoRecall.quotas config has unknown keys: caps"),
        ({"autoRecall": 5, "embedding": {"x": 1}}, "embedding config has unknown keys: x"),
        ({"autoRecall": 5, "retrievalBackend": []}, "retrievalBackend config must be an object"),
        ({"autoRecall": 5, "retrievalBackend": {"x": 1}}, "autoRecall must be a boolean or object"),
        ({"retrievalBackend": {"qdrantEdge": {"x": 1}}}, "retrievalBackend.qdrantEdge config has unknown keys: x"),
    ],
)
def test_parse_raises_the_plugins_messages_in_its_order(raw: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        parse(raw)
    assert str(caught.value) == message


def test_parse_ignores_wrong_values_and_some_wrong_sections() -> None:
    raw = {"weijiMemoryPreflight": {"x": 1, "timeoutMs": "5"}, "gbrainMirror": 5, "budget": {"maxChars": "900"}}
    assert parse(raw) == {"weijiMemoryPreflight": {}, "budget": {}}


def test_resolve_section_alone_is_more_tolerant() -> None:
    assert resolve_section("budget", {"maxChars": " 900 "})["maxChars"] == 900
    config = resolve_section("docsColdLane", {"scopeMap": {"A b": ["//x/", " ", 5], "--": ["y"]}, "sourceGlobs": [" "]})
    assert (config["scopeMap"], config["sourceGlobs"]) == ({"a-b": ["x/"]}, ["**/*.md"])
    with pytest.raises(UnusableInput, match="'dbPath' is not a section"):
        resolve_section("dbPath", "x")


@pytest.mark.parametrize(("raw", "switch"), [(" Y ", True), ("n", False), ("maybe", None), ("", None), (None, None)])
def test_parse_env_boolean_accepts_common_words(raw: str | None, switch: bool | None) -> None:
    assert parse_env_boolean(raw) is switch


@pytest.mark.parametrize(("raw", "number"), [(10**400, 7), ("1e999", 7), (2.9, 2), ("0x9", 9), (None, 7), (True, 7)])
def test_number_in_range_floors_and_clamps(raw: Any, number: float) -> None:
    assert number_in_range(raw, 7, 0, 50, whole=True) == number


def test_finite_and_shown_convert_values() -> None:
    assert [finite(one) for one in (1, 1.5, True, "1", 10**400)] == [1, 1.5, None, None, None]
    assert [shown(one) for one in ("a", True, ["é"], None)] == ["a", "true", '["é"]', "null"]
