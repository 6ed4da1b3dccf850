"""What the stages of the flow did to one turn: scope, digest, suppressions, documents, budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any

from lab.retrieval.row import Row
from lab.systems.openclaw.recall.receipt import why_tier
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Factors, Turn

WIDTH = 80
LISTED = 3


def stages_lines(turn: Turn) -> list[str]:
    """The stages as they ran, in a line or two."""
    said = [f"scope {turn.scope if turn.filter_scope else 'any'} ({_scope_mode(turn)})"]
    if turn.skip_reason:
        return wrap(f"stages: {'; '.join(said)}; passed over: {turn.skip_reason}", WIDTH)
    said.append("not trivial")
    said.append(f"no vector: {turn.memories.no_vector}" if turn.memories.no_vector else "text and vector lane asked")
    fallback = turn.fallback or {}
    if fallback.get("consulted"):
        said.append(f"fallback to {', '.join(fallback['consultedScopes'])} gave {fallback['contributed']}")
    if turn.stale:
        said.append(f"stale TODOs left out: {len(set(turn.stale))}")
    if turn.cold_lane:
        problem = turn.cold_lane.get("error")
        said.append(f"documents: {problem or turn.cold_lane['returned']}")
    lines = wrap(f"stages: {'; '.join(said)}", WIDTH)
    lines += _listed("cited", [slot.id.removeprefix("docs:") for slot in turn.docs], full=True)
    rules = turn.memories.listing.hard_rules(turn.filter_scope)
    if rules and turn.config.active_phases.hard_rules:
        lines.append(f"hard rules: {len(rules) - len(turn.hard)} in the Working Set, {len(turn.hard)} as items")
    return lines


def working_set_lines(turn: Turn, *, full: bool, with_text: bool) -> list[str]:
    """The Working Set: its sections, and the memories that it speaks for."""
    receipt = turn.working_set or {}
    if not receipt.get("generated"):
        return ["pinned: nothing"] if receipt.get("enabled") else []
    parts = [f"{count} {name}" for name, count in receipt["sections"].items() if count and name != "goal"]
    lines = wrap(f"pinned {receipt['id']}, {receipt['chars']} characters: {', '.join(parts)}", WIDTH)
    cut = set(turn.digested) - set(turn.carried)
    spoken = [_key(turn, one) + (" (cut)" if one in cut else "") for one in turn.digested]
    lines += _listed("speaks for", spoken, full=full)
    if receipt.get("suppressedRecallCount"):
        lines.append(f"    selected and then left to it: {receipt['suppressedRecallCount']}")
    if with_text and full and turn.pinned:
        kept = (turn.digest or turn.pinned).text
        lines += [f"    | {line}" for line in kept.split("\n")]
    return lines


def suppression_lines(turn: Turn, *, full: bool) -> list[str]:
    """What repeat suppression and deduplication kept out, and what the budget dropped."""
    receipt = turn.receipt or {}
    lines: list[str] = []
    repeated = receipt.get("suppressedByRepeat")
    if repeated and repeated["penalized"]:
        lines.append(
            f"repeats: {repeated['penalized']} candidates penalised, {repeated['count']} of them lost their place"
        )
        shown = [f"{_key(turn, one)} (x{turn.factors[one].repeat:.3f})" for one in repeated["ids"]]
        lines += _listed("lost", shown, full=full)
    if turn.exempt:
        exempt = [f"{_key(turn, one)} ({rule})" for one, rule in turn.exempt.items()]
        if not (repeated and repeated["penalized"]):
            lines.append("repeats: no candidate penalised")
        lines += _listed("exempt, an exact hit", exempt, full=full)
    doubled = receipt.get("excludedAsBackboneDuplicate")
    if doubled and doubled["count"]:
        shown = [f"{_key(turn, one)} (same {turn.excluded[one]})" for one in doubled["ids"]]
        lines += _listed("left out, the digest says it", shown, full=full)
    spent = receipt.get("budget") or {}
    if spent.get("truncated"):
        lines.append(
            f"budget: {spent['beforeChars']} characters cut to {spent['afterChars']} of {spent['maxChars']}, "
            f"{spent['droppedCount']} dropped"
        )
        lines += _listed("dropped", [_key(turn, one) for one in spent["droppedIds"]], full=full)
    elif spent:
        lines.append(f"budget: {spent['afterChars']} of {spent['maxChars']} characters")
    return lines


def factor_line(turn: Turn, row: Row) -> str | None:
    """The factors of a memory's score that are not 1."""
    factors = turn.factors.get(row.id)
    if factors is None:
        return None
    parts = [f"{name} {value:.3f}" for name, value in factors._asdict().items() if value != 1.0]
    return f"       = {' x '.join(parts)}" if parts else None


def candidate_lines(tiers: Tiers, turn: Turn | None, rows: Mapping[str, Row]) -> list[str]:
    """Every candidate of every tier, with ranks, scores and factors. ``rows`` are the memories by id."""
    lines: list[str] = []
    for where, found in zip(tiers.filters, tiers.results, strict=True):
        tier = "+".join(why_tier(label) for label in where.labels or ())
        scope = where.scope or "any scope"
        lines += ["", f"tier {tier} in {scope}: {len(found.lanes.fts)} text, {len(found.lanes.vec)} vector hits"]
        if found.fused:
            lines.append("   # fused   text  vec  final memory")
        for rank, one in enumerate(found.fused, 1):
            row = rows[one.id]
            final = turn.factors.get(one.id, Factors(relevance=one.score)).product if turn else one.score
            why = turn.excluded.get(one.id) if turn else None
            note = f" (digest, same {why})" if why else " (stale)" if turn and one.id in turn.stale else ""
            lines.append(
                f"{rank:4} {one.score:6.4f} {_rank(one.fts_rank)} {_rank(one.vec_rank)} {final:6.4f} {row.key}{note}"
            )
            line = factor_line(turn, row) if turn else None
            lines += [line] if line else []
    return lines


def flow_json(turn: Turn) -> dict[str, Any]:
    """What the stages found, as plain values."""
    return {
        "skipped": turn.skip_reason,
        "scope": turn.scope,
        "scopeMode": turn.scope_mode,
        "digested": [_key(turn, one) for one in turn.digested],
        "hardRules": [row.key for row in turn.hard],
        "stale": sorted({_key(turn, one) for one in turn.stale}),
        "exempt": {_key(turn, one): rule for one, rule in turn.exempt.items()},
        "excluded": {_key(turn, one): reason for one, reason in turn.excluded.items()},
        "factors": {_key(turn, one): factors._asdict() for one, factors in turn.factors.items()},
        "searched": [
            {
                "scope": where.scope,
                "labels": list(where.labels or ()),
                "text": len(one.lanes.fts),
                "vector": len(one.lanes.vec),
            }
            for where, one in zip(turn.tiers.filters, turn.tiers.results, strict=True)
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
    """A list that stays short unless all of it is asked for."""
    chosen = list(entries)
    shown = chosen if full else chosen[:LISTED]
    more = f" and {len(chosen) - len(shown)} more" if len(chosen) > len(shown) else ""
    if not chosen:
        return []
    return wrap(f"{title} {', '.join(shown)}{more}", WIDTH, initial_indent="    ", subsequent_indent="      ")


def _rank(value: int | None) -> str:
    return f"{value if value is not None else '-':>4}"
