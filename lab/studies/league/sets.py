"""The sets of a league, and how they are written on the command line (LG-11).

``shipped:operators``, ``PATH``, ``PATH:FORMAT`` or ``NAME=PATH:FORMAT``, each followed by any number of
``:OPTION=VALUE``, which are options of ``lab replay`` for this set alone, such as ``:recall-turns=all``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from lab.base.errors import UnusableInput
from lab.base.files import file_name
from lab.base.formatting import choices
from lab.base.set_registry import SHIPPED, is_shipped, recordings_at
from lab.recordings.formats import FORMATS
from lab.runs.request import ReplayRequest, arguments

# Options of one set.
OPTIONS = (
    *("golden", "memories", "labels", "must-share", "nice-share", "hard-rules"),
    *("haystack", "scope", "recall-turns", "limit", "conversation"),
)


@dataclass(frozen=True, slots=True)
class LeagueSet:
    """A set: its name in tables, where it is, its format, and the options of its replays by field."""

    name: str
    path: Path
    format: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        return file_name(self.name)

    def request(self, shared: ReplayRequest, arms: Sequence[str]) -> ReplayRequest:
        """Return the replay of some arms on this set; ``shared`` has the options of all sets."""
        return replace(shared, path=str(self.path), format=self.format, arms=tuple(arms), **self.options)


def parse_sets(texts: Sequence[str], default_format: str | None) -> tuple[LeagueSet, ...]:
    """Parse the sets of a command. Raises :class:`UnusableInput` for one that cannot be used, or a name given twice."""
    if not texts:
        raise UnusableInput("no set given; for instance shipped:operators, or LoCoMo=data/locomo:locomo")
    sets: list[LeagueSet] = []
    for text in texts:
        chosen = _parse(text, default_format)
        if any(other.folder == chosen.folder for other in sets):
            raise UnusableInput(
                f"set {chosen.name!r} is given twice; write NAME=PATH:FORMAT to name one of them otherwise"
            )
        sets.append(chosen)
    return tuple(sets)


def _parse(text: str, default_format: str | None) -> LeagueSet:
    head, equals, rest = text.partition("=")
    # An equals sign after a colon belongs to an option.
    named = bool(equals) and ":" not in head
    name, spelt = (head, rest) if named else ("", text)
    shipped = spelt.startswith(SHIPPED)
    where, *parts = spelt.removeprefix(SHIPPED).split(":")
    path = recordings_at(f"{SHIPPED}{where}" if shipped else where)
    given = parts.pop(0) if parts and "=" not in parts[0] else None
    if given is not None and given not in FORMATS:
        raise UnusableInput(f"set {text!r}: unknown format {given!r}; {choices(given, FORMATS)}")
    if not path.exists():
        raise UnusableInput(f"set {text!r}: {path}: no such file or folder; write NAME=PATH:FORMAT")
    format_name = given or ("lab" if shipped or is_shipped(path) else default_format)
    if format_name is None:
        raise UnusableInput(f"set {text!r}: no format; write {spelt}:FORMAT, or --format (lab recordings list)")
    if named and not name.strip():
        raise UnusableInput(f"set {text!r}: no name before the equals sign")
    return LeagueSet(name or where_name(where, path), path, format_name, _options(parts, text))


def where_name(where: str, path: Path) -> str:
    """Return the name of a set that has none: that of its folder or file."""
    return path.resolve().stem if path.is_file() else path.resolve().name or where


def _options(parts: Sequence[str], text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            raise UnusableInput(f"set {text!r}: {part!r}: expected OPTION=VALUE; known: {', '.join(OPTIONS)}")
        if name not in OPTIONS:
            raise UnusableInput(f"set {text!r}: unknown option {name!r}; {choices(name, OPTIONS)}")
        field_name = name.replace("-", "_")
        about = arguments()[field_name]
        kind = next((kind for kind in (int, float) if kind in (about.type, *get_args(about.type))), str)
        try:
            read = kind(value)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise UnusableInput(f"set {text!r}: {name}: expected {what}, found {value!r}") from None
        if about.option.path:
            read = str(about.option.path(value))
        if about.is_many:
            options[field_name] = (*options.get(field_name, ()), read)
        elif field_name in options:
            raise UnusableInput(f"set {text!r}: {name} is given twice")
        else:
            options[field_name] = read
    return options
