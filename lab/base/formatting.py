"""Numbers, texts and long keys for people, formatted alike in tables, reports, pages and messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lab.base.regex import regex

# After a single slash (a URI that was turned into a path), a name without a password may be part of the path.
_USER = regex(
    r"(?P<before>\b[a-z][a-z0-9+.-]*:(?://|/(?=[^\s/:?#'\"]+:)))[^\s/?#'\"]+@",
    re.IGNORECASE,
)
_QUERY = regex(
    r"(?P<before>[?&;#][\w.-]*(?:key|token|secret|passw|pwd|sig|auth|credential)[\w.-]*=)"
    # Without the punctuation of the sentence around it.
    r"[^&;#\s'\"]+?(?=[:,.)]*(?:[&;#\s'\"]|$))",
    re.IGNORECASE,
)
HIDDEN = "***"


def without_credentials(text: str) -> str:
    """Return ``text`` with ``***`` in place of the user, the password, and keys in the query or fragment of each URI.

    ``https://me:pw@host/v1?api_key=x`` becomes ``https://***@host/v1?api_key=***``. Paths are unchanged.
    """
    if ":/" in text:
        text = _USER.sub(rf"\g<before>{HIDDEN}@", text)
    return _QUERY.sub(rf"\g<before>{HIDDEN}", text) if "=" in text else text


def free_of_credentials(value: Any) -> Any:
    """Return a JSON value with :func:`without_credentials` applied to every string except keys."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {key: free_of_credentials(member) for key, member in value.items()}
    return [free_of_credentials(element) for element in value] if isinstance(value, list | tuple) else value


# Characters that control a terminal or a mail client, and marks that change the direction of a line.
CONTROL = regex("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# A function that takes a line of progress.
Announce = Callable[[str], None]
_MARKDOWN = str.maketrans(
    {mark: f"\\{mark}" for mark in "\\`*_|[]"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " "}
)


def visible(text: str) -> str:
    """Return ``text`` with characters that control a terminal as visible escapes; line breaks and tabs stay."""
    text = text.encode("utf-8", "replace").decode()
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def silent(text: str) -> None:
    """Announce nothing. A module-level function, because a lambda cannot be pickled for another process."""
    del text


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is nearest by its letters; None if none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name.lower(), list(names), 1, 0.7)), None)


def choices(name: str, names: Iterable[str], title: str = "known") -> str:
    """Return what could have been given instead of an unknown name: the nearest by its letters, then all of them."""
    listed = list(names)
    near = nearest(name, listed)
    return f"{f'did you mean {near!r}? ' if near else ''}{title}: {', '.join(listed)}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 probe``, ``3 probes``, ``1,068 memories``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def shortened(text: str, limit: int) -> str:
    """Return a text on one line of at most ``limit`` characters; a longer one ends after a word, with an ellipsis."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    kept = text[:limit]
    # Chinese has no blanks.
    word = kept.rfind(" ")
    return f"{kept[:word] if word > limit // 2 else kept[:-1]}…"


def cell_len(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


def folded(text: str) -> str:
    """Return a text as it is compared with others: in one case, with single spaces."""
    return " ".join(text.casefold().split())


def sentence(clause: str) -> str:
    """Return a clause as a sentence, with a capital and a full stop.

    A name with a dot or an underscore at the beginning, such as ``errors.rate``, stays as it is.
    """
    first = clause.partition(" ")[0].rstrip(".")
    start = clause[:1] if "." in first or "_" in first else clause[:1].upper()
    return f"{start}{clause[1:]}{'' if clause.endswith('.') else '.'}"


def number(value: float | None, sign: str = "") -> str:
    """Return a value with three decimals, or with none from 100 on; a dash for None."""
    return "–" if value is None else f"{value:{sign},.{0 if abs(value) >= 100 else 3}f}"


def signed(value: float | None) -> str:
    """Return a difference with its sign, formatted as by :func:`number`."""
    return number(value, "+")


def interval(low: float | None, high: float | None) -> str:
    """Return the interval of a difference, ``+0.012 … +0.034``; a dash if there is none."""
    return "–" if low is None or high is None else f"{signed(low)} … {signed(high)}"


def bracketed(low: float | None, high: float | None) -> str:
    """Return the interval of a difference for a narrow column, `` [+0.01 +0.03]``; an empty string if there is none."""
    return "" if low is None or high is None else f" [{low:+.2f} {high:+.2f}]"


def together(names: Sequence[str]) -> str:
    """Return names as in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def p_value(value: float) -> str:
    """Return a p-value with three decimals, or ``<0.001``."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def duration(seconds: float) -> str:
    """Return a time in the units that people say it in: ``31 s``, ``2 min 4 s``, from ten minutes on ``63 min``."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"


def milliseconds(value: float) -> str:
    """Return a time in milliseconds, with at least two significant digits and at most three decimals."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 1 else 2 if value >= 0.1 else 3}f}"


def markdown(text: str) -> str:
    """Escape text for one line of Markdown, inside or outside a table."""
    return text.translate(_MARKDOWN)


def code(text: str) -> str:
    """Return text as code in Markdown, in which nothing is escaped: in the line, or as a block if it has several."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    if "\n" in text:
        fence = "`" * max(3, longest + 1)
        return f"{fence}\n{text.rstrip()}\n{fence}"
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


CUT = "…"
# The marks between the parts of a key; they are kept.
_MARKS = regex(r"([/:#])")
# A part is not cut to fewer columns than this.
_LEAST = 4


def short_keys(keys: Iterable[str], room: int) -> dict[str, str]:
    """Return what to show for each key, in at most ``room`` columns: the key with ``…`` in its longest parts.

    No two keys get the same text: keys whose beginnings are alike keep their ends, and if these are alike as well, or
    nothing more can be cut, a key stays whole. ``lab explain`` takes a turn as it is shown here.
    """
    whole = list(dict.fromkeys(keys))
    shown = {key: key for key in whole}
    for cut in (_cut_end, _cut_start):
        counts = Counter(shown.values())
        tried = {
            key: _fitted(key, room, cut)
            for key in whole
            if (cell_len(shown[key]) > room if cut is _cut_end else counts[shown[key]] > 1)
        }
        shown |= tried
    counts = Counter(shown.values())
    return {key: key if counts[text] > 1 else text for key, text in shown.items()}


def is_short_for(short: str, key: str) -> bool:
    """Return whether a text with ``…`` in it, or the last parts of a key, can stand for the key."""
    if CUT in short:
        return re.fullmatch(".+".join(map(re.escape, short.split(CUT))), key) is not None
    return key.endswith(f"/{short}")


def _fitted(key: str, room: int, cut: Callable[[str], str]) -> str:
    parts = _MARKS.split(key)
    while cell_len("".join(parts)) > room:
        place = max(range(len(parts)), key=lambda at: cell_len(parts[at]))
        if cell_len(parts[place]) <= _LEAST:
            return key
        parts[place] = cut(parts[place])
    return "".join(parts)


def _cut_end(part: str) -> str:
    """Take a character from the end of a part."""
    return part.removesuffix(CUT)[:-1] + CUT


def _cut_start(part: str) -> str:
    """Take a character from the beginning of a part."""
    return CUT + part.removeprefix(CUT)[1:]
