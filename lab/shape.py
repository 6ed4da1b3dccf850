"""Checked access to parsed JSON: a reader asks for what it needs and a wrong shape becomes one clear line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lab.errors import UnusableInput

# Types under the names that somebody who wrote JSON knows them by.
_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number", bool: "true or false"}


def field(record: Any, name: str, kind: type, where: str) -> Any:
    """``record[name]`` if it is a ``kind``; otherwise :class:`UnusableInput` that says where and what was found."""
    if not isinstance(record, dict):
        raise UnusableInput(f"{where}: expected an object, found {json_type(record)}")
    if name not in record:
        raise UnusableInput(f"{where}: has no field {name!r}")
    return expect(record[name], kind, f"{where}: field {name!r}")


def optional(record: dict[str, Any], name: str, kind: type, default: Any, where: str) -> Any:
    """``record[name]`` if it is a ``kind``, ``default`` if it is absent; anything else is :class:`UnusableInput`."""
    return field(record, name, kind, where) if name in record else default


def expect(value: Any, kind: type, where: str) -> Any:
    """``value`` if it is a ``kind`` (a bool is not an int here)."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UnusableInput(f"{where}: expected {_NAMES.get(kind, kind.__name__)}, found {json_type(value)}")
    return value


def only_keys(record: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse a record that has another key than these: it is misspelt, or meant for something else."""
    unknown = sorted(set(record) - {*known})
    if unknown:
        raise UnusableInput(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(known)}")


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """An object with another's values over its own, objects within objects likewise; neither is changed."""
    found = dict(below)
    for key, value in above.items():
        before = found.get(key)
        if isinstance(value, Mapping):
            found[key] = deep_merge(before if isinstance(before, Mapping) else {}, value)
        else:
            found[key] = value
    return found


def json_type(value: Any) -> str:
    """What a parsed value is, in the words of JSON."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)
