"""Which memories the search leaves out, because recall may not select them (E-66).

Always excluded are hard rules that are injected already, stored Working Sets, memories beyond the age window and, by
the setting ``trust``, memories of some trust tiers. Stale TODOs and duplicates of the Working Set are excluded as well;
a second selection that allows one of the two shows its effect in the receipt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.retrieval.contract import Row
from lab.systems.openclaw.config.settings import Phases
from lab.systems.openclaw.memory import DAY_MS, is_stale
from lab.systems.openclaw.recall.turn import Factors
from lab.systems.openclaw.recall.working_set import PREFIX
from lab.systems.openclaw.seed.score import QUARANTINED, UNTRUSTED
from lab.systems.openclaw.seed.working_set import SeedTurn, WorkingSet

# Excluded trust tiers by the setting ``trust`` (E-60): of the first selection, and of the next one, which is made only
# if the first would inject nothing. ``soft`` does not exclude untrusted memories but ranks them last.
BARRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "off": ((),),
    "soft": ((QUARANTINED,), ()),
    "prefer": ((UNTRUSTED, QUARANTINED), (QUARANTINED,)),
}


class Attempt(NamedTuple):
    """The excluded trust tiers of one selection; with ``ignored`` it searches the tier ignore alone."""

    barred: tuple[str, ...]
    ignored: bool = False


def attempts(phases: Phases) -> list[Attempt]:
    """Return the selections to attempt, in order: trusted memories of every tier come before untrusted ones."""
    ignored = (False, True) if phases.tier_mode == "fallback" else (False,)
    return [Attempt(barred, also) for barred in BARRED[phases.trust] for also in ignored]


class Allowed(NamedTuple):
    """What a second selection may take although the rules exclude it, to show the effect of that rule."""

    stale: bool = False
    duplicates: bool = False


@dataclass(slots=True)
class Notes:
    """What happened to the candidates of a turn, by id: the fields of these names of :class:`SeedTurn`."""

    factors: dict[str, Factors] = field(default_factory=dict)
    exempt: dict[str, str] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    outdated: dict[str, str] = field(default_factory=dict)


class Exclusions:
    """The excluded memories of one turn, whose ``hard`` rules have slots; ``notes`` names those that a search found."""

    def __init__(self, turn: SeedTurn, hard: Iterable[Row], notes: Notes) -> None:
        self._turn, self._phases, self._notes = turn, turn.config.active_phases, notes
        self._hard = {row.id for row in hard}
        self._window = self._phases.recency_window_days * DAY_MS
        working_set, dedupe = turn.built_working_set, turn.config.auto_recall.dedupe_backbone
        self._working_set = working_set if working_set and working_set.slot and dedupe and turn.config.phased else None
        self._stale: dict[str, bool] = {}
        self._duplicates: dict[str, bool] = {}

    def excludes(self, row: Row, barred: tuple[str, ...], allowed: Allowed) -> bool:
        """Whether a memory may not be selected. The checks are in line because every hit of every lane gets them."""
        return (
            row.trust_tier in barred
            or row.id in self._hard
            or row.id.startswith(PREFIX)
            or (self._window > 0 and self._is_old(row))
            or (row.category == "todo" and not allowed.stale and self._is_stale(row))
            or (self._working_set is not None and not allowed.duplicates and self._is_duplicate(row, self._working_set))
        )

    def _is_old(self, row: Row) -> bool:
        """Whether a memory is beyond the age window, which does not apply to hard rules."""
        return self._turn.prompt.now_ms - row.created_at > self._window and not self._is_rule(row)

    def _is_stale(self, row: Row) -> bool:
        """Whether a TODO is too old to be injected (E-33); record it."""
        known = self._stale.get(row.id)
        if known is None:
            turn = self._turn
            known = is_stale(row.created_at, turn.prompt.now_ms, turn.config.todo_stale_ttl_days)
            known = self._stale[row.id] = known and not self._is_rule(row)
            if known:
                self._notes.stale.append(row.id)
        return known

    def _is_rule(self, row: Row) -> bool:
        return row.hard_rule and self._phases.hard_rules

    def _is_duplicate(self, row: Row, working_set: WorkingSet) -> bool:
        """Whether a memory duplicates the Working Set (E-59); record the reason."""
        known = self._duplicates.get(row.id)
        if known is None:
            reason = "id" if row.id in working_set.pinned else "text" if working_set.holds(row.text) else None
            known = self._duplicates[row.id] = reason is not None
            if reason:
                self._notes.excluded[row.id] = reason
        return known
