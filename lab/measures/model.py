"""What is said of a measure, and what each kind of measure is computed from.

A measure is one file in :mod:`lab.measures.definitions`, whose ``MEASURE`` is one of the six kinds below. Which kind
it is says what it is computed of: a ranking, what was injected at a probe, a recall turn, a conversation, its writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lab.measures.columns import Floats
    from lab.measures.conversation import Probes, Turns
    from lab.measures.ranking import Judged
    from lab.runs.writes import Written

Direction = Literal["higher", "lower", "neither"]
Unit = Literal["probe", "turn", "conversation"]
Which = Literal["with gold", "without gold", "all"]

SHARE = "0 … 1"
# Of one probe or turn; the mean over them is a share.
YES = "0 or 1"
COUNT = "0 …"
TREC, IR_MEASURES, ITSELF = "trec_eval", "ir_measures", "recall lab"
SEED_000, SEED_001 = "seed 000", "seed 001"
# Behind every measure that says where it stands.
LAST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """All that is said of a measure. ``unit`` is what has a value of its own.

    A measure with ``cut`` looks at the first k items and is written ``NAME@k``. ``graded`` says that ``NAME(rel=2)@k``
    differs from it. ``missing`` is what an arm without a value counts as where the arm that it is compared with has
    one; None leaves the place out. Measures are listed by unit, then by ``order``, then by name; ``scores.parquet``
    and every table keep that order. ``aliases`` are other names, in lower case. ``sentence`` is a template that puts
    the means of ``candidate`` and ``baseline`` in words; without one, a report gives the numbers.
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
        """The name as it is written: ``R@k``."""
        return f"{self.name}@k" if self.cut else self.name

    def as_json(self) -> dict[str, str | bool | float | None]:
        """Return what is said of it as plain values."""
        names = ("better", "unit", "range", "source", "definition", "cut", "graded", "missing")
        return {"measure": self.title} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeasure(Measure):
    """Computed of a ranking against its gold, at any cutoff and level of relevance.

    Rankings in files are scored by these, too. Without ``cut`` it is scored once, over all places of the arm; with
    ``needs_cutoff`` it has no value over a whole ranking. A ranking too short to be measured has no value.
    """

    values: Callable[[Judged, int], Floats]
    better: Direction = "higher"
    source: str = TREC
    cut: bool = True
    graded: bool = True
    missing: float | None = None
    needs_cutoff: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedMeasure(Measure):
    """Computed of the first k injected memories, at every cutoff up to the most items that the arm injects."""

    values: Callable[[Probes, int], Floats]
    cut: bool = True
    probes: Which = "with gold"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMeasure(Measure):
    """Computed of all that was injected at a probe. ``probes`` are those that have a value."""

    values: Callable[[Probes], Floats]
    probes: Which = "with gold"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMeasure(Measure):
    """Computed of every recall turn of a conversation, judged or not.

    ``over_probes`` defines ``NAME(probes)``, which is the same over judged turns alone; None: there is none.
    """

    values: Callable[[Turns], Floats]
    unit: Unit = "turn"
    over_probes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationMeasure(Measure):
    """Computed once of a conversation."""

    values: Callable[[Turns], float]
    unit: Unit = "conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesMeasure(Measure):
    """Computed once of what a system that captures wrote in a conversation; no other arm has a value."""

    values: Callable[[Written], float]
    unit: Unit = "conversation"
    missing: float | None = None


def name_over_probes(name: str) -> str:
    """Return the name of a turn measure over judged turns alone."""
    return f"{name}(probes)"
