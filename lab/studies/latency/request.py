"""The arguments of ``lab study latency``, checked, and the cells of the measurement."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.embedding.address import is_loopback
from lab.embedding.endpoint import EndpointEmbedder
from lab.replay.plan import Plan, make_plan
from lab.retrieval.lance import VECTOR_INDEXES, VectorIndex
from lab.retrieval.retrievers import STORES
from lab.runs.request import ReplayRequest
from lab.studies.latency.bench import EXCHANGED, NOISE

SIZES = (1_000, 10_000, 100_000)
CADENCES = ("1", "16", "128", "never")
WAITING = (0, 10, 100, 1_000)
NEVER = "never"
# Turns of each pass over a table with uncompacted rows: enough for an interval of the p50.
WAITING_TURNS = 20


@dataclass(frozen=True, slots=True)
class LatencyRequest:
    """The arguments of ``lab study latency``. ``replay`` names recordings, arms and labels as a replay does.

    ``cold`` is the number of fresh processes per arm; ``rate`` the requests per second of the open loop (None: no open
    loop); ``appends`` the rows appended under each cadence (0: no cadences); ``waiting`` the numbers of uncompacted
    rows on top of ``grow_from`` compacted ones (None: the smallest of ``sizes``). ``embed`` is whether each prompt is
    embedded again, to time it (None: unless that would send it to another machine).
    """

    replay: ReplayRequest
    sizes: tuple[int, ...] = SIZES
    stores: tuple[str, ...] = ("lancedb",)
    turns: int = 400
    warm_up: int = 10
    cold: int = 6
    rate: float | None = None
    cadences: tuple[str, ...] = CADENCES
    appends: int = 256
    waiting: tuple[int, ...] = WAITING
    grow_from: int | None = None
    vector_index: str = "none"
    embed: bool | None = None

    @property
    def index(self) -> VectorIndex | None:
        """Return the vector index of every LanceDB table, if there is one."""
        return None if self.vector_index == "none" else VectorIndex(self.vector_index)

    @property
    def base(self) -> int:
        """Return the number of compacted rows below the uncompacted ones."""
        return min(self.sizes) if self.grow_from is None else self.grow_from

    def describe(self) -> dict[str, Any]:
        """Return everything except the replay's arguments, as plain values."""
        values = {name: value for name, value in asdict(self).items() if name != "replay"}
        return values | {
            "grow_from": self.base,
            "vector_index": self.index.describe() if self.index else "none",
            "resampling": {"seed": self.replay.seed, "noise": NOISE, "words_exchanged": EXCHANGED},
        }


class Cell(NamedTuple):
    """A part of the measurement with its own process and file; a ``value`` of None means never."""

    kind: str
    value: int | None

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return f"{self.kind}-{NEVER if self.value is None else format(self.value, '08')}"


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """A measurement ready to run."""

    asked: LatencyRequest
    plan: Plan
    cells: tuple[Cell, ...] = field(default=())

    @property
    def embeds(self) -> bool:
        """Return whether prompts are embedded again; to another machine they are sent only with ``embed``."""
        if self.asked.embed is not None:
            return self.asked.embed
        embedder = self.plan.embedder
        return not isinstance(embedder, EndpointEmbedder) or is_loopback(urlsplit(embedder.url).hostname or "")

    def resolved(self) -> dict[str, Any]:
        """Return everything that determines the measurement; the store of the replay's arguments is ignored."""
        asked = self.asked.describe() | {"embed": self.embeds}
        return {name: value for name, value in self.plan.resolved().items() if name != "store"} | asked


def plan_latency(asked: LatencyRequest) -> LatencyPlan:
    """Check the arguments and read the recordings."""
    _check(asked)
    plan = make_plan(replace(asked.replay, haystack=0))
    searched = plan.retrievals()
    if len(searched) > 1:
        raise UnusableInput(
            "these arms search different tables (different tokens or documents); measure them separately"
        )
    if "lancedb" in asked.stores and searched[0].text.lane == "scan":
        raise UnusableInput(
            "profile upstream scans its text lane, which only the exact store supports; use --store exact"
        )
    if not any(recording.memories for recording in plan.recordings):
        raise UnusableInput(f"{asked.replay.path}: has no memories, so there is nothing to search")
    if not any(plan.recall_points_of(recording) for recording in plan.recordings):
        raise UnusableInput(
            f"{asked.replay.path}: has no turn to recall at, so there is nothing to time; choose turns with "
            "--recall-turns"
        )
    cells = [Cell("size", size) for size in asked.sizes]
    if "lancedb" in asked.stores and asked.appends:
        cells += [Cell("waiting", waiting) for waiting in asked.waiting if waiting or asked.base]
        cells += [Cell("cadence", None if cadence == NEVER else int(cadence)) for cadence in asked.cadences]
    return LatencyPlan(asked, plan, tuple(cells))


def _check(asked: LatencyRequest) -> None:
    for store in asked.stores:
        if store not in STORES:
            raise UnusableInput(f"unknown store {store!r}; {choices(store, STORES)}")
    if asked.vector_index not in VECTOR_INDEXES:
        raise UnusableInput(f"unknown vector index {asked.vector_index!r}; known: {', '.join(VECTOR_INDEXES)}")
    for cadence in asked.cadences:
        if cadence != NEVER and not (cadence.isdecimal() and int(cadence) > 0):
            raise UnusableInput(f"compaction cadence {cadence!r} is neither a whole number from 1 nor {NEVER!r}")
    counts = (("memories", asked.sizes, 1), ("turns", (asked.turns,), 1), ("waiting", asked.waiting, 0))
    for what, values, least in counts:
        for value in values:
            if value < least:
                raise UnusableInput(f"{what} {value} is not a whole number from {least}")
    if asked.rate is not None and not 0 < asked.rate < math.inf:
        raise UnusableInput(f"rate {asked.rate} is not a number above 0")
    for what, given in (("memories", asked.sizes), ("store", asked.stores), ("waiting", asked.waiting)):
        if len(set(given)) < len(given):
            raise UnusableInput(f"{what} is given twice with the same value: {', '.join(map(str, given))}")
    if len(set(asked.cadences)) < len(asked.cadences):
        raise UnusableInput(f"a compaction cadence is given twice: {','.join(asked.cadences)}")
