"""Slots of hard rules that are not lines of the Working Set (E-58, E-65).

Seed 001 caps a recall at six memories, and seed 000 wants both hard rules and relevant nice memories to survive. So the
rules take slots within the cap, and leave the slots reserved for nice. The other rules are not lost: they compete like
any must memory, by relevance, and are listed in the receipt.
"""

from __future__ import annotations

from collections import Counter

from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.retrieval.row import Row
from lab.systems.openclaw.seed.hot_lane import HotLane
from lab.systems.openclaw.seed.turn import SeedTurn
from lab.systems.openclaw.select.tiers import recall_plans

NICE_PLAN = recall_plans()[1]


def rule_slots(rules: int, room: int, nice: int) -> int:
    """Return how many of ``rules`` hard rules get one of ``room`` slots, of which ``nice`` are reserved.

    At least one does, if there is any slot.
    """
    return min(rules, max(min(1, room), room - nice))


def give_slots(turn: SeedTurn, room: int) -> int:
    """Divide ``room`` slots between hard rules and other memories; return the number of slots for other memories.

    A silent recall injects no nice memory, so it reserves no slot for one.
    """
    nice_min = 0 if turn.silent else turn.config.auto_recall.quota.nice_min
    if len(turn.hard) > room - nice_min:
        keep_rules(turn, rule_slots(len(turn.hard), room, min(nice_min, _nice_candidates(turn, nice_min))))
    return room - len(turn.hard)


def keep_rules(turn: SeedTurn, count: int) -> None:
    """Keep the slots of ``count`` hard rules: those of the turn's own scope before global ones, newest first."""

    def precedence(rule: Row) -> tuple[bool, float, str]:
        return turn.filter_scope not in (None, rule.scope) and rule.scope == GLOBAL, -rule.created_at, id_order(rule.id)

    first = {rule.id for rule in sorted(turn.hard, key=precedence)[:count]}
    turn.waiting = [rule for rule in turn.hard if rule.id not in first]
    turn.hard = [rule for rule in turn.hard if rule.id in first]


def _nice_candidates(turn: SeedTurn, most: int) -> int:
    """Return how many nice memories could take a slot, counted up to ``most``. Receipts do not count this search."""
    stale = list(turn.stale)
    lane, count = HotLane(turn, Counter()), 0
    for scope, _ in turn.scopes:
        if count < most:
            count += len(lane.find(scope, NICE_PLAN, turn.tiers.unrecorded(), lane.attempts[0].barred).entries)
    turn.stale[:] = stale
    return count
