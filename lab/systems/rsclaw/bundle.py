"""The injected block: one line a document, within a budget of tokens (RS-13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.base.token_estimate import tokens
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.document import Document

# A first line that is cut keeps at least this many characters.
LEAST = 64


class Bundle(NamedTuple):
    """The block, the documents in it, whether the budget cut or dropped any, and how many lines are shortened texts."""

    context: str = ""
    shown: tuple[Document, ...] = ()
    truncated: bool = False
    shortened: int = 0


def bundle(documents: Sequence[Document], settings: Settings) -> Bundle:
    """Return the block of the final documents, best first.

    Notes and empty texts are left out, and their slots stay empty. The block ends before the first line that would
    exceed the budget; a first line that does is cut.
    """
    block, shown, shortened = "", list[Document](), 0
    for document in documents:
        text = line_text(document, settings)
        if document.kind == "note" or not text:
            continue
        longer = f"{block}\n- {text}" if block else f"- {text}"
        if tokens(longer) > settings.max_tokens:
            if shown:
                return Bundle(block, tuple(shown), truncated=True, shortened=shortened)
            return Bundle(cut(longer, settings), (document,), truncated=True, shortened=1)
        block = longer
        shown.append(document)
        shortened += text != document.text.strip()
    return Bundle(block, tuple(shown), shortened=shortened)


def line_text(document: Document, settings: Settings) -> str:
    """Return the text of a document's line: its overview, or its whole text."""
    return ((settings.lines == "overview" and document.overview_text) or document.text).strip()


def cut(line: str, settings: Settings) -> str:
    """Return the start of a line: four characters a token, or in profile ``seed`` as much as the budget allows."""
    start = line[: max(LEAST, 4 * settings.max_tokens)]
    if settings.clip == "budget" and tokens(start) > settings.max_tokens:
        low, high = LEAST, len(start)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if tokens(start[:middle]) <= settings.max_tokens else (low, middle - 1)
        start = start[:low]
    return start
