"""The hot lane of the seeds: filter candidates, score them, and select with or without each suppression.

Whatever does not depend on the suppressions is computed once per turn, so that receipts can cheaply report what would
have been selected without them (E-55, E-59).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from lab.retrieval.row import Candidate, Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall.retrieve import POOL_DEPTH, Tiers
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
    pool_ranks,
    rank_relevance,
    recency,
    relevance,
    scope_match,
)
from lab.systems.openclaw.seed.turn import SeedTurn
from lab.systems.openclaw.select.outcome import Selection, by_rank
from lab.systems.openclaw.select.policies import Search
from lab.systems.openclaw.select.tiers import TierPlan


class Entry(NamedTuple):
    """A candidate with its score before repeat suppression, its repeat factor, and reasons to exclude it."""

    candidate: Candidate
    score: float
    repeat: float
    duplicate: bool
    quarantined: bool


class HotLane:
    """The candidates of one turn. ``times`` counts the recent injections of each id."""

    def __init__(self, turn: SeedTurn, times: Counter[str]) -> None:
        self._turn, self._times = turn, times
        self._phased, self._phases = turn.config.phased, turn.config.active_phases
        self._scopes = turn.scopes
        self._scope_index = {scope: index for index, (scope, _) in enumerate(self._scopes)}
        self._entries: dict[tuple[str | None, str], list[Entry]] = {}
        self._pool_ranks: dict[str | None, dict[str, int]] = {}
        self._hard = {row.id for row in turn.hard}
        self.rescored = is_rescored(turn.config)

    def select(
        self, tiers: Tiers, limit: int, *, repeats: bool = True, duplicates: bool = True, quarantined: bool = False
    ) -> ScopedSelection:
        """Select up to ``limit`` over the scopes.

        ``repeats`` and ``duplicates``: whether to suppress them. ``quarantined``: whether to allow quarantined
        memories. ``tiers`` records the searches.
        """

        def bucket(scope: str | None, plan: TierPlan) -> list[Candidate]:
            entries = self.entries(scope, plan, tiers)
            passing = [
                entry
                for entry in entries
                if not (duplicates and entry.duplicate) and (quarantined or not entry.quarantined)
            ]
            return _ranked(passing, repeats=repeats) if self.rescored else [entry.candidate for entry in passing]

        return select_in_scopes(
            self._scopes,
            limit,
            lambda scope, slots: self._choose(slots, lambda plan: bucket(scope, plan)),
            self._turn.config.scope_policy,
            self._turn.barred,
        )

    def _choose(self, slots: int, search: Search) -> Selection:
        """Run the selection policy in one scope (E-12)."""
        settings = self._turn.config.auto_recall
        if self._phases.tier_mode == "loop_v0" and settings.selection_mode == "tier_quota_v1":
            return policy_loop_v0(slots, settings.quota, search, strict_caps=settings.strict_caps)
        return by_policy(settings, slots, search)

    def entries(self, scope: str | None, plan: TierPlan, tiers: Tiers) -> list[Entry]:
        """Return the selectable candidates of a tier, in the order of fusion."""
        candidates = tiers.fused(plan, scope)
        entries = self._entries.get((scope, plan.tier))
        if entries is None:
            rows = self._turn.memories.by_id
            pairs = ((hit, rows[hit.id]) for hit in candidates)
            allowed = [(hit, row) for hit, row in pairs if self._may_be_selected(hit, row)]
            entries = [self._entry(hit, row, scope, rank) for rank, (hit, row) in enumerate(allowed, 1)]
            self._entries[scope, plan.tier] = entries
        return entries

    def _may_be_selected(self, candidate: Candidate, row: Row) -> bool:
        turn, phases, now = self._turn, self._phases, self._turn.prompt.now_ms
        if row.id in self._hard or row.id.startswith(PREFIX):
            return False
        hard = row.hard_rule and phases.hard_rules
        # A stale TODO takes no slot, so another memory gets it.
        if row.category == "todo" and not hard and is_stale(row.created_at, now, turn.config.todo_stale_ttl_days):
            turn.stale.append(row.id)
            return False
        window, floor = phases.recency_window_days, phases.min_relevance
        if window and now - row.created_at > window * DAY_MS and not hard:
            return False
        return not floor or candidate.fts_rank is not None or 1.0 - candidate.distance / 2.0 >= floor

    def _entry(self, candidate: Candidate, row: Row, scope: str | None, rank: int) -> Entry:
        turn = self._turn
        if not self._phased:
            return Entry(candidate, candidate.score, 1.0, False, False)
        factors = self._factors(candidate, row, scope, rank)
        turn.factors[row.id] = factors
        soft = self._phases.trust == "soft"
        return Entry(
            candidate,
            factors.base,
            factors.repeat,
            self._duplicate(row),
            soft and row.trust_tier == QUARANTINED,
        )

    def _factors(self, candidate: Candidate, row: Row, scope: str | None, rank: int) -> Factors:
        phases, now = self._phases, self._turn.prompt.now_ms
        on = phases.score
        times = self._turn.state.history.times(row.id) if "novelty" in on else 0
        return Factors(
            self._relevance(candidate, scope, rank) if "relevance" in on or not on else 1.0,
            scope_match(self._scope_index[scope]) if "scope_match" in on else 1.0,
            recency(row, now) if "recency" in on else 1.0,
            importance_prior(row) if "importance_prior" in on else 1.0,
            novelty(times) if times and not self.exempt(candidate, row) else 1.0,
            self._repeat(candidate, row),
            UNTRUSTED_FACTOR if phases.trust == "soft" and row.trust_tier in (UNTRUSTED, QUARANTINED) else 1.0,
            phases.exact_boost if phases.exact_boost != 1.0 and self._exact_hit(candidate, row) else 1.0,
        )

    def _relevance(self, candidate: Candidate, scope: str | None, rank: int) -> float:
        """Return the relevance on the configured scale; ``rank`` counts the candidates that may be selected."""
        scale, depth = self._phases.relevance, self._turn.config.auto_recall.search_limit
        if self._phases.relevance_over != "pool":
            return rank_relevance(rank, depth) if scale == "rank" else relevance(candidate, scale)
        pool = self._turn.tiers.pool(scope)
        if scale != "rank":
            return relevance(over_pool(candidate, pool), scale)
        if scope not in self._pool_ranks:
            self._pool_ranks[scope] = pool_ranks(pool)
        return rank_relevance(self._pool_ranks[scope].get(candidate.id, POOL_DEPTH), POOL_DEPTH)

    def _exact_hit(self, candidate: Candidate, row: Row) -> str | None:
        """Return the rule that makes a memory an exact hit for the prompt (E-57)."""
        numbers = self._phases.exact_hit == "numbers"
        return exact_hit(self._turn.text, row.text, candidate.fts_rank, numbers=numbers)

    def _repeat(self, candidate: Candidate, row: Row) -> float:
        recall, times = self._turn.config.auto_recall, self._times[row.id]
        if not times or self.exempt(candidate, row):
            return 1.0
        decay = self._phases.repeat_decay
        return repeat_factor(times, recall.repeat_penalty, recall.repeat_window_turns, decay)

    def exempt(self, candidate: Candidate, row: Row) -> bool:
        """Whether this memory is exempt from repeat suppression and novelty (E-55); record the rule."""
        turn = self._turn
        pinned = turn.built_working_set is not None and row.id in turn.built_working_set.pinned
        hard = row.hard_rule and self._phases.hard_rules
        rule = "pinned" if pinned else "hard_rule" if hard else self._exact_hit(candidate, row)
        if rule:
            turn.exempt[row.id] = rule
        return rule is not None

    def _duplicate(self, row: Row) -> bool:
        """Whether a memory duplicates the Working Set; record the reason."""
        turn, working_set = self._turn, self._turn.built_working_set
        if working_set is None or working_set.slot is None or not turn.config.auto_recall.dedupe_backbone:
            return False
        reason = "id" if row.id in working_set.pinned else "text" if working_set.holds(row.text) else None
        if reason:
            turn.excluded[row.id] = reason
        return reason is not None


def is_rescored(config: EngineConfig) -> bool:
    """Whether candidates are sorted by a final score instead of the order of fusion."""
    phases = config.active_phases
    return bool(phases.repeat or phases.score or phases.trust == "soft" or phases.exact_boost != 1.0)


def _ranked(entries: list[Entry], *, repeats: bool) -> list[Candidate]:
    """Return candidates with their final scores: score descending, then newest, then by id."""
    scored = [
        candidate._replace(score=score * repeat if repeats else score) for candidate, score, repeat, *_ in entries
    ]
    return sorted(scored, key=by_rank)
