"""How a document ages: its relevance (RS-6, RS-7) and the transitions between tiers (RS-8). Pure functions."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

CORE, WORKING, PERIPHERAL = "core", "working", "peripheral"
TIERS = (CORE, WORKING, PERIPHERAL)
BETA = {CORE: 0.8, WORKING: 1.0, PERIPHERAL: 1.3}
FLOOR = {CORE: 0.9, WORKING: 0.3, PERIPHERAL: 0.1}
HALF_LIFE_DAYS = 30.0
DAY_SECONDS = 86_400


class Vitals(NamedTuple):
    """What the relevance and the tier of a document depend on; ``age_seconds`` counts from its creation."""

    tier: str
    importance: float
    access_count: int
    pinned: bool
    age_seconds: int


@dataclass(frozen=True, slots=True)
class Promotion:
    """The thresholds of the core tier (RS-8): by accesses alone, by importance alone, or by both together."""

    access_only: int = 15
    importance_only: float = 0.9
    both_access: int = 5
    both_importance: float = 0.8


PRESETS = {"default": Promotion(), "test": Promotion(3, 0.6, 2, 0.5)}


def single(value: float) -> float:
    """Return the nearest 32-bit number."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def rounding(*, f32: bool) -> Callable[[float], float]:
    """Return the function that rounds each result: to 32 bits, or not at all (RS-7)."""
    return single if f32 else float


def relevance(vitals: Vitals, *, f32: bool = False) -> float:
    """Return the relevance of a document, from .01 to 1 (RS-6). A pinned one has 1, whatever its age."""
    if vitals.pinned:
        return 1.0
    r = rounding(f32=f32)
    importance = r(vitals.importance)
    age_days = r(r(max(0, vitals.age_seconds)) / DAY_SECONDS)
    half_life = r(HALF_LIFE_DAYS * min(r(math.exp(r(1.5 * importance))), 10.0))
    recency = r(math.exp(-r(r(r(math.log(2.0)) / half_life) * r(age_days ** r(BETA[vitals.tier])))))
    frequency = r(1.0 - r(math.exp(-r(vitals.access_count / 5.0))))
    composite = r(r(r(r(0.4) * recency) + r(r(0.3) * frequency)) + r(r(0.3) * importance))
    return min(max(composite, r(FLOOR[vitals.tier]), r(0.01)), 1.0)


def tier_after(vitals: Vitals, promotion: Promotion, *, core_demotion: bool, f32: bool = False) -> str:
    """Return the tier of a document after a write or a touch (RS-8); the first rule that applies decides."""
    if vitals.pinned:
        return CORE
    accesses, importance = vitals.access_count, vitals.importance
    if (
        accesses >= promotion.access_only
        or importance >= promotion.importance_only
        or (accesses >= promotion.both_access and importance >= promotion.both_importance)
    ):
        return CORE
    if vitals.tier == CORE and not core_demotion:
        return CORE
    score = relevance(vitals, f32=f32)
    if score < 0.15 or (vitals.age_seconds > 60 * DAY_SECONDS and accesses < 3):
        return PERIPHERAL
    if vitals.tier == PERIPHERAL and accesses >= 3 and score >= 0.4:
        return WORKING
    return vitals.tier
