"""Lines that explain the stages of one turn: scope, Working Set, suppressions, documents, budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any

from lab.retrieval.contract import Row
from lab.systems.openclaw.recall.receipt import why_tier
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Factors, Turn

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
    receipt = turn.working_set or {}
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
