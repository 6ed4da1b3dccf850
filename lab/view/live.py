"""The state of a viewer: the index of its runs, renewed while they grow, and the measures computed on demand."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, RLock, Thread
from time import monotonic
from typing import TYPE_CHECKING

from lab.base.errors import LabError
from lab.compare.arms import ArmMean, arm_means
from lab.compare.comparable import equal_in
from lab.measures.score import headlines, score_run, with_judged
from lab.runs.scores import Scores, Values
from lab.view.causes import Causes
from lab.view.index import Index, Known
from lab.view.recorded import Recorded
from lab.view.runs import Runs

if TYPE_CHECKING:
    from lab.base.columns import Flags, Floats, Ints

# Measures of the summary after the headlines; those with @ are cut at the number of items that every arm can inject.
SUMMARY_CUT = ("CleanHit", "Forbidden")
SUMMARY = ("StaleRecall", "AnyWrongScope", "FalseRecall", "InjectedItems", "InjectedTokens")


class _Table:
    """The scores of one run, sorted by arm and measure."""

    def __init__(self, index: Index, scores: Scores) -> None:
        import numpy as np

        self.scores = scores
        self._order = np.lexsort((scores.measure, scores.arm))
        self._cells = (scores.arm * len(scores.measures) + scores.measure)[self._order]
        self._arms = {arm: number for number, arm in enumerate(scores.arms)}
        self._measures = {measure: number for number, measure in enumerate(scores.measures)}
        conversations = np.zeros(len(scores.units), np.int64)
        conversations[scores.at] = scores.conversation
        names = [scores.conversations[number] for number in conversations.tolist()]
        numbers = (index.numbers.get(place, -1) for place in zip(names, scores.units, strict=True))
        self.turn_of = np.fromiter(numbers, np.int64, len(scores.units))

    def rows(self, arm: str, measure: str) -> Ints:
        """Return the rows of the scores of an arm and a measure."""
        import numpy as np

        if arm not in self._arms or measure not in self._measures:
            return np.zeros(0, np.int64)
        cell = self._arms[arm] * len(self._measures) + self._measures[measure]
        start, end = np.searchsorted(self._cells, [cell, cell + 1])
        return np.asarray(self._order[start:end])

    def measured(self, judged: Flags) -> list[str]:
        """Return the measures that have a value at a probe, in the order of the scores."""
        import numpy as np

        turns = self.turn_of[self.scores.at]
        at_probe = (turns >= 0) & ~np.isnan(self.scores.value)
        at_probe[at_probe] = judged[turns[at_probe]]
        known = np.bincount(self.scores.measure[at_probe], minlength=len(self.scores.measures))
        return [name for name, count in zip(self.scores.measures, known.tolist(), strict=True) if count]


class ProbeValues:
    """Measures by arm and turn of the conversations that an index has read.

    ``problem`` says why there are none; ``version`` changes when the computation ends. Until then, the values of
    ``before`` are shown, an earlier index of the same runs; ``conversations`` counts what the means are over.
    """

    def __init__(self, index: Index, before: ProbeValues | None = None) -> None:
        self._index = index
        self._lock = Lock()
        self._thread: Thread | None = None
        self._tables: list[_Table] = []
        self._columns: dict[tuple[str, str], Floats] = {}
        self.measures: list[str] = []
        self.summary: dict[str, dict[str, ArmMean]] = {}
        self.conversations = 0
        self.problem = ""
        self.is_done = False
        if before is not None and before._tables:
            self._tables = [_Table(index, table.scores) for table in before._tables]
            self.measures, self.summary, self.conversations = before.measures, before.summary, before.conversations

    @property
    def version(self) -> str:
        """A text that changes when the values are there."""
        return str(int(self.is_done))

    @property
    def pending(self) -> bool:
        """Whether values are being computed."""
        return self._thread is not None and not self.is_done

    def start(self, wait: float = 0.0) -> None:
        """Compute the values in the background, unless that has begun; wait for them up to some seconds."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._compute, daemon=True)
                self._thread.start()
        self._thread.join(wait)

    def _compute(self) -> None:
        runs = self._index.runs
        try:
            parts = [self._index.part(number) for number in range(len(runs.all))]
            tables = [_Table(self._index, score_run(part)) for part in parts]
            names = dict.fromkeys(name for table in tables for name in table.measured(self._index.judged))
            self._tables, self.measures, self._columns = tables, list(names), {}
            self.summary, self.conversations = self._summary(), len(self._index.read)
        except LabError as error:
            self.problem = str(error)
        finally:
            self.is_done = True

    def _summary(self) -> dict[str, dict[str, ArmMean]]:
        cutoff = min(run.cutoff for run in self._index.runs.all)
        names = [*with_judged(headlines(cutoff)), *(f"{name}@{cutoff}" for name in SUMMARY_CUT), *SUMMARY]
        values = {arm: {name: found for name in names if (found := self.of(arm, name)).at} for arm in self._index.arms}
        runs = self._index.runs
        means = arm_means(names, values, runs.contenders, equal_in(runs.first))
        return {name: row for name, row in means.items() if row}

    def of(self, arm: str, measure: str) -> Values:
        """Return the values of an arm, without units that have none."""
        table, name = self._place(arm)
        rows = table.rows(name, measure)
        rows = rows[~_missing(table.scores.value[rows])]
        scores = table.scores
        return Values(
            [scores.units[at] for at in scores.at[rows].tolist()],
            [scores.conversations[at] for at in scores.conversation[rows].tolist()],
            scores.value[rows].tolist(),
        )

    def at(self, arm: str, measure: str) -> Floats:
        """Return the value of an arm at each turn, float64 ``[turns]``, NaN where there is none."""
        import numpy as np

        columns = self._columns
        if (arm, measure) in columns:
            return columns[arm, measure]
        values = np.full(len(self._index.turns), np.nan)
        if self._tables:
            table, name = self._place(arm)
            rows = table.rows(name, measure)
            turns = table.turn_of[table.scores.at[rows]]
            values[turns[turns >= 0]] = table.scores.value[rows][turns >= 0]
        columns[arm, measure] = values
        return values

    def scores(self, number: int) -> Scores | None:
        """Return the scores of a run; None until they are computed."""
        return self._tables[number].scores if self._tables else None

    def _place(self, arm: str) -> tuple[_Table, str]:
        place = self._index.runs.places[arm]
        return self._tables[place.run], place.arm


def _missing(values: Floats) -> Flags:
    import numpy as np

    return np.isnan(values)


# Seconds between two looks at the folder of a growing run.
LOOK_EVERY = 0.5


class State:
    """An index, and the measures, causes and recordings that belong to it."""

    def __init__(self, index: Index, recorded: tuple[Recorded, ...], before: State | None = None) -> None:
        self.index, self.recorded = index, recorded
        self.values: ProbeValues = ProbeValues(index, before.values if before else None)
        self.causes: Causes = Causes(index, recorded, before.causes.found if before else None)

    def warm(self) -> None:
        """Read the recordings ahead of the first page that needs them."""
        for recorded in self.recorded:
            recorded.warm()

    @property
    def version(self) -> str:
        """A text that changes when a page may show something new."""
        return f"{self.index.runs.stamp}-{self.values.version}-{self.causes.version}"

    @property
    def pending(self) -> bool:
        """Whether a page may soon show something new."""
        return self.index.runs.growing or self.values.pending or self.causes.pending


class Live:
    """Thread-safe access to the current state."""

    def __init__(self, runs: Runs, announce: Callable[[str], None] = lambda _: None) -> None:
        self._lock = RLock()
        self._known: Known = {}
        self._stamp, self._looked = runs.stamp, monotonic()
        self._recorded = tuple(Recorded(run) for run in runs.all)
        self._state = State(Index(runs, announce, self._known), self._recorded)

    def now(self) -> State:
        """Return the state; if files were added to a growing run since, read them first."""
        with self._lock:
            runs = self._state.index.runs
            if runs.growing and monotonic() - self._looked >= LOOK_EVERY:
                self._looked = monotonic()
                if (stamp := runs.stamp) != self._stamp:
                    self._renew(runs, stamp)
            return self._state

    def _renew(self, runs: Runs, stamp: str) -> None:
        try:
            index = Index(runs.reopened(), known=self._known)
        except LabError:
            # A file is being replaced, or the run was removed: the last state stays until the next look.
            return
        self._state.causes.is_closed = True
        self._stamp, self._state = stamp, State(index, self._recorded, self._state)
