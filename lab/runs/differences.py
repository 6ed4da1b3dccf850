"""What differs between two descriptions of arms, in a line: for a folder that was made with other arms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Characters of a value, and differences of an arm and arms that differ, that a message shows.
VALUE, MOST = 32, 4
# What a user changes, of which the rest follows.
FIRST = ("system", "version", "config")
_MISSING = object()


def arms_differences(before: Any, now: Any) -> str:
    """Return which arms two manifests do not share, and what differs in those of one name: keys with both values.

    Both are lists of arms as manifests have them. Blank where they are not, or differ in nothing that is listed.
    """
    old, new = _by_name(before), _by_name(now)
    found = [f"{name} removed" for name in old if name not in new]
    found += [f"{name} added" for name in new if name not in old]
    for name in new:
        if name in old:
            differs = [one for part in _by_part(old[name], new[name]) for one in _differences(*part)]
            found += [f"{name}: {_some(differs, ', ')}"] if differs else []
    if not found and list(old) != list(new):
        found.append(f"in the order {', '.join(old)} and not {', '.join(new)}")
    return _some(found, "; ")


def _some(found: Sequence[str], between: str) -> str:
    more = len(found) - MOST
    return between.join([*found[:MOST], *([f"and {more} more"] if more > 0 else [])])


def _by_name(arms: Any) -> dict[str, Any]:
    if not isinstance(arms, Sequence) or not all(isinstance(one, Mapping) and "name" in one for one in arms):
        return {}
    # As JSON has them, in which a tuple is a list.
    return {str(one["name"]): json.loads(json.dumps(one)) for one in arms}


def _by_part(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[Any, Any, str]]:
    """Yield both values of every field of an arm with its name, those of :data:`FIRST` before the rest."""
    for key in sorted({**before, **now}, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST)):
        yield before.get(key, _MISSING), now.get(key, _MISSING), key


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key, _MISSING), now.get(key, _MISSING), f"{path}.{key}")
    elif before is _MISSING or now is _MISSING or json.dumps(before) != json.dumps(now):
        yield f"{path} {' -> '.join(_shown(before, now))}"


def _shown(before: Any, now: Any) -> tuple[str, str]:
    """Return two values that differ as JSON, shortened to where they begin to differ."""
    old, new = ("not set" if one is _MISSING else json.dumps(one, ensure_ascii=False) for one in (before, now))
    alike = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    begin = max(0, alike - VALUE // 4) if max(len(old), len(new)) > VALUE else 0
    return _cut(old, begin), _cut(new, begin)


def _cut(text: str, begin: int) -> str:
    if len(text) <= VALUE:
        return text
    end = begin + VALUE
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
