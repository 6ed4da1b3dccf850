"""A wrong type in parsed JSON gives a one-line message."""

from __future__ import annotations

from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.shape import deep_merge, expect, field, json_type, only_keys, optional


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (True, int, "true or false"),
        (None, str, "null"),
        ("1", int, "a string"),
        ([], dict, "a list"),
        (1.5, int, "a n"),
    ],
)
def test_expect_of_wrong_type_names_json_types(value: Any, kind: type, found: str) -> None:
    with pytest.raises(UnusableInput, match=rf"^file:3: field 'a': expected .+, found {found}"):
        field({"a": value}, "a", kind, "file:3")


def test_field_and_optional_return_the_value() -> None:
    record = {"a": 1, "b": None}
    assert (field(record, "a", int, "-"), optional(record, "c", int, 7, "-"), expect("", str, "-")) == (1, 7, "")
    with pytest.raises(UnusableInput, match="has no field 'c'"):
        field(record, "c", int, "here")
    with pytest.raises(UnusableInput, match="field 'b': expected a number, found null"):
        optional(record, "b", int, 7, "here")
    with pytest.raises(UnusableInput, match="here: expected an object, found a list"):
        field([1], "a", int, "here")


def test_only_keys_names_the_first_unknown_key() -> None:
    only_keys({"b": 1}, ("b", "a"), "here")
    unknown = dict.fromkeys("zyxwvutsrq")
    with pytest.raises(UnusableInput, match=r"^here: unknown key 'q'; known: b, a$"):
        only_keys(unknown | {"b": 1}, ("b", "a"), "here")


def test_deep_merge_overrides_without_changing_inputs() -> None:
    below, above = {"a": {"x": 1, "y": 2}, "b": [1], "c": 3}, {"a": {"y": 5}, "b": [2], "c": {"d": {}}}
    assert deep_merge(below, above) == {"a": {"x": 1, "y": 5}, "b": [2], "c": {"d": {}}}
    assert (below["a"], above["a"]) == ({"x": 1, "y": 2}, {"y": 5})


def test_json_type_of_other_types_is_their_name() -> None:
    assert (json_type(False), json_type(2), json_type({1})) == ("true or false", "a number", "set")
