"""Manifest differences between two runs that could explain different receipts, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.runs.manifest import Manifest
from lab.runs.records import to_json
from lab.systems.contract import ArmInfo

# Keys of the resolved settings, listed after the versions and before the arms; any other key comes last.
SETTINGS = ("store", "profile", "depth", "faults", "format", "memories", "memories_from")
DATA = ("recordings", "golden", "documents", "conversations")
SHOWN_DIGITS = 12


def moved(before: Manifest, after: Manifest) -> tuple[str, ...]:
    """Return the manifest differences that could explain different receipts, each as ``numpy 2.3.1 -> 2.3.2``.

    The order is: the lab, its source, the packages, Python and the machine, the embedder, the settings, each
    configuration key of each arm, and each data file. Empty if the manifests agree.
    """
    old, new = to_json(before.resolved), to_json(after.resolved)
    old_environment, new_environment = before.environment, after.environment
    differences = [*_value("lab", before.resolved.lab, after.resolved.lab), *_source(before, after)]
    differences += _mapping("", old_environment.packages, new_environment.packages)
    for name in ("python", "platform", "machine"):
        differences += _value(name, getattr(old_environment, name), getattr(new_environment, name))
    differences += _mapping("embedder ", old.get("embedder"), new.get("embedder"))
    rest = sorted((old.keys() | new.keys()) - {"lab", "embedder", "arms", *SETTINGS, *DATA})
    for name in (*SETTINGS, *rest):
        differences += _mapping(f"{name} ", {"": old.get(name)}, {"": new.get(name)})
    differences += _arms(before.resolved.arms, after.resolved.arms)
    for name in DATA:
        differences += _mapping(f"{name} ", old.get(name), new.get(name))
    return tuple(differences)


def _source(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield differences in the commit, in uncommitted changes, and in the digest of the code.

    The digest is of the code that a run uses, so one of other systems or another format is no evidence of a change.
    """
    before, after = old.environment, new.environment
    yield from _value("git", before.commit, after.commit)
    dirty = [bool(environment.git and environment.git.dirty) for environment in (before, after)]
    covered = [(run.resolved.format, {arm.system for arm in run.resolved.arms}) for run in (old, new)]
    if covered[0] != covered[1]:
        return
    # If the code is equal, uncommitted changes explain nothing.
    if any(dirty) and (before.code is None or before.code != after.code):
        yield "git uncommitted changes " + ("in both" if all(dirty) else f"{_flag(dirty[0])} -> {_flag(dirty[1])}")
    yield from _value("code", before.code, after.code)


def _arms(before: Sequence[ArmInfo], after: Sequence[ArmInfo]) -> Iterator[str]:
    old, new = ({arm.name: to_json(arm) for arm in arms} for arms in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new:
            yield from _mapping(f"arm {name}: ", old[name], new[name])
        else:
            yield f"arm {name}: " + ("present -> absent" if name in old else "absent -> present")


def _mapping(title: str, before: object, after: object) -> Iterator[str]:
    """Yield the differences between the leaves of two nested values, each with its dotted name."""
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
    # Compare as text: a manifest that was read from a file has lists where freshly resolved settings have tuples.
    if _text(before, full=True) != _text(after, full=True):
        yield f"{title} {_text(before)} -> {_text(after)}"


def _text(value: object, *, full: bool = False) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(_text(element, full=full) for element in value) or "nothing"
    text = str(value)
    is_hash = len(text) in (40, 64) and set(text) <= set("0123456789abcdef")
    return text[:SHOWN_DIGITS] if is_hash and not full else text


def _flag(value: bool) -> str:
    return "yes" if value else "no"
