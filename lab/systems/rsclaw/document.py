"""Documents of rsclaw: kinds, defaults, ids, summaries (RS-1 to RS-5), and how they age (RS-6 to RS-8)."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.base.formatting import folded
from lab.base.regex import regex
from lab.recordings.model import IGNORE, MUST, NICE, Memory

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


# ``remember`` is the kind of what a user stores with /remember; the other eleven are those of the documentation (RS-2).
REMEMBER = "remember"
KINDS = (
    *("entity", "preference", "fact", "procedure", "project_state", "relationship"),
    *("lesson", "failure", "note", "summary", "session", REMEMBER),
)


class Defaults(NamedTuple):
    """The importance of a kind, its tier when it is new, and whether it is pinned."""

    importance: float
    tier: str = WORKING
    pinned: bool = False


# What is stored by a tool, a command or the lab (RS-3), and what is extracted (RS-16); other kinds have importance .65.
_OTHER = Defaults(0.65)
_PUT = {
    "entity": Defaults(0.95, CORE, pinned=True),
    REMEMBER: Defaults(0.8),
    "preference": Defaults(0.75),
    "summary": Defaults(0.55),
    "note": Defaults(0.3, PERIPHERAL),
}
_EXTRACTED = {
    "entity": Defaults(0.9, CORE, pinned=True),
    "preference": Defaults(0.72),
    "procedure": Defaults(0.72),
    "lesson": Defaults(0.85, CORE),
    "failure": Defaults(0.6),
}
# Categories of the lab's memories that are no kinds (RS-4). "note" would never be injected, so "other" is a fact.
_KIND_OF = {"decision": "project_state", "todo": "project_state", "other": "fact"}
_IMPORTANCE_OF = {MUST: 0.8, NICE: 0.5, IGNORE: 0.3}
# The project's own namespace of document ids.
_NAMESPACE = uuid.UUID("c2a5b9d1-4a0f-5c53-9a56-0f4c6f0f8c77")
_SENTENCE_END = regex(r"\.(?= )|。")


def put_defaults(kind: str) -> Defaults:
    """Return the defaults of a document that a tool, a command or the lab stores (RS-3)."""
    return _PUT.get(kind, _OTHER)


def extracted_defaults(kind: str) -> Defaults:
    """Return the defaults of an extracted document (RS-16)."""
    return _EXTRACTED.get(kind, _PUT.get(kind, _OTHER))


def kind_of(category: str) -> str:
    """Return the kind of a memory of a category (RS-4)."""
    return category if category in KINDS else _KIND_OF.get(category, "fact")


def importance_of_label(label: str | None, default: float) -> float:
    """Return the importance of a label of the lab, or the default of a kind if there is none (RS-4)."""
    return _IMPORTANCE_OF.get(label or "", default)


def importance_of(memory: Memory, *, by_label: bool) -> float:
    """Return the importance of a given memory: of its label if that is used and known, else of its kind (RS-4)."""
    default = put_defaults(kind_of(memory.category)).importance
    return importance_of_label(memory.label, default) if by_label else default


def document_id(scope: str, kind: str, text: str) -> str:
    """Return the id of a document, a UUIDv5 of its scope, kind and normalised text (RS-5)."""
    return str(uuid.uuid5(_NAMESPACE, "\0".join((scope, kind, folded(text)))))


def abstract(text: str) -> str:
    """Return the summary L0: the first sentence, or 150 characters of a text without one (RS-2)."""
    end = _SENTENCE_END.search(text)
    return text[: end.end() if end else 150].strip()


def overview(text: str, *, last: bool = True) -> str:
    """Return the summary L1: the first three sentences, or 200 characters of a text without an end of one (RS-2).

    ``last``: what follows the last end of a sentence is one too. Without it, as in the source, a text of two sentences
    loses the second.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)][:3]
    if last and 0 < len(ends) < 3:
        ends.append(len(text))
    return text[: ends[-1] if ends else 200].strip()


@dataclass(slots=True)
class Document:
    """A document (RS-1). Times are seconds since the epoch.

    ``keys`` are the names under which the lab knows it: those of given memories, or the one of its capture; an item of
    a recall has the first. ``sources`` are the turns that it came from. ``home`` is the scope that the recording gives
    it, ``scope`` the one that searches filter by. ``saved`` is its state at its last write to disk.
    """

    id: str
    scope: str
    kind: str
    text: str
    importance: float
    tier: str
    pinned: bool
    created_at: int
    accessed_at: int
    keys: list[str]
    home: str
    sources: tuple[str, ...] = ()
    access_count: int = 0
    overview_text: str = ""
    saved: tuple[str, int, int] = field(default=(WORKING, 0, 0))

    def vitals(self, now: int) -> Vitals:
        """Return what its relevance and its tier depend on, at a time in seconds."""
        return Vitals(self.tier, self.importance, self.access_count, self.pinned, max(0, now - self.created_at))

    def save(self) -> None:
        """Note the state that a restart would read from disk."""
        self.saved = (self.tier, self.access_count, self.accessed_at)

    def restore(self) -> None:
        """Return to the state of the last write."""
        self.tier, self.access_count, self.accessed_at = self.saved
