"""Texts of turns and memories for lists and search, read from the recordings on first use."""

from __future__ import annotations

from functools import cached_property

from lab.base.errors import LabError
from lab.view.index import Index
from lab.view.recorded import Recorded

# Characters of a turn in a list.
SHOWN = 160


class Texts:
    """The texts of the recordings of a run."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._lowered: tuple[Index, list[str], list[str]] | None = None

    def of(self, turn: str) -> str | None:
        """Return the start of a turn's text on one line; None if the recordings cannot be read."""
        try:
            text = self._turns.get(turn, "")
        except LabError:
            return None
        return " ".join(text[: 4 * SHOWN].split())[:SHOWN]

    def lowered(self, index: Index) -> tuple[list[str], list[str]]:
        """Return the casefolded texts of the turns and memories of an index, in its order, for the search."""
        if self._lowered is None or self._lowered[0] is not index:
            memories = {
                memory.key: memory.text
                for recording in self._recorded.plan().recordings
                for memory in recording.memories
            }
            self._lowered = (
                index,
                [self._turns.get(key, "").casefold() for key in index.turns],
                [memories.get(key, "").casefold() for key in index.memories],
            )
        return self._lowered[1:]

    @cached_property
    def _turns(self) -> dict[str, str]:
        plan = self._recorded.plan()
        texts = {probe.id: probe.query or "" for probe in plan.library.golden.probes}
        return texts | {turn.key: turn.text for recording in plan.recordings for turn in recording.turns}
