"""The cause of every missed memory, for the table of probes.

Causes are those of ``lab missed``: they are read from its file if it is of the shown run, else computed in the
background, conversation by conversation, by the same code. ``lab explain`` names the same cause for one memory.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock, Thread
from typing import TYPE_CHECKING

from lab.base.errors import LabError
from lab.replay.explain import CAUSES, FILE, Missed, missed_in
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table
from lab.view.index import Index
from lab.view.recorded import Recorded

if TYPE_CHECKING:
    from lab.base.columns import Ints

NAMES = tuple(CAUSES)
# Missed memories of a conversation in a run, by the number of the run and the name of the conversation.
Found = dict[tuple[int, str], list[Missed]]


class Causes:
    """Causes by arm and turn. ``problem`` says why some are missing; ``found`` keeps them for the next index."""

    def __init__(self, index: Index, recorded: tuple[Recorded, ...], found: Found | None = None) -> None:
        self._index, self._recorded = index, recorded
        self.found: Found = {} if found is None else found
        self._lock = Lock()
        self._thread: Thread | None = None
        self._bits: dict[str, Ints] = {}
        self._counted = -1
        self.is_closed = False
        self.is_done = False
        self.problem = ""
        for number in range(len(index.runs.all)):
            self._load(number)

    @property
    def version(self) -> str:
        """A text that changes when more causes are known."""
        return str(len(self.found))

    @property
    def pending(self) -> bool:
        """Whether causes are being computed."""
        return self._thread is not None and not self.is_done

    @property
    def progress(self) -> tuple[int, int]:
        """The number of conversations whose causes are known, and of those that have been read, over all runs."""
        return len(self.found), len(self._index.read) * len(self._index.runs.all)

    def start(self) -> None:
        """Compute the causes that are not known in the background, unless that has begun."""
        with self._lock:
            if self._thread is None and self.progress[0] < self.progress[1]:
                self._thread = Thread(target=self._compute, daemon=True)
                self._thread.start()

    def bits(self, arm: str) -> Ints:
        """Return the causes at each turn, int64 ``[turns]``: bit n is the n-th of :data:`NAMES`."""
        import numpy as np

        with self._lock:
            if self._counted != len(self.found):
                self._counted = len(self.found)
                self._bits = {name: np.zeros(len(self._index.turns), np.int64) for name in self._index.arms}
                for (number, _), rows in list(self.found.items()):
                    names = self._index.runs.names(number)
                    for row in rows:
                        turn = self._index.number_of(row.conversation, row.probe)
                        if turn is not None:
                            self._bits[names[row.arm]][turn] |= 1 << NAMES.index(row.cause)
            return self._bits[arm]

    def _load(self, number: int) -> None:
        """Read the file of ``lab missed``, unless it lists other memories than this run missed."""
        run = self._index.runs.all[number]
        if not (run.path / FILE).is_file():
            return
        rows = _stored(run)
        places = self._index.runs.places
        missed = {
            (places[name].arm, self._index.turns[turn], key)
            for name, turns in self._index.missed.items()
            if places[name].run == number
            for turn, key in turns
        }
        if {(row.arm, row.probe, row.memory) for row in rows} == missed and self._index.read == run.conversations:
            by_name: dict[str, list[Missed]] = {name: [] for name in self._index.read}
            for row in rows:
                by_name[row.conversation].append(row)
            self.found |= {(number, name): missed for name, missed in by_name.items()}

    def _compute(self) -> None:
        try:
            for number in range(len(self._index.runs.all)):
                run, recorded = self._index.part(number), self._recorded[number]
                for name in self._index.read:
                    if self.is_closed:
                        return
                    if (number, name) not in self.found:
                        self.found[number, name] = missed_in(run, recorded.plan_alone(name), name)
        except LabError as error:
            self.problem = str(error)
        finally:
            self.is_done = True


def _stored(run: RunDirectory) -> list[Missed]:
    try:
        rows = read_table(run.path / FILE, Missed._fields).to_pylist()
    except LabError:
        return []
    return [Missed(**row) for row in rows if row["probe"] is not None and row["cause"] in CAUSES]


@lru_cache
def words(bits: int) -> tuple[str, ...]:
    """Return the causes of a turn as words."""
    return tuple(name for number, name in enumerate(NAMES) if bits >> number & 1)
