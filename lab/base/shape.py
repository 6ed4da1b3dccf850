"""Type-checked access to parsed JSON. A wrong type raises :class:`UnusableInput` with a one-line message."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lab.base.errors import UnusableInput

# Python's types under the names of JSON.
_NAMES: dict[Any, str] = {
    **dict.fromkeys((dict, Mapping), "an object"),
    **dict.fromkeys((int, float), "a number"),
    list: "a list",
    str: "a string",
    bool: "true or false",
}


def field(record: Any, name: str, kind: type, where: str) -> Any:
    """Return ``record[name]`` if it is a ``kind``; otherwise raise :class:`UnusableInput`, naming ``where`` it is."""
    if not isinstance(record, dict):
        raise UnusableInput(f"{where}: expected an object, found {json_type(record)}")
    if name not in record:
        raise UnusableInput(f"{where}: has no field {name!r}")
    return expect(record[name], kind, f"{where}: field {name!r}")


def optional(record: dict[str, Any], name: str, kind: type, default: Any, where: str) -> Any:
    """Return ``record[name]`` as :func:`field` does, or ``default`` if it is absent."""
    return field(record, name, kind, where) if name in record else default


def expect(value: Any, kind: Any, where: str, what: str = "") -> Any:
    """Return ``value`` if it is a ``kind``; otherwise raise :class:`UnusableInput`. A bool does not count as an int.

    ``kind`` is a type or a union; ``what`` is its name in messages if JSON's is not that of the file, as for a table.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UnusableInput(f"{where}: expected {what or _NAMES[kind]}, found {json_type(value)}")
    return value


def only_keys(record: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise :class:`UnusableInput` if a record has a key that is not in ``known``."""
    unknown = sorted(set(record) - {*known})
    if unknown:
        raise UnusableInput(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(known)}")


def with_keys(value: Any, known: Collection[str], where: str, what: str = "") -> Mapping[str, Any]:
    """Return an object with ``known`` keys only; otherwise raise :class:`UnusableInput`, as :func:`expect` does."""
    only_keys(expect(value, Mapping, where, what), known, where)
    checked: Mapping[str, Any] = value
    return checked


def text_in(record: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    """Return the text under a key, which must not be blank; otherwise raise :class:`UnusableInput`."""
    text = record.get(key, default)
    if not isinstance(text, str) or not text.strip():
        raise UnusableInput(f"{where}: {key}: expected text, found {json_type(text)}")
    return text


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of ``below`` overridden by the values of ``above``, recursively in nested objects."""
    merged = dict(below)
    for key, value in above.items():
        before = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = deep_merge(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def json_type(value: Any) -> str:
    """Return the JSON type of a parsed value for messages: ``an object``, ``a list``, ``null``."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)
