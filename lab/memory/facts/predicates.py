"""The controlled predicates of temporal facts (TF-2): how many values each may have at a time, and of which types."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from lab.base.errors import UnusableInput

LITERAL, ENTITY, JSON = "literal", "entity_ref", "json"


class Predicate(NamedTuple):
    """A predicate: whether a subject has one value at a time, the types of its objects, and its other names."""

    is_single: bool
    objects: tuple[str, ...]
    aliases: tuple[str, ...]


PREDICATES = {
    "configured_as": Predicate(True, (LITERAL, JSON), ("config", "configuration")),
    "decision": Predicate(False, (LITERAL, JSON), ("decides",)),
    "depends_on": Predicate(False, (ENTITY, LITERAL), ("requires", "depends")),
    "owns": Predicate(False, (ENTITY, LITERAL), ("owner_of",)),
    "replaces": Predicate(False, (ENTITY, LITERAL), ("supersedes",)),
    "retired_by": Predicate(True, (ENTITY, LITERAL), ("deprecated_by",)),
    "source_of_truth": Predicate(True, (LITERAL, ENTITY), ("truth_owner", "canonical_source")),
    "status": Predicate(True, (LITERAL,), ("state",)),
    "uses": Predicate(False, (ENTITY, LITERAL), ("runs_on", "uses_tool")),
}
NAMES = {name: name for name in PREDICATES} | {
    alias: name for name, predicate in PREDICATES.items() for alias in predicate.aliases
}


def predicate_named(text: str) -> str:
    """Return the name of a predicate, given its name or an alias; case, blanks and hyphens do not matter.

    Raises :class:`UnusableInput`, with the known names and the nearest of them, for an unknown one.
    """
    name = "_".join(text.lower().replace("-", " ").split())
    if name in NAMES:
        return NAMES[name]
    near = difflib.get_close_matches(name, NAMES, 1, 0.5)
    hint = f" did you mean {near[0]}?" if near else ""
    raise UnusableInput(f"unknown predicate {text.strip()!r};{hint} known: {', '.join(PREDICATES)}")
