"""The arms that the criteria need, and the two replays: as recorded, and with a large must share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, write_atomically
from lab.base.shape import deep_merge
from lab.replay.labels import NICE_OF_REST
from lab.replay.plan import Plan
from lab.runs.request import ReplayRequest
from lab.studies.acceptance.readings import READINGS, Reading, Variant
from lab.studies.draws import saturating
from lab.systems.contract import ArmInfo
from lab.systems.registry import info_of, make_arm, parse_arms
from lab.systems.spec import ArmSpec

CANDIDATES = ("tier_quota_v1", "seed_full")
OLD, HYBRID, VECTOR = "tier_first_v1", "hybrid", "vector"
# Every verdict needs these besides its candidates.
REFERENCES = (OLD, HYBRID, VECTOR)
# The largest must share of the second replay: most memories are must_remember, and some are nice.
LARGE = 0.60
NO_DEDUPE = {"autoRecall": {"dedupeBackbone": False}}
# The older name of `quotas.wildcard` takes precedence, so a variant has both if its candidate has the older one.
CAPS = {"strict": "strict", "best": "reservation"}


@dataclass(frozen=True, slots=True)
class Cast:
    """The arms of a verdict, as ``--arm`` takes them.

    ``candidates`` are judged. ``plain`` maps a candidate to the arm without de-duplication of its Working Set; a
    candidate without a Working Set has none, and is in ``without_working_set``. ``readings`` are the candidates under
    each reading, if they are compared.
    """

    candidates: tuple[str, ...]
    plain: Mapping[str, str]
    readings: tuple[Variant, ...]
    arms: tuple[str, ...]
    without_working_set: frozenset[str] = frozenset()

    @property
    def judged(self) -> tuple[str, ...]:
        """Return the candidates, each followed by its other readings."""
        return tuple(
            name
            for candidate in self.candidates
            for name in (candidate, *(variant.arm for variant in self.others if variant.of == candidate))
        )

    @property
    def others(self) -> tuple[Variant, ...]:
        """Return the readings that are not the candidate's own."""
        return tuple(variant for variant in self.readings if variant.arm != variant.of)


def cast_of(request: ReplayRequest, candidates: Sequence[str], folder: Path, floor: float | None = None) -> Cast:
    """Return the arms to replay for these candidates (``NAME`` or ``NAME=FILE``).

    With a ``floor``, they are replayed under each reading. Configurations of variants are written into ``folder``.
    Raises :class:`UnusableInput` for an unknown arm, and for one without quotas that is to have readings.
    """
    shared = Path(request.config) if request.config else None
    specs = [
        replace(spec, profile=request.profile, max_items=request.max_items) for spec in parse_arms(candidates, shared)
    ]
    if reserved := [spec.name for spec in specs if spec.name in REFERENCES]:
        raise UnusableInput(f"--candidate {reserved[0]}: is what the candidates are compared with; name another arm")
    arms, plain, readings, judged, without = list(REFERENCES), {}, [], [], set()
    for spec, text in zip(specs, candidates, strict=True):
        judged.append(spec.name)
        arms.append(text)
        info = info_of(spec, make_arm(spec))
        variants = [(spec.name, spec.config)]
        for reading, settings in _readings(info, floor):
            if _holds(info, settings):
                readings.append(Variant(spec.name, spec.name, reading.name))
                continue
            variant = Variant(f"{spec.name}-{reading.name}", spec.name, reading.name)
            readings.append(variant)
            if _value(spec.config or {}, ("autoRecall", "quotas", "caps")) is not None:
                settings = deep_merge(settings, {"autoRecall": {"quotas": {"caps": CAPS[reading.wildcard]}}})
            arms.append(_written(variant.arm, spec, settings, folder))
            variants.append((variant.arm, deep_merge(spec.config or {}, settings)))
        for name, config in variants:
            if has_working_set(info):
                arm = f"{name}-no-dedupe"
                plain[name] = arm
                arms.append(_written(arm, replace(spec, config=config), NO_DEDUPE, folder))
            else:
                without.add(name)
    return Cast(tuple(judged), plain, tuple(readings), tuple(arms), frozenset(without))


def cast_in(
    arms: Sequence[ArmInfo], candidates: Sequence[str], where: str, command: str, floor: float | None = None
) -> Cast:
    """Return the arms of a run that hold these candidates.

    The arms without de-duplication, and with a ``floor`` those of the readings, are found by their configurations.
    Raises :class:`UnusableInput` for a missing arm, with the ``command`` that adds it.
    """
    known = {arm.name: arm for arm in arms}
    names = [candidate.partition("=")[0] for candidate in candidates]
    if missing := [name for name in (*REFERENCES, *names) if name not in known]:
        raise UnusableInput(
            f"{where}: has no arm {', '.join(map(repr, missing))}, which acceptance needs; add it with: {command}"
        )
    readings: list[Variant] = []
    for name in names:
        for reading, settings in _readings(known[name], floor):
            like = _like(arms, known[name], deep_merge(known[name].config, settings))
            if not like:
                raise UnusableInput(
                    f"{where}: has no arm {name} under the reading {reading.name}; give the recordings to `lab "
                    "acceptance --readings`, which replays every reading"
                )
            readings.append(Variant(name if name in like else like[0], name, reading.name))
    plain: dict[str, str] = {}
    judged = (*names, *(variant.arm for variant in readings if variant.arm not in names))
    for name in judged:
        config = deep_merge(known[name].config, NO_DEDUPE)
        if has_working_set(known[name]):
            plain.update((name, other) for other in _like(arms, known[name], config))
    without = frozenset(name for name in judged if not has_working_set(known[name]))
    return Cast(tuple(names), plain, tuple(readings), tuple(known), without)


def _readings(arm: ArmInfo, floor: float | None) -> Iterator[tuple[Reading, dict[str, Any]]]:
    """Yield the readings that an arm is compared under, with their settings; none without a floor."""
    if floor is None:
        return
    if _value(arm.config, ("autoRecall", "quotas", "wildcard")) is None:
        raise UnusableInput(f"--readings: candidate {arm.name} has no quotas.wildcard, so it has no readings")
    for reading in READINGS:
        yield reading, reading.settings(floor)


def _holds(arm: ArmInfo, settings: Mapping[str, Any]) -> bool:
    """Return whether an arm's configuration has these settings."""
    return deep_merge(arm.config, settings) == arm.config


def _like(arms: Sequence[ArmInfo], arm: ArmInfo, config: Mapping[str, Any]) -> list[str]:
    """Return the names of the arms that run the same system under this configuration."""
    return [other.name for other in arms if other.system == arm.system and other.config == config]


def saturated(request: ReplayRequest, plan: Plan) -> ReplayRequest | None:
    """Return the replay with a large must share, or None if nearly every memory is relevant.

    No relevant memory is must_remember (mode ``distractors``), and the share is the largest of the saturation's shares
    that the set reaches, up to :data:`LARGE`.
    """
    shares = [draw.share or 0.0 for draw in saturating(plan, 1) if draw.mode == "distractors"]
    reached = [share for share in shares if share <= LARGE]
    if not reached:
        return None
    share = max(reached)
    nice = round(NICE_OF_REST * (1 - share), 6)
    return replace(request, labels="distractors", must_share=share, nice_share=nice)


def has_working_set(arm: ArmInfo) -> bool:
    """Return whether an arm builds a Working Set and removes duplicates of it."""
    return (
        arm.stateful
        and _value(arm.config, ("workingSet", "enabled")) is True
        and _value(arm.config, ("autoRecall", "dedupeBackbone")) is True
    )


def _value(config: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = config
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _written(arm: str, spec: ArmSpec, changes: Mapping[str, Any], folder: Path) -> str:
    """Write the configuration of a variant, and return it as ``NAME=FILE``."""
    config = deep_merge(deep_merge(spec.config or {}, changes), {"lab": {"arm": spec.system}})
    path = folder / f"{arm}.json"
    data = dump_json(config)
    if not (path.exists() and path.read_bytes() == data):
        write_atomically(path, data)
    return f"{arm}={path}"
