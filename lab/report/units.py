"""One unit on a page: shares in percent, their differences in percentage points, everything else as it is counted."""

from __future__ import annotations

from lab.base.formatting import number
from lab.base.regex import regex
from lab.measures.catalogue import entry_of
from lab.measures.model import NET, SHARE, SIGNED, YES

# Not the escape of a character in an address.
_PERCENT = regex(r"(?<=\d)[ \u00a0]?%(?![0-9A-F]{2})")
NO_BREAK, MINUS = "\u00a0", "\u2212"
# Headers and notes call the unit of a difference of shares by this name.
POINTS = "points"


def is_share(measure: str) -> bool:
    """Return whether a measure is a share, so that a page shows it in percent."""
    entry = entry_of(measure)
    return entry is not None and entry.range in (SHARE, YES, NET, SIGNED)


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share in percent, with a space that does not break: ``61.0 %``; a dash for None."""
    return "–" if value is None else f"{_signed(value * 100, digits, '')}{NO_BREAK}%"


def mean_of(measure: str, value: float | None) -> str:
    """Return the mean of a measure in its unit."""
    if value is None or not is_share(measure):
        return number(value).replace("-", MINUS)
    return percent(value)


def change_of(measure: str, value: float | None, *, unit: bool = False) -> str:
    """Return a difference with its sign, of shares in points; with ``unit`` it names them."""
    if value is None:
        return "–"
    if not is_share(measure):
        return number(value, "+").replace("-", MINUS)
    return _signed(value * 100, 1, "+") + (f"{NO_BREAK}{POINTS}" if unit else "")


def span_of(measure: str, low: float | None, high: float | None) -> str:
    """Return the interval of a difference: ``+8.3 to +18.3``; a dash if there is none."""
    return "–" if low is None or high is None else f"{change_of(measure, low)} to {change_of(measure, high)}"


def between(measure: str, low: float | None, high: float | None) -> str:
    """Return the interval of a mean: ``55.1 to 66.9``; a dash if there is none."""
    if low is None or high is None:
        return "–"
    if not is_share(measure):
        return f"{number(low)} to {number(high)}".replace("-", MINUS)
    return f"{_signed(low * 100, 1, '')} to {_signed(high * 100, 1, '')}"


def unbroken(text: str) -> str:
    """Return a text whose percent signs stand after a space that does not break."""
    return _PERCENT.sub(f"{NO_BREAK}%", text)


def _signed(value: float, digits: int, sign: str) -> str:
    # Adding 0 turns a rounded -0 into 0.
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}".replace("-", MINUS)
