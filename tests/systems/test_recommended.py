"""The recommended configuration is an ordinary configuration, and the operator's settings override it."""

from __future__ import annotations

from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.systems.openclaw.config.resolve import check_config, describe, resolve
from lab.systems.openclaw.presets import RECOMMENDED, RECOMMENDED_CONFIG, recommended
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec


def made(config: Any, profile: str = "seed") -> Any:
    arm: Any = make_arm(ArmSpec("mine", RECOMMENDED, config, profile=profile))
    return arm.config


def test_recommended_arm_equals_its_configuration() -> None:
    assert check_config(RECOMMENDED_CONFIG, "seed").problems == ()
    assert describe(made(None)) == describe(resolve(RECOMMENDED_CONFIG, "seed"))
    assert made(None).phases.relevance_over == "pool"


def test_recommended_is_overridden_only_by_the_operators_settings() -> None:
    operators_config = {
        "plugins": {"entries": {"openclaw-mem-engine": {"config": {"autoRecall": {"quotas": {"niceMin": 3}}}}}}
    }
    mine, plain = describe(made(operators_config)), describe(made(None))
    assert mine["autoRecall"]["quotas"].pop("niceMin") == 3
    assert plain["autoRecall"]["quotas"].pop("niceMin") == 0
    assert mine == plain
    assert recommended({}) == RECOMMENDED_CONFIG


@pytest.mark.parametrize("key", ["wildcard", "caps"])
def test_recommended_caps_are_strict_if_the_operator_says_so(key: str) -> None:
    assert not made(None).auto_recall.strict_caps
    assert made({"autoRecall": {"quotas": {key: "strict"}}}).auto_recall.strict_caps


def test_recommended_under_upstream_raises() -> None:
    with pytest.raises(UnusableInput, match="profile upstream does not support it"):
        made(None, "upstream")
