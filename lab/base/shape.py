"""Type-checked access to parsed JSON, and frozen dataclasses as JSON and back, with their JSON Schema.

A wrong type raises :class:`UnusableInput` with a one-line message. A field of a dataclass may be a string, a number, a
flag, another record, ``tuple[X, ...]``, ``Mapping[str, X]``, ``object`` (any JSON, kept unchanged), or ``X | None``.
Fields that are None are omitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

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


if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    R = TypeVar("R", bound=DataclassInstance)

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


def to_json(record: DataclassInstance) -> dict[str, object]:
    """Return a record as plain JSON values, its fields in order, without those that are None."""
    values = ((field.name, getattr(record, field.name)) for field in fields(record))
    return {name: _plain(value) for name, value in values if value is not None}


def from_json(kind: type[R], value: object, where: str) -> R:
    """Return a record from parsed JSON; raise :class:`UnusableInput` for a wrong type or an unknown field."""
    values = expect(value, dict, where)
    hints = _hints(kind)
    only_keys(values, tuple(hints), where)
    for name in _required(kind):
        if name not in values:
            raise UnusableInput(f"{where}: has no field {name!r}")
    return kind(**{name: _read(hints[name], content, f"{where}: field {name!r}") for name, content in values.items()})


def schema_of(kind: type[DataclassInstance]) -> dict[str, object]:
    """Return the JSON Schema (2020-12) of a record; ``about`` in a field's metadata becomes its description."""
    hints = _hints(kind)
    properties = {}
    for field in fields(kind):
        about = {"description": field.metadata["about"]} if "about" in field.metadata else {}
        properties[field.name] = about | _schema(hints[field.name])
    return {"type": "object", "additionalProperties": False, "required": _required(kind), "properties": properties}


def _required(kind: type[DataclassInstance]) -> list[str]:
    return [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(content) for key, content in value.items()}
    return [_plain(element) for element in value] if isinstance(value, list | tuple) else value


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
        return tuple(_read(inner, item, f"{where}[{index}]") for index, item in enumerate(expect(value, list, where)))
    if origin is Mapping:
        inner = get_args(hint)[1]
        return {key: _read(inner, item, f"{where}: {key!r}") for key, item in expect(value, dict, where).items()}
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnusableInput(f"{where}: expected a number, found {json_type(value)}")
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return from_json(hint, value, where)
    if not isinstance(hint, type):
        raise TypeError(f"{where}: cannot read a field of type {hint}")
    return expect(value, hint, where)


def _schema(hint: object) -> dict[str, object]:
    if hint is object:
        return {}
    if isinstance(hint, UnionType):
        # A field that is None is omitted; within a mapping, None is null.
        return {"anyOf": [_schema(_without_none(hint)), {"type": "null"}]}
    origin = get_origin(hint)
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(hint)[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(get_args(hint)[1])}
    if isinstance(hint, type) and is_dataclass(hint):
        return schema_of(hint)
    if not isinstance(hint, type):
        raise TypeError(f"no schema for a field of type {hint}")
    return {"type": _PLAIN[hint]}


def _without_none(hint: UnionType) -> object:
    (inner,) = (kind for kind in get_args(hint) if kind is not NoneType)
    return inner
