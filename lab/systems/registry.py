"""The memory systems by name. A system of this project is one line here; one of another package is an entry point.

Another package declares ``[project.entry-points."recall_lab.systems"]`` with a line ``name = "package.module:make"``,
where ``make`` takes an :class:`lab.systems.spec.ArmSpec` and returns an :class:`lab.systems.contract.Arm`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.systems.contract import Arm
from lab.systems.openclaw.config.file import locate, read_value
from lab.systems.openclaw.ladder import RUNGS
from lab.systems.openclaw.recommended import ARM as RECOMMENDED
from lab.systems.openclaw.select.policies import POLICIES
from lab.systems.spec import ArmSpec

GROUP = "recall_lab.systems"
Make = Callable[[ArmSpec], Arm]
_OPENCLAW = (*POLICIES, *RUNGS, RECOMMENDED, "engine")
_BASELINES = ("vector", "bm25", "hybrid", "recency", "none", "random", "oracle", "verbatim")
# Name -> module, and what makes the arm in it.
BUILT_IN: dict[str, str] = dict.fromkeys(_OPENCLAW, "lab.systems.openclaw.arms:make") | {
    name: f"lab.systems.baselines.{name}:make" for name in _BASELINES
}


@cache
def _others() -> dict[str, EntryPoint]:
    """Systems of other packages, by name."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.get(point.name)
        if point.name in BUILT_IN or (other is not None and other.value != point.value):
            owner = "the lab" if point.name in BUILT_IN else _owner(found[point.name])
            raise UnusableInput(f"system {point.name!r} of {_owner(point)}: {owner} has a system of that name already")
        found[point.name] = point
    return found


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def systems() -> tuple[str, ...]:
    """The names of all systems, those of other packages last."""
    return (*BUILT_IN, *_others())


def policies() -> tuple[str, ...]:
    """The systems that are a selection policy and nothing else."""
    return tuple(POLICIES)


def require_system(name: str) -> None:
    """:class:`UnusableInput` that lists the names, for one that nobody has registered."""
    if name not in BUILT_IN and name not in _others():
        raise UnusableInput(f"unknown arm {name!r}; known: {', '.join(systems())}")


def make_arm(spec: ArmSpec) -> Arm:
    """The arm that was asked for, by its system."""
    require_system(spec.system)
    if spec.system in BUILT_IN:
        module, _, name = BUILT_IN[spec.system].partition(":")
        make: Make = getattr(import_module(module), name)
        return make(spec)
    point = _others()[spec.system]
    try:
        make = point.load()
    except Exception as error:  # the package is somebody else's
        kind = type(error).__name__
        raise UnusableInput(f"system {spec.system!r} of {_owner(point)} cannot be loaded: {kind}: {error}") from error
    return make(spec)


def config_in(value: Any, where: str) -> Any:
    """The configuration of a system within a parsed file, whatever a host's file has around it."""
    return locate(value, where)


def version_of(system: str) -> str:
    """Name and version of the package that a system comes from; blank for those of this project."""
    point = None if system in BUILT_IN else _others().get(system)
    return f"{point.dist.name} {point.dist.version}" if point is not None and point.dist else ""


def parse_arms(
    texts: Sequence[str], shared: Path | None = None, made: Mapping[str, Arm] | None = None
) -> tuple[ArmSpec, ...]:
    """``NAME`` or ``NAME=FILE``, with ``shared`` as the configuration of arms that bring none.

    A name that is no system needs ``{"lab": {"arm": SYSTEM}}`` in its file: so one system runs under two
    configurations. Arms that are ``made`` already are named, and that is all.
    """
    if not texts:
        raise UnusableInput(
            f"no arm given; use --arm, for instance --arm tier_first_v1 (known: {', '.join(systems())})"
        )
    specs: list[ArmSpec] = []
    for text in texts:
        there = (made or {}).get(text)
        spec = ArmSpec(text, there.describe().system) if there is not None else _parsed(text, shared)
        if any(one.name == spec.name for one in specs):
            raise UnusableInput(f"arm {spec.name!r} is given twice")
        specs.append(spec)
    return tuple(specs)


def _parsed(text: str, shared: Path | None) -> ArmSpec:
    name, _, file = text.partition("=")
    path = Path(file) if file else shared
    raw = read_value(path) if path else None
    config = config_in(raw, str(path)) if path else None
    own: Any = config.get("lab", {}) if isinstance(config, Mapping) else {}
    system = own.get("arm", name) if isinstance(own, Mapping) and file else name
    if not isinstance(system, str):
        raise UnusableInput(f"{path}: lab.arm: expected the name of a system, found {system!r}")
    require_system(system)
    if system != name and (name in BUILT_IN or name in _others()):
        raise UnusableInput(f"arm {name!r} would run {system!r}, as {path} says; give it a name of its own")
    if not name.strip():
        raise UnusableInput(f"arm {text!r} has no name; write NAME={file}")
    return ArmSpec(name, system, config, str(path) if path else "config", raw)
