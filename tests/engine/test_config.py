"""The plugin's configuration under the two profiles: defaults, clamps, and errors that name the key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.engine.config import EngineConfig, resolve
from lab.engine.recall.select.outcome import Quota
from lab.engine.store.tokens import TextSettings
from lab.errors import UnusableInput

PROFILES = ("seed", "upstream")


def recall(**values: Any) -> dict[str, Any]:
    return {"autoRecall": values}


def lane(**values: Any) -> dict[str, Any]:
    return {"lab": {"textLane": values}}


@pytest.mark.parametrize("raw", [None, {}, {"autoRecall": {}}, {"lab": {"textLane": {}}}, recall(quotas={})])
def test_the_defaults_of_the_profiles(raw: dict[str, Any] | None) -> None:
    assert resolve(raw, "seed") == EngineConfig(
        "seed", 6, Quota(2, 2, 1), 2, True, True, TextSettings("english", True, "index")
    )
    assert resolve(raw, "upstream") == EngineConfig(
        "upstream", 5, Quota(2, 2, 1), 2, True, False, TextSettings("none", True, "scan")
    )


def test_every_key_is_read() -> None:
    raw = {
        "autoRecall": {
            "maxItems": 4,
            "quotas": {"mustMax": 1, "niceMin": 3, "unknownMax": 0, "caps": "reservation"},
            "tierSearchMultiplier": 5,
            "includeUnknownFallback": False,
            "selectionMode": "tier_first_v1",
        },
        "lab": {"arm": "tier_quota_v1", "textLane": {"stopWords": "none", "stem": False, "lane": "scan"}},
    }
    assert resolve(raw, "seed") == EngineConfig(
        "seed", 4, Quota(1, 3, 0), 5, False, False, TextSettings("none", False, "scan")
    )


@pytest.mark.parametrize(
    ("profile", "raw", "field", "expected"),
    [
        ("seed", recall(maxItems=0), "max_items", 1),
        ("seed", recall(maxItems=99), "max_items", 6),
        ("upstream", recall(maxItems=6), "max_items", 5),
        ("seed", recall(quotas={"mustMax": -1, "niceMin": 9, "unknownMax": 6}), "quota", Quota(0, 5, 5)),
        ("seed", recall(tierSearchMultiplier=0), "tier_search_multiplier", 1),
        ("seed", recall(tierSearchMultiplier=50), "tier_search_multiplier", 6),
    ],
)
def test_numbers_are_clamped(profile: str, raw: dict[str, Any], field: str, expected: object) -> None:
    assert getattr(resolve(raw, profile), field) == expected


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("caps", "strict"), [("strict", True), ("reservation", False)])
def test_the_reading_of_the_maxima_can_be_chosen_in_both_profiles(profile: str, caps: str, strict: bool) -> None:
    assert resolve(recall(quotas={"caps": caps}), profile).strict_caps is strict


def test_max_items_of_the_command_line_yields_to_the_configuration() -> None:
    assert resolve(None, "seed", max_items=3).max_items == 3
    assert resolve(recall(maxItems=2), "seed", max_items=3).max_items == 2


@pytest.mark.parametrize(("profile", "count"), [("seed", 0), ("seed", 7), ("upstream", 6), ("seed", -1)])
def test_max_items_of_the_command_line_must_be_what_the_profile_allows(profile: str, count: int) -> None:
    with pytest.raises(UnusableInput, match=rf"max-items {count} is not in 1\.\.[56], which profile '{profile}'"):
        resolve(None, profile, max_items=count)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"autorecall": {}}, "my.json: unknown key 'autorecall'; known: autoRecall, lab"),
        (recall(maxitems=3), "my.json: autoRecall: unknown key 'maxitems'; known: includeUnknownFallback, maxItems"),
        (recall(quotas={"mustmax": 1}), "my.json: autoRecall.quotas: unknown key 'mustmax'; known: caps, mustMax"),
        ({"lab": {"stopWords": "none"}}, "my.json: lab: unknown key 'stopWords'; known: arm, textLane"),
        (lane(stopwords="none"), "my.json: lab.textLane: unknown key 'stopwords'; known:"),
        (recall(maxItems="3"), "my.json: autoRecall.maxItems: expected a whole number, found '3'"),
        (recall(maxItems=2.5), "my.json: autoRecall.maxItems: expected a whole number, found 2.5"),
        (recall(maxItems=True), "my.json: autoRecall.maxItems: expected a whole number, found True"),
        (recall(quotas={"niceMin": None}), "my.json: autoRecall.quotas.niceMin: expected a whole number, found None"),
        (recall(quotas=[2, 2, 1]), "my.json: autoRecall.quotas: expected an object, found a list"),
        (recall(quotas={"caps": "soft"}), "my.json: autoRecall.quotas.caps: 'soft' is none of strict, reservation"),
        (recall(includeUnknownFallback=1), "my.json: autoRecall.includeUnknownFallback: expected true or false"),
        ({"autoRecall": 3}, "my.json: autoRecall: expected an object, found a number"),
        (lane(stopWords="german"), "my.json: lab.textLane.stopWords: 'german' is none of english, none"),
        (lane(stem="yes"), "my.json: lab.textLane.stem: expected true or false, found 'yes'"),
        (lane(lane="fast"), "my.json: lab.textLane.lane: 'fast' is none of index, scan"),
        ([1], "my.json: expected an object, found a list"),
        ([], "my.json: expected an object, found a list"),
        ("tier_first_v1", "my.json: expected an object, found a string"),
    ],
)
def test_an_error_names_the_file_and_the_path_of_the_key(raw: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        resolve(raw, "seed", where="my.json")
    assert str(caught.value).startswith(message)


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(UnusableInput, match="unknown profile 'default'; known: seed, upstream"):
        resolve(None, "default")


@pytest.mark.parametrize(
    ("max_items", "multiplier", "limit"), [(6, 2, 12), (1, 1, 1), (6, 6, 36), (5, 3, 15), (40, 2, 50), (60, 2, 60)]
)
def test_how_deep_a_tier_is_searched(max_items: int, multiplier: int, limit: int) -> None:
    assert EngineConfig(max_items=max_items, tier_search_multiplier=multiplier).search_limit == limit


def test_a_configuration_describes_itself_in_plain_values() -> None:
    described = resolve(recall(maxItems=4), "upstream").describe()
    assert json.loads(json.dumps(described)) == described
    assert described == {
        "profile": "upstream",
        "max_items": 4,
        "quota": {"must_max": 2, "nice_min": 2, "unknown_max": 1, "wildcard_used": 0},
        "tier_search_multiplier": 2,
        "include_unknown_fallback": True,
        "strict_caps": False,
        "text": {"stop_words": "none", "stem": True, "lane": "scan"},
    }
