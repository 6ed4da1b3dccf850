"""The recommended configuration: a configuration like any other, and the operator's own words hold above it."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import UnusableInput
from lab.systems.openclaw.config.resolve import check_config, describe, resolve
from lab.systems.openclaw.recommended import ARM, CONFIG, recommended
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec


def made(config: Any, profile: str = "seed") -> Any:
    arm: Any = make_arm(ArmSpec("mine", ARM, config, profile=profile))
    return arm.config


def test_it_is_what_the_engine_makes_of_its_words() -> None:
    assert check_config(CONFIG, "seed").problems == ()
    assert describe(made(None)) == describe(resolve(CONFIG, "seed"))
    assert made(None).phases.relevance_over == "pool"


def test_an_operators_words_hold_above_it_and_nothing_else_changes() -> None:
    own = {"plugins": {"entries": {"openclaw-mem-engine": {"config": {"autoRecall": {"quotas": {"niceMin": 3}}}}}}}
    mine, plain = describe(made(own)), describe(made(None))
    assert mine["autoRecall"]["quotas"].pop("niceMin") == 3
    assert plain["autoRecall"]["quotas"].pop("niceMin") == 1
    assert mine == plain
    assert recommended({}) == CONFIG


def test_the_plugin_has_nothing_of_the_kind() -> None:
    with pytest.raises(UnusableInput, match="profile upstream does not support it"):
        made(None, "upstream")
