"""Why one memory has its place in one turn, or lost it: told from the tiers and from what the flow left."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from lab.retrieval.contract import Filter
from lab.retrieval.query_context import QueryContext
from lab.retrieval.row import Row
from lab.systems.contract import Ask, Detail, Explained, Recall, Standing
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.explain_lines import (
    WIDTH,
    candidate_lines,
    factor_line,
    flow_json,
    stages_lines,
    suppression_lines,
    working_set_lines,
)
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.todo import is_stale
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.recall.working_set import PREFIX
from lab.systems.openclaw.select.tiers import recall_plans

RUNNERS_UP = 3


class RecallRecord(NamedTuple):
    """One recall: the configuration, the question, the answer, and the turn that the flow left (None: selection)."""

    config: EngineConfig
    ask: Ask
    recall: Recall
    turn: Turn | None


def explain_recall(told: RecallRecord, found: QueryContext, wanted: Sequence[str], detail: Detail) -> Explained:
    """Explain a recall; ``wanted`` are keys of memories that it should perhaps have injected."""
    config, ask, recall, turn = told
    scope = turn.filter_scope if turn else ask.scope
    by_key = {row.key: row for row in found.present if not row.id.startswith(PREFIX)}
    tiers = Tiers(found.view, found.rows, config.auto_recall.search_limit, {})
    places = _places(tiers, found, scope)
    injected = {item.id for item in recall.items[: recall.injected]}
    finals = {key: _final_score(turn, by_key[key], place) for key, place in places.items()}
    # What the digest says is there already, and what the budget dropped had been taken.
    taken = [*turn.digested, *turn.excluded, *(one.candidate.id for one in turn.final)] if turn else []
    there = injected | {found.by_id[one].key for one in taken}
    ranked = sorted(
        (key for key, place in places.items() if place.score is not None),
        key=lambda key: (-finals[key], by_key[key].id),
    )
    beyond = [item.id for item in recall.items[recall.injected : recall.injected + RUNNERS_UP]]
    searched = recall.receipt.get("tiersSearched")
    lower = {key: factor_line(turn, by_key[key]) for key in injected if turn and detail.full and key in by_key}
    return Explained(
        f"profile {config.profile}",
        {key: place._replace(score=finals[key]) if place.rank else place for key, place in places.items()},
        {key: _reason(by_key[key], places.get(key), told) for key in wanted if key not in injected},
        tuple([key for key in ranked if key not in there][:RUNNERS_UP] if searched else beyond),
        tuple(_head(told, detail)),
        tuple(suppression_lines(turn, full=detail.full)) if turn else (),
        tuple(candidate_lines(tiers, turn, found.by_id)) if detail.full and searched else (),
        {key: line for key, line in lower.items() if line},
        {"flow": flow_json(turn)} if turn else {},
    )


def _places(tiers: Tiers, found: QueryContext, scope: str | None) -> dict[str, Standing]:
    """Where every memory in reach stood. A digest that is kept among the memories is none of them."""
    places: dict[str, Standing] = {}
    known = {row.id: row.key for row in found.present if not row.id.startswith(PREFIX)}
    for plan in recall_plans():
        whole = found.view.search(Filter(scope, plan.labels), len(found.rows))
        fts = {found.rows[hit.row].id: rank for rank, hit in enumerate(whole.fts, 1)}
        vec = {found.rows[hit.row].id: rank for rank, hit in enumerate(whole.vec, 1)}
        fused = {one.id: (rank, one.score) for rank, one in enumerate(tiers.fused(plan, scope), 1)}
        for identity in (one for one in {**fts, **vec} if one in known):
            rank, score = fused.get(identity, (None, None))
            places[known[identity]] = Standing(plan.tier, rank, score, fts.get(identity), vec.get(identity))
    return places


def _head(told: RecallRecord, detail: Detail) -> list[str]:
    """What the stages did, and how places were shared out."""
    turn, receipt = told.turn, told.recall.receipt
    lines = [*stages_lines(turn), *working_set_lines(turn, full=detail.full, with_text=detail.texts)] if turn else []
    quota = receipt.get("quota")
    if quota:
        used = ", ".join(f"{name} {value}" for name, value in quota.items())
        lines += wrap(f"quotas: {used}; tiers searched: {', '.join(receipt['tiersSearched'])}", WIDTH)
    elif receipt.get("tiersSearched"):
        lines.append(f"tiers searched: {', '.join(receipt['tiersSearched'])}")
    return lines


def _final_score(turn: Turn | None, row: Row, place: Standing | None) -> float:
    if turn and row.id in turn.factors:
        return turn.factors[row.id].product
    return (place.score if place else None) or 0.0


def _reason(row: Row, place: Standing | None, told: RecallRecord) -> str:
    """Why a memory was not injected, in a sentence."""
    config, ask, recall, turn = told
    if turn is not None:
        said = _in_the_flow(turn, row)
        if said:
            return said
    if ask.scope is not None and row.scope != ask.scope:
        return f"it is of scope {row.scope}, the turn of {ask.scope}"
    ranked = next((rank for rank, item in enumerate(recall.items, 1) if item.id == row.key), None)
    if ranked is not None:
        return f"ranked {ranked}, beyond the {recall.injected} that are injected"
    searched = [count.tier for count in turn.selection.tier_counts] if turn else recall.receipt["tiersSearched"]
    if not searched:
        return f"not among the first {config.max_items} of this arm"
    if place is None and ask.faults:
        return f"no lane found it, under the faults of this turn: {', '.join(sorted(ask.faults))}"
    if place is None or (place.tier == "unknown" and not config.auto_recall.include_unknown_fallback):
        return f"its label is {row.importance_label}, which no tier of this arm holds"
    lanes = f"text rank {place.fts or 'none'}, vector rank {place.vec or 'none'} in its tier"
    if place.tier not in searched:
        return f"tier {place.tier} was not searched: {searched[-1]} had filled all places; {lanes}"
    if place.rank is None:
        return f"not among the {config.auto_recall.search_limit} candidates of tier {place.tier}; {lanes}"
    taken = sum(item.tier == place.tier for item in recall.items[: recall.injected])
    where = f"candidate {place.rank} of tier {place.tier} ({place.score:.4f})"
    quota = config.auto_recall.quota
    cap = {"must": quota.must_max, "unknown": quota.unknown_max}.get(place.tier or "")
    if recall.receipt.get("quota") and config.auto_recall.strict_caps and cap is not None and taken >= cap:
        return f"{where}, but the cap of {cap} for that tier was full; {lanes}"
    wildcard = [item.score for item in recall.items[: recall.injected] if item.signals.decision == "wildcard"]
    beyond = f", wildcards to scores from {min(wildcard):.4f}" if wildcard else ""
    return f"{where}: {taken} places went to that tier{beyond}; {lanes}"


def _in_the_flow(turn: Turn, row: Row) -> str | None:
    """What a stage of the flow did to a memory before or after selection, in a sentence; None if nothing."""
    if turn.skip_reason:
        return f"the prompt was passed over: {turn.skip_reason}"
    if row.id in turn.digested:
        cut = turn.config.working_set.max_item_chars
        whole = row.id in turn.carried
        return (
            "it is in the Working Set, which speaks for it"
            if whole
            else (f"the Working Set holds its first {cut} characters, and so it is no item of its own")
        )
    if any(one.candidate.id == row.id for one in turn.final):
        cut = turn.packed is not None and any(slot.id == row.id for slot in turn.packed.kept)
        return f"it was selected, and the budget {'cut the block within it' if cut else 'dropped it'}"
    if turn.excluded.get(row.id):
        return f"it says what the Working Set says already (same {turn.excluded[row.id]})"
    stale = row.category == "todo" and is_stale(row.created_at, turn.prompt.now_ms, turn.config.todo_stale_ttl_days)
    if stale:
        return f"it is a TODO older than {turn.config.todo_stale_ttl_days} days"
    factors = turn.factors.get(row.id)
    if factors and factors.repeat < 1.0:
        return f"it was injected lately: its score was multiplied by {factors.repeat:.3f}"
    return None
