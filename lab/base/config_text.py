"""Read the text of a configuration: JSON, JSON5, or a safe part of YAML.

A file named ``.yaml`` or ``.yml`` is YAML. Any other text is JSON or JSON5, as OpenClaw reads its own file; a text that
is neither, and does not look like it, is read as YAML too. An object has no key twice. YAML here is what JSON can say:
no anchors, aliases, tags or second document. Only ``true``, ``false``, ``null`` and decimal numbers are not text, as in
YAML 1.2.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lab.base.errors import UnusableInput
from lab.base.formatting import free_of_credentials

if TYPE_CHECKING:
    import yaml

# The JSON5 parser is slow. A file longer than this is not a configuration but was given by mistake.
MAX_JSON5_CHARS = 200_000
SUFFIXES = (".yaml", ".yml")
# A text that begins like this is meant as JSON, so its JSON error is the one to report.
_JSON_STARTS = ("{", "[", '"', "/")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})?\.?[0-9]+(?:[eE][-+]?[0-9]{1,3})?")


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
    """Return the value of a plain scalar."""
    if text in ("", "~") or text.lower() == "null":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and re.search("[.eE]", text) and math.isfinite(float(text)):
        return float(text)
    return text
