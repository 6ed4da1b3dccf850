"""The hot lane of the seeds: candidates that may be selected, scored, and selected with or without a suppression.

Everything about a candidate that does not depend on the suppressions is worked out once a turn, so that the receipts
can tell what would have been selected without them (E-55, E-59) at little cost.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from lab.retrieval.row import Candidate, Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.scoped import ScopedSelection, select_in_scopes
from lab.systems.openclaw.recall.stages import by_policy
from lab.systems.openclaw.recall.todo import DAY_MS, is_stale
from lab.systems.openclaw.recall.turn import Factors
from lab.systems.openclaw.recall.working_set import PREFIX
from lab.systems.openclaw.seed.exact_hit import exact_hit
from lab.systems.openclaw.seed.policy_loop import policy_loop_v0
from lab.systems.openclaw.seed.repeat import novelty, repeat_factor
from lab.systems.openclaw.seed.score import (
    QUARANTINED,
    UNTRUSTED,
    UNTRUSTED_FACTOR,
    importance_prior,
    over_pool,
    recency,
    relevance,
    scope_match,
)
from lab.systems.openclaw.seed.turn import SeedTurn
from lab.systems.openclaw.select.outcome import Selection, by_rank
from lab.systems.openclaw.select.policies import Search
from lab.systems.openclaw.select.tiers import TierPlan


class Entry(NamedTuple):
    """A candidate with its score apart from repeats, its repeat factor, and what speaks against it."""

    candidate: Candidate
    score: float
    repeat: float
    duplicate: bool
    quarantined: bool


class HotLane:
    """The candidates of one turn. ``times`` says how often each id was injected lately."""

    def __init__(self, turn: SeedTurn, times: Counter[str]) -> None:
        self._turn, self._times = turn, times
        self._phased, self._phases = turn.config.phased, turn.config.active_phases
        self._scopes = turn.scopes
        self._places = {scope: place for place, (scope, _) in enumerate(self._scopes)}
        self._entries: dict[tuple[str | None, str], list[Entry]] = {}
        self._hard = {row.id for row in turn.hard}
        self.rescored = is_rescored(turn.config)

    def select(
        self, tiers: Tiers, limit: int, *, repeats: bool = True, duplicates: bool = True, quarantined: bool = False
    ) -> ScopedSelection:
        """Select up to ``limit`` over the scopes.

        ``repeats`` and ``duplicates`` say whether those are suppressed, ``quarantined`` whether such memories may be
        taken. ``tiers`` notes what was searched.
        """

        def bucket(scope: str | None, plan: TierPlan) -> list[Candidate]:
            entries = self.entries(scope, plan, tiers)
            passing = [
                one for one in entries if not (duplicates and one.duplicate) and (quarantined or not one.quarantined)
            ]
            return _ranked(passing, repeats=repeats) if self.rescored else [one.candidate for one in passing]

        return select_in_scopes(
            self._scopes,
            limit,
            lambda scope, free: self._choose(free, lambda plan: bucket(scope, plan)),
            self._turn.config.scope_policy,
            self._turn.barred,
        )

    def _choose(self, places: int, search: Search) -> Selection:
        """The selection policy over one scope (E-12)."""
        settings = self._turn.config.auto_recall
        if self._phases.tier_mode == "loop_v0" and settings.selection_mode == "tier_quota_v1":
            return policy_loop_v0(places, settings.quota, search, strict_caps=settings.strict_caps)
        return by_policy(settings, places, search)

    def entries(self, scope: str | None, plan: TierPlan, tiers: Tiers) -> list[Entry]:
        """The candidates of a tier that may be selected, in the order in which they were fused."""
        candidates = tiers.fused(plan, scope)
        found = self._entries.get((scope, plan.tier))
        if found is None:
            rows = self._turn.memories.by_id
            pairs = ((one, rows[one.id]) for one in candidates)
            found = [self._entry(one, row, scope) for one, row in pairs if self._may_be_selected(one, row)]
            self._entries[scope, plan.tier] = found
        return found

    def _may_be_selected(self, candidate: Candidate, row: Row) -> bool:
        turn, phases, now = self._turn, self._phases, self._turn.prompt.now_ms
        if row.id in self._hard or row.id.startswith(PREFIX):
            return False
        hard = row.hard_rule and phases.hard_rules
        # A TODO that has outlived its days takes no place, so another memory gets it.
        if row.category == "todo" and not hard and is_stale(row.created_at, now, turn.config.todo_stale_ttl_days):
            turn.stale.append(row.id)
            return False
        window, floor = phases.recency_window_days, phases.min_relevance
        if window and now - row.created_at > window * DAY_MS and not hard:
            return False
        return not floor or candidate.fts_rank is not None or 1.0 - candidate.distance / 2.0 >= floor

    def _entry(self, candidate: Candidate, row: Row, scope: str | None) -> Entry:
        turn = self._turn
        if not self._phased:
            return Entry(candidate, candidate.score, 1.0, False, False)
        factors = self._factors(candidate, row, scope)
        turn.factors[row.id] = factors
        soft = self._phases.trust == "soft"
        return Entry(
            candidate,
            factors.base,
            factors.repeat,
            self._duplicate(row),
            soft and row.trust_tier == QUARANTINED,
        )

    def _factors(self, candidate: Candidate, row: Row, scope: str | None) -> Factors:
        phases, now = self._phases, self._turn.prompt.now_ms
        on = phases.score
        ranked = over_pool(candidate, self._turn.tiers.pool(scope)) if phases.relevance_over == "pool" else candidate
        return Factors(
            relevance(ranked, phases.relevance) if "relevance" in on or not on else 1.0,
            scope_match(self._places[scope]) if "scope_match" in on else 1.0,
            recency(row, now) if "recency" in on else 1.0,
            importance_prior(row) if "importance_prior" in on else 1.0,
            novelty(self._turn.state.history.times(row.id)) if "novelty" in on else 1.0,
            self._repeat(candidate, row),
            UNTRUSTED_FACTOR if phases.trust == "soft" and row.trust_tier in (UNTRUSTED, QUARANTINED) else 1.0,
        )

    def _repeat(self, candidate: Candidate, row: Row) -> float:
        recall, times = self._turn.config.auto_recall, self._times[row.id]
        if not times or self.exempt(candidate, row):
            return 1.0
        decay = self._phases.repeat_decay
        return repeat_factor(times, recall.repeat_penalty, recall.repeat_window_turns, decay)

    def exempt(self, candidate: Candidate, row: Row) -> bool:
        """Whether a repeat of this memory is never suppressed (E-55); an exact hit is noted with its rule."""
        turn = self._turn
        pinned = turn.built_working_set is not None and row.id in turn.built_working_set.pinned
        if pinned or (row.hard_rule and self._phases.hard_rules):
            return True
        rule = exact_hit(turn.text, row.text, candidate.fts_rank)
        if rule:
            turn.exempt[row.id] = rule
        return rule is not None

    def _duplicate(self, row: Row) -> bool:
        """Whether the digest says already what a memory says; noted with the reason."""
        turn, built_working_set = self._turn, self._turn.built_working_set
        if built_working_set is None or built_working_set.slot is None or not turn.config.auto_recall.dedupe_backbone:
            return False
        reason = "id" if row.id in built_working_set.pinned else "text" if built_working_set.holds(row.text) else None
        if reason:
            turn.excluded[row.id] = reason
        return reason is not None


def is_rescored(config: EngineConfig) -> bool:
    """Whether candidates are ordered by a final score, and not as they were fused."""
    phases = config.active_phases
    return bool(phases.repeat or phases.score or phases.trust == "soft")


def _ranked(entries: list[Entry], *, repeats: bool) -> list[Candidate]:
    """Candidates with their final scores: score descending, then newest, then id."""
    scored = [one._replace(score=score * repeat if repeats else score) for one, score, repeat, *_ in entries]
    return sorted(scored, key=by_rank)
