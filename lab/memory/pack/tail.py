"""The protected tail of a pack: the last turns, with slots and tokens of their own (seed 003, PK-8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import Candidate
from lab.memory.pack.layers import L0
from lab.memory.pack.lines import MAX_ITEMS, RECENT_TURN, Decision, Line, cost, rendered
from lab.memory.pack.settings import Settings
from lab.retrieval.sentence_words import one_line

TAIL, WITHIN = "protected_tail", ("within_item_limit", "within_tail_budget")
IS_OFF, OVER = "tail_budget_disabled", "tail_budget_tokens_exceeded"


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
    return Decision(turn.candidate, reason is None, (TAIL, *((reason,) if reason else WITHIN)), L0)
