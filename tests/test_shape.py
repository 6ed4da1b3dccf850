"""A wrong shape in parsed JSON becomes one clear line."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import UnusableInput
from lab.shape import deep_merge, expect, field, json_type, only_keys, optional


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
def test_a_value_of_another_kind_is_refused_in_the_words_of_json(value: Any, kind: type, found: str) -> None:
    with pytest.raises(UnusableInput, match=rf"^file:3: field 'a': expected .+, found {found}"):
        field({"a": value}, "a", kind, "file:3")


def test_what_is_there_is_handed_out_as_it_is() -> None:
    record = {"a": 1, "b": None}
    assert (field(record, "a", int, "-"), optional(record, "c", int, 7, "-"), expect("", str, "-")) == (1, 7, "")
    with pytest.raises(UnusableInput, match="has no field 'c'"):
        field(record, "c", int, "here")
    with pytest.raises(UnusableInput, match="field 'b': expected a number, found null"):
        optional(record, "b", int, 7, "here")
    with pytest.raises(UnusableInput, match="here: expected an object, found a list"):
        field([1], "a", int, "here")


def test_the_first_unknown_key_is_named_in_an_order_of_its_own() -> None:
    only_keys({"b": 1}, ("b", "a"), "here")
    unknown = dict.fromkeys("zyxwvutsrq")
    with pytest.raises(UnusableInput, match=r"^here: unknown key 'q'; known: b, a$"):
        only_keys(unknown | {"b": 1}, ("b", "a"), "here")


def test_objects_are_laid_over_one_another_key_by_key_and_neither_changes() -> None:
    below, above = {"a": {"x": 1, "y": 2}, "b": [1], "c": 3}, {"a": {"y": 5}, "b": [2], "c": {"d": {}}}
    assert deep_merge(below, above) == {"a": {"x": 1, "y": 5}, "b": [2], "c": {"d": {}}}
    assert (below["a"], above["a"]) == ({"x": 1, "y": 2}, {"y": 5})


def test_a_kind_without_a_name_in_json_has_its_own() -> None:
    assert (json_type(False), json_type(2), json_type({1})) == ("true or false", "a number", "set")
