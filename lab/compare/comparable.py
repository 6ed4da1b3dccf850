"""Check that two runs judged the same things; if not, say how they differ."""

from __future__ import annotations

import json

from lab.errors import NotComparable
from lab.runs.directory import RunDirectory
from lab.runs.records import to_json

# What two runs must share, in the order in which differences are reported.
COMPARABLE = (
    *("format", "memories", "memories_from", "recordings", "golden", "conversations"),
    *("labels", "hard_rules", "categories", "scope", "recall_turns", "haystack"),
)


def require_comparable(before: RunDirectory, after: RunDirectory) -> None:
    """Raise :class:`NotComparable` if two runs did not judge the same things."""
    if before.manifest.comparable_key == after.manifest.comparable_key:
        return
    left, right = (_brief_haystack(to_json(run.manifest.resolved)) for run in (before, after))
    reasons = [
        f"{key} ({_both(left.get(key), right.get(key))})" for key in COMPARABLE if left.get(key) != right.get(key)
    ]
    differences = ", ".join(reasons) or "a setting not listed here; different versions of the lab made them"
    raise NotComparable(f"{before.path} and {after.path} cannot be compared: they differ in {differences}")


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
