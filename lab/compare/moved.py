"""What moved between two runs: all in their manifests that could explain different receipts, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.runs.manifest import Environment, Manifest
from lab.runs.records import to_json
from lab.systems.contract import ArmInfo

# Of what a run was resolved to, what comes after the versions and before the arms; any other key comes last.
ASKED = ("store", "profile", "depth", "faults", "format", "memories", "memories_from")
DATA = ("recordings", "golden", "documents", "conversations")
SHOWN_DIGITS = 12


def moved(before: Manifest, after: Manifest) -> tuple[str, ...]:
    """What could explain that two runs differ, out of their manifests, each as ``numpy 2.3.1 -> 2.3.2``.

    The lab first, then its source, the packages, Python and the machine, the embedder, what was asked, the arms knob by
    knob, and the data file by file. Empty where nothing that a manifest knows has moved.
    """
    old, new = to_json(before.resolved), to_json(after.resolved)
    here, there = before.environment, after.environment
    told = [*_value("lab", before.resolved.lab, after.resolved.lab), *_source(here, there)]
    told += _mapping("", here.packages, there.packages)
    for name in ("python", "platform", "machine"):
        told += _value(name, getattr(here, name), getattr(there, name))
    told += _mapping("embedder ", old.get("embedder"), new.get("embedder"))
    rest = sorted((old.keys() | new.keys()) - {"lab", "embedder", "arms", *ASKED, *DATA})
    for name in (*ASKED, *rest):
        told += _mapping(f"{name} ", {"": old.get(name)}, {"": new.get(name)})
    told += _arms(before.resolved.arms, after.resolved.arms)
    for name in DATA:
        told += _mapping(f"{name} ", old.get(name), new.get(name))
    return tuple(told)


def _source(before: Environment, after: Environment) -> Iterator[str]:
    """The commit, whether the tree had been edited, and the code itself."""
    yield from _value("git", before.commit, after.commit)
    dirty = [bool(one.git and one.git.dirty) for one in (before, after)]
    # Equal code explains nothing, whatever git says about it.
    if any(dirty) and (before.code is None or before.code != after.code):
        yield "git uncommitted changes " + ("in both" if all(dirty) else f"{_flag(dirty[0])} -> {_flag(dirty[1])}")
    yield from _value("code", before.code, after.code)


def _arms(before: Sequence[ArmInfo], after: Sequence[ArmInfo]) -> Iterator[str]:
    old, new = ({arm.name: to_json(arm) for arm in arms} for arms in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new:
            yield from _mapping(f"arm {name}: ", old[name], new[name])
        else:
            yield f"arm {name}: " + ("there -> gone" if name in old else "none -> there")


def _mapping(title: str, before: object, after: object) -> Iterator[str]:
    """The leaves of two values that differ, under their dotted names."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for name in sorted(old.keys() | new.keys()):
        yield from _value(f"{title}{name}".strip(), old.get(name), new.get(name))


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, value


def _value(title: str, before: object, after: object) -> Iterator[str]:
    # A manifest has lists where what has just been resolved has tuples.
    if _text(before, whole=True) != _text(after, whole=True):
        yield f"{title} {_text(before)} -> {_text(after)}"


def _text(value: object, *, whole: bool = False) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one, whole=whole) for one in value) or "nothing"
    text = str(value)
    is_hash = len(text) in (40, 64) and set(text) <= set("0123456789abcdef")
    return text[:SHOWN_DIGITS] if is_hash and not whole else text


def _flag(value: bool) -> str:
    return "yes" if value else "no"
