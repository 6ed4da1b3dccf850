"""Configurations as YAML: the values, what is refused with its line, and which texts count as YAML."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.config_text import parse_config, parse_yaml
from lab.base.errors import UnusableInput
from lab.systems.openclaw.config.resolve import resolve
from tests.sketch import SKETCH, YAML


@pytest.mark.parametrize("where", ["a.yaml", "a.YML", "conf", "stdin"])
def test_sketch_is_the_configuration_that_its_json_is(where: str) -> None:
    assert parse_config(YAML, where) == SKETCH
    assert resolve(parse_config(YAML, where), "seed") == resolve(SKETCH, "seed")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: true", True),
        ("a: False", False),
        ("a:", None),
        ("a: ~", None),
        ("a: -12", -12),
        ("a: .5", 0.5),
        ("a: 1e3", 1000.0),
        ("a: [x, 'y', \"z\\n\"]", ["x", "y", "z\n"]),
        ("a: '6'", "6"),
        # YAML 1.1 would make booleans, octal and sexagesimal numbers and dates of these.
        *(
            (f"a: {text}", text)
            for text in ("yes", "on", "no", "007", "0x1f", "12:30:00", "2026-03-01", "1_000", "1e999")
        ),
        ("a: .inf", ".inf"),
        ("a: |\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalar_has_the_type_that_json_would_give_it(text: str, value: object) -> None:
    (read,) = parse_yaml(text, "a.yaml").values()
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1", "a.yaml:2: not YAML: a tab; indent YAML with spaces"),
        ("a:\n  b: 1\n  c: 2\n  b: 3", "a.yaml:4: found the key 'b' a second time (first in line 2)"),
        ("a: &x 1", "a.yaml:1: found the anchor &x"),
        ("a: 1\nb: *x", "a.yaml:2: found the alias *x"),
        ("a: !!python/object/apply:os.getcwd []", "a.yaml:1: found the tag"),
        ("a: 1\n---\nb: 2", "a.yaml:2: found a second document"),
        ("1: a", "a.yaml:1: found the key 1, which is not text"),
        ("a: [1, 2", "a.yaml:1: not YAML: expected ',' or ']'"),
        ("a: 'x", "a.yaml:1: not YAML: found unexpected end of stream"),
        ("a: \x01", "a.yaml: not YAML: "),
        ("[" * 3_000, "a.yaml: YAML is nested too deeply"),
        ("a: " + "x" * 200_001, "a.yaml: 200,004 characters are too many"),
    ],
)
def test_refused_yaml_names_line_and_reason(text: str, message: str) -> None:
    # A library that another test loads may have raised it.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    try:
        with pytest.raises(UnusableInput) as caught:
            parse_config(text, "a.yaml")
    finally:
        sys.setrecursionlimit(limit)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("autoRecall: {", "a.json"),
        ('{"a": 1', "conf"),
        ("// note\n{a: 1", "conf"),
        ("only words", "conf"),
    ],
)
def test_text_that_is_meant_as_json_has_the_json_error(text: str, where: str) -> None:
    with pytest.raises(UnusableInput, match=r"neither JSON nor JSON5"):
        parse_config(text, where)


def test_empty_text_is_said_to_be_empty() -> None:
    with pytest.raises(UnusableInput, match=r"^conf:1: is empty"):
        parse_config("", "conf")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"a": 1,\n "b": 2,\n "a": 3}', "lines 1, 3"),
        ("{a: 1,\n b: {c: 1, c: 2}}", "line 2"),
        ("{\n// note\n'a': 1, a: 2,}", "line 3"),
    ],
)
def test_duplicate_key_in_json_is_refused_with_its_lines(text: str, lines: str) -> None:
    with pytest.raises(UnusableInput, match=rf"a\.json: found the key '[ac]' twice in one object \(it is in {lines}\)"):
        parse_config(text, "a.json")
    assert parse_config('{"a": {"a": 1}, "b": {"a": 2}}', "a.json") == {"a": {"a": 1}, "b": {"a": 2}}


def test_blank_yaml_file_is_refused() -> None:
    with pytest.raises(UnusableInput, match=r"a\.yaml:1: is empty \(the file seems cut off\)"):
        parse_config(" \n", "a.yaml")


def test_yaml_file_of_comments_is_an_empty_configuration() -> None:
    assert parse_config("# nothing\n", "a.yaml") is None
    assert resolve(None, "seed") == resolve({}, "seed")


def test_credentials_of_addresses_are_masked() -> None:
    assert "secret" not in str(parse_yaml("url: https://me:secret@example.org/v1", "a.yaml"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab:#- é", max_size=6), st.lists, max_leaves=6
    )
)
def test_json_text_is_yaml_of_the_same_value(value: object) -> None:
    text = json.dumps({"a": value}, ensure_ascii=False)
    assert parse_config(text, "a.yaml") == {"a": value}
