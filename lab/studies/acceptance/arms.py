"""The arms that the criteria need, and the two replays: as recorded, and with a large must share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, write_atomically
from lab.base.shape import deep_merge
from lab.replay.labels import NICE_OF_REST
from lab.replay.plan import Plan
from lab.runs.request import ReplayRequest
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
# The knob of seed 000's "remaining slots", and the reading that is not its default.
READING: tuple[tuple[str, ...], str] = (("autoRecall", "quotas", "wildcard"), "best")


class Variant(NamedTuple):
    """An arm that differs from a candidate in one setting: its name, and how it is described."""

    arm: str
    of: str
    about: str


@dataclass(frozen=True, slots=True)
class Cast:
    """The arms of a verdict, as ``--arm`` takes them.

    ``candidates`` are judged. ``plain`` maps a candidate to the arm without de-duplication of its Working Set; a
    candidate without a Working Set has none, and is in ``without_working_set``. ``readings`` are candidates under the
    other reading of a knob.
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
            for name in (candidate, *(variant.arm for variant in self.readings if variant.of == candidate))
        )


def cast_of(request: ReplayRequest, candidates: Sequence[str], folder: Path) -> Cast:
    """Return the arms to replay for these candidates (``NAME`` or ``NAME=FILE``).

    Configurations of variants are written into ``folder``. Raises :class:`UnusableInput` for an unknown arm.
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
        path, other = READING
        if _value(info.config, path) not in (None, other):
            changed = _nested(path, other)
            variant = Variant(f"{spec.name}-{path[-1]}-{other}", spec.name, f"{path[-1]}: {other}")
            readings.append(variant)
            arms.append(_written(variant.arm, spec, changed, folder))
            variants.append((variant.arm, deep_merge(spec.config or {}, changed)))
        for name, config in variants:
            if has_working_set(info):
                arm = f"{name}-no-dedupe"
                plain[name] = arm
                arms.append(_written(arm, replace(spec, config=config), NO_DEDUPE, folder))
            else:
                without.add(name)
    return Cast(tuple(judged), plain, tuple(readings), tuple(arms), frozenset(without))


def cast_in(arms: Sequence[ArmInfo], candidates: Sequence[str], where: str, command: str) -> Cast:
    """Return the arms of a run that hold these candidates.

    The arm without de-duplication is found by its configuration. Raises :class:`UnusableInput` for a missing arm, with
    the ``command`` that adds it.
    """
    known = {arm.name: arm for arm in arms}
    names = [candidate.partition("=")[0] for candidate in candidates]
    if missing := [name for name in (*REFERENCES, *names) if name not in known]:
        raise UnusableInput(
            f"{where}: has no arm {', '.join(map(repr, missing))}, which acceptance needs; add it with: {command}"
        )
    path, other_value = READING
    readings = tuple(
        Variant(arm, name, f"{path[-1]}: {other_value}")
        for name in names
        if _value(known[name].config, path) not in (None, other_value)
        for arm in _like(arms, known[name], deep_merge(known[name].config, _nested(path, other_value)))
    )
    plain: dict[str, str] = {}
    judged = (*names, *(variant.arm for variant in readings))
    for name in judged:
        config = deep_merge(known[name].config, NO_DEDUPE)
        if has_working_set(known[name]):
            plain.update((name, other) for other in _like(arms, known[name], config))
    without = frozenset(name for name in judged if not has_working_set(known[name]))
    return Cast(tuple(names), plain, readings, tuple(known), without)


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


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    nested: Any = value
    for name in reversed(path):
        nested = {name: nested}
    return dict(nested)


def _written(arm: str, spec: ArmSpec, changes: Mapping[str, Any], folder: Path) -> str:
    """Write the configuration of a variant, and return it as ``NAME=FILE``."""
    config = deep_merge(deep_merge(spec.config or {}, changes), {"lab": {"arm": spec.system}})
    path = folder / f"{arm}.json"
    data = dump_json(config)
    if not (path.exists() and path.read_bytes() == data):
        write_atomically(path, data)
    return f"{arm}={path}"
