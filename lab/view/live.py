"""The state of a viewer: the index of its runs, renewed while they grow, and what is computed from it on demand."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from time import monotonic

from lab.base.errors import LabError
from lab.view.causes import Causes
from lab.view.index import Index, Known
from lab.view.recorded import Recorded
from lab.view.runs import Runs
from lab.view.values import ProbeValues

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
