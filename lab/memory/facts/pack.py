"""Pack the current facts of a subject into a bounded text with citations (TF-11).

The lane of a pack offers the facts that hold now, with what they supersede and contradict (TF-13).
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from lab.base.errors import LabError
from lab.memory.facts import store
from lab.memory.facts.model import PREDICATES, RETRACTED, SCHEMA, TIERS, Fact, Record, fact_json
from lab.memory.facts.sources import Sources
from lab.memory.facts.view import EXCLUDED, Current, View, current, in_cycles
from lab.memory.ledger.ledger import stamp
from lab.memory.pack.candidate import UNSCOPED, Candidate, Found
from lab.recordings.model import NICE
from lab.retrieval.sentence_words import one_line, words

PACKED = "openclaw-mem.graph.fact.pack.v0"
CONTEXT_PACK = "openclaw-mem.context-pack.v1"
HEADER = "[TEMPORAL_FACTS v0]"
HOW_TO_USE = "Use as cited current-truth context; do not treat stale/excluded facts as current truth."
UNCHECKED = "no_ledger_sources_not_checked"
TRUST = dict(zip(TIERS, ("untrusted", "unknown", "trusted", "trusted"), strict=True))
# The number of best facts per result whose subjects are looked at; a limit, because their sources are resolved.
DEEPER = 8
# Why a fact that holds is left out.
_UNSOUND = frozenset(EXCLUDED.values())


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
    excluded = [one._asdict() for one in found.excluded]
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


class FactsLane:
    """The facts of a file of assertions, searched by the words of subject, predicate and object.

    The file is read again when it has changed. Facts have no scope: they are found in every one.
    """

    name = "facts"

    def __init__(self, path: Path, ledger: Path | None = None, root: Path = Path()) -> None:
        self._path, self._ledger, self._root = path, ledger, root
        self._version: tuple[int, int] | None = None
        self._records: tuple[Record, ...] = ()
        self._seen: tuple[int, _Index] | None = None

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return facts that were asserted by ``now_ms``, best first: those that hold, then those superseded.

        A fact whose sources changed, are missing or quarantined is left out, as is one that only facts of its own cycle
        supersede; the reason counts them. A fact that holds names the facts that it superseded, and facts with another
        value for the same time. Without a ledger, sources in a ledger are not looked up. If the ledger cannot be read,
        the facts that need it are left out. The reason says so, and that a ``scope`` has no effect.
        """
        try:
            now = stamp(datetime.fromtimestamp(now_ms / 1000, UTC))
            return self._found(self._index(now), query, limit, now, [] if scope is None else [UNSCOPED])
        except FileNotFoundError:
            return Found(self.name, (), False, "no facts")
        except (LabError, OSError, ValueError, OverflowError):
            # The message of the error may quote a line of the file.
            reason = f"{self._path} cannot be read; lab memory facts lint says why"
            return Found(self.name, (), False, reason)

    def _index(self, now: str) -> _Index:
        status = os.stat(self._path)
        if (version := (status.st_size, status.st_mtime_ns)) != self._version:
            self._records, self._version, self._seen = store.read(self._path).records, version, None
        existing = [record for record in self._records if record.created_at <= now]
        if self._seen is None or self._seen[0] != len(existing):
            self._seen = (len(existing), _Index(View(existing)))
        return self._seen[1]

    def _found(self, index: _Index, query: str, limit: int, now: str, reasons: list[str]) -> Found:
        scores = index.scores(query)
        best = sorted(scores, key=lambda identity: (-scores[identity], identity))[: DEEPER * max(limit, 1)]
        subjects = {fact.subject for fact in map(index.view.get, best) if fact}
        facts = [fact for subject in sorted(subjects) for fact in index.view.of(subject)]
        try:
            judged = current(facts, now, Sources(self._ledger, self._root))
        except LabError:
            facts = [fact for fact in facts if not fact.needs_ledger]
            judged = current(facts, now, Sources(None, self._root))
            reasons.append(f"{self._ledger} cannot be read, so that facts with sources in it are left out")
        holding = {fact.id: fact for fact, _ in judged.facts}
        past = [fact for fact in facts if _is_past(fact, now) and any(by in holding for by in fact.superseded_by)]
        ranked = sorted(
            (fact for fact in (*holding.values(), *past) if fact.id in scores),
            key=lambda fact: (fact.id not in holding, -scores[fact.id], fact.id),
        )
        left_out = Counter(one.reason for one in judged.excluded if one.fact_id in scores and one.reason in _UNSOUND)
        if cyclic := sum(one.fact_id in index.cycles and one.fact_id in scores for one in judged.excluded):
            left_out["supersession_cycle"] = cyclic
        if self._ledger is None and any(fact.needs_ledger for fact in ranked[:limit]):
            reasons.append(UNCHECKED)
        candidates = [_candidate(fact, scores[fact.id], holding.values(), index.view) for fact in ranked[:limit]]
        if left_out:
            reasons.append("left out: " + ", ".join(f"{why} {count}" for why, count in sorted(left_out.items())))
        return Found(self.name, candidates, reason="; ".join(reasons) or None)


class _Index:
    def __init__(self, view: View) -> None:
        self.view = view
        self.cycles = in_cycles(view)
        self._facts: dict[str, list[str]] = defaultdict(list)
        for fact in view:
            text = f"{fact.subject} {fact.label} {fact.predicate} {value_text(fact)}"
            for word in dict.fromkeys(words(text.replace("_", " "))):
                self._facts[word].append(fact.id)

    def scores(self, query: str) -> dict[str, float]:
        """Return the facts that share a word with a query: the sum of the shared words' rarity."""
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(words(query)):
            ids = self._facts.get(word, ())
            for identity in ids:
                scores[identity] += math.log(1 + len(self.view) / len(ids))
        return scores


def _is_past(fact: Fact, now: str) -> bool:
    return fact.valid_to is not None and fact.valid_to <= now and fact.status != RETRACTED


def _candidate(fact: Fact, score: float, holding: Iterable[Fact], view: View) -> Candidate:
    is_single = fact.predicate in PREDICATES and PREDICATES[fact.predicate].is_single
    until = f" until {fact.valid_to}" if fact.valid_to else ""
    rivals = tuple(
        other.id
        for other in holding
        if is_single
        and (other.subject, other.predicate) == (fact.subject, fact.predicate)
        and other.object != fact.object
        and other.overlaps(fact)
    )
    return Candidate(
        ref=fact.id,
        text=f"{fact.subject} {fact.predicate} = {value_text(fact)} (from {fact.valid_from}{until})",
        lane=FactsLane.name,
        score=score,
        kind="decision" if fact.predicate == "decision" else "fact",
        importance=NICE,
        trust=TRUST.get(fact.confidence, "unknown"),
        ts_ms=int(datetime.fromisoformat(fact.valid_from).timestamp() * 1000),
        retrievers=("words",),
        supersedes=tuple(sorted(old.id for old in view.superseded(fact.id))),
        contradicts=rivals,
        sources=tuple(source.ref for source in fact.sources),
    )
