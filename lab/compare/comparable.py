"""Which conversations two runs have in common, and whether they judged the same things there (IN-8, IN-9).

Copies of a conversation in a run form one cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lab.base.errors import NotComparable
from lab.base.formatting import counted
from lab.base.shape import to_json
from lab.runs.directory import RunDirectory


def equal_in(run: RunDirectory) -> dict[str, str]:
    """Map each conversation that has a copy in the run to the first name of its group."""
    return first_of(run.manifest.resolved.equal_conversations)


def first_of(groups: Iterable[Sequence[str]] | None) -> dict[str, str]:
    """Map each name to the first one of its group."""
    return {name: group[0] for group in groups or () for name in group}


def equal_notes(groups: Iterable[Sequence[str]] | None) -> tuple[str, ...]:
    """Return one sentence for each group of copies."""
    return tuple(
        f"conversations {', '.join(names)} have the same turns, or nearly so, and count as one"
        for names in groups or ()
    )


# What the data are. Runs that list the content of each conversation are compared by that instead.
DATA = ("memories_from", "recordings", "golden", "conversations")
# What two runs must share, in the order in which differences are reported.
COMPARABLE = (
    *("format", "memories", *DATA),
    *("labels", "hard_rules", "categories", "scope", "recall_turns", "haystack"),
)
# How many conversations of a kind a sentence names.
NAMED = 3


class Common(NamedTuple):
    """The conversations of two runs: those that are the same in both, and the others, which cannot be compared.

    ``changed`` maps each conversation of both runs that is not the same to what differs, in words.
    """

    same: tuple[str, ...]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: Mapping[str, str] = {}

    @property
    def others(self) -> int:
        """How many conversations cannot be compared."""
        return len(self.added) + len(self.removed) + len(self.changed)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "same": len(self.same),
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": dict(self.changed),
        }

    def __str__(self) -> str:
        """Return the conversations that cannot be compared, in words; blank if there are none."""
        changed = [f"{name} ({what})" for name, what in self.changed.items()]
        kinds = (("added", self.added), ("changed", changed), ("removed", self.removed))
        return "; ".join(
            f"{counted(len(names), 'conversation')} {kind}: {named(names)}" for kind, names in kinds if names
        )


NO_CONVERSATIONS = Common(())


def named(names: Sequence[str], most: int = NAMED) -> str:
    """Return some names for a sentence: the first ones, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def common(before: RunDirectory, after: RunDirectory) -> Common:
    """Return which conversations two runs share; raise :class:`NotComparable` if they differ in what applies to all.

    Runs whose recordings have grown share the conversations that did not change. A run of an earlier version lists no
    contents, so its recordings as a whole must be equal.
    """
    names = [run.conversations for run in (before, after)]
    if before.manifest.comparable_key == after.manifest.comparable_key:
        return _apart(names[0], names[1], dict.fromkeys({*names[0]}.intersection(names[1]), ""))
    old, new = before.manifest.contents, after.manifest.contents
    left, right = (_brief_haystack(to_json(run.manifest.resolved)) for run in (before, after))
    listed = bool(old and new)
    if listed:
        for resolved in (left, right):
            # What a store holds is in the contents; whether there is one is a setting.
            resolved["memories_from"] = "a store" if resolved.get("memories_from") else None
    keys = [key for key in COMPARABLE if not listed or key not in DATA or key == "memories_from"]
    reasons = [f"{key} ({_both(left.get(key), right.get(key))})" for key in keys if left.get(key) != right.get(key)]
    if reasons or not listed:
        differences = ", ".join(reasons) or "a setting not listed here; different versions of the lab made them"
        raise NotComparable(f"{before.path} and {after.path} cannot be compared: they differ in {differences}")
    differs = {name: old[name].differs(new[name]) for name in names[0] if name in {*names[1]}}
    found = _apart(names[0], names[1], differs)
    if not found.same:
        raise NotComparable(
            f"{before.path} and {after.path} cannot be compared: they have no conversation in common; {found}"
        )
    return found


def require_comparable(before: RunDirectory, after: RunDirectory) -> None:
    """Raise :class:`NotComparable` if two runs did not judge the same things in the same conversations."""
    if (found := common(before, after)).others:
        raise NotComparable(f"{before.path} and {after.path} cannot be compared: they differ in conversations: {found}")


def _apart(before: Sequence[str], after: Sequence[str], differs: Mapping[str, str]) -> Common:
    """Sort conversations by kind; ``differs`` has what differs for each one that is in both runs."""
    return Common(
        tuple(name for name in before if differs.get(name) == ""),
        tuple(name for name in after if name not in differs),
        tuple(name for name in before if name not in differs),
        {name: what for name, what in differs.items() if what},
    )


def _brief_haystack(resolved: dict[str, object]) -> dict[str, object]:
    """Return resolved settings without the counts by conversation, which follow from the rest of the haystack."""
    haystack = resolved.get("haystack")
    if not isinstance(haystack, dict):
        return resolved
    rest = {name: value for name, value in haystack.items() if name not in ("memories", "conversations") and value}
    return resolved | {"haystack": f"{haystack['memories']}{f' {json.dumps(rest)}' if rest else ''}"}


def _both(left: object, right: object) -> str:
    """Return a short text of two values that differ: their differing keys, with hashes abbreviated."""
    if isinstance(left, dict) and isinstance(right, dict):
        names = [name for name in {**left, **right} if left.get(name) != right.get(name)]
        differences = [f"{name} {_brief(left.get(name))} / {_brief(right.get(name))}" for name in names[:3]]
        return ", ".join(differences + [f"{len(names) - 3} more"] * (len(names) > 3))
    return f"{_brief(left)} / {_brief(right)}"


def _brief(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"{len(value)}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 24 else f"{text[:8]}…"
