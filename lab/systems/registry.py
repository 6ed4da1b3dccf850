"""The memory systems by name. Built-in systems are one line each here; other packages register an entry point.

A package declares ``[project.entry-points."recall_lab.systems"]`` with a line ``name = "package.module:make"``, where
``make`` takes an :class:`lab.systems.spec.ArmSpec` and returns an :class:`lab.systems.contract.Arm`. An arm whose host
does not run it becomes a :class:`SwitchedOffArm`, which injects nothing and says why (HC-9).
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar

from lab.base.code import imported_by
from lab.base.errors import UnusableInput
from lab.base.files import digest, sha256_file
from lab.base.formatting import choices, nearest
from lab.systems.budget import budget_in, named_budget, with_budget, within
from lab.systems.contract import Arm, ArmInfo, Ask, MemorySystem, Recall
from lab.systems.kit import Kit
from lab.systems.openclaw.config.file import ENTRY, locate, read_value, switched_off
from lab.systems.openclaw.config.table import POLICIES
from lab.systems.spec import ArmSpec


@dataclass(frozen=True, slots=True)
class SwitchedOffArm:
    """The arm ``base``, switched off for the reason ``why``."""

    base: Arm
    why: str
    claims: ClassVar[tuple[str, ...]] = ("nothing",)

    @property
    def name(self) -> str:
        """The name of the arm."""
        return self.base.name

    def describe(self) -> ArmInfo:
        """Return the description of the arm, with the reason; it writes nothing, and needs nothing."""
        info = self.base.describe()
        return replace(info, writes=False, stateful=False, derives=False, needs_gold=False, needs=None, off=self.why)

    def open(self, kit: Kit) -> MemorySystem:
        """Open the system."""
        del kit
        return _SwitchedOff(self.why)


class _SwitchedOff(MemorySystem):
    """Answers every query with nothing."""

    def __init__(self, why: str) -> None:
        self._receipt = {"skipped": True, "skipReason": "switched_off", "why": why}

    def recall(self, ask: Ask) -> Recall:
        """Return an empty recall whose receipt has the reason."""
        del ask
        return Recall(receipt=dict(self._receipt), status="skipped")


GROUP = "recall_lab.systems"
# Largest cutoff or depth that an arm may declare; more is a mistake.
MOST = 100_000
Make = Callable[[ArmSpec], Arm]
_ABLATION_STEPS = ("quota_flow", "quota_repeat", "quota_backbone", "quota_score", "seed_full")
_OPENCLAW = (*POLICIES, *_ABLATION_STEPS, "recommended", "engine")
# Name -> "module:function" that makes the arm. No arm is imported here, so that a run depends on its own ones alone.
BUILT_IN: dict[str, str] = {
    **dict.fromkeys(_OPENCLAW, "lab.systems.openclaw.arms:make"),
    **dict.fromkeys(("vector", "bm25", "hybrid", "recency", "none", "random"), "lab.systems.baselines.arm:make"),
    "oracle": "lab.systems.baselines.arm:make_oracle",
    "verbatim": "lab.systems.baselines.verbatim:make",
    "memory_core": "lab.systems.files.memory_core:make",
    "memory_lancedb": "lab.systems.baselines.memory_lancedb:make",
    "long_context": "lab.systems.baselines.long_context:make",
    "placebo": "lab.systems.baselines.placebo:make",
    "external": "lab.systems.external.arm:make",
    "rsclaw": "lab.systems.rsclaw.system:make",
    "observations": "lab.systems.observations.system:make",
    "pack": "lab.memory.pack.system:make",
    "plugin": "lab.systems.external.plugin:make",
    "auto_recall": "lab.systems.files.auto_recall:make",
}
# Systems that are plugins of OpenClaw with a name of their own in a host's file; all others read the engine's entry.
PLUGINS = {"memory_lancedb": "memory-lancedb", "auto_recall": "openclaw-auto-recall"}


@cache
def _others() -> dict[str, EntryPoint]:
    """Return the systems of other packages by name."""
    systems: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = systems.get(point.name)
        if point.name in BUILT_IN or (other is not None and other.value != point.value):
            owner = "the lab" if point.name in BUILT_IN else _owner(systems[point.name])
            raise UnusableInput(f"system {point.name!r} of {_owner(point)}: {owner} already has a system of that name")
        systems[point.name] = point
    return systems


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def systems() -> tuple[str, ...]:
    """Return the names of all systems, those of other packages last."""
    return (*BUILT_IN, *_others())


def policies() -> tuple[str, ...]:
    """Return the systems that consist of a selection policy only."""
    return POLICIES


def require_system(name: str) -> None:
    """Raise :class:`UnusableInput`, listing the names, unless a system of this name is registered."""
    if name not in BUILT_IN and name not in _others():
        plain, at, tokens = name.rpartition("@")
        if at and (plain in BUILT_IN or plain in _others()):
            raise UnusableInput(
                f"arm {name!r}: expected a whole number of tokens after @, such as {plain}@256, found {tokens!r}"
            )
        raise UnusableInput(f"unknown arm {name!r}; {choices(name, systems())}")


def make_arm(spec: ArmSpec) -> Arm:
    """Make an arm from its specification; one that its host does not run injects nothing."""
    if spec.off is not None:
        return SwitchedOffArm(make_arm(replace(spec, off=None)), spec.off)
    config, tokens = budget_in(spec.config, spec.where)
    if tokens is not None:
        return within(make_arm(replace(spec, config=config)), tokens)
    require_system(spec.system)
    if spec.system in BUILT_IN:
        module, _, name = BUILT_IN[spec.system].partition(":")
        make: Make = getattr(import_module(module), name)
        return make(spec)
    point = _others()[spec.system]
    owner = f"system {spec.system!r} of {_owner(point)}"
    with _reported(f"{owner} cannot be loaded"):
        make = point.load()
    with _reported(f"{owner} cannot make arm {spec.name!r}"):
        arm = make(spec)
    if not (hasattr(arm, "describe") and hasattr(arm, "open") and getattr(arm, "name", None) == spec.name):
        raise UnusableInput(f"{owner}: expected an arm named {spec.name!r}, found {arm!r:.80}")
    return arm


@contextmanager
def _reported(what: str) -> Iterator[None]:
    """Turn any exception of another package, including an attempt to exit, into one line of :class:`UnusableInput`."""
    try:
        yield
    except (UnusableInput, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UnusableInput(f"{what}: {type(error).__name__}: {error}") from error


def info_of(spec: ArmSpec, arm: Arm) -> ArmInfo:
    """Return an arm's description with its version. Raise :class:`UnusableInput` for an invalid description."""
    with _reported(f"arm {spec.name!r} cannot describe itself"):
        info = arm.describe()
    if not isinstance(info, ArmInfo) or info.name != spec.name:
        raise UnusableInput(f"arm {spec.name!r}: describes itself as {info!r:.80}, not as an ArmInfo of that name")
    if not all(type(count) is int and 0 < count <= MOST for count in (info.cutoff, info.depth)):
        values = f"cutoff {info.cutoff!r}, depth {info.depth!r}"
        raise UnusableInput(f"arm {spec.name!r}: {values}: expected whole numbers from 1 to {MOST}")
    try:
        same = json.loads(json.dumps(info.config, allow_nan=False)) == json.loads(json.dumps(dict(info.config)))
    except (TypeError, ValueError, RecursionError) as error:
        raise UnusableInput(f"arm {spec.name!r}: its configuration is not valid JSON: {error}") from None
    if not same or not all(isinstance(key, str) for key in info.config):
        raise UnusableInput(f"arm {spec.name!r}: its configuration is not a JSON object")
    return replace(info, system=spec.system, version=info.version or version_of(arm, spec.system))


def config_in(value: Any, where: str, system: str = "") -> Any:
    """Return the configuration of a system within a parsed file, which may be a host's file with several plugins.

    A file for another system than a reimplemented plugin has its configuration at the top.
    """
    lab = value.get("lab") if isinstance(value, Mapping) else None
    named = lab.get("arm") if isinstance(lab, Mapping) else None
    name = named if isinstance(named, str) else system
    # The host's own search is no plugin.
    if name == "memory_core" or (name == named and named in BUILT_IN and named not in (*_OPENCLAW, *PLUGINS)):
        return value
    return locate(value, where, PLUGINS.get(name, ENTRY))


def version_of(arm: Arm, system: str) -> str:
    """Return package, version and source hash of an arm of another package; blank for built-in arms.

    The hash detects edits that do not change the version.
    """
    module = type(getattr(arm, "base", arm)).__module__
    if module.startswith("lab."):
        return ""
    point = _others().get(system)
    package = f"{point.dist.name} {point.dist.version}" if point is not None and point.dist else module
    return f"{package} {_sources(module)}"


def _sources(module: str) -> str:
    """Return 16 hexadecimal digits of the sha256 of :func:`_files`."""
    folder, files = _files(module)
    return digest({file.relative_to(folder).as_posix(): sha256_file(file) for file in files})[:16]


def _files(module: str) -> tuple[Path, list[Path]]:
    """Return the folder of a module's package and all its files, or the module's file alone if it has no package."""
    top = sys.modules.get(module.partition(".")[0]) or sys.modules.get(module)
    origin = Path(getattr(top, "__file__", None) or ".")
    files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin] * origin.is_file()
    return origin.parent, files


def modules_of(arm: Arm, system: str) -> set[str]:
    """Return the modules of the lab that an arm's code begins with: that of its system, and those of its classes.

    The arms that it holds count as well, such as the one that a budget cuts. What an arm of another package begins with
    is all that the package imports of the lab.
    """
    made_by = BUILT_IN.get(system, "").partition(":")[0]
    modules = {made_by} if made_by.startswith("lab.") else set()
    for name in {kind.__module__ for kind in type(arm).__mro__}:
        if name.startswith("lab."):
            modules.add(name)
        elif name.partition(".")[0] not in sys.stdlib_module_names:
            modules |= imported_by(_files(name)[1])
    held: list[Any] = [getattr(arm, field.name) for field in fields(arm)] if is_dataclass(arm) else []
    for other in held:
        if hasattr(other, "describe") and hasattr(other, "open"):
            modules |= modules_of(other, other.describe().system)
    return modules


def parse_arms(
    texts: Sequence[str], shared: Path | None = None, made: Mapping[str, Arm] | None = None
) -> tuple[ArmSpec, ...]:
    """Parse ``NAME``, ``NAME=FILE``, ``NAME=exec:COMMAND``, ``NAME=http:URL`` or ``NAME=plugin:FOLDER``.

    ``shared`` is the configuration of arms without a file.

    If the name is not a system, its file must contain ``{"lab": {"arm": SYSTEM}}``, or be a host's openclaw.json, which
    configures ``engine``; this is how one system runs under two configurations. ``NAME@256`` sets a budget of 256
    tokens (:mod:`lab.systems.budget`). Arms in ``made`` are referred to by name only.
    """
    if not texts:
        raise UnusableInput(
            f"no arm given; use --arm, for instance --arm tier_first_v1 (known: {', '.join(systems())})"
        )
    specs: list[ArmSpec] = []
    for text in texts:
        arm = (made or {}).get(text)
        spec = ArmSpec(text, arm.describe().system) if arm is not None else _parsed(text, shared)
        if any(other.name == spec.name for other in specs):
            raise UnusableInput(f"arm {spec.name!r} is given twice")
        specs.append(spec)
    return tuple(specs)


def _parsed(text: str, shared: Path | None) -> ArmSpec:
    name, _, file = text.partition("=")
    plain, tokens = named_budget(name)
    external = _external(plain, file)
    path = None if external else Path(file) if file else shared
    raw = read_value(path) if path else None
    config = config_in(raw, str(path), plain) if path else None
    lab: Any = config.get("lab", {}) if isinstance(config, Mapping) else {}
    if tokens is not None:
        spec = external or _spec_of(plain, plain, file, path, config, raw, lab)
        spec = replace(spec, name=name, config=with_budget(spec.config, tokens))
        budget_in(spec.config, f"arm {name!r}")
        return spec
    return external or _spec_of(name, text, file, path, config, raw, lab)


def _spec_of(name: str, text: str, file: str, path: Path | None, config: Any, raw: Any, lab: Any) -> ArmSpec:
    system = lab.get("arm", name) if isinstance(lab, Mapping) and file else name
    # A host's file has the engine's section in its place. A name that is nearly a system's is a slip, and a key lab at
    # the top of the file is misplaced.
    is_of_host = isinstance(raw, Mapping) and config is not raw and "lab" not in raw
    if file and system == name and is_of_host and not nearest(name, systems()):
        system = "engine"
    if not isinstance(system, str):
        raise UnusableInput(f"{path}: lab.arm: expected the name of a system, found {system!r}")
    if file and system == name and name not in systems():
        what, where = "names no system; add", ", in an openclaw.json beside autoRecall"
        if not isinstance(config, Mapping):
            what, where = "expected an object with", ""
        raise UnusableInput(f'{path}: {what} {{"lab": {{"arm": SYSTEM}}}}{where} (known: {", ".join(systems())})')
    require_system(system)
    if system != name and (name in BUILT_IN or name in _others()):
        raise UnusableInput(f"arm {name!r} would run {system!r}, as {path} says; give it a name of its own")
    if not name.strip():
        raise UnusableInput(f"arm {text!r} has no name; write NAME={file}")
    plugin = PLUGINS.get(system, ENTRY if system in _OPENCLAW else None)
    off = "; ".join(switched_off(raw, plugin)) if plugin else ""
    return ArmSpec(name, system, config, str(path) if path else "config", raw, off=off or None)


def _external(name: str, where: str) -> ArmSpec | None:
    """Return the arm behind ``exec:COMMAND``, ``http:URL`` or ``plugin:FOLDER``; None for the name of a file."""
    kind, _, rest = where.partition(":")
    if kind not in ("exec", "http", "https", "plugin"):
        return None
    if not name.strip() or name in BUILT_IN or name in _others():
        raise UnusableInput(f"--arm {name}={kind}:…: give the arm a name of its own")
    system = "plugin" if kind == "plugin" else "external"
    config: dict[str, object] = {"lab": {"arm": system}}
    if kind == "plugin":
        config["plugin"] = rest
    elif kind == "exec":
        try:
            config["exec"] = shlex.split(rest)
        except ValueError as error:
            raise UnusableInput(f"--arm {name}=exec:…: is not a command line: {error}") from None
    else:
        config["url"] = rest if rest.startswith(("http://", "https://")) else where
    return ArmSpec(name, system, config, f"--arm {name}", config)
