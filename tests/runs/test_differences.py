"""Differences of arms in one short line: names, keys and both values."""

from __future__ import annotations

from typing import Any

import pytest

from lab.runs.resume import arms_differences


def arm(name: str = "mine", **fields: Any) -> dict[str, Any]:
    return {"name": name, "system": "s", "version": "1", "config": {"a": {"b": 1}, "list": [1, 2]}} | fields


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([arm()], [arm()], ""),
        ([arm("one")], [arm("two")], "one removed; two added"),
        ([arm("one"), arm("two")], [arm("two"), arm("one")], "order: one, two -> two, one"),
        ([arm()], [arm(system="t")], 'mine: system "s" -> "t"'),
        ([arm()], [arm(version="2"), arm("new")], 'new added; mine: version "1" -> "2"'),
        ([arm()], [arm(config={"a": {"b": 2}, "list": (1, 2)})], "mine: config.a.b 1 -> 2"),
        ([arm()], [arm(config={"a": {"b": 1.0}, "list": [1, 2]})], "mine: config.a.b 1 -> 1.0"),
        ([arm(config={})], [arm(config={"deep": {"x": True}})], 'mine: config.deep not set -> {"x": true}'),
        ([arm(config={"x": {}})], [arm(config={"x": {"y": None}})], "mine: config.x.y not set -> null"),
        ([arm(config={"x": [1]})], [arm(config={})], "mine: config.x [1] -> not set"),
        ([arm(config={"x": "two\nlines"})], [arm(config={"x": "é"})], 'mine: config.x "two\\nlines" -> "é"'),
        ([arm(version="a" * 99)], [arm(version="b" * 99)], f'mine: version "{"a" * 31}… -> "{"b" * 31}…'),
        (
            [arm(version="package 1 " + "a" * 90 + "x")],
            [arm(version="package 1 " + "a" * 90 + "y")],
            'mine: version …aaaaaaaax" -> …aaaaaaaay"',
        ),
        ([arm(version="v" * 50)], [arm(version="v" * 50 + "w")], 'mine: version …vvvvvvvv" -> …vvvvvvvvw"'),
        (
            [arm(config=dict.fromkeys("abcdef", 1))],
            [arm(config=dict.fromkeys("abcdef", 2))],
            "mine: config.a 1 -> 2, config.b 1 -> 2, config.c 1 -> 2, config.d 1 -> 2, and 2 more",
        ),
        (
            [arm(cutoff=1), arm("second")],
            [arm(cutoff=2, config={"a": 1, "list": [1, 2]}), arm("second", system="t")],
            'mine: config.a {"b": 1} -> 1, cutoff 1 -> 2; second: system "s" -> "t"',
        ),
        ([arm(name) for name in "abcdef"], [], "a removed; b removed; c removed; d removed; and 2 more"),
        (None, [arm()], "mine added"),
        ("odd", [3], ""),
    ],
)
def test_arms_differences_give_both_values(before: Any, now: Any, said: str) -> None:
    assert arms_differences(before, now) == said
