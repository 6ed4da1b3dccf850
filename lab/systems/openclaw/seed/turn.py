"""The turn of the seeds' flow: adds the Working Set that is built before selection."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.retrieval.row import Row
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.seed.working_set import WorkingSet


@dataclass(slots=True)
class SeedTurn(Turn):
    """The turn's state, which the seeds' stages fill in.

    ``built_working_set`` is None if the Working Set is off. ``waiting`` are hard rules without a slot of their own.
    """

    built_working_set: WorkingSet | None = None
    waiting: list[Row] = field(default_factory=list)

    @property
    def carries_memories(self) -> bool:
        """Whether memories are in the prompt whatever the hot lane selects: hard rules, or lines of the Working Set."""
        return bool(self.hard or (self.built_working_set and self.built_working_set.pinned))

    @property
    def covered(self) -> tuple[str, ...]:
        """Ids of the memories whose lines are in the Working Set as injected."""
        if self.working_set_slot is None or self.built_working_set is None:
            return ()
        lines = set(self.working_set_slot.text.split("\n"))
        return tuple(line.id for line in self.built_working_set.lines if line.id and line.text in lines)

    def is_whole(self, row: Row) -> bool:
        """Whether the Working Set's line of a memory is its full text, which it always is for a hard rule."""
        return (row.hard_rule and self.config.active_phases.hard_rules) or Turn.is_whole(self, row)

    @property
    def history_key(self) -> str:
        """The key under which repeats are counted."""
        return (self.prompt.session or "") if self.config.phases.repeat_history == "session" else ""
