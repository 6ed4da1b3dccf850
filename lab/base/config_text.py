"""Read the text of a configuration (JSON, JSON5, or a safe part of YAML), and change one value in it.

A file named ``.yaml`` or ``.yml`` is YAML. Any other text is JSON or JSON5, as OpenClaw reads its own file; a text that
is neither, and does not look like it, is read as YAML too. An object has no key twice. YAML here is what JSON can say:
no anchors, aliases, tags or second document. Only ``true``, ``false``, ``null`` and decimal numbers are not text, as in
YAML 1.2.

A value is changed in the text itself, and every other byte stays (CN-3). A configuration that is parsed and written
again loses its comments, its order of keys and its spelling of numbers. So the text is only scanned for where values
begin and end.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import free_of_credentials
from lab.base.regex import regex
from lab.base.shape import expect

if TYPE_CHECKING:
    import yaml

# The JSON5 parser is slow. A file longer than this is not a configuration but was given by mistake.
MAX_JSON5_CHARS = 200_000
SUFFIXES = (".yaml", ".yml")
# A text that begins like this is meant as JSON, so its JSON error is the one to report.
_JSON_STARTS = ("{", "[", '"', "/")
_INTEGER = regex(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_NUMBER = regex(r"[-+]?(?:0|[1-9][0-9]{0,18})?\.?[0-9]+(?:[eE][-+]?[0-9]{1,3})?")


def parse_config(text: str, where: str) -> Any:
    """Return the value of a configuration's text, with the credentials of its URIs masked.

    ``where`` is the name of the file; its suffix may say that the text is YAML. Raises :class:`UnusableInput` with line
    and reason.
    """
    if PurePath(where).suffix.lower() in SUFFIXES:
        return parse_yaml(text, where)
    try:
        return parse_json(text, where)
    except UnusableInput:
        if PurePath(where).suffix.lower().startswith(".json") or text.lstrip().startswith(_JSON_STARTS):
            raise
        if not re.search(r"^[^#\n]*:(?:\s|$)", text, re.MULTILINE):
            raise
    return parse_yaml(text, where)


def parse_json(text: str, where: str) -> Any:
    """Return the value of a JSON or JSON5 text, with the credentials of its URIs masked.

    Configurations are quoted in manifests, reports and messages, and the lab never needs the credentials.
    """
    try:
        return free_of_credentials(_json5(text, where))
    except RecursionError:
        raise UnusableInput(f"{where}: JSON is nested too deeply") from None


def _json5(text: str, where: str) -> Any:
    def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        listed = list(pairs)
        names = Counter(name for name, _ in listed)
        if key := next((name for name, count in names.items() if count > 1), None):
            at = _lines_of_key(text, key)
            raise UnusableInput(f"{where}: found the key {key!r} twice in one object{at}; remove one")
        return dict(listed)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        if len(text) > MAX_JSON5_CHARS:
            raise UnusableInput(f"{where}: not JSON: {error}") from None
    import json5

    try:
        return json5.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise UnusableInput(f"{where}: JSON is nested too deeply") from None
    except ValueError as error:
        match = re.match(r"<string>:(\d+) (.*)", str(error), re.DOTALL)
        line, reason = match.groups() if match else ("1", str(error))
        if not text.strip():
            raise UnusableInput(f"{where}:1: is empty (the file seems cut off)") from None
        cut = " (the file seems cut off)" if "end of input" in reason else ""
        raise UnusableInput(f"{where}:{line}: neither JSON nor JSON5: {reason}{cut}") from None


def _lines_of_key(text: str, key: str) -> str:
    """Return in which lines of a JSON5 text a key is, in whatever object; the parsers do not say where they are."""
    name = re.escape(key)
    spelt = re.compile(rf"(?:\"{name}\"|'{name}'|(?<![\w$]){name})\s*:")
    lines = sorted({text.count("\n", 0, match.start()) + 1 for match in spelt.finditer(text)})
    return f" (it is in {'line' if len(lines) == 1 else 'lines'} {', '.join(map(str, lines))})" if lines else ""


def parse_yaml(text: str, where: str) -> Any:
    """Return the value of a YAML text, with the credentials of its URIs masked; None for one of comments only.

    Raises :class:`UnusableInput` for text that is blank, not YAML, or uses what is not accepted here, with line and
    reason.
    """
    import yaml

    if not text.strip():
        raise UnusableInput(f"{where}:1: is empty (the file seems cut off)")

    if len(text) > MAX_JSON5_CHARS:
        raise UnusableInput(f"{where}: {len(text):,} characters are too many for a configuration")
    try:
        return free_of_credentials(_Reader(text, where).value())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or error.context or "not YAML"
        if "'\\t'" in problem:
            problem = "a tab; indent YAML with spaces"
        raise UnusableInput(f"{where}:{line}: not YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise UnusableInput(f"{where}: not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise UnusableInput(f"{where}: YAML is nested too deeply") from None


class _Reader:
    """Builds the value of one document from the events of the parser, which resolve nothing by themselves."""

    def __init__(self, text: str, where: str) -> None:
        import yaml

        self._where = where
        self._yaml = yaml
        self._events = yaml.parse(text, Loader=yaml.SafeLoader)

    def value(self) -> Any:
        yaml, value = self._yaml, None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refused(event, "a second document; a configuration is one")
                value = self._built(next(self._events))
        return value

    def _built(self, event: yaml.Event) -> Any:
        yaml = self._yaml
        if isinstance(event, yaml.AliasEvent):
            raise self._refused(event, f"the alias *{event.anchor}; write the value out")
        if event.anchor is not None:
            raise self._refused(event, f"the anchor &{event.anchor}; aliases are not accepted, so remove it")
        if event.tag is not None:
            raise self._refused(event, f"the tag {event.tag}; values have no tags here")
        if isinstance(event, yaml.SequenceStartEvent):
            return list(self._until(yaml.SequenceEndEvent))
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping()
        return _scalar(event.value) if event.style is None else event.value

    def _until(self, end: type) -> Any:
        while not isinstance(event := next(self._events), end):
            yield self._built(event)

    def _mapping(self) -> dict[str, Any]:
        yaml = self._yaml
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._built(event)
            if not isinstance(key, str):
                raise self._refused(event, f"the key {key!r}, which is not text; put it in quotes")
            if key in values:
                raise self._refused(event, f"the key {key!r} a second time (first in line {lines[key]})")
            values[key], lines[key] = self._built(next(self._events)), event.start_mark.line + 1
        return values

    def _refused(self, event: yaml.Event, what: str) -> UnusableInput:
        return UnusableInput(f"{self._where}:{event.start_mark.line + 1}: found {what}")


def _scalar(text: str) -> Any:
    if text in ("", "~") or text.lower() == "null":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and re.search("[.eE]", text) and math.isfinite(float(text)):
        return float(text)
    return text


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
