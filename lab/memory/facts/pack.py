"""Pack the current facts of a subject into a bounded text with citations (TF-11)."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from lab.memory.facts.model import SCHEMA, TIERS, Fact, fact_json
from lab.memory.facts.view import Current
from lab.retrieval.sentence_words import one_line

PACKED = "openclaw-mem.graph.fact.pack.v0"
CONTEXT_PACK = "openclaw-mem.context-pack.v1"
HEADER = "[TEMPORAL_FACTS v0]"
HOW_TO_USE = "Use as cited current-truth context; do not treat stale/excluded facts as current truth."


def pack(
    subject: str, found: Current, *, as_of: str, budget: int = 1200, most: int = 20, upstream: bool = False
) -> dict[str, Any]:
    """Return current facts as a text, as a ContextPack and with a trace: the highest confidence first.

    A fact that does not fit the budget (tokens, a quarter of the characters) is left out, and smaller ones after it may
    fit. The first fact is always included. Markup is escaped, except for ``upstream``.
    """
    facts = sorted(found.facts, key=lambda one: (-_rank(one[0]), one[0].valid_from, one[0].id))
    lines = [HEADER, f"Subject: {_shown(subject, upstream=upstream)}", ""]
    included: list[tuple[Fact, str]] = []
    excluded = [{"fact_id": one.fact, "reason": one.reason, "status": one.status} for one in found.excluded]
    for fact, status in facts:
        line = f"{len(included) + 1}) {text_of(fact, status, upstream=upstream)}"
        too_long = included and _tokens("\n".join([*lines, line])) > budget
        if len(included) >= most or too_long:
            reason = "budget_exceeded" if len(included) < most else "max_items"
            excluded.append({"fact_id": fact.id, "reason": reason, "status": status})
        else:
            lines.append(line)
            included.append((fact, status))
    text = "\n".join(lines).strip() + "\n"
    return {
        "kind": PACKED,
        "schema": SCHEMA,
        "bundle_text": text,
        "context_pack": {
            "schema": CONTEXT_PACK,
            "meta": {
                "ts": as_of,
                "query": f"temporal facts current truth for {subject}",
                "scope": subject,
                "budgetTokens": budget,
                "maxItems": most,
            },
            "bundle_text": text,
            "items": [_item(fact, text_of(fact, status, upstream=upstream)) for fact, status in included],
            "notes": {"how_to_use": [HOW_TO_USE]},
        },
        "items": [fact_json(fact, status) for fact, status in included],
        "trace": {
            "subject": subject,
            "as_of": as_of,
            "budgetTokens": budget,
            "maxItems": most,
            "includedFactIds": [fact.id for fact, _ in included],
            "excluded": excluded,
            "allIncludedHaveSources": all(fact.sources for fact, _ in included),
        },
    }


def value_text(fact: Fact) -> str:
    """Return the object of a fact on one line; JSON as JSON."""
    value = fact.object.value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return one_line(text)


def text_of(fact: Fact, status: str, *, upstream: bool = False) -> str:
    """Return a fact with its evidence on one line; markup is escaped, except for ``upstream``."""
    sources = ", ".join(source.token for source in fact.sources)
    text = (
        f"{fact.subject} {fact.predicate} = {value_text(fact)} (status={status}, confidence={fact.confidence}, "
        f"valid_from={fact.valid_from}, sources={sources})"
    )
    return _shown(text, upstream=upstream)


def _shown(text: str, *, upstream: bool) -> str:
    return one_line(text) if upstream else escape(one_line(text), quote=False)


def _item(fact: Fact, text: str) -> dict[str, Any]:
    return {
        "recordRef": fact.id,
        "layer": "L2",
        "type": "temporal_fact",
        "importance": "high",
        "trust": fact.confidence,
        "text": text,
        "citations": {"url": None, "recordRef": fact.assertion.ref},
        "assertionRef": fact.assertion._asdict(),
        "evidenceSourceRefs": [source._asdict() for source in fact.sources],
    }


def _rank(fact: Fact) -> int:
    return TIERS.index(fact.confidence) if fact.confidence in TIERS else -1


def _tokens(text: str) -> int:
    return max(1, (len(text) + 3) // 4)
