"""The arms by name. A new system is one file and one line in :func:`make_arm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.systems.baselines import SEARCHING, SEARCHLESS, Baseline
from lab.systems.contract import Selector
from lab.systems.openclaw.arms import POLICIES, FlowRecall, TieredRecall
from lab.systems.openclaw.config.file import embedder_of, locate, read_value
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.ladder import RUNGS
from lab.systems.openclaw.recommended import ARM as RECOMMENDED
from lab.systems.openclaw.recommended import recommended

# The whole flow as the configuration says, nothing added and nothing taken away.
ENGINE = "engine"
TIERED = (*POLICIES, *RUNGS, RECOMMENDED, ENGINE)
SYSTEMS = (*TIERED, *SEARCHING, *SEARCHLESS)


# Of an arm in a manifest: the embedding model that its configuration names, where it names one.
EMBEDDER_NAMED = "embedder_named"


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """An arm as it was asked for: its name, the system behind it, and a configuration of its own if it has one.

    ``embedder_named`` is the embedding model that the configuration's engine runs with
    (:func:`lab.systems.openclaw.config.file.embedder_of`); None where it says nothing of it.
    """

    name: str
    system: str
    config: Mapping[str, Any] | None
    where: str = "config"
    embedder_named: str | None = None

    @property
    def tiered(self) -> bool:
        """Whether the arm looks at labels."""
        return self.system in TIERED


def parse_arms(texts: Sequence[str], shared: Path | None = None) -> tuple[ArmSpec, ...]:
    """``NAME`` or ``NAME=FILE``, with ``shared`` as the configuration of arms that bring none.

    A name that is no system needs ``{"lab": {"arm": SYSTEM}}`` in its file: so one system runs under two
    configurations.
    """
    if not texts:
        raise UnusableInput(f"no arm given; use --arm, for instance --arm tier_first_v1 (known: {', '.join(SYSTEMS)})")
    specs: list[ArmSpec] = []
    for text in texts:
        name, _, file = text.partition("=")
        path = Path(file) if file else shared
        given = read_value(path) if path else None
        config = locate(given, str(path)) if path else None
        own = config.get("lab", {}) if isinstance(config, dict) else {}
        system = own.get("arm", name) if isinstance(own, dict) and file else name
        if system not in SYSTEMS:
            raise UnusableInput(f"unknown arm {system!r}; known: {', '.join(SYSTEMS)}")
        if name in SYSTEMS and system != name:
            raise UnusableInput(f"arm {name!r} would run {system!r}, as {path} says; give it a name of its own")
        if not name.strip():
            raise UnusableInput(f"arm {text!r} has no name; write NAME={file}")
        if any(spec.name == name for spec in specs):
            raise UnusableInput(f"arm {name!r} is given twice")
        specs.append(ArmSpec(name, system, config, str(path) if path else "config", embedder_of(given)))
    return tuple(specs)


def make_arm(spec: ArmSpec, *, profile: str, max_items: int | None, depth: int, seed: int) -> Selector:
    """The arm itself, configuration resolved."""
    config = resolve(spec.config, profile, max_items=max_items, where=spec.where)
    if config.upstream and spec.system in (*RUNGS, RECOMMENDED):
        raise UnusableInput(
            f"arm {spec.name!r}: the public plugin has nothing of the kind; use profile seed, or the arm {ENGINE!r}"
        )
    if spec.system == RECOMMENDED:
        # What was written is merged, and not what it came to: a default is no wish of the operator's.
        own = locate(spec.config, spec.where)
        config = resolve(recommended(own), profile, max_items=max_items, where=spec.where)
    elif spec.system in RUNGS:
        config = RUNGS[spec.system].config(config)
    return _arm(spec.name, spec.system, config, depth, seed)


def described_arm(told: Mapping[str, Any], profile: str) -> Selector:
    """An arm out of its own description, as a manifest keeps it: its file may say something else by now."""
    config = resolve(told["config"], profile, where=f"arm {told['name']}")
    return _arm(told["name"], told["system"], config, told["depth"], told.get("seed", 0))


def _arm(name: str, system: str, config: EngineConfig, depth: int, seed: int) -> Selector:
    if system in POLICIES:
        return TieredRecall(system, config, name)
    return FlowRecall(system, config, name) if system in TIERED else Baseline(system, config, depth, seed, name)
