"""Notes on an audit: the caveats that a reader needs to interpret its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.formatting import counted

# Figures that are counted session by session.
BY_SESSION = ("repeat.", "stale.")


def notes(audit: Mapping[str, Any]) -> list[str]:
    """Return the notes on an audit, or an empty list."""
    sentences = [_copies(audit["copies"]), _pairs(audit["pairs"], audit["recalls"]["receipts"]), mixed_sessions(audit)]
    return [sentence for sentence in sentences if sentence]


def mixed_sessions(audit: Mapping[str, Any]) -> str | None:
    """Return a note on the effect of lines without a session, or None if every line has one."""
    unnamed, named = audit["repeat"]["by"]["scope"], audit["repeat"]["by"]["session"]
    if not unnamed:
        return None
    return (
        f"{unnamed} of {counted(unnamed + named, 'answered recall')} have no session: the recalls of a scope count as "
        "one session. If several sessions were open at once, repeat rate, streaks and stale answers mix them"
    )


def _copies(copies: Mapping[str, int]) -> str | None:
    if not copies["count"]:
        return None
    lost = f" (forgotten: {counted(copies['lost'], 'earlier line')}; some may count twice)" if copies["lost"] else ""
    lines = counted(copies["count"], "line")
    return f"{lines} also in another log of the same gateway, counted once{lost}"


def _pairs(pairs: Mapping[str, Any], receipts: int) -> str | None:
    if pairs["undecided"]:
        return (
            f"{counted(pairs['undecided'], 'receipt')} equal to the previous receipt, in lines without a time: counted "
            "as recalls, though a host that runs two hooks per turn would log the same"
        )
    if not pairs["count"]:
        return None
    how = f"{pairs['by_trace']} by trace id, {pairs['by_time']} by equal receipts within 4 s"
    twice = f"; the block was injected twice in {pairs['injected']}" if pairs["injected"] else ""
    return (
        f"{pairs['count']} of {counted(receipts, 'recall')} have a second receipt for the same turn (the host runs two "
        f"hooks), counted once: {how}{twice}"
    )
