"""Change one value in the text of a JSON or JSON5 configuration; every other byte stays (CN-3).

A configuration that is parsed and written again loses its comments, its order of keys and its spelling of numbers. Here
the text is only scanned for where values begin and end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.config_text import parse_json
from lab.base.errors import UnusableInput
from lab.base.shape import expect

MISSING: Any = object()
_BLANKS = "\ufeff\u2028\u2029"
_ENDS = "\n\r\u2028\u2029"
Path = tuple[str, ...]


class Edit(NamedTuple):
    """One replacement in a text: at a position in characters, ``removed`` becomes ``inserted``."""

    at: int
    removed: str
    inserted: str

    def apply(self, text: str) -> str:
        """Return the text after the edit. Raises ValueError if the text is not what the edit was made for."""
        if text[self.at : self.at + len(self.removed)] != self.removed:
            raise ValueError("the text has changed")
        return text[: self.at] + self.inserted + text[self.at + len(self.removed) :]

    def undo(self, text: str) -> str:
        """Return the text before the edit. Raises ValueError if the text is not what the edit made."""
        return Edit(self.at, self.inserted, self.removed).apply(text)


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    key_at: int
    value: _Node


@dataclass(frozen=True, slots=True)
class _Node:
    """A value: where it begins and ends; its members if it is an object."""

    start: int
    end: int
    members: tuple[_Member, ...] | None = None

    def member(self, key: str) -> _Member | None:
        return next((member for member in self.members or () if member.key == key), None)


def read_edited(data: bytes, where: str) -> tuple[str, Any]:
    """Return the text and the value of a JSON or JSON5 file, such that ``text.encode()`` is the bytes again.

    Raises :class:`UnusableInput` if they are not UTF-8, not JSON5, or not an object.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{where}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    value = parse_json(text.removeprefix("\ufeff"), where)
    expect(value, dict, where)
    return text, value


def at_path(value: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of keys, or :data:`MISSING`."""
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return MISSING
        value = value[key]
    return value


def set_value(text: str, path: Path, value: Any, where: str) -> Edit:
    """Return the edit that sets the value at a path of keys.

    A value that is there is replaced; a missing one is inserted, with the objects around it. Raises
    :class:`UnusableInput` if a key on the path has no object. Which file decides a key is not known here
    (:meth:`lab.base.config_resolve.Resolved.decides`).
    """
    node, depth = _root(text), 0
    while depth < len(path):
        if node.members is None:
            raise UnusableInput(f"{where}: {'.'.join(path[:depth])}: expected an object")
        member = node.member(path[depth])
        if member is None:
            return _inserted(text, node, path, depth, value)
        node, depth = member.value, depth + 1
    old = text[node.start : node.end]
    return Edit(node.start, old, _spelt(value, "'" if old.startswith("'") else '"'))


def remove_value(text: str, path: Path) -> Edit | None:
    """Return the edit that removes the member at a path, with its comma; None if it is not there."""
    parent = _root(text)
    for key in path[:-1]:
        member = parent.member(key)
        if member is None:
            return None
        parent = member.value
    members = parent.members or ()
    at = next((number for number, member in enumerate(members) if member.key == path[-1]), None)
    if at is None:
        return None
    start, end = members[at].key_at, members[at].value.end
    if at + 1 < len(members):
        comma = _blank(text, end)
        # The comma, and the blanks up to what follows it; comments stay.
        end = comma + 1
        while end < len(text) and text[end].isspace():
            end += 1
    elif at:
        # The last of several: the comma before it goes; one behind it, if any, then ends the object. What is between
        # may end with a comment, which needs its end of line.
        comma = _blank(text, members[at - 1].value.end)
        return Edit(comma, text[comma:end], text[comma + 1 : start])
    else:
        comma = _blank(text, end)
        end = comma + 1 if text[comma] == "," else end
    return Edit(start, text[start:end], "")


def member_text(text: str, path: Path) -> tuple[int, str] | None:
    """Return the line of a member and its text from key to value, without anything else of its line."""
    node, member = _root(text), None
    for key in path:
        member = node.member(key)
        if member is None:
            return None
        node = member.value
    if member is None:
        return None
    return text.count("\n", 0, member.key_at) + 1, text[member.key_at : node.end]


def differing(before: Any, after: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths at which two values differ; lists are compared as a whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from differing(before.get(key, MISSING), after.get(key, MISSING), (*path, key))
    elif before is MISSING or after is MISSING or before != after or type(before) is not type(after):
        yield path


def _inserted(text: str, node: _Node, path: Path, depth: int, value: Any) -> Edit:
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    member = f"{json.dumps(path[depth], ensure_ascii=False)}: {_spelt(value, chr(34))}"
    if not node.members:
        return Edit(node.start + 1, "", member)
    first = node.members[0].key_at
    # On a line of its own if the first member has one.
    line = max(text.rfind(end, 0, first) for end in "\n\r") + 1
    before = text[line:first]
    if line > node.start and not before.strip():
        end = "\r\n" if text[:line].endswith("\r\n") else text[line - 1]
        return Edit(first, "", f"{member},{end}{before}")
    return Edit(first, "", f"{member}, ")


def _spelt(value: Any, quote: str) -> str:
    spelt = json.dumps(value, ensure_ascii=False)
    if quote == "'" and isinstance(value, str) and not set(value) & {"'", '"', "\\"}:
        return f"'{spelt[1:-1]}'"
    return spelt


def _root(text: str) -> _Node:
    """Scan a text that is valid JSON5."""
    return _value(text, _blank(text, 0))


def _blank(text: str, at: int) -> int:
    """Return the position after blanks and comments."""
    while at < len(text):
        if text.startswith("//", at):
            at = min((end for mark in _ENDS if (end := text.find(mark, at)) >= 0), default=len(text))
        elif text.startswith("/*", at):
            at = text.index("*/", at + 2) + 2
        elif text[at].isspace() or text[at] in _BLANKS:
            at += 1
        else:
            break
    return at


def _value(text: str, at: int) -> _Node:
    mark = text[at]
    if mark == "{":
        return _object(text, at)
    if mark == "[":
        end = _blank(text, at + 1)
        while text[end] != "]":
            end = _blank(text, _value(text, end).end)
            if text[end] == ",":
                end = _blank(text, end + 1)
        return _Node(at, end + 1)
    return _Node(at, _string(text, at) if mark in "\"'" else _word(text, at))


def _object(text: str, start: int) -> _Node:
    members = []
    at = _blank(text, start + 1)
    while text[at] != "}":
        key_at = at
        at = _string(text, at) if text[at] in "\"'" else _word(text, at)
        key = _key(text[key_at:at])
        # Over the colon.
        value = _value(text, _blank(text, _blank(text, at) + 1))
        members.append(_Member(key, key_at, value))
        at = _blank(text, value.end)
        if text[at] == ",":
            at = _blank(text, at + 1)
    return _Node(start, at + 1, tuple(members))


def _string(text: str, at: int) -> int:
    quote, at = text[at], at + 1
    while text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _word(text: str, at: int) -> int:
    """Return the end of a number, a literal or an unquoted key."""
    while at < len(text) and text[at] not in ",:]}/" and not text[at].isspace() and text[at] not in _BLANKS:
        at += 1
    return at


def _key(token: str) -> str:
    if "\\" not in token:
        return token[1:-1] if token[0] in "\"'" else token
    import json5

    (key,) = json5.loads(f"{{{token}: 0}}")
    return str(key)
