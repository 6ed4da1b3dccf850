"""Whether two runs judged the same things, and in what they differ where they did not."""

from __future__ import annotations

import json

from lab.errors import NotComparable
from lab.runs.directory import RunDirectory
from lab.runs.records import to_json

# What two runs must share, in the order in which differences are told.
COMPARABLE = (
    *("format", "memories", "memories_from", "recordings", "golden", "conversations"),
    *("labels", "hard_rules", "categories", "scope", "recall_turns"),
)


def require_comparable(one: RunDirectory, other: RunDirectory) -> None:
    """Refuse two runs that did not judge the same things."""
    if one.manifest.comparable_key == other.manifest.comparable_key:
        return
    left, right = to_json(one.manifest.resolved), to_json(other.manifest.resolved)
    reasons = [
        f"{key} ({_both(left.get(key), right.get(key))})" for key in COMPARABLE if left.get(key) != right.get(key)
    ]
    told = ", ".join(reasons) or "what is not told here: they were made by different versions of the lab"
    raise NotComparable(f"{one.path} and {other.path} cannot be compared: they differ in {told}")


def _both(left: object, right: object) -> str:
    """Two values that differ, briefly: what differs within them, and the first places of a hash."""
    if isinstance(left, dict) and isinstance(right, dict):
        names = [name for name in {**left, **right} if left.get(name) != right.get(name)]
        told = [f"{name} {_brief(left.get(name))} / {_brief(right.get(name))}" for name in names[:3]]
        return ", ".join(told + [f"{len(names) - 3} more"] * (len(names) > 3))
    return f"{_brief(left)} / {_brief(right)}"


def _brief(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"{len(value)}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 24 else f"{text[:8]}…"
