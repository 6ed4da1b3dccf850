"""The hot lane of the seeds: filter candidates, score them, and select with or without each suppression.

Whatever does not depend on the suppressions is computed once per turn, so that receipts can cheaply report what would
have been selected without them (E-55, E-59). Quotas hold over all scopes of a turn: a fallback scope gets what the
scopes before it left of them (E-16).

The policy tiers of seed 001 are must and nice first, then unknown, then ignore, while slots remain (E-17). The public
plugin contains this loop but never calls it. Seed 001 requires the loop's tier name in receipts.

Hard rules that are not lines of the Working Set take slots within the cap of six memories, and leave the slots reserved
for nice (E-58, E-65). Rules without a slot compete like any must memory, by relevance, and are listed in the receipt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from lab.recordings.model import GLOBAL, IGNORE, UNKNOWN
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Candidate, Filter, Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import DAY_MS
from lab.systems.openclaw.recall.retrieve import POOL_DEPTH, Searched, Tiers
from lab.systems.openclaw.recall.scope import ScopedSelection, ScopePolicy, joined, select_in_scopes
from lab.systems.openclaw.recall.turn import Factors
from lab.systems.openclaw.seed.exact_hit import exact_hit
from lab.systems.openclaw.seed.exclusions import Allowed, Attempt, Exclusions, Notes, attempts
from lab.systems.openclaw.seed.outdated import FIRST, has_ended, replaced
from lab.systems.openclaw.seed.score import (
    OUTDATED_FACTOR,
    QUARANTINED,
    UNTRUSTED,
    UNTRUSTED_FACTOR,
    importance_prior,
    novelty,
    over_pool,
    rank_relevance,
    recency,
    relevance,
    repeat_factor,
    scope_match,
)
from lab.systems.openclaw.seed.working_set import SeedTurn
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount, TierPlan, by_rank, recall_plans
from lab.systems.openclaw.select.policies import CAPPED, Search, by_policy, tier_quota_v1

ALL_EXCLUDED = "all_excluded"
RULES = Allowed()


class Entry(NamedTuple):
    """A candidate with its score before repeat suppression, and its repeat factor."""

    candidate: Candidate
    score: float
    repeat: float


class ScoredSearch(NamedTuple):
    """A search under the exclusions, its candidates with their scores, and the rows that it met and left out."""

    searched: Searched
    entries: list[Entry]
    left_out: list[Row]


class HotLane:
    """The candidates of one turn. ``times`` counts the recent injections of each id.

    ``hard`` are the hard rules that have slots, by default those of the turn; ``notes`` records what happens to
    candidates.
    """

    def __init__(
        self, turn: SeedTurn, times: Counter[str], hard: Sequence[Row] | None = None, notes: Notes | None = None
    ) -> None:
        self._turn, self._times = turn, times
        self._hard = turn.hard if hard is None else hard
        self.notes = notes or Notes()
        self._phased, self._phases = turn.config.phased, turn.config.active_phases
        self._depth, self._fusion = turn.config.auto_recall.search_limit, turn.config.fusion
        self._scopes = turn.scopes
        self._scope_index = {scope: index for index, (scope, _) in enumerate(self._scopes)}
        self._pool_ranks: dict[str | None, dict[str, int]] = {}
        self._replaced: dict[str | None, dict[str, str]] = {}
        self._searches: dict[tuple[str | None, str, tuple[str, ...], Allowed], ScoredSearch] = {}
        self._exclusions = Exclusions(turn, self._hard, self.notes)
        self.attempts = attempts(self._phases)
        self.rescored = is_rescored(turn.config)

    @property
    def carries_memories(self) -> bool:
        """Whether memories are in the prompt whatever is selected: hard rules, or lines of the Working Set."""
        built = self._turn.built_working_set
        return bool(self._hard or (built and built.pinned))

    def select(self, tiers: Tiers, limit: int, *, repeats: bool = True, allowed: Allowed = RULES) -> ScopedSelection:
        """Select up to ``limit`` over the scopes; attempt again with more memories while recall would be empty.

        ``repeats``: whether to suppress them. ``allowed``: what to select although the rules exclude it. ``tiers``
        records the searches.
        """
        scoped: ScopedSelection | None = None
        for attempt in self.attempts:
            if scoped is not None and (scoped.selection.picked or self.carries_memories):
                break
            further = self._attempt(attempt, tiers, limit, repeats=repeats, allowed=allowed)
            if scoped is not None and attempt.ignored:
                further = ScopedSelection(joined(scoped.selection, further.selection, ""), further.fallback)
            scoped = further
        assert scoped is not None  # noqa: S101 - for the type checker: there is always a first attempt
        return scoped

    def _attempt(
        self, attempt: Attempt, tiers: Tiers, limit: int, *, repeats: bool, allowed: Allowed
    ) -> ScopedSelection:
        turn = self._turn
        settings, policy = turn.config.auto_recall, turn.config.scope_policy

        def choose(scope: str | None, slots: int, quota: Quota) -> Selection:
            emptied: set[str | None] = set()

            def bucket(plan: TierPlan) -> list[Candidate]:
                searched, entries, _ = self.find(scope, plan, tiers, attempt.barred, allowed)
                if not entries and searched.excluded:
                    emptied.add(plan.miss_reason)
                if self.rescored:
                    return _ranked(entries, repeats=repeats)
                return [entry.candidate for entry in entries]

            if attempt.ignored:
                return ignore_fill(slots, bucket)
            selection = self._choose(slots, quota, bucket)
            reasons = [ALL_EXCLUDED if reason in emptied else reason for reason in selection.rejected]
            return Selection(selection.picked, selection.tier_counts, reasons, selection.quota)

        quota = settings.quota
        if self._phases.recent_days:
            since = turn.prompt.now_ms - self._phases.recent_days * DAY_MS
            quota = quota._replace(recent_from=since)
        if len(self._scopes) == 1 or settings.quotas_per == "scope" or attempt.ignored or not self._phased:
            return select_in_scopes(
                self._scopes, limit, lambda scope, slots: choose(scope, slots, quota), policy, turn.barred
            )
        return select_over_scopes(
            self._scopes, limit, choose, quota, policy, turn.barred, strict_caps=settings.strict_caps
        )

    def _choose(self, slots: int, quota: Quota, search: Search) -> Selection:
        """Run the selection policy in one scope (E-12)."""
        settings = self._turn.config.auto_recall
        if self._phases.tier_mode == "loop_v0" and settings.selection_mode == "tier_quota_v1":
            return policy_loop_v0(slots, quota, search, strict_caps=settings.strict_caps)
        return by_policy(settings if quota == settings.quota else replace(settings, quota=quota), slots, search)

    def find(
        self,
        scope: str | None,
        plan: TierPlan,
        tiers: Tiers,
        barred: tuple[str, ...] = (),
        allowed: Allowed = RULES,
    ) -> ScoredSearch:
        """Search a tier without the excluded memories (E-66), and score its candidates in the order of fusion."""
        key = scope, plan.tier, barred, allowed
        where = Filter(scope, plan.labels)
        result = self._searches.get(key)
        if result is None:
            excludes = self._exclusions.excludes
            result = self._searches.get((scope, plan.tier, barred, RULES))
            # If nothing that was left out may be selected now, the search would meet and find the same rows again.
            if result is None or not all(excludes(row, barred, allowed) for row in result.left_out):
                left_out: list[Row] = []

                def is_excluded(row: Row) -> bool:
                    excluded = excludes(row, barred, allowed)
                    if excluded:
                        left_out.append(row)
                    return excluded

                searched = tiers.admitted(where, is_excluded, self._phases.min_relevance)
                entries = self._scored(searched.fused, scope, record=allowed == RULES)
                result = ScoredSearch(searched, entries, left_out)
            self._searches[key] = result
        tiers.record(where, result.searched)
        return result

    def _scored(self, candidates: list[Candidate], scope: str | None, *, record: bool) -> list[Entry]:
        """Score candidates; without ``record``, leave no trace of a counterfactual search in the notes."""
        if not self._phased:
            return [Entry(candidate, candidate.score, 1.0) for candidate in candidates]
        turn, entries = self._turn, list[Entry]()
        exempt = dict(self.notes.exempt)
        for rank, candidate in enumerate(candidates, 1):
            factors = self._factors(candidate, turn.memories.by_id[candidate.id], scope, rank)
            entries.append(Entry(candidate, factors.base, factors.repeat))
            if record:
                self.notes.factors[candidate.id] = factors
        if not record:
            self.notes.exempt = exempt
        return entries

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
            OUTDATED_FACTOR if self._is_outdated(row, scope) else 1.0,
        )

    def _is_outdated(self, row: Row, scope: str | None) -> bool:
        """Whether a memory no longer holds: a newer one replaces it, or it has ended. Hard rules hold. Record it."""
        phases, turn = self._phases, self._turn
        if row.hard_rule and phases.hard_rules:
            return False
        if phases.ended and has_ended(row, turn.prompt.now_ms):
            self.notes.outdated[row.id] = ""
        elif phases.replaced:
            if scope not in self._replaced:
                pool = [turn.memories.by_id[identity] for identity in turn.tiers.pool(scope).scores]
                self._replaced[scope] = replaced(pool[:FIRST], pool, phases.replaced)
            if row.id in self._replaced[scope]:
                self.notes.outdated[row.id] = self._replaced[scope][row.id]
        return row.id in self.notes.outdated

    def _relevance(self, candidate: Candidate, scope: str | None, rank: int) -> float:
        """Return the relevance on the configured scale; ``rank`` counts the candidates that may be selected."""
        scale, depth, fusion = self._phases.relevance, self._depth, self._fusion
        if self._phases.relevance_over != "pool":
            return rank_relevance(rank, depth) if scale == "rank" else relevance(candidate, scale, fusion)
        pool = self._turn.tiers.pool(scope)
        if scale != "rank":
            return relevance(over_pool(candidate, pool), scale, fusion)
        if scope not in self._pool_ranks:
            self._pool_ranks[scope] = {identity: rank for rank, identity in enumerate(pool.scores, 1)}
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
        top = "top" if row.id in self._top else None
        rule = "pinned" if pinned else "hard_rule" if hard else self._exact_hit(candidate, row) or top
        if rule:
            self.notes.exempt[row.id] = rule
        return rule is not None

    @cached_property
    def _top(self) -> frozenset[str]:
        """The best candidates of the whole pool, which are exempt from repeat suppression."""
        count = self._phases.repeat_exempt_top
        pool = self._turn.tiers.pool(self._turn.filter_scope) if count else None
        return frozenset(islice(pool.scores, count)) if pool else frozenset()


def is_rescored(config: EngineConfig) -> bool:
    """Whether candidates are sorted by a final score instead of the order of fusion."""
    phases = config.active_phases
    lowered = phases.trust == "soft" or phases.replaced > 0 or phases.ended
    return bool(phases.repeat or phases.score or lowered or phases.exact_boost != 1.0)


def _ranked(entries: list[Entry], *, repeats: bool) -> list[Candidate]:
    """Return candidates with their final scores: score descending, then newest, then by id."""
    scored = [
        # Equal to candidate._replace(score=…), in a third of the time.
        tuple.__new__(Candidate, (candidate[0], score * repeat if repeats else score, *candidate[2:]))
        for candidate, score, repeat in entries
    ]
    return sorted(scored, key=by_rank)


FULL = "budget_cap"
Scopes = Sequence[tuple[str | None, str]]


class _Over(NamedTuple):
    """A candidate beyond the cap of its tier, with its scope and the name of its tier in the receipt."""

    pick: Picked
    scope: str | None
    tier: str
    fallback: bool


def select_over_scopes(
    scopes: Scopes,
    limit: int,
    choose: Callable[[str | None, int, Quota], Selection],
    quota: Quota,
    policy: ScopePolicy,
    barred: str | None = None,
    *,
    strict_caps: bool,
) -> ScopedSelection:
    """Call ``choose(scope, remaining slots, remaining quota)`` scope by scope until the slots are filled.

    With ``strict_caps``, candidates beyond a cap are taken only if no scope has another candidate.
    """
    left, over = quota, list[_Over]()
    origins = dict(scopes)

    def in_scope(scope: str | None, slots: int) -> Selection:
        nonlocal left
        selection = choose(scope, slots, left)
        if strict_caps:
            fallback = origins[scope] != "primary"
            selection, beyond = _within(selection, left)
            over.extend(
                _Over(pick, scope, f"{scope}:{pick.tier}" if fallback else pick.tier, fallback) for pick in beyond
            )
        left = _rest(left, selection)
        return selection

    scoped = select_in_scopes(scopes, limit, in_scope, policy, barred)
    return _filled(scoped, limit, over, quota)


def _within(selection: Selection, left: Quota) -> tuple[Selection, list[Picked]]:
    """Split a selection into what the caps allow and the candidates beyond them."""
    room = dict(zip(CAPPED, (left.must_max, left.unknown_max), strict=True))
    kept, beyond = list[Picked](), list[Picked]()
    for pick in selection.picked:
        if room.get(pick.tier, 1) > 0:
            kept.append(pick)
            if pick.tier in room:
                room[pick.tier] -= 1
        else:
            beyond.append(pick)
    if not beyond:
        return selection, beyond
    gone = [pick.tier for pick in beyond]
    counts = [count._replace(selected=count.selected - gone.count(count.tier)) for count in selection.tier_counts]
    rejected = [reason for reason in selection.rejected if reason != FULL]
    quota = selection.quota and selection.quota._replace(
        wildcard_used=selection.quota.wildcard_used - _wildcards(beyond)
    )
    return Selection(kept, counts, rejected, quota), beyond


def _wildcards(picked: Sequence[Picked]) -> int:
    """Return how many picks are wildcards; the tier loop fills slots with picks that are not (E-17)."""
    return sum(pick.decision == "wildcard" for pick in picked)


def _rest(left: Quota, selection: Selection) -> Quota:
    """Return what a selection leaves of the quotas. A slot that a recent memory took counts as that of unknown."""
    tiers = [pick.tier for pick in selection.picked]
    recent = sum(pick.decision == "recent_quota" and pick.tier != "unknown" for pick in selection.picked)
    return left._replace(
        must_max=max(0, left.must_max - tiers.count("must")),
        nice_min=max(0, left.nice_min - tiers.count("nice")),
        unknown_max=max(0, left.unknown_max - tiers.count("unknown") - recent),
    )


def _filled(scoped: ScopedSelection, limit: int, over: Sequence[_Over], quota: Quota) -> ScopedSelection:
    """Fill the remaining slots with candidates beyond the caps, and report the configured quota."""
    selection, fallback = scoped
    seen = {pick.candidate.id for pick in selection.picked}
    added = [entry for entry in over if entry.pick.candidate.id not in seen][: max(0, limit - len(selection.picked))]
    tiers = [entry.tier for entry in added]
    picked = [*selection.picked, *(entry.pick for entry in added)]
    counts = [count._replace(selected=count.selected + tiers.count(count.tier)) for count in selection.tier_counts]
    rejected = [*selection.rejected, *([FULL] if added and len(picked) >= limit else ())]
    used = selection.quota.wildcard_used if selection.quota else 0
    from_fallbacks = [str(entry.scope) for entry in added if entry.fallback]
    fallback = fallback | {
        "contributed": fallback["contributed"] + len(from_fallbacks),
        "usedScopes": list(dict.fromkeys([*fallback["usedScopes"], *from_fallbacks])),
    }
    used += _wildcards([entry.pick for entry in added])
    applied = quota._replace(wildcard_used=used) if selection.quota else None
    return ScopedSelection(Selection(picked, counts, rejected, applied), fallback)


IGNORE_PLAN = TierPlan("ignore", (IGNORE,))
WIDER = (TierPlan("unknown", (UNKNOWN,)), IGNORE_PLAN)
BASE = "must+nice"


def policy_loop_v0(limit: int, quota: Quota, search: Search, *, strict_caps: bool) -> Selection:
    """Select must and nice with quotas; extend to unknown, then to ignore, only while slots remain."""
    first = tier_quota_v1(recall_plans(unknown_fallback=False), limit, quota, search, strict_caps=strict_caps)
    picked, counts = list(first.picked), list(first.tier_counts)
    seen = {pick.candidate.id for pick in picked}
    for plan in WIDER:
        if len(picked) >= limit:
            break
        counts.append(_fill(picked, seen, limit, plan, search))
    return Selection(picked, counts, first.rejected, first.quota)


def ignore_fill(limit: int, search: Search) -> Selection:
    """Select the best memories labelled ignore, for a recall that would otherwise be empty (seed 001)."""
    picked = list[Picked]()
    count = _fill(picked, set(), limit, IGNORE_PLAN, search)
    return Selection(picked, [count], ["budget_cap"] if len(picked) >= limit else [])


def _fill(picked: list[Picked], seen: set[str], limit: int, plan: TierPlan, search: Search) -> TierCount:
    """Append the best candidates of a tier while slots remain."""
    candidates, before = search(plan), len(picked)
    for candidate in candidates:
        if len(picked) < limit and candidate.id not in seen:
            seen.add(candidate.id)
            picked.append(Picked(candidate, plan.tier, f"{plan.tier}_fill"))
    return TierCount(plan.tier, plan.labels, len(candidates), len(picked) - before)


def policy_tier(selection: Selection) -> str:
    """Return the tiers that the loop used: ``must+nice``, ``must+nice+unknown`` or ``must+nice+unknown+ignore``."""
    used = {pick.tier for pick in selection.picked}
    if "ignore" in used:
        return f"{BASE}+unknown+ignore"
    return f"{BASE}+unknown" if "unknown" in used else BASE


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
