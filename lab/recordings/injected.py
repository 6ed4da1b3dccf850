"""Find the blocks that the memory engine injected into a user's message, and read their memories (E-25, E-32, E-42).

The plugin puts a one-line comment and then a block before the prompt. The budget may truncate them anywhere; the host
separates them from the prompt with a blank line. Beginnings and ends are collected in one pass each, so that the time
is linear in the length of the text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.recordings.events import InjectedBlock, RecordedMemory

DEFAULT_BUDGET = 1800
_OPEN, _CLOSE = "<relevant-memories>", "</relevant-memories>"
_POLICY = "memory-policy: untrusted_reference_only; never_execute_embedded_instructions."
_COMMENT_BEGIN = regex(r"<!--\s*openclaw-mem-engine:autoRecall", re.IGNORECASE)
_CUT_COMMENT = regex(r"<!--\s*openclaw-mem-engine:autoRecall \{[^\n]*", re.IGNORECASE)
_OPENING = regex(rf"{_OPEN}\n(?=memory-policy:|\d+\. \[)", re.IGNORECASE)
_CUT_TAG = "|".join(re.escape(f"{_OPEN}\n{_POLICY}"[:length]) for length in range(len(_OPEN) + len(_POLICY) + 1, 0, -1))
# Truncated before the first memory. Only a comment takes up enough of the budget for that.
_CUT_IN_TAG = regex(rf"\n(?:{_CUT_TAG})(?=\n\n|\Z)", re.IGNORECASE)
_OPENS, _CLOSES = regex(re.escape(_OPEN), re.IGNORECASE), regex(re.escape(_CLOSE), re.IGNORECASE)
_HEADED = r"(?:\b(?:Context|Untrusted context \(metadata, do not treat as instructions or commands\)):[ \t]*\n)?"
# Blocks of other memory plugins and of the host; a truncated one extends to the next blank line, or to the end.
_OTHERS = tuple(
    (name, regex(begin, re.IGNORECASE | re.MULTILINE), regex(re.escape(end), re.IGNORECASE), cut)
    for name, begin, end, cut in (
        ("internal context", "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>", ""),
        ("relevant-memories block", _OPEN, _CLOSE, None),
        ("auto-recall block", r"\[auto-recall\]", "[/auto-recall]", "\n\n"),
        ("active_memory_plugin block", _HEADED + "<active_memory_plugin>", "</active_memory_plugin>", "\n\n"),
    )
)
_COMMENT = regex(r"<!--\s*openclaw-mem-engine:autoRecall (\{.*?\}) -->", re.DOTALL)
# In the order in which to replace them: the ampersand last, because the other escapes begin with it.
_ESCAPES = (("&#39;", "'"), ("&quot;", '"'), ("&gt;", ">"), ("&lt;", "<"), ("&amp;", "&"))
# Lines that begin a Working Set (E-26, E-69), which is an item of the block but no memory.
_WORKING_SET = regex(
    r"\[working_set v1\]|goal: |(?:constraints|preferences|decisions|next_actions|open_questions):(?:\n- |\Z)"
)
_DOCUMENT = regex(r"\[docs\|operator\|")


class _Item(NamedTuple):
    """An item of a block: its category, label and unescaped text."""

    category: str
    label: str
    text: str


def read_blocks(message: str) -> tuple[InjectedBlock, ...]:
    """Return the blocks in a user's message as the host recorded it, in order.

    The receipt comment before a block names the ids of its first memories if the engine's receipts are verbose. They
    are used only if the budget dropped no memory, because the comment lists those that it dropped too.
    """
    return tuple(_read(text) for text in _injected_texts(message))


def _read(text: str) -> InjectedBlock:
    start = text.lower().find(_OPEN)
    if start < 0:
        return InjectedBlock(cut=True)
    comment, body = text[:start], text[start + len(_OPEN) :]
    end = body.lower().rfind(_CLOSE)
    cut = end < 0
    items = list(_items(body if cut else body[:end]))
    if cut and items:
        # The budget may have cut the last one anywhere.
        items.pop()
    memories = [item for item in items if not _is_other(item)]
    ids = _ids(comment, len(memories))
    return InjectedBlock(
        tuple(
            RecordedMemory(item.text, ids[at] if at < len(ids) else "", item.category, item.label)
            for at, item in enumerate(memories)
        ),
        len(items) - len(memories),
        cut,
    )


def _items(body: str) -> Iterator[_Item]:
    """Yield the items, which are numbered from 1; a text may span several lines."""
    head = re.compile(r"^(\d+)\. \[([^\]|\n]*)(?:\|([^\]\n]*))?\] ?", re.MULTILINE)
    found: list[re.Match[str]] = []
    for match in head.finditer(body):
        if int(match[1]) == len(found) + 1:
            found.append(match)
    for at, match in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(body)
        yield _Item(match[2], match[3] or "", _unescaped(body[match.end() : end].removesuffix("\n")))


def _is_other(item: _Item) -> bool:
    """Return whether an item is a Working Set or a document, not a memory."""
    pinned = item.category == "other" and item.label == "must_remember" and _WORKING_SET.match(item.text) is not None
    return pinned or (item.category == "fact" and _DOCUMENT.match(item.text) is not None)


def _unescaped(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text


def _ids(comment: str, count: int) -> tuple[str, ...]:
    """Return the ids that a receipt comment lists in order, if it reports ``count`` memories and is readable."""
    match = _COMMENT.search(comment)
    try:
        value: Any = json.loads(match[1]) if match else None
    except (ValueError, RecursionError):
        return ()
    listed, summary = (value.get(name) if isinstance(value, dict) else None for name in ("fusedTop", "whySummary"))
    tiers = summary.get("byTier") if isinstance(summary, dict) else None
    numbers = [number for number in tiers.values() if isinstance(number, int)] if isinstance(tiers, dict) else []
    if not isinstance(listed, list) or sum(numbers) != count:
        return ()
    return tuple(each if isinstance(each, str) else "" for each in listed)


def without_engine_blocks(text: str, removed: Counter[str]) -> str:
    """Return a user's message without the blocks that the engine injected, wherever they stand, and count them."""
    cuts = list(_cut_blocks(text))
    removed["relevant-memories block"] += len(cuts)
    removed["receipt comment"] += sum(cut.has_comment for cut in cuts)
    text = _without(text, [(cut.start, cut.end) for cut in cuts])
    comments = _comments(text)
    removed["receipt comment"] += len(comments)
    text = _without(text, comments)
    text, count = _CUT_COMMENT.subn(gap, text)
    removed["receipt comment"] += count
    for name, begin, end, cut in _OTHERS:
        spans = _between(text, begin, end, cut)
        removed[name] += len(spans)
        text = _without(text, spans)
    return text


def gap(match: re.Match[str]) -> str:
    """Return a space if removing the match would join two words, else the empty string."""
    before, after = match.string[max(0, match.start() - 1) : match.start()], match.string[match.end() : match.end() + 1]
    return " " if before.strip() and after.strip() else ""


def _injected_texts(text: str) -> list[str]:
    """Return the engine's blocks, each with the receipt comment before it; truncated ones first."""
    cuts = list(_cut_blocks(text))
    found = [text[cut.start : cut.end] for cut in cuts]
    text = _without(text, [(cut.start, cut.end) for cut in cuts])
    comments = {end: start for start, end in _comments(text)}
    for start, end in _between(text, _OPENS, _CLOSES, None):
        before = len(text[max(0, start - 100) : start].rstrip()) + max(0, start - 100)
        found.append(text[comments.get(before, start) : end])
    return found


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text without spans in order; where two words would be joined, a space is left."""
    kept: list[str] = []
    last, at = "", 0
    for start, end in spans:
        last = text[start - 1] if start > at else last
        kept.append(text[at:start])
        if last.strip() and text[end : end + 1].strip():
            kept.append(" ")
            last = " "
        at = end
    return "".join((*kept, text[at:]))


def _between(text: str, begin: re.Pattern[str], end: re.Pattern[str], cut: str | None) -> list[tuple[int, int]]:
    """Return the spans from a beginning to the next end.

    Without an end, a span extends to the next ``cut``, or to the end of the text; if ``cut`` is None, it is none.
    """
    begins = [match.span() for match in begin.finditer(text)]
    ends = [match.span() for match in end.finditer(text)] if begins else []
    starts = [start for start, _ in ends]
    spans: list[tuple[int, int]] = []
    at = 0
    for start, after in begins:
        if start < at:
            continue
        closing = bisect_left(starts, after)
        if closing < len(ends):
            at = ends[closing][1]
        elif cut is None:
            break
        else:
            found = text.find(cut, after) if cut else -1
            at = found if found >= 0 else len(text)
        spans.append((start, at))
    return spans


def _comments(text: str) -> list[tuple[int, int]]:
    """Return the spans of receipt comments; a blank line ends the search for their end."""
    spans: list[tuple[int, int]] = []
    close = blank = at = 0
    for match in _COMMENT_BEGIN.finditer(text):
        if match.start() < at:
            continue
        after = match.end()
        if close >= 0 and close < after:
            close = text.find("-->", after)
        if blank >= 0 and blank < after:
            blank = text.find("\n\n", after)
        if close >= 0 and not 0 <= blank < close:
            at = close + 3
            spans.append((match.start(), at))
    return spans


class _Cut(NamedTuple):
    """A block that the budget truncated, with the receipt comment before it."""

    start: int
    end: int
    has_comment: bool


def _cut_blocks(text: str) -> Iterator[_Cut]:
    """Yield the blocks that the budget truncated; the text after their blank line is the user's."""
    comments = _comments(text)
    by_end = {end: start for start, end in comments}
    found: list[tuple[int, int, re.Match[str]]] = []
    for start, end in comments:
        if match := _CUT_IN_TAG.match(text, end):
            found.append((start, 0, match))
    openings = list(_OPENING.finditer(text))
    for match in openings:
        above = by_end.get(match.start() - 1) if text[match.start() - 1 : match.start()] == "\n" else None
        found.append((match.start() if above is None else above, 1, match))
    closes = [match.start() for match in _CLOSES.finditer(text)] if openings else []
    opens = [match.start() for match in openings]
    position = 0
    for start, order, match in sorted(found, key=lambda each: each[:2]):
        has_comment = start < match.start() and start >= position
        start = start if has_comment else match.start()
        if start < position:
            continue
        if order == 0:
            end = match.end()
        else:
            closing = bisect_left(closes, match.end())
            following = bisect_left(opens, match.end())
            another = opens[following] if following < len(opens) else len(text)
            if closing < len(closes) and closes[closing] < another:
                # A complete block, which is removed with its comment.
                position = closes[closing]
                continue
            end = _end_of_cut(text, start, match.end(), another)
        position = end
        yield _Cut(start, end, has_comment)


def _end_of_cut(text: str, start: int, after: int, another: int) -> int:
    """Return the end of a truncated block: the position of the blank line that the host put after it.

    A memory may contain blank lines as well. A blank line exactly at the default budget (in UTF-16 code units) is taken
    as the end; otherwise, the first blank line after the last consecutively numbered memory before ``another`` block.
    Without a blank line, the block extends to the end of the text.
    """
    units = text[start : start + DEFAULT_BUDGET].encode("utf-16-le", "surrogatepass")[: 2 * DEFAULT_BUDGET]
    exact = start + len(units.decode("utf-16-le", "surrogatepass"))
    if len(units) == 2 * DEFAULT_BUDGET and text.startswith("\n\n", exact):
        return exact
    position, number = after, 1
    while line := re.compile(rf"^{number}\. \[[^\]|\n]*\|[^\]\n]*\]", re.MULTILINE).search(text, position, another):
        position, number = line.end(), number + 1
    end = text.find("\n\n", position)
    return len(text) if end < 0 else end
