"""What moved between two runs: all in their manifests that could explain different receipts, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Of what a run was resolved to, what comes after the versions and before the arms; any other key comes last.
ASKED = ("store", "profile", "depth", "faults", "format", "memories", "memories_from")
DATA = ("recordings", "golden", "documents", "conversations")
SHOWN_DIGITS = 12


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """What could explain that two runs differ, out of their manifests, each as ``numpy 2.3.1 -> 2.3.2``.

    The lab first, then its source, the packages, Python and the machine, the embedder, what was asked, the arms knob by
    knob, and the data file by file. Empty where nothing that a manifest knows has moved.
    """
    old, new = before.get("resolved", {}), after.get("resolved", {})
    here, there = before.get("environment", {}), after.get("environment", {})
    told = [*_value("lab", old.get("lab"), new.get("lab")), *_source(here, there)]
    told += _mapping("", here.get("packages"), there.get("packages"))
    for name in ("python", "platform", "machine"):
        told += _value(name, here.get(name), there.get(name))
    told += _mapping("embedder ", old.get("embedder"), new.get("embedder"))
    rest = sorted((old.keys() | new.keys()) - {"lab", "embedder", "arms", *ASKED, *DATA})
    for name in (*ASKED, *rest):
        told += _mapping(f"{name} ", {"": old.get(name)}, {"": new.get(name)})
    told += _arms(old.get("arms", ()), new.get("arms", ()))
    for name in DATA:
        told += _mapping(f"{name} ", old.get(name), new.get(name))
    return tuple(told)


def _source(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The commit, whether the tree had been edited, and the code itself."""
    here, there = before.get("git") or {}, after.get("git") or {}
    yield from _value("git", here.get("commit"), there.get("commit"))
    dirty = [bool(here.get("dirty")), bool(there.get("dirty"))]
    # Equal code explains nothing, whatever git says about it.
    if any(dirty) and (before.get("code") is None or before.get("code") != after.get("code")):
        yield "git uncommitted changes " + ("in both" if all(dirty) else f"{_flag(dirty[0])} -> {_flag(dirty[1])}")
    yield from _value("code", before.get("code"), after.get("code"))


def _arms(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    old, new = ({arm["name"]: arm for arm in arms} for arms in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new:
            yield from _mapping(f"arm {name}: ", old[name], new[name])
        else:
            yield f"arm {name}: " + ("there -> gone" if name in old else "none -> there")


def _mapping(title: str, before: Any, after: Any) -> Iterator[str]:
    """The leaves of two values that differ, under their dotted names."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for name in sorted(old.keys() | new.keys()):
        yield from _value(f"{title}{name}".strip(), old.get(name), new.get(name))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, value


def _value(title: str, before: Any, after: Any) -> Iterator[str]:
    # A manifest has lists where what has just been resolved has tuples.
    if _text(before, whole=True) != _text(after, whole=True):
        yield f"{title} {_text(before)} -> {_text(after)}"


def _text(value: Any, *, whole: bool = False) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one, whole=whole) for one in value) or "nothing"
    text = str(value)
    is_hash = len(text) in (40, 64) and set(text) <= set("0123456789abcdef")
    return text[:SHOWN_DIGITS] if is_hash and not whole else text


def _flag(value: bool) -> str:
    return "yes" if value else "no"
