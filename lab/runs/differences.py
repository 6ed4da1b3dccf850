"""Describe how two lists of arms differ in one line, for a folder that was made with other arms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Limits of a message: characters of a value, and entries of a list.
VALUE, MOST = 32, 4
# Fields that a user sets come first: the others follow from them.
FIRST = ("system", "version", "config")
_MISSING = object()


def arms_differences(before: Any, now: Any) -> str:
    """Return which arms were removed, added, changed (keys with both values) or reordered.

    Both arguments are lists of arms as in manifests. Blank if they are not such lists, or no listed field differs.
    """
    old, new = _by_name(before), _by_name(now)
    changes = [f"{name} removed" for name in old if name not in new]
    changes += [f"{name} added" for name in new if name not in old]
    for name in new:
        if name in old:
            differs = [text for values in _by_field(old[name], new[name]) for text in _differences(*values)]
            changes += [f"{name}: {_shortened(differs, ', ')}"] if differs else []
    if not changes and list(old) != list(new):
        changes.append(f"order: {', '.join(old)} -> {', '.join(new)}")
    return _shortened(changes, "; ")


def _shortened(texts: Sequence[str], separator: str) -> str:
    more = len(texts) - MOST
    return separator.join([*texts[:MOST], *([f"and {more} more"] if more > 0 else [])])


def _by_name(arms: Any) -> dict[str, Any]:
    if not isinstance(arms, Sequence) or not all(isinstance(arm, Mapping) and "name" in arm for arm in arms):
        return {}
    # A round trip through JSON makes tuples lists, as manifests have them.
    return {str(arm["name"]): json.loads(json.dumps(arm)) for arm in arms}


def _by_field(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[Any, Any, str]]:
    """Yield old value, new value and name of every field of an arm, those of :data:`FIRST` first."""
    for key in sorted({**before, **now}, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST)):
        yield before.get(key, _MISSING), now.get(key, _MISSING), key


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key, _MISSING), now.get(key, _MISSING), f"{path}.{key}")
    elif before is _MISSING or now is _MISSING or json.dumps(before) != json.dumps(now):
        yield f"{path} {' -> '.join(_shown(before, now))}"


def _shown(before: Any, now: Any) -> tuple[str, str]:
    """Return two differing values as JSON, cut to begin shortly before their first difference."""
    old, new = ("not set" if value is _MISSING else json.dumps(value, ensure_ascii=False) for value in (before, now))
    differ_at = next((at for at, (left, right) in enumerate(zip(old, new, strict=False)) if left != right), 0)
    begin = max(0, differ_at - VALUE // 4) if max(len(old), len(new)) > VALUE else 0
    return _cut(old, begin), _cut(new, begin)


def _cut(text: str, begin: int) -> str:
    if len(text) <= VALUE:
        return text
    end = begin + VALUE
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
