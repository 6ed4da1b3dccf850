"""Remove what the engine and the host put into a user's message, before capture reads it (E-70, E-71).

:func:`strip_injected` removes what the public plugin removes. :func:`strip_all` also removes injected blocks that are
nested or cut off, the host's metadata, and code fences, as seed 001 requires.
"""

from __future__ import annotations

import re

from lab.base.utf16 import WHITESPACE
from lab.recordings.cleaning import clean_user_text

_SPACE = f"[{WHITESPACE}]"
_COMMENT = re.compile(rf"<!--{_SPACE}*openclaw-mem-engine:autoRecall.*?-->", re.IGNORECASE | re.ASCII | re.DOTALL)
_CUT_COMMENT = re.compile(rf"<!--{_SPACE}*openclaw-mem-engine:autoRecall[^\n]*", re.IGNORECASE | re.ASCII)
_BLOCK = re.compile(r"<relevant-memories>.*?</relevant-memories>", re.IGNORECASE | re.ASCII | re.DOTALL)
_TAG = re.compile(r"<(/?)relevant-memories>", re.IGNORECASE | re.ASCII)
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})(.*)")


def strip_injected(text: str) -> str:
    """Replace every complete receipt comment and block of memories by a space; incomplete ones are kept (E-70)."""
    return _until_last(_BLOCK, "</relevant-memories>", _until_last(_COMMENT, "-->", text))


def strip_all(text: str) -> str:
    """Remove injected blocks with all that they contain, host metadata, and code fences (E-71).

    An injected block or a fence without an end extends to the end of the text, a receipt comment to that of its line.
    """
    text = _CUT_COMMENT.sub(" ", _until_last(_COMMENT, "-->", text))
    return without_fences(clean_user_text(_without_blocks(text)).text)


def without_fences(text: str) -> str:
    """Return the lines outside code fences. A fence ends at a line of the same characters, at least as many."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip(WHITESPACE):
                fence = ""
        # A line such as ```x``` is inline code.
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
        else:
            kept.append(line)
    return "\n".join(kept)


def _until_last(pattern: re.Pattern[str], end: str, text: str) -> str:
    # There is no match after the last end, and searching there takes time quadratic in the number of beginnings.
    stop = text.lower().rfind(end) + len(end)
    if stop < len(end) or len(text.lower()) != len(text):
        return pattern.sub(" ", text) if stop >= len(end) else text
    return pattern.sub(" ", text[:stop]) + text[stop:]


def _without_blocks(text: str) -> str:
    """Replace each block of memories by a space, with the blocks inside it; an open block ends with the text."""
    kept: list[str] = []
    depth = start = 0
    for tag in _TAG.finditer(text):
        if tag[1]:
            if depth == 1:
                start = tag.end()
            depth = max(0, depth - 1)
            continue
        if depth == 0:
            kept.append(text[start : tag.start()])
        depth += 1
    if depth == 0:
        kept.append(text[start:])
    return " ".join(kept)
