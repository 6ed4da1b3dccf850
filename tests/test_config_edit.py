"""Edits of JSON5 texts: the value changes, and no other byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.config_text import MISSING, at_path, differing, member_text, read_edited, remove_value, set_value
from lab.base.errors import UnusableInput

PATH = ("plugins", "slots", "memory")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"plugins": {"slots": {"memory": "old"}}}', '{"plugins": {"slots": {"memory": "new"}}}'),
        # Quotes stay, as do comments that look like values and values that look like comments.
        ("{plugins:{slots:{memory:'old',},},}", "{plugins:{slots:{memory:'new',},},}"),
        (
            '// {"plugins": 1}\n{"a": "// no comment", /* } */ plugins: {slots: {"memory" : /* c */ "old" // d\n}}}',
            '// {"plugins": 1}\n{"a": "// no comment", /* } */ plugins: {slots: {"memory" : /* c */ "new" // d\n}}}',
        ),
        (r'{"pl\u0075gins": {slots: {memory: "o\"}ld"}}}', r'{"pl\u0075gins": {slots: {memory: "new"}}}'),
        ("{a: [1, [2,], {plugins: 3}], plugins: {slots: {memory: null}}}", None),
        # What is missing is inserted, in the style of what is there.
        ('{"plugins": {"slots": {}}}', '{"plugins": {"slots": {"memory": "new"}}}'),
        ('{"plugins": {}}', '{"plugins": {"slots": {"memory": "new"}}}'),
        (
            '{\r\n\t"plugins": {\r\n\t\t"x": 1\r\n\t}\r\n}',
            '{\r\n\t"plugins": {\r\n\t\t"slots": {"memory": "new"},\r\n\t\t"x": 1\r\n\t}\r\n}',
        ),
        ('{"plugins": {"slots": {"x": 1}}}', '{"plugins": {"slots": {"memory": "new", "x": 1}}}'),
        ("{ // c\n}", '{"plugins": {"slots": {"memory": "new"}} // c\n}'),
        ('\ufeff{"plugins": {"slots": {"memory": "old"}}}', '\ufeff{"plugins": {"slots": {"memory": "new"}}}'),
    ],
)
def test_set_value_changes_the_value_alone(text: str, expected: str | None) -> None:
    edit = set_value(text, PATH, "new", "f")
    changed = edit.apply(text)
    assert changed == (expected or text.replace("memory: null", 'memory: "new"'))
    assert edit.undo(changed) == text
    _, value = read_edited(changed.encode(), "f")
    assert at_path(value, PATH) == "new"


# Values with what would mislead a scan: braces, quotes, comments and line ends inside of texts.
TEXTS = st.text(st.sampled_from("ab\"'\\{}[],:/* \n\u2028é"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(value=st.dictionaries(TEXTS, VALUES, max_size=4), indent=st.sampled_from([None, 0, 2]), data=st.data())
def test_any_json_is_edited_at_any_path(value: dict[str, Any], indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    path: tuple[str, ...] = ()
    place: Any = value
    while isinstance(place, dict) and place and (not path or data.draw(st.booleans())):
        path = (*path, data.draw(st.sampled_from(sorted(place))))
        place = place[path[-1]]
    if isinstance(place, dict) or not path:
        path = (*path, "new key")
    edit = set_value(text, path, "new", "f")
    changed = edit.apply(text)
    assert edit.undo(changed) == text
    result = json.loads(changed)
    assert at_path(result, path) == "new"
    assert all(found == path for found in differing(value, result))
    removal = remove_value(changed, path)
    assert removal is not None
    without = json.loads(removal.apply(changed))
    assert at_path(without, path) is MISSING
    assert all(found == path for found in differing(result, without))


def test_edit_refuses_another_text() -> None:
    edit = set_value('{"plugins": {"slots": {"memory": "old"}}}', PATH, "new", "f")
    with pytest.raises(ValueError, match="changed"):
        edit.undo('{"plugins": {"slots": {"memory": "odd"}}}')


def test_remove_value_keeps_comments_and_commas() -> None:
    text = "{a: 1, /* of b */ b: 2, // after b\n c: 3}"
    removed = remove_value(text, ("b",))
    assert removed is not None
    assert removed.apply(text) == "{a: 1, /* of b */ // after b\n c: 3}"
    last = remove_value(text, ("c",))
    assert last is not None
    assert last.apply(text) == "{a: 1, /* of b */ b: 2 // after b\n }"
    assert remove_value(text, ("d",)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"plugins": 3}', "f: plugins: expected an object"),
    ],
)
def test_set_value_without_a_place_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnusableInput, match="f: ") as caught:
        set_value(text, PATH, "new", "f")
    assert message in str(caught.value)


def test_member_text_shows_nothing_else_of_its_line() -> None:
    text = '{"token": "s3cret", "plugins": {"slots": {"memory": "old"}, "key": "k"}}'
    assert member_text(text, PATH) == (1, '"memory": "old"')


@pytest.mark.parametrize("name", ["openclaw-2026.6.11.json", "openclaw-2026.9.6.json"])
def test_configurations_of_real_hosts_change_in_one_line(shared: Any, name: str) -> None:
    path: Path = shared("live", "config", name)
    text, _ = read_edited(path.read_bytes(), name)
    changed = set_value(text, PATH, "memory-lancedb", name).apply(text)
    before, after = text.splitlines(), changed.splitlines()
    assert [new.strip() for old, new in zip(before, after, strict=True) if old != new] == ['"memory": "memory-lancedb"']
