"""The lines of a bundle: the cost of a line, its text, and the decision behind it (PK-1)."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import Candidate
from lab.memory.pack.layers import L1
from lab.memory.pack.settings import Settings
from lab.retrieval.sentence_words import one_line

# Reasons of a candidate, as a trace names them.
MAX_ITEMS, OVER_BUDGET, EVENT_CAPPED = "max_items_reached", "budget_tokens_exceeded", "quota_event_capped"
DUPLICATE = "duplicate_text"
# The kind of a turn of the tail.
RECENT_TURN = "recent_turn"
WITHIN = ("within_item_limit", "within_budget")
ABSTRACT_FITS, NEEDS_DETAIL, DISSENT = "overview_over_budget", "detail_needed", "dissent_slot"


class Line(NamedTuple):
    """An included candidate: its layer, its text on one line, and the ref that it disagrees with, if any."""

    candidate: Candidate
    layer: str
    text: str
    against: str | None = None


class Decision(NamedTuple):
    """Whether a candidate was included, in which layer, and every reason. ``l2_cap``: too many raw records."""

    candidate: Candidate
    included: bool
    reasons: tuple[str, ...]
    layer: str = L1
    l2_cap: bool = False


def rendered(line: Line, settings: Settings) -> str:
    """Return a line of the bundle. Profile ``seed`` escapes markup, so that no text can close a block around it.

    It also escapes citations, which may contain the name of a file or an id that another program wrote.
    """
    if settings.is_upstream:
        return f"- [{line.candidate.ref}] {line.text}"
    against = f", unlike {line.against}" if line.against else ""
    return f"- [{escape(one_line(line.candidate.ref + against), quote=False)}] {escape(line.text, quote=False)}"


def cost(text: str, settings: Settings) -> int:
    """Return the tokens of a text: the lab's estimate, or the sidecar's, four characters a token."""
    return max(1, -(-len(text) // 4)) if settings.is_upstream else tokens(text)
