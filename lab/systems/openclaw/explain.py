"""Explain why a memory was injected in a turn or not, from the tiers and the state that the flow left.

The lines about the stages of one turn come first: scope, Working Set, suppressions, documents, budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from lab.retrieval.contract import Filter, Row
from lab.retrieval.retrievers import QueryContext
from lab.systems.contract import Ask, Detail, Explained, Recall, Standing
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import is_stale
from lab.systems.openclaw.recall.receipt import why_tier
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.stages import SILENT
from lab.systems.openclaw.recall.turn import Factors, Turn
from lab.systems.openclaw.recall.working_set import PREFIX
from lab.systems.openclaw.select.outcome import recall_plans

WIDTH = 80
LISTED = 3


def stages_lines(turn: Turn) -> list[str]:
    """Summarise the stages in a line or two."""
    parts = [f"scope {turn.scope if turn.filter_scope else 'any'} ({_scope_mode(turn)})"]
    if turn.skip_reason:
        return wrap(f"stages: {'; '.join(parts)}; skipped: {turn.skip_reason}", WIDTH)
    parts.append("not trivial")
    parts.append(
        f"no vector: {turn.memories.no_vector}" if turn.memories.no_vector else "text and vector lane searched"
    )
    fallback = turn.fallback or {}
    if fallback.get("consulted"):
        parts.append(f"fallback to {', '.join(fallback['consultedScopes'])} added {fallback['contributed']}")
    if turn.stale:
        parts.append(f"stale TODOs excluded: {len(set(turn.stale))}")
    if turn.cold_lane:
        problem = turn.cold_lane.get("error")
        parts.append(f"documents: {problem or turn.cold_lane['returned']}")
    lines = wrap(f"stages: {'; '.join(parts)}", WIDTH)
    lines += _listed("cited", [slot.id.removeprefix("docs:") for slot in turn.docs], full=True)
    rules = turn.memories.listing.hard_rules(turn.filter_scope)
    if rules and turn.config.active_phases.hard_rules:
        waiting = [row.key for row in turn.waiting]
        pinned = len(rules) - len(turn.hard) - len(waiting)
        lines.append(f"hard rules: {pinned} in the Working Set, {len(turn.hard)} as items")
        lines += _listed("without a slot of their own", waiting, full=True)
    return lines


def working_set_lines(turn: Turn, *, full: bool, with_text: bool) -> list[str]:
    """Describe the Working Set: its sections, and the memories that it contains."""
    receipt = turn.working_set_receipt(turn.kept) or {}
    if not receipt.get("generated"):
        return ["pinned: nothing"] if receipt.get("enabled") else []
    parts = [f"{count} {name}" for name, count in receipt["sections"].items() if count and name != "goal"]
    lines = wrap(f"pinned {receipt['id']}, {receipt['chars']} characters: {', '.join(parts)}", WIDTH)
    cut = set(turn.covered) - set(turn.carried)
    contained = [_key(turn, identity) + (" (cut)" if identity in cut else "") for identity in turn.covered]
    lines += _listed("contains", contained, full=full)
    if receipt.get("suppressedRecallCount"):
        lines.append(f"    selected, then removed as contained: {receipt['suppressedRecallCount']}")
    if with_text and full and turn.pinned:
        kept = (turn.working_set_slot or turn.pinned).text
        lines += [f"    | {line}" for line in kept.split("\n")]
    return lines


def suppression_lines(turn: Turn, *, full: bool) -> list[str]:
    """List what repeat suppression and deduplication excluded, and what the budget dropped."""
    receipt = turn.receipt or {}
    lines: list[str] = []
    repeated = receipt.get("suppressedByRepeat")
    if repeated and repeated["penalized"]:
        lines.append(
            f"repeats: {repeated['penalized']} candidates penalised, {repeated['count']} of them lost their slot"
        )
        shown = [f"{_key(turn, identity)} (x{turn.factors[identity].repeat:.3f})" for identity in repeated["ids"]]
        lines += _listed("lost", shown, full=full)
    if turn.exempt:
        exempt = [f"{_key(turn, identity)} ({rule})" for identity, rule in turn.exempt.items()]
        if not (repeated and repeated["penalized"]):
            lines.append("repeats: no candidate penalised")
        lines += _listed("exempt from repeats", exempt, full=full)
    duplicates = receipt.get("excludedAsBackboneDuplicate")
    if duplicates and duplicates["count"]:
        shown = [f"{_key(turn, identity)} (same {turn.excluded[identity]})" for identity in duplicates["ids"]]
        lines += _listed("excluded as duplicates of the Working Set", shown, full=full)
    budget = receipt.get("budget") or {}
    if budget.get("truncated"):
        lines.append(
            f"budget: {budget['beforeChars']} characters cut to {budget['afterChars']} of {budget['maxChars']}, "
            f"{budget['droppedCount']} dropped"
        )
        lines += _listed("dropped", [_key(turn, identity) for identity in budget["droppedIds"]], full=full)
    elif budget:
        lines.append(f"budget: {budget['afterChars']} of {budget['maxChars']} characters")
    return lines


def factor_line(turn: Turn, row: Row) -> str | None:
    """Return the factors of a memory's score that are not 1; None if there are none."""
    factors = turn.factors.get(row.id)
    if factors is None:
        return None
    parts = [f"{name} {value:.3f}" for name, value in factors._asdict().items() if value != 1.0]
    return f"       = {' x '.join(parts)}" if parts else None


def candidate_lines(tiers: Tiers, turn: Turn | None, rows: Mapping[str, Row]) -> list[str]:
    """List every candidate of every tier with ranks, scores and factors. ``rows`` are the memories by id."""
    lines: list[str] = []
    for where, result in zip(tiers.filters, tiers.results, strict=True):
        tier = "+".join(why_tier(label) for label in where.labels or ())
        scope = where.scope or "any scope"
        lines += ["", f"tier {tier} in {scope}: {len(result.lanes.fts)} text, {len(result.lanes.vec)} vector hits"]
        if result.fused:
            lines.append("   # fused   text  vec  final memory")
        for rank, hit in enumerate(result.fused, 1):
            row = rows[hit.id]
            final = turn.factors.get(hit.id, Factors(relevance=hit.score)).product if turn else hit.score
            why = turn.excluded.get(hit.id) if turn else None
            note = f" (Working Set, same {why})" if why else " (stale)" if turn and hit.id in turn.stale else ""
            lines.append(
                f"{rank:4} {hit.score:6.4f} {_rank(hit.fts_rank)} {_rank(hit.vec_rank)} {final:6.4f} {row.key}{note}"
            )
            line = factor_line(turn, row) if turn else None
            lines += [line] if line else []
    return lines


def flow_json(turn: Turn) -> dict[str, Any]:
    """Return the results of the stages as JSON values."""
    return {
        "skipped": turn.skip_reason,
        "scope": turn.scope,
        "scopeMode": turn.scope_mode,
        "digested": [_key(turn, identity) for identity in turn.covered],
        "hardRules": [row.key for row in turn.hard],
        "stale": sorted({_key(turn, identity) for identity in turn.stale}),
        "exempt": {_key(turn, identity): rule for identity, rule in turn.exempt.items()},
        "excluded": {_key(turn, identity): reason for identity, reason in turn.excluded.items()},
        "factors": {_key(turn, identity): factors._asdict() for identity, factors in turn.factors.items()},
        "searched": [
            {
                "scope": where.scope,
                "labels": list(where.labels or ()),
                "text": len(result.lanes.fts),
                "vector": len(result.lanes.vec),
            }
            for where, result in zip(turn.tiers.filters, turn.tiers.results, strict=True)
        ],
        "documents": [slot.id for slot in turn.docs],
        "log": [text for _, text in turn.log],
    }


def _scope_mode(turn: Turn) -> str:
    return (
        "not enforced" if turn.filter_scope is None else turn.scope_mode + (", invalid" if turn.scope_invalid else "")
    )


def _key(turn: Turn, identity: str) -> str:
    row = turn.memories.by_id.get(identity)
    return row.key if row else identity


def _listed(title: str, entries: Iterable[str], *, full: bool) -> list[str]:
    """Format a list of entries, of which only the first few are shown unless ``full``."""
    chosen = list(entries)
    shown = chosen if full else chosen[:LISTED]
    more = f" and {len(chosen) - len(shown)} more" if len(chosen) > len(shown) else ""
    if not chosen:
        return []
    return wrap(f"{title} {', '.join(shown)}{more}", WIDTH, initial_indent="    ", subsequent_indent="      ")


def _rank(value: int | None) -> str:
    return f"{value if value is not None else '-':>4}"


RUNNERS_UP = 3


class Reason(NamedTuple):
    """Why a memory was not injected: as a word to count by, and as a sentence."""

    cause: str
    text: str


class RecallRecord(NamedTuple):
    """One recall: configuration, query, answer, and the turn after the flow (None: selection only)."""

    config: EngineConfig
    ask: Ask
    recall: Recall
    turn: Turn | None

    @property
    def floor(self) -> float:
        """The cosine below which a hit of the vector lane alone is no candidate (``minRelevance``)."""
        if self.turn is not None:
            return self.config.active_phases.min_relevance
        return self.config.phases.min_relevance if self.recall.receipt.get("quota") else 0.0


def explain_recall(record: RecallRecord, context: QueryContext, relevant: Sequence[str], detail: Detail) -> Explained:
    """Explain a recall. ``relevant`` are the keys of the memories to explain if they were not injected."""
    config, ask, recall, turn = record
    scope = turn.filter_scope if turn else ask.scope
    by_key = {row.key: row for row in context.present if not row.id.startswith(PREFIX)}
    tiers = Tiers(context.view, context.rows, config.auto_recall.search_limit, {}, fusion=config.fusion)
    standings = _standings(tiers, context, scope, record.floor)
    injected = {item.id for item in recall.items[: recall.injected]}
    finals = {key: _final_score(turn, by_key[key], standing) for key, standing in standings.items()}
    # Memories that the Working Set covers are present already, and those that the budget dropped were selected.
    taken = [*turn.covered, *turn.excluded, *(pick.candidate.id for pick in turn.final)] if turn else []
    present = injected | {context.by_id[identity].key for identity in taken}
    ranked = sorted(
        (key for key, standing in standings.items() if standing.score is not None),
        key=lambda key: (-finals[key], by_key[key].id),
    )
    beyond = [item.id for item in recall.items[recall.injected : recall.injected + RUNNERS_UP]]
    searched = recall.receipt.get("tiersSearched")
    reasons = {key: _reason(by_key[key], standings.get(key), record) for key in relevant if key not in injected}
    lower = {key: factor_line(turn, by_key[key]) for key in injected if turn and detail.full and key in by_key}
    return Explained.of(
        f"profile {config.profile}",
        reasons,
        standings={
            key: standing._replace(score=finals[key]) if standing.rank else standing
            for key, standing in standings.items()
        },
        runners_up=tuple([key for key in ranked if key not in present][:RUNNERS_UP] if searched else beyond),
        head=tuple(_head(record, detail)),
        suppressed=tuple(suppression_lines(turn, full=detail.full)) if turn else (),
        candidates=tuple(candidate_lines(tiers, turn, context.by_id)) if detail.full and searched else (),
        below={key: line for key, line in lower.items() if line},
        value={"flow": flow_json(turn)} if turn else {},
    )


def _standings(tiers: Tiers, context: QueryContext, scope: str | None, floor: float) -> dict[str, Standing]:
    """Return the standing of every memory in scope, without Working Sets stored among the memories."""
    standings: dict[str, Standing] = {}
    known = {row.id: row.key for row in context.present if not row.id.startswith(PREFIX)}
    for plan in recall_plans():
        lanes = context.view.search(Filter(scope, plan.labels), len(context.rows))
        fts = {context.rows[hit.row].id: rank for rank, hit in enumerate(lanes.fts, 1)}
        vec = {context.rows[hit.row].id: rank for rank, hit in enumerate(lanes.vec, 1)}
        hits = tiers.fused(plan, scope, floor)
        fused = {candidate.id: (rank, candidate.score) for rank, candidate in enumerate(hits, 1)}
        for identity in (key for key in {**fts, **vec} if key in known):
            rank, score = fused.get(identity, (None, None))
            standings[known[identity]] = Standing(plan.tier, rank, score, fts.get(identity), vec.get(identity))
    return standings


def _head(record: RecallRecord, detail: Detail) -> list[str]:
    """Return lines on what the stages did and how slots were allocated."""
    turn, receipt = record.turn, record.recall.receipt
    lines = [*stages_lines(turn), *working_set_lines(turn, full=detail.full, with_text=detail.texts)] if turn else []
    quota = receipt.get("quota")
    if quota:
        used = ", ".join(f"{name} {value}" for name, value in quota.items())
        lines += wrap(f"quotas: {used}; tiers searched: {', '.join(receipt['tiersSearched'])}", WIDTH)
    elif receipt.get("tiersSearched"):
        lines.append(f"tiers searched: {', '.join(receipt['tiersSearched'])}")
    return lines


def _final_score(turn: Turn | None, row: Row, standing: Standing | None) -> float:
    if turn and row.id in turn.factors:
        return turn.factors[row.id].product
    return (standing.score if standing else None) or 0.0


def _reason(row: Row, standing: Standing | None, record: RecallRecord) -> Reason:
    """Return the reason why a memory was not injected."""
    config, ask, recall, turn = record
    if turn is not None:
        reason = _in_the_flow(turn, row)
        if reason:
            return reason
    if ask.scope is not None and row.scope != ask.scope:
        return Reason("scope", f"its scope is {row.scope}; the scope of the turn is {ask.scope}")
    if SILENT in recall.receipt.get("rejected", ()):
        return Reason("silent", "recall kept silent: the search found nothing relevant enough (lab.silence)")
    ranked = next((rank for rank, item in enumerate(recall.items, 1) if item.id == row.key), None)
    if ranked is not None:
        return Reason("slot", f"ranked {ranked}; only the first {recall.injected} are injected")
    searched = [count.tier for count in turn.selection.tier_counts] if turn else recall.receipt["tiersSearched"]
    if not searched:
        return Reason("slot", f"not among the first {config.max_items} of this arm")
    if standing is None and ask.faults:
        faults = ", ".join(sorted(ask.faults))
        return Reason("fault", f"no lane returned it, under the injected faults of this turn: {faults}")
    if standing is None or (standing.tier == "unknown" and not config.auto_recall.include_unknown_fallback):
        return Reason("label", f"its label is {row.importance_label}, which no tier of this arm contains")
    lanes = f"text rank {standing.fts or 'none'}, vector rank {standing.vec or 'none'} in its tier"
    if standing.tier not in searched:
        return Reason("tier", f"tier {standing.tier} was not searched: {searched[-1]} had filled all slots; {lanes}")
    if standing.rank is None:
        limit = config.auto_recall.search_limit
        if record.floor and standing.fts is None and standing.vec is not None and standing.vec <= limit:
            return Reason("depth", f"its cosine is below minRelevance ({record.floor:g}); {lanes}")
        return Reason("depth", f"not among the {limit} candidates of tier {standing.tier}; {lanes}")
    taken = sum(item.tier == standing.tier for item in recall.items[: recall.injected])
    where = f"candidate {standing.rank} of tier {standing.tier} ({standing.score:.4f})"
    quota = config.auto_recall.quota
    cap = {"must": quota.must_max, "unknown": quota.unknown_max}.get(standing.tier or "")
    if recall.receipt.get("quota") and config.auto_recall.strict_caps and cap is not None and taken >= cap:
        return Reason("slot", f"{where}, but the tier's cap of {cap} was reached; {lanes}")
    wildcard = [item.score for item in recall.items[: recall.injected] if item.signals.decision == "wildcard"]
    beyond = f", wildcards scored at least {min(wildcard):.4f}" if wildcard else ""
    return Reason("slot", f"{where}: {taken} slots went to that tier{beyond}; {lanes}")


def _in_the_flow(turn: Turn, row: Row) -> Reason | None:
    """Return what a stage of the flow did to a memory before or after selection; None if nothing."""
    if turn.skip_reason:
        return Reason("trivial", f"the prompt was skipped: {turn.skip_reason}")
    if row.id in turn.covered:
        cut = turn.config.working_set.max_item_chars
        if row.id in turn.carried:
            return Reason("pinned", "it is in the Working Set, so it is not an item")
        return Reason("cut", f"its first {cut} characters are in the Working Set, so it is not an item")
    if any(pick.candidate.id == row.id for pick in turn.final):
        cut = turn.packed is not None and any(slot.id == row.id for slot in turn.packed.kept)
        return Reason("budget", f"it was selected, and the budget {'cut the block within it' if cut else 'dropped it'}")
    if turn.excluded.get(row.id):
        return Reason("duplicate", f"it duplicates the Working Set (same {turn.excluded[row.id]})")
    stale = row.category == "todo" and is_stale(row.created_at, turn.prompt.now_ms, turn.config.todo_stale_ttl_days)
    if stale:
        return Reason("todo", f"it is a TODO older than {turn.config.todo_stale_ttl_days} days")
    if row.id in turn.outdated:
        newer = turn.outdated[row.id]
        why = f"{_key(turn, newer)}, which is newer, replaces it" if newer else "it has ended, as its text says"
        return Reason("outdated", f"{why}: it ranks behind all others")
    factors = turn.factors.get(row.id)
    if factors and factors.repeat < 1.0:
        return Reason("repeat", f"it was injected recently: its score was multiplied by {factors.repeat:.3f}")
    return None
