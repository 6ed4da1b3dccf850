"""Addresses of pages: the parameters that every link keeps, and the part of a list that an address names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_plus

from lab.base.errors import UnusableInput

if TYPE_CHECKING:
    from lab.base.columns import Ints

ROWS_A_PAGE = 100


class NotFound(UnusableInput):
    """The URL names something that this run does not have."""


class Address(NamedTuple):
    """Parameters that every link keeps: the two arms, the filter (``show``) and the search words (``q``)."""

    base: str = ""
    cand: str = ""
    show: str = ""
    q: str = ""

    def link(self, path: str, **more: object) -> str:
        """Return a URL with these parameters and more, without empty ones."""
        return link(path, {**self._asdict(), **more})


def link(path: str, given: Mapping[str, object]) -> str:
    """Return a URL with parameters, without empty ones."""
    query = "&".join(
        [f"{_quoted(name)}={_quoted(str(value))}" for name, value in given.items() if value not in ("", None)]
    )
    return f"{path}?{query}" if query else path


@lru_cache(4096)
def _quoted(text: str) -> str:
    # The links of a list repeat most names and values.
    return quote_plus(text, errors="replace")


class Listing(NamedTuple):
    """A part of a list: its rows, the place of the first one, from 0, and the length of the list.

    ``page`` and ``of`` number the pages that a browser without scripts shows.
    """

    rows: Sequence[Any]
    first: int
    total: int
    page: int
    of: int


def listing(rows: Sequence[Any] | Ints, query: Mapping[str, str]) -> Listing:
    """Return the part of a list that an address names, by ``page`` from 1, or from the row ``from`` on, from 0."""
    pages = max(1, -(-len(rows) // ROWS_A_PAGE))
    if "from" in query:
        first = _number(query["from"])
        if first is None or first > len(rows):
            raise NotFound(f"no row {query['from']!r}; the list has {len(rows)}")
        return Listing(_part(rows, first), first, len(rows), first // ROWS_A_PAGE + 1, pages)
    number = _number(query.get("page", "1"))
    if number is None or not 1 <= number <= pages:
        raise NotFound(f"no page {query['page']!r}; the last page is {pages}")
    first = (number - 1) * ROWS_A_PAGE
    return Listing(_part(rows, first), first, len(rows), number, pages)


def _part(rows: Sequence[Any] | Ints, first: int) -> Sequence[Any]:
    part = rows[first : first + ROWS_A_PAGE]
    return part if isinstance(part, Sequence) else part.tolist()


def _number(text: str) -> int | None:
    # int() raises for thousands of digits.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
