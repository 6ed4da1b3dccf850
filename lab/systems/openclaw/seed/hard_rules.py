"""Slots of hard rules that are not lines of the Working Set (E-58, E-65).

Seed 001 caps a recall at six memories, and seed 000 wants both hard rules and relevant nice memories to survive. So the
rules take slots within the cap, and leave the slots reserved for nice. The other rules are not lost: they compete like
any must memory, by relevance, and are listed in the receipt.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row
from lab.systems.openclaw.seed.exclusions import Notes
from lab.systems.openclaw.seed.hot_lane import HotLane
from lab.systems.openclaw.seed.turn import SeedTurn
from lab.systems.openclaw.select.outcome import recall_plans

NICE_PLAN = recall_plans()[1]


def rule_slots(rules: int, room: int, nice: int) -> int:
    """Return how many of ``rules`` hard rules get one of ``room`` slots, of which ``nice`` are reserved.

    At least one does, if there is any slot.
    """
    return min(rules, max(min(1, room), room - nice))


class Ruled(NamedTuple):
    """The hard rules that are injected as items, and those without a slot of their own."""

    hard: list[Row]
    waiting: list[Row]


def give_slots(turn: SeedTurn, room: int, notes: Notes, *, silent: bool) -> tuple[Ruled, int]:
    """Divide ``room`` slots between hard rules and other memories; return the rules, and the slots that they leave.

    A silent recall injects no nice memory, so it reserves no slot for one. ``notes`` records what a search of the nice
    memories found.
    """
    ruled, nice_min = Ruled(turn.hard, []), 0 if silent else turn.config.auto_recall.quota.nice_min
    if len(turn.hard) > room - nice_min:
        nice = min(nice_min, _nice_candidates(turn, nice_min, notes))
        ruled = keep_rules(turn, rule_slots(len(turn.hard), room, nice))
    return ruled, room - len(ruled.hard)


def keep_rules(turn: SeedTurn, count: int) -> Ruled:
    """Return the ``count`` hard rules that keep slots, own scope first, then newest, and the rest."""

    def precedence(rule: Row) -> tuple[bool, float, str]:
        return turn.filter_scope not in (None, rule.scope) and rule.scope == GLOBAL, -rule.created_at, id_order(rule.id)

    first = {rule.id for rule in sorted(turn.hard, key=precedence)[:count]}
    return Ruled([rule for rule in turn.hard if rule.id in first], [rule for rule in turn.hard if rule.id not in first])


def _nice_candidates(turn: SeedTurn, most: int, notes: Notes) -> int:
    """Return how many nice memories could take a slot, counted up to ``most``. Receipts do not count this search."""
    lane, count = HotLane(turn, Counter(), notes=notes), 0
    for scope, _ in turn.scopes:
        if count < most:
            count += len(lane.find(scope, NICE_PLAN, turn.tiers.unrecorded(), lane.attempts[0].barred).entries)
    notes.stale.clear()
    return count
