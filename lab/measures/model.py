"""The description of a measure, and the kinds of measures by their input.

A measure is one file in :mod:`lab.measures.definitions`, whose ``MEASURE`` is of one of the six kinds below. The kind
determines the input: rankings, injections at probes, recall turns, conversations, or writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lab.measures.inputs import Floats, Judged, Probes, Turns
    from lab.runs.receipts import Written

Direction = Literal["higher", "lower", "neither"]
Unit = Literal["probe", "turn", "conversation"]
Which = Literal["with gold", "without gold", "with answer", "all"]

SHARE = "0 … 1"
# The range for one probe or turn; the mean is a share.
YES = "0 or 1"
COUNT = "0 …"
NET = "-1, 0 or 1"
SIGNED = "-1 … 1"
TREC, IR_MEASURES, ITSELF = "trec_eval", "ir_measures", "recall lab"
SEED_000, SEED_001, SEED_003 = "seed 000", "seed 001", "seed 003"
# The latency of a whole turn, listed beside its stages.
TOTAL = "total"
# The order of measures without one: after all others.
LAST = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measure:
    """The description of a measure. Each ``unit`` (probe, turn or conversation) has one value.

    A measure with ``cut`` is computed over the first k items and written ``NAME@k``; with ``graded`` it also accepts a
    level, ``NAME(rel=2)@k``. ``missing`` replaces a missing value where the compared arm has one; None leaves the unit
    out. Measures are sorted by unit, ``order`` and name, in ``scores.parquet`` and in tables. ``aliases`` are other
    names, in lower case. ``sentence`` is a template that describes the means of ``candidate`` and ``baseline``; without
    one, a report shows the numbers.
    """

    name: str
    better: Direction
    range: str
    source: str
    definition: str
    unit: Unit = "probe"
    order: int = LAST
    aliases: tuple[str, ...] = ()
    cut: bool = False
    graded: bool = False
    missing: float | None = 0.0
    sentence: str = ""

    @property
    def title(self) -> str:
        """The name with its cutoff, such as ``R@k``."""
        return f"{self.name}@k" if self.cut else self.name

    def as_json(self) -> dict[str, str | bool | float | None]:
        """Return the description as plain JSON values."""
        names = ("better", "unit", "range", "source", "definition", "cut", "graded", "missing")
        return {"measure": self.title} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankMeasure(Measure):
    """Computed from a ranking and its gold, at any cutoff and level of relevance.

    Also used for rankings in files. Without ``cut``, it is computed once over the complete ranking; with
    ``needs_cutoff``, it has no value over a complete ranking. Too short a ranking has no value.
    """

    values: Callable[[Judged, int], Floats]
    better: Direction = "higher"
    source: str = TREC
    cut: bool = True
    graded: bool = True
    missing: float | None = None
    needs_cutoff: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InjectedMeasure(Measure):
    """Computed from the first k injected memories, at every cutoff up to the arm's maximum number of items.

    With a ``family``, only probes of this family of harms have a value, and scores of sets without one do not name the
    measure. ``across`` says that a value depends on several probes of a conversation.
    """

    values: Callable[[Probes, int], Floats]
    cut: bool = True
    probes: Which = "with gold"
    family: str = ""
    across: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeMeasure(Measure):
    """Computed from everything injected at a probe; ``probes`` says which probes have a value."""

    values: Callable[[Probes], Floats]
    probes: Which = "with gold"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnMeasure(Measure):
    """Computed from every recall turn of a conversation, judged or not.

    ``over_probes`` is the definition of ``NAME(probes)``, the same measure over judged turns; None if there is none.
    """

    values: Callable[[Turns], Floats]
    unit: Unit = "turn"
    over_probes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConversationMeasure(Measure):
    """Computed once for each conversation."""

    values: Callable[[Turns], float]
    unit: Unit = "conversation"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WritesMeasure(Measure):
    """Computed once for each conversation from the writes of an arm that captures; other arms have no value."""

    values: Callable[[Written], float]
    unit: Unit = "conversation"
    missing: float | None = None


def name_over_probes(name: str) -> str:
    """Return the name of a turn measure over judged turns."""
    return f"{name}(probes)"
