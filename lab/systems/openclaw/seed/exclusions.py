"""Which memories the hot lane may not select, and why (E-68). The search itself leaves them out.

``always`` excluded are hard rules that are injected already, stored Working Sets, and memories beyond the age window.
The others can be allowed one by one, so that receipts can report the effect of each.
"""

from __future__ import annotations

from typing import NamedTuple

from lab.retrieval.row import Row
from lab.systems.openclaw.config.settings import Phases
from lab.systems.openclaw.recall.todo import DAY_MS, is_stale
from lab.systems.openclaw.recall.working_set import PREFIX
from lab.systems.openclaw.seed.score import QUARANTINED, UNTRUSTED
from lab.systems.openclaw.seed.turn import SeedTurn

# The trust tiers that are excluded, first to last: a later entry applies only where the earlier ones leave recall
# empty (E-60). ``soft`` ranks untrusted memories last, ``prefer`` keeps them out.
BARRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "off": ((),),
    "soft": ((QUARANTINED,), ()),
    "prefer": ((UNTRUSTED, QUARANTINED), (QUARANTINED,)),
}


class Attempt(NamedTuple):
    """One selection. Another is attempted if it leaves recall empty: ``ignored`` searches the tier ignore alone."""

    barred: tuple[str, ...]
    ignored: bool = False


def attempts(phases: Phases) -> list[Attempt]:
    """Return the selections to attempt, in order: trusted memories of every tier come before untrusted ones."""
    ignored = (False, True) if phases.tier_mode == "fallback" else (False,)
    return [Attempt(barred, also) for barred in BARRED[phases.trust] for also in ignored]


class Allowed(NamedTuple):
    """What a counterfactual selection may take although the rules exclude it."""

    stale: bool = False
    duplicates: bool = False


class Exclusions:
    """The excluded memories of one turn. ``turn.stale`` and ``turn.excluded`` record what a search met."""

    def __init__(self, turn: SeedTurn) -> None:
        self._turn, self._phases = turn, turn.config.active_phases
        self._hard = {row.id for row in turn.hard}
        self._stale: dict[str, bool] = {}
        self._duplicates: dict[str, bool] = {}

    def excludes(self, row: Row, barred: tuple[str, ...], allowed: Allowed) -> bool:
        """Whether a memory may not be selected."""
        return (
            row.trust_tier in barred
            or self._always(row)
            or (not allowed.stale and self.is_stale(row))
            or (not allowed.duplicates and self._is_duplicate(row))
        )

    def is_stale(self, row: Row) -> bool:
        """Whether a memory is a TODO that is too old to be injected (E-33); record it."""
        if row.category != "todo":
            return False
        known = self._stale.get(row.id)
        if known is None:
            turn = self._turn
            hard = row.hard_rule and self._phases.hard_rules
            known = not hard and is_stale(row.created_at, turn.prompt.now_ms, turn.config.todo_stale_ttl_days)
            self._stale[row.id] = known
            if known:
                turn.stale.append(row.id)
        return known

    def _always(self, row: Row) -> bool:
        if row.id in self._hard or row.id.startswith(PREFIX):
            return True
        window, hard = self._phases.recency_window_days, row.hard_rule and self._phases.hard_rules
        return bool(window) and self._turn.prompt.now_ms - row.created_at > window * DAY_MS and not hard

    def _is_duplicate(self, row: Row) -> bool:
        """Whether a memory duplicates the Working Set (E-59); record the reason."""
        turn, working_set = self._turn, self._turn.built_working_set
        if working_set is None or working_set.slot is None or not turn.config.auto_recall.dedupe_backbone:
            return False
        if not turn.config.phased:
            return False
        known = self._duplicates.get(row.id)
        if known is None:
            reason = "id" if row.id in working_set.pinned else "text" if working_set.holds(row.text) else None
            known = self._duplicates[row.id] = reason is not None
            if reason:
                turn.excluded[row.id] = reason
        return known
