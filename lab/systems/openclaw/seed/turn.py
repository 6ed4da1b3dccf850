"""The turn of the seeds' flow: adds the Working Set that is built before selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.base.utf16 import js_length
from lab.retrieval.contract import Row
from lab.systems.openclaw.recall.budget import Slot
from lab.systems.openclaw.recall.receipt import MAX_LISTED, most_listed
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.seed.working_set import WorkingSet, sections_of


@dataclass(slots=True)
class SeedTurn(Turn):
    """The turn's state, which the seeds' stages fill in. ``built_working_set`` is None if the Working Set is off."""

    built_working_set: WorkingSet | None = None

    @property
    def covered(self) -> tuple[str, ...]:
        """Ids of the memories whose lines are in the Working Set as injected."""
        return self.covered_in(self.kept)

    def covered_in(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """Return the ids of the memories whose lines are in the Working Set as it is among the ``slots``."""
        text = next((slot.text for slot in slots if self.pinned and slot.id == self.pinned.id), None)
        return () if text is None else self._covered_by(text)

    def _covered_by(self, text: str) -> tuple[str, ...]:
        lines = set(text.split("\n"))
        built = self.built_working_set.lines if self.built_working_set else ()
        return tuple(dict.fromkeys(line.id for line in built if line.id and line.text in lines))

    def working_set_receipt(self, slots: Sequence[Slot]) -> dict[str, Any] | None:
        """Return the receipt of the Working Set as it is among the ``slots``, where the budget may have cut it."""
        if self.working_set is None or self.pinned is None:
            return self.working_set
        text = next((slot.text for slot in slots if slot.id == self.pinned.id), "")
        counts = {"chars": js_length(text), "sections": sections_of(text)}
        return self.working_set | counts | {"consumedCount": len(self._covered_by(text))}

    @property
    def explained(self) -> bool:
        """Whether the receipt has the fields of seed 000: under the quotas, and beside any Working Set."""
        return self.config.phased or self.config.working_set.enabled

    @property
    def most_ids(self) -> int:
        """The maximum length of a list of ids in the receipt."""
        return MAX_LISTED if self.config.explains_all else most_listed(self.config.receipts)

    def is_whole(self, row: Row) -> bool:
        """Whether the Working Set's line of a memory is its full text, which it always is for a hard rule."""
        return (row.hard_rule and self.config.active_phases.hard_rules) or Turn.is_whole(self, row)

    @property
    def history_key(self) -> str:
        """The key under which repeats are counted."""
        return (self.prompt.session or "") if self.config.phases.repeat_history == "session" else ""
