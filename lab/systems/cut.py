"""Cut the injected text of a recall at a token budget (LG-3).

The lab does not know how a system writes its text. It finds the texts of the injected items in it, in rank order, as
they are, escaped as in markup, or with white space folded. What comes before the first item and after the last one is
the frame, which stays as long as any item does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape

from lab.base.token_estimate import tokens
from lab.systems.contract import Item, Recall
from lab.systems.openclaw.recall.wrap import escape

# An item whose whole text is not there, because the system clips long texts, is found by so many of its characters.
START = 40
# The key of a receipt with the ranks of items that are injected in part.
CLIPPED = "clipped"


def cut(recall: Recall, budget: int, most: int) -> Recall:
    """Return a recall whose injected text has at most ``budget`` tokens and ``most`` items.

    Only injected items stay in the ranking, so that measures at any cutoff see what is in the prompt. If nothing fits,
    or the items of a text that is too long are not found in it, nothing is injected: pinned memories neither.
    """
    timings = dict(recall.timings)
    injected = recall.items[: recall.injected]
    if tokens(recall.context) <= budget and len(injected) <= most:
        return replace(recall, items=injected, timings=timings)
    spans = spans_of(recall.context, injected)
    kept = 0
    if spans is not None:
        low, high = 0, min(len(injected), most)
        while low < high:
            middle = (low + high + 1) // 2
            if tokens(_first(recall.context, spans, middle)) <= budget:
                low = middle
            else:
                high = middle - 1
        kept = low
    context = _first(recall.context, spans, kept) if spans is not None and kept else ""
    return replace(
        recall,
        items=injected[:kept],
        injected=kept,
        context=context,
        timings=timings,
        # The receipt would explain items that the cut removed.
        receipt={"cut": {"tokens": budget, "of": len(injected), "kept": kept, "found": spans is not None}},
        receipt_text=None,
        pinned=recall.pinned if kept else (),
        duplicates=recall.duplicates if kept == len(injected) else None,
        evicted=(recall.evicted or 0) + len(injected) - kept,
    )


def clipped_in(recall: Recall, texts: Mapping[str, str]) -> list[int]:
    """Return the ranks, from 0, of injected items whose whole text is not in the injected text (LG-4).

    ``texts`` are those of the memories by id; the system's own text of an item counts for one that is not there. White
    space is folded, and markup may be escaped.
    """
    plain = " ".join(recall.context.split())
    forms = (plain, unescape(plain)) if "&" in plain else (plain,)
    clipped = []
    for rank, item in enumerate(recall.items[: recall.injected]):
        text = " ".join(texts.get(item.id, item.text).split())
        if not any(text in form for form in forms) and escape(text) not in plain:
            clipped.append(rank)
    return clipped


def spans_of(context: str, items: Sequence[Item]) -> list[tuple[int, int]] | None:
    """Return where the line of each item starts and its text ends in the context; None if one is not found in order."""
    spans: list[tuple[int, int]] = []
    at = 0
    for item in items:
        span = _found(context, item.text, at)
        if span is None:
            return None
        begin, end = span
        line = context.rfind("\n", at, begin) + 1 or at
        spans.append((max(line, at), end))
        at = end
    return spans


def _found(context: str, text: str, at: int) -> tuple[int, int] | None:
    forms = dict.fromkeys((escape(text), text, escape(" ".join(text.split())), " ".join(text.split())))
    for form in forms:
        if form and (begin := context.find(form, at)) >= 0:
            return begin, begin + len(form)
    for form in forms:
        if len(form) > START and (begin := context.find(form[:START], at)) >= 0:
            end = context.find("\n", begin + START)
            return begin, end if end >= 0 else len(context)
    return None


def _first(context: str, spans: Sequence[tuple[int, int]], count: int) -> str:
    """Return the text with the first ``count`` items, 1 or more."""
    if count >= len(spans):
        return context
    return context[: spans[count][0]].rstrip("\n ") + context[spans[-1][1] :]
