"""The fields of a memory and their normalisation."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from lab.recordings.model import LABELS
from lab.retrieval.contract import Row
from lab.systems.openclaw.memory import (
    CATEGORIES,
    engine_id,
    importance_score,
    label_of_score,
    normal_category,
    normal_label,
    normal_row,
    resolve_label,
)

SPECIAL = {"undefined": None, "NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"), "-0": -0.0}


def plain(value: Any) -> Any:
    """Return a value that JSON cannot represent from its notation in the vectors."""
    return SPECIAL[value["$js"]] if isinstance(value, dict) and "$js" in value else value


def test_importance_agrees_with_the_public_engine(observed: Callable[[str], list[dict[str, Any]]]) -> None:
    """Excluded are labels that the public engine finds on JavaScript's Object ("constructor"), which are no labels."""
    functions: dict[str, Callable[[dict[str, Any]], Any]] = {
        "normalizeImportance": lambda given: importance_score(given["value"]),
        "importanceLabel": lambda given: label_of_score(given["score"]),
        "normalizeImportanceLabel": lambda given: normal_label(given["label"]),
        "resolveImportanceLabel": lambda given: resolve_label(given["label"], given["score"]),
    }
    expected, found = {}, {}
    for record in observed("importance.jsonl"):
        if record["output"] in ({"$js": "function"}, {"$js": "object"}):
            continue
        given = {name: plain(value) for name, value in record["input"].items()}
        found[record["id"]] = (record["fn"], given, functions[record["fn"]](given))
        expected[record["id"]] = (record["fn"], given, plain(record["output"]))
    assert found == expected
    assert len(found) >= 130


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (0.7, 0.7),
        (1, 1.0),
        (-3, 0.0),
        (1.7, 1.0),
        ("0.9", 0.9),
        (" .5\n", 0.5),
        ("", 0.0),
        ("   ", 0.0),
        ("1e-1", 0.1),
        ("high", None),
        ("0.9x", None),
        ("nan", None),
        ("inf", None),
        ("1_0", None),
        ("０.９", None),
        ("0x1", 1.0),
        (float("nan"), None),
        (float("inf"), None),
        pytest.param(10**400, None, id="a whole number beyond every double"),
        (True, None),
        (None, None),
        ([0.9], None),
    ],
)
def test_importance_score_accepts_finite_numbers_and_numeric_strings(value: Any, score: float | None) -> None:
    assert importance_score(value) == score


@pytest.mark.parametrize(
    ("score", "label"),
    [
        (1.0, "must_remember"),
        (0.8, "must_remember"),
        (0.7999999999999999, "nice_to_have"),
        (0.5, "nice_to_have"),
        (0.49999, "ignore"),
        (0.0, "ignore"),
        (None, "unknown"),
    ],
)
def test_label_of_score_at_its_thresholds(score: float | None, label: str) -> None:
    assert label_of_score(score) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        *((label, label) for label in LABELS),
        (" Must  -- Remember ", "must_remember"),
        ("nice\u00a0to\u3000have", "nice_to_have"),
        ("HIGH", "must_remember"),
        ("medium", "nice_to_have"),
        ("low", "ignore"),
        ("Trivial", "ignore"),
        ("none", "unknown"),
        ("must.remember", None),
        ("", None),
        ("important", None),
        (None, None),
        (5, None),
    ],
)
def test_normal_label_accepts_labels_and_aliases(text: Any, label: str | None) -> None:
    assert normal_label(text) == label


@pytest.mark.parametrize(
    ("label", "score", "expected"),
    [
        ("low", 0.95, "ignore"),
        ("none", 0.95, "unknown"),
        ("weird", 0.95, "must_remember"),
        (None, "0.6", "nice_to_have"),
        (None, None, "unknown"),
        ("", "", "ignore"),
    ],
)
def test_resolve_label_prefers_a_recognised_label_to_the_score(label: Any, score: Any, expected: str) -> None:
    assert resolve_label(label, score) == expected


@pytest.mark.parametrize(
    ("value", "category"),
    [
        *((category, category) for category in CATEGORIES),
        (" Decision\n", "decision"),
        ("plan", "other"),
        ("", "other"),
        (3, "other"),
    ],
)
def test_normal_category_of_an_unknown_one_is_other(value: Any, category: str) -> None:
    assert normal_category(value) == category


def test_engine_id_is_a_name_based_uuid_of_its_key() -> None:
    keys = ["a/s1#0", "a/s1#1", "a/s1/t2#0", "甲/s1#0"]
    ids = [engine_id(key) for key in keys]
    assert [uuid.UUID(identity).version for identity in ids] == [5] * 4
    assert len(set(ids)) == 4
    assert ids == [engine_id(key) for key in keys]
    # The namespace affects every receipt, so it must not change between versions.
    assert engine_id("a/s1#0") == str(uuid.uuid5(uuid.UUID("6f1b6a5e-9f0b-5a39-8f39-3a1c7f7c2d10"), "a/s1#0"))


def test_normal_row_normalises_every_field() -> None:
    row = normal_row("a/s#0", "text ", "index", 7, category=" TODO", label="High", scope="work", importance="0.1")
    assert row == Row(engine_id("a/s#0"), "a/s#0", "text ", "index", 7, "todo", "must_remember", "work", "user", 0.1)


@pytest.mark.parametrize("scope", ["", None, 4])
def test_normal_row_without_scope_is_global_and_without_label_unknown(scope: Any) -> None:
    row = normal_row("k", "t", "i", 0, category=None, label=None, scope=scope)
    assert row == Row(engine_id("k"), "k", "t", "i", 0, "other", "unknown", "global", "user", None)


@pytest.mark.parametrize("trust", ["", None, 4])
def test_normal_row_without_trust_tier_is_of_unknown_trust(trust: Any) -> None:
    row = normal_row("k", "t", "i", 0, category=None, label=None, scope=None, trust=trust)
    assert row.trust_tier == "unknown"


@pytest.mark.parametrize(
    ("text", "flag", "hard"),
    [
        ("[HARD] never push", False, True),
        (" [ALWAYS_PIN] never push", False, True),
        ("never push", True, True),
        ("never push", False, False),
        ("never push [HARD]", False, True),
        ("[hard] never push", False, True),
        ("Rule of the house: [ALWAYS-PIN] never push", False, True),
        ("[always pin] never push", False, True),
        ("first\n- [Hard] never push", False, True),
        ("never push hard", False, False),
        ("[HARDWARE] never push", False, False),
        # Code quotes a tag and does not mean it.
        ("write `[HARD]` before a rule", False, False),
        ("an example:\n```\n[HARD] never push\n```", False, False),
        ("~~~\n[HARD] x\n~~~\n[HARD] never push", False, True),
    ],
)
def test_hard_rule_is_flagged_or_tagged(text: str, flag: bool, hard: bool) -> None:
    row = normal_row("k", text, text, 0, category=None, label=None, scope=None, hard_rule=flag)
    assert row.hard_rule is hard
