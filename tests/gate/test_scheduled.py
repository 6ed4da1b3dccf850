"""Rules on the blocks of a drawn order: shown to be worse, not shown, without a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.compare.randomised import drawn
from lab.gate.line import FAIL, INCONCLUSIVE, PASS
from lab.gate.policy import read_policy
from lab.gate.scheduled import CONTROL, interference, judge_scheduled

POLICY = """name = "two"
about = "few errors, answers vary"
[[receipts]]
measure = "errors.rate"
of = "errors.attempts"
at_most = 0.5
[[receipts]]
measure = "repeat.rate"
at_most = 0.9
[[receipts]]
measure = "repeat.longest_streak"
at_most = 30
"""


def judged(tmp_path: Path, errors: list[float | None], repeats: list[float], captures: int = 0) -> Any:
    file = tmp_path / "two.toml"
    file.write_text(POLICY, "utf-8")
    blocks = [
        {
            "switched": switched,
            "answered": 100,
            "captures": captures,
            "figures": {"errors.rate": error, "recalls.empty_rate": 0.0, "repeat.rate": repeat},
        }
        for switched, error, repeat in zip(ORDER, errors, repeats, strict=True)
    ]
    audit = {"schedule": {"seed": 1, "blocks": blocks}}
    return {one.measure: one for one in judge_scheduled(read_policy(str(file)).rules, audit)}, audit


ORDER = drawn(8, 1)
EVEN = [0.4] * 8


def test_a_figure_that_is_worse_in_every_switched_block_fails_although_its_limit_holds(tmp_path: Path) -> None:
    lines, _ = judged(tmp_path, [0.01 + 0.2 * switched for switched in ORDER], EVEN)
    assert lines["errors.rate"].status == FAIL
    assert lines["errors.rate"].critical
    assert lines["errors.rate"].against == CONTROL
    assert lines["errors.rate"].difference is not None
    assert abs(lines["errors.rate"].difference - 0.2) < 1e-9
    assert (lines["errors.rate"].candidate, lines["errors.rate"].baseline) == pytest.approx((0.21, 0.01))
    # What is not shown to be worse is no evidence for the switch, and figures that no schedule compares have no line.
    assert (lines["repeat.rate"].status, lines["repeat.rate"].critical) == (PASS, False)
    assert set(lines) == {"errors.rate", "repeat.rate"}


def test_a_figure_that_is_better_never_fails(tmp_path: Path) -> None:
    lines, _ = judged(tmp_path, [0.2 - 0.19 * switched for switched in ORDER], EVEN)
    assert lines["errors.rate"].status == PASS


def test_a_block_without_a_value_is_named(tmp_path: Path) -> None:
    lines, _ = judged(tmp_path, [None, *[0.0] * 7], EVEN)
    assert (
        lines["errors.rate"].status == INCONCLUSIVE
        or not lines["errors.rate"].critical
        or "blocks 1 of" in (lines["errors.rate"].reason)
    )
    assert "blocks 1 of the schedule have no value" in lines["errors.rate"].reason


def test_captures_into_the_common_store_are_named(tmp_path: Path) -> None:
    _, audit = judged(tmp_path, [0.0] * 8, EVEN, captures=3)
    assert interference(audit) == (
        "interference: 12 memories captured in switched blocks and 12 in the others went to the same store, which both "
        "policies recall"
    )
    assert interference(judged(tmp_path, [0.0] * 8, EVEN)[1]) is None
    assert interference({}) is None
