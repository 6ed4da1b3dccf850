"""Frozen dataclasses to JSON and back, and their JSON Schema: one description of a record for all three.

A field may be a string, a number, a flag, another record, ``tuple[X, ...]``, ``Mapping[str, X]``, ``object`` (any JSON,
kept as it is), or ``X | None``. A field that is None is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, TypeVar, get_args, get_origin, get_type_hints

from lab.errors import UnusableInput
from lab.shape import expect, json_type, only_keys

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    R = TypeVar("R", bound=DataclassInstance)

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


def to_json(record: DataclassInstance) -> dict[str, object]:
    """A record as plain JSON values, its fields in order; those that are None are left out."""
    values = ((one.name, getattr(record, one.name)) for one in fields(record))
    return {name: _plain(value) for name, value in values if value is not None}


def from_json(kind: type[R], value: object, where: str) -> R:
    """A record out of parsed JSON; :class:`UnusableInput` says where it has another shape, or a field too many."""
    found = expect(value, dict, where)
    hints = _hints(kind)
    only_keys(found, tuple(hints), where)
    for one in fields(kind):
        if one.name not in found and one.default is MISSING and one.default_factory is MISSING:
            raise UnusableInput(f"{where}: has no field {one.name!r}")
    return kind(**{name: _read(hints[name], one, f"{where}: field {name!r}") for name, one in found.items()})


def schema_of(kind: type[DataclassInstance]) -> dict[str, object]:
    """The JSON Schema (2020-12) of a record; what a field says of itself is in its metadata, under ``about``."""
    hints = _hints(kind)
    properties = {}
    for one in fields(kind):
        about = {"description": one.metadata["about"]} if "about" in one.metadata else {}
        properties[one.name] = about | _schema(hints[one.name])
    needed = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
    return {"type": "object", "additionalProperties": False, "required": needed, "properties": properties}


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


@cache
def _hints(kind: type[DataclassInstance]) -> dict[str, object]:
    return get_type_hints(kind)


def _read(hint: object, value: object, where: str) -> object:
    if hint is object:
        return value
    if isinstance(hint, UnionType):
        if value is None:
            return None
        hint = _without_none(hint)
    origin = get_origin(hint)
    if origin is tuple:
        inner = get_args(hint)[0]
        return tuple(_read(inner, one, f"{where}[{place}]") for place, one in enumerate(expect(value, list, where)))
    if origin is Mapping:
        inner = get_args(hint)[1]
        return {key: _read(inner, one, f"{where}: {key!r}") for key, one in expect(value, dict, where).items()}
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnusableInput(f"{where}: expected a number, found {json_type(value)}")
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return from_json(hint, value, where)
    if not isinstance(hint, type):
        raise TypeError(f"{where}: no such field can be read: {hint}")
    return expect(value, hint, where)


def _schema(hint: object) -> dict[str, object]:
    if hint is object:
        return {}
    if isinstance(hint, UnionType):
        # None is written by leaving the field out; within a mapping it is null.
        return {"anyOf": [_schema(_without_none(hint)), {"type": "null"}]}
    origin = get_origin(hint)
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(hint)[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(get_args(hint)[1])}
    if isinstance(hint, type) and is_dataclass(hint):
        return schema_of(hint)
    if not isinstance(hint, type):
        raise TypeError(f"no such field has a schema: {hint}")
    return {"type": _PLAIN[hint]}


def _without_none(hint: UnionType) -> object:
    (inner,) = (one for one in get_args(hint) if one is not NoneType)
    return inner
