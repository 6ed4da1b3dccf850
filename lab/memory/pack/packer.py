"""Pack candidates into a small bundle with citations, within a budget of tokens (seed 003, PK-1).

The protected tail, the last turns, has slots and tokens of its own (PK-8). The trace has every candidate with its
reasons, and no text of a memory (PK-9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.token_estimate import tokens
from lab.memory.ledger.ledger import storable
from lab.memory.pack.candidate import Candidate, Found, Lane, Settings
from lab.memory.pack.layers import (
    ABSTRACT_FITS,
    DISSENT,
    DUPLICATE,
    EVENT_CAPPED,
    L0,
    L1,
    L2,
    MAX_ITEMS,
    NEEDS_DETAIL,
    OVER_BUDGET,
    RECENT_TURN,
    WITHIN,
    Decision,
    Layers,
    Line,
    cost,
    layers_of,
    rendered,
)
from lab.memory.pack.order import (
    CYCLE,
    Dissent,
    dissents,
    exclusions,
    is_balanced,
    merged,
    ordered,
    quota_hits,
    superseded,
    trust_reason,
)
from lab.memory.tools.redact import redactor
from lab.recordings.model import IGNORE
from lab.retrieval.sentence_words import identifiers, one_line, stems

TAIL, WITHIN_TAIL = "protected_tail", ("within_item_limit", "within_tail_budget")
IS_OFF, OVER = "tail_budget_disabled", "tail_budget_tokens_exceeded"
CONTEXT_PACK = "openclaw-mem.context-pack.v1"
HOW_TO_USE = (
    "Prefer bundle_text for direct injection.",
    "Use items[].recordRef as the citation key.",
    "If you need detail, retrieve L2 by recordRef in a bounded follow-up.",
)
MEMORY = "memory"
TRACE = "openclaw-mem.pack.trace.v1"
# Part of the sidecar's format: a cap on nice_to_have items that no pack reaches.
NICE_CAP = 100
# More of a query than this is not read: it is a pasted file, not a question.
MOST_QUERY = 4_000
# Why a pack is less than was requested.
BLANK, QUERY_CUT, NO_BUDGET = "query_blank", f"query_cut_to_{MOST_QUERY}_characters", "budget_zero"
# So many candidates are shortened at once if they do not fit; the others only after all whole texts had their turn.
FIRST = 10
# Seed 003: 5 to 15 lines of relevant state. A pack of the fewest lines takes no filler, which is graded ignore, unless
# its limit is above the most: then only the budget decides.
FEWEST, MOST_LINES, GRADED_IGNORE = 5, 15, "graded_ignore"
# How many dissenting candidates are tried.
TRIES = 3


class ProtectedTail(NamedTuple):
    """The included turns, the decisions on all turns, and the slots and tokens that are reserved for them."""

    lines: tuple[Line, ...]
    decisions: tuple[Decision, ...]
    slots: int
    tokens: int


def protected_tail(tail: Sequence[str], settings: Settings) -> ProtectedTail:
    """Return the tail of the last turns, given oldest first.

    Profile ``seed`` takes the newest turns first, ends at the first that does not fit, and reserves only what the
    included turns need. The sidecar takes the oldest first, skips turns that do not fit, and reserves the whole budget
    of the tail.
    """
    texts = [text for turn in tail if (text := one_line(turn))]
    texts = texts[-settings.tail.items :] if settings.tail.items else []
    turns = [
        Line(Candidate(f"tail:{number}", text, "tail", kind=RECENT_TURN), L0, text)
        for number, text in enumerate(texts, 1)
    ]
    budget = min(settings.budget_tokens, settings.tail.tokens)
    slots = min(settings.limit, len(turns)) if budget > 0 else 0
    kept: list[Line] = []
    why: dict[str, str] = {}
    closed = ""
    for turn in turns if settings.is_upstream else reversed(turns):
        reason = closed
        if not reason and len(kept) >= slots:
            # Without a budget the sidecar has no slot, and says that instead.
            reason = IS_OFF if budget <= 0 and not settings.is_upstream else MAX_ITEMS
        elif not reason and _size([*kept, turn], settings) > budget:
            reason = OVER
            closed = "" if settings.is_upstream else OVER
        if reason:
            why[turn.candidate.ref] = reason
        else:
            kept.append(turn)
    lines = tuple(turn for turn in turns if turn in kept)
    decisions = tuple(_decision(turn, why.get(turn.candidate.ref)) for turn in turns)
    if settings.is_upstream:
        return ProtectedTail(lines, decisions, slots, max(0, budget) if turns else 0)
    return ProtectedTail(lines, decisions, len(lines), _size(lines, settings) if lines else 0)


def _size(lines: Sequence[Line], settings: Settings) -> int:
    if settings.is_upstream:
        return sum(cost(line.text, settings) for line in lines)
    return tokens("\n".join(rendered(line, settings) for line in lines))


def _decision(turn: Line, reason: str | None) -> Decision:
    return Decision(turn.candidate, reason is None, (TAIL, *((reason,) if reason else WITHIN_TAIL)), L0)


@dataclass(frozen=True, slots=True)
class Pack:
    """The result: the lines in order, the decision on every candidate, and the lanes that were searched.

    ``reasons`` say why the whole pack fell short of the request, such as a blank query; empty if it did not.
    """

    query: str
    scope: str | None
    settings: Settings
    lines: tuple[Line, ...] = ()
    decisions: tuple[Decision, ...] = ()
    founds: tuple[Found, ...] = ()
    quota_hits: Sequence[dict[str, Any]] = ()
    dissent: Dissent | None = None
    reasons: tuple[str, ...] = ()

    @property
    def bundle_text(self) -> str:
        """The lines as they are injected, each with its citation."""
        return "\n".join(rendered(line, self.settings) for line in self.lines)

    @property
    def refs(self) -> tuple[str, ...]:
        """The citations, in the order of the lines."""
        return tuple(line.candidate.ref for line in self.lines)

    def context_pack(self, ts: str) -> dict[str, Any]:
        """Return the ContextPack object; ``ts`` is the time of the pack."""
        return {
            "schema": CONTEXT_PACK,
            "meta": {
                "ts": ts,
                "query": self.query,
                "scope": self.scope,
                "budgetTokens": self.settings.budget_tokens,
                "maxItems": self.settings.limit,
            },
            "bundle_text": self.bundle_text,
            "items": [self._item(line) for line in self.lines],
            "notes": {"how_to_use": list(HOW_TO_USE)},
        }

    def _item(self, line: Line) -> dict[str, Any]:
        one = line.candidate
        kind = one.kind if one.kind == RECENT_TURN or not self.settings.is_upstream else MEMORY
        item = {
            "recordRef": one.ref,
            "layer": line.layer,
            "type": kind,
            "importance": one.importance,
            "trust": one.trust,
            "text": line.text,
            "citations": {"url": one.url, "recordRef": one.ref},
        }
        return item | ({"against": line.against} if line.against else {})


def pack(
    query: str,
    founds: Sequence[Found],
    settings: Settings,
    *,
    scope: str | None = None,
    now_ms: int = 0,
    tail: Sequence[str] = (),
) -> Pack:
    """Pack what lanes returned for a query; ``tail`` are the last turns, oldest first.

    The bundle has at most ``settings.budget_tokens`` tokens by :func:`lab.base.token_estimate.tokens`; in profile
    ``upstream``, the limit applies to its texts alone, by the sidecar's estimate.
    """
    query, reasons = read_query(query)
    reasons += (NO_BUDGET,) if settings.budget_tokens <= 0 else ()
    candidates = merged(founds)
    out = exclusions(candidates, settings, now_ms)
    cyclic = frozenset() if settings.is_upstream else superseded([one for one in candidates if one.ref not in out])[1]
    reserved = protected_tail(tail, settings)
    slots = max(0, settings.limit - reserved.slots)
    order = ordered(candidates, settings, slots, out)
    walk = _Walk(query, settings, out, order.capped, cyclic)
    lines, decisions = walk.run(order.candidates, slots, reserved)
    dissent: Dissent | None = None
    if settings.dissent and lines:
        lines, decisions, dissent = walk.with_dissent(order.candidates, slots, reserved, lines, decisions)
    if not settings.is_upstream:
        # Quotas decide what gets in, relevance what stands first. The line that disagrees stays the last one.
        lines.sort(key=lambda line: (line.against is not None, order.ranks[line.candidate.ref]))
    included = {line.candidate.ref for line in lines}
    return Pack(
        # A prompt may hold a secret, which no trace keeps (seed 003).
        query if settings.is_upstream else redactor(upstream=False)(query),
        scope,
        settings,
        (*lines, *reserved.lines),
        (*decisions, *reserved.decisions),
        tuple(founds),
        quota_hits(order.hits, included),
        dissent,
        reasons,
    )


def gather(
    lanes: Sequence[Lane], query: str, settings: Settings, *, scope: str | None = None, now_ms: int = 0
) -> list[Found]:
    """Search lanes for a query. A blank query searches none, because it would match anything."""
    query, reasons = read_query(query)
    if not query:
        return [Found(lane.name, searched=False, reason=reasons[0]) for lane in lanes]
    return [lane.search(query, settings.depth, scope=scope, now_ms=now_ms) for lane in lanes]


def read_query(query: str) -> tuple[str, tuple[str, ...]]:
    """Return the text that is searched for, and the reasons why it is not the query itself."""
    query = storable(query).strip()
    if not query:
        return "", (BLANK,)
    return (query, ()) if len(query) <= MOST_QUERY else (query[:MOST_QUERY], (QUERY_CUT,))


class _Walk:
    def __init__(
        self, query: str, settings: Settings, out: dict[str, str], capped: frozenset[str], cyclic: frozenset[str]
    ) -> None:
        self._settings, self._out, self._capped, self._cyclic = settings, out, capped, cyclic
        self._terms, self._names = stems(query), identifiers(query)
        self._layers: dict[str, Layers] = {}

    def run(
        self, candidates: Sequence[Candidate], slots: int, reserved: ProtectedTail, last: Line | None = None
    ) -> tuple[list[Line], list[Decision]]:
        """Include what fits; a candidate that does not fit is skipped. ``last`` is a line that is included anyway."""
        settings = self._settings
        room = _Room(settings, reserved, last)
        if not room.fits:
            last = None
        lines: list[Line] = []
        decisions: list[Decision] = []
        # A turn of the tail is a text of the bundle, too.
        texts = {_folded(line.candidate.text) for line in (*reserved.lines, *((last,) if last else ()))}
        details = 0
        slots -= last is not None
        if not settings.is_upstream:
            # Events above their quota take what the others leave, and so does filler.
            candidates = sorted(candidates, key=lambda one: (self._is_filler(one), one.ref in self._capped))
        # It grows: whatever follows the first candidates is shortened only after all whole texts had their turn.
        queue = [(one, settings.is_upstream or at < FIRST) for at, one in enumerate(candidates)]
        for one, may_shorten in queue:
            if last is not None and one.ref == last.candidate.ref:
                continue
            said = self._said(one)
            is_full = len(lines) >= slots
            reason = self._out.get(one.ref) or (MAX_ITEMS if is_full else None)
            if len(lines) >= FEWEST and self._is_filler(one):
                reason = reason or GRADED_IGNORE
            if one.ref in self._capped:
                # It keeps that reason, whether it takes a free slot or not.
                reason = EVENT_CAPPED if is_full or settings.is_upstream else None
                said = said if reason else (*said, EVENT_CAPPED)
            if reason:
                # The sidecar names the reason of its trust policy twice.
                reasons = (*said, reason)
                decisions.append(Decision(one, False, reasons if settings.is_upstream else (*dict.fromkeys(reasons),)))
                continue
            capped, why_not, own = False, OVER_BUDGET, _folded(one.text)
            for layer, text, why in self._choices(one):
                if layer == L0 and not may_shorten:
                    queue.append((one, True))
                    break
                # Equal texts may have different raw records.
                key = f"{own}\n{_folded(text)}" if layer == L2 else own
                if layer == L2 and details >= settings.most_details:
                    capped = True
                elif key in texts and not settings.is_upstream:
                    why_not = DUPLICATE
                elif room.takes(line := Line(one, layer, text)):
                    details += layer == L2
                    lines.append(line)
                    texts |= {own, key}
                    decisions.append(Decision(one, True, (*said, *WITHIN, *why), layer, capped))
                    break
            else:
                decisions.append(Decision(one, False, (*said, why_not), l2_cap=capped))
        if not settings.is_upstream:
            self._fill(room, lines, decisions)
        if last is not None:
            lines.append(last)
            why = (*self._said(last.candidate), *WITHIN, DISSENT)
            decisions.append(Decision(last.candidate, True, why, last.layer))
        return lines, decisions

    def _fill(self, room: _Room, lines: list[Line], decisions: list[Decision]) -> None:
        """Give what is left of the budget to abstracts whose whole text fits then, in order (PK-4)."""
        for at, line in enumerate(lines):
            overview = self._layers[line.candidate.ref].overview
            if line.layer == L0 and overview and room.replaces(at, whole := Line(line.candidate, L1, overview)):
                lines[at] = whole
                place = next(at for at, one in enumerate(decisions) if one.candidate.ref == line.candidate.ref)
                kept = tuple(reason for reason in decisions[place].reasons if reason != ABSTRACT_FITS)
                decisions[place] = decisions[place]._replace(layer=L1, reasons=kept)

    def with_dissent(
        self,
        candidates: Sequence[Candidate],
        slots: int,
        reserved: ProtectedTail,
        lines: list[Line],
        decisions: list[Decision],
    ) -> tuple[list[Line], list[Decision], Dissent | None]:
        """Return the pack with the closest candidate that disagrees with it and did not get in, if there is one.

        The last items make room for it, but never the one that it disagrees with (PK-7).
        """
        included = [line.candidate for line in lines]
        if slots < 2 or is_balanced(included, self._terms):
            return lines, decisions, None
        texts = {_folded(one.text) for one in included}
        others = [
            one
            for one in candidates
            if one.ref not in self._out and one.ref not in self._capped and _folded(one.text) not in texts
        ]
        for dissent in dissents(included, others, self._terms)[:TRIES]:
            # Its abstract, or its overview if that is not longer.
            *_, (layer, text, _) = self._choices(dissent.candidate)
            line = Line(dissent.candidate, layer, text, dissent.against)
            again, new = self.run(candidates, slots, reserved, line)
            if line in again and dissent.against in {kept.candidate.ref for kept in again}:
                return again, new, dissent
        return lines, decisions, None

    def _is_filler(self, one: Candidate) -> bool:
        settings = self._settings
        return one.importance == IGNORE and settings.limit <= MOST_LINES and not settings.is_upstream

    def _said(self, one: Candidate) -> tuple[str, ...]:
        """Return the reasons that a candidate has whether it is included or not."""
        trust = trust_reason(one, self._settings)
        return (*((trust,) if trust else ()), *((CYCLE,) if one.ref in self._cyclic else ()))

    def _choices(self, one: Candidate) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield the layers to try, in order: L2 if it is needed, L1, then L0 if that is shorter (PK-4, PK-5)."""
        if self._settings.is_upstream:
            yield L1, one.text, ()
            return
        layers = self._layers.get(one.ref)
        if layers is None:
            layers = self._layers[one.ref] = layers_of(one, self._terms, self._names, self._settings.overview_tokens)
        if layers.detail:
            yield L2, layers.detail, (NEEDS_DETAIL,)
        if not layers.is_long:
            yield L1, layers.overview, ()
        if layers.is_long or len(layers.abstract) < len(layers.overview):
            yield L0, layers.abstract, (ABSTRACT_FITS,)


def _folded(text: str) -> str:
    """Return a text as duplicates are compared: without case, each run of white space as one blank."""
    return one_line(text.casefold())


class _Room:
    def __init__(self, settings: Settings, reserved: ProtectedTail, last: Line | None) -> None:
        self._settings, self._used = settings, 0
        self._most = settings.budget_tokens - (reserved.tokens if settings.is_upstream else 0)
        self._lines: list[str] = []
        # In profile seed the estimate is of the whole text, so what is fixed is counted with it.
        self._fixed = [rendered(last, settings)] if last else []
        self._fixed += [] if settings.is_upstream else [rendered(turn, settings) for turn in reserved.lines]
        self.fits = not self._fixed or tokens("\n".join(self._fixed)) <= self._most

    def takes(self, line: Line) -> bool:
        """Take a line if it fits; return whether it did."""
        if self._settings.is_upstream:
            size = cost(line.text, self._settings)
            if self._most <= 0 or self._used + size > self._most:
                return False
            self._used += size
            return True
        return self._keeps([*self._lines, rendered(line, self._settings)])

    def replaces(self, at: int, line: Line) -> bool:
        """Take a line in place of the one taken as number ``at``, from 0, if it fits; return whether it did."""
        return self._keeps([*self._lines[:at], rendered(line, self._settings), *self._lines[at + 1 :]])

    def _keeps(self, lines: list[str]) -> bool:
        fits = tokens("\n".join([*lines, *self._fixed])) <= self._most
        self._lines = lines if fits else self._lines
        return fits


def trace(
    done: Pack,
    ts: str,
    *,
    version: str,
    refreshed: Sequence[str] = (),
    timing: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return the trace of a pack. It has the query and refs, and no other text.

    ``refreshed`` are the records whose use was recorded, ``timing`` the milliseconds of each stage.
    """
    settings = done.settings
    candidates = [_traced(decision) for decision in done.decisions]
    included = [one for one in candidates if one["decision"]["included"]]
    stages = dict(timing or {})
    total = sum(stages.values())
    no_rationale = sum(not one["decision"]["rationale"] for one in candidates)
    no_citation = sum(not one["citations"]["recordRef"] for one in included)
    return {
        "kind": TRACE,
        "ts": ts,
        "version": {"openclaw_mem": version, "schema": "v1"},
        "query": {"text": done.query, "scope": done.scope, "intent": None},
        "budgets": {
            "budgetTokens": settings.budget_tokens,
            "maxItems": settings.limit,
            "maxL2Items": settings.most_details,
            "niceCap": NICE_CAP,
        },
        "lanes": [
            {
                "name": found.lane,
                "source": found.lane,
                "searched": found.searched,
                "reason": found.reason,
                "candidates": len(found.candidates),
                "retrievers": [
                    {"kind": kind, "topK": settings.depth, "k": None}
                    for kind in dict.fromkeys(name for one in found.candidates for name in one.retrievers)
                ],
            }
            for found in done.founds
        ],
        "candidates": candidates,
        "output": {
            "includedCount": len(included),
            "excludedCount": len(candidates) - len(included),
            "l2IncludedCount": sum(one["layer"] == L2 for one in included),
            "citationsCount": len(included) - no_citation,
            "refreshedRecordRefs": list(refreshed),
            "coverage": {
                "rationaleMissingCount": no_rationale,
                "citationMissingCount": no_citation,
                "allIncludedHaveRationale": all(one["decision"]["rationale"] for one in included),
                "allIncludedHaveCitations": no_citation == 0,
            },
        },
        "timing": {"durationMs": int(total), "stages": stages, "total_ms": total},
        "extensions": extensions(done),
    }


def _traced(decision: Decision) -> dict[str, Any]:
    """Return the decision on a candidate, as the trace lists it."""
    one = decision.candidate
    reasons = list(decision.reasons)
    return {
        "id": one.ref,
        "layer": decision.layer,
        "importance": one.importance,
        "trust": one.trust,
        "scores": {
            "rrf": one.score,
            "fts": float("fts" in one.retrievers),
            "semantic": float("vector" in one.retrievers),
        },
        "decision": {
            "included": decision.included,
            "reason": reasons,
            "rationale": list(reasons),
            "caps": {"niceCapHit": False, "l2CapHit": decision.l2_cap},
        },
        "citations": {"url": one.url, "recordRef": one.ref},
    }


def extensions(done: Pack) -> dict[str, Any]:
    """Return the values that the sidecar's format has no field for: why a pack fell short, quotas, the dissent slot."""
    said: dict[str, Any] = {}
    if done.reasons:
        said["reasons"] = list(done.reasons)
    if done.quota_hits:
        said["quota_hits"] = list(done.quota_hits)
    if done.dissent is not None:
        dissent = done.dissent
        said["dissent"] = {"ref": dissent.candidate.ref, "against": dissent.against, "how": dissent.how}
    return said
