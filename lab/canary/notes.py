"""What a reader of an audit must know before believing a figure: sentences, made of the audit alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.formatting import counted

# Figures that are counted session by session.
BY_SESSION = ("repeat.", "stale.")


def notes(found: Mapping[str, Any]) -> list[str]:
    """Sentences, each about one thing that happened; none where there is nothing to say."""
    said = [_copies(found["copies"]), _pairs(found["pairs"], found["recalls"]["receipts"]), mixed_sessions(found)]
    return [sentence for sentence in said if sentence]


def mixed_sessions(found: Mapping[str, Any]) -> str | None:
    """What it costs that lines name no session; None where all of them do."""
    unnamed, named = found["repeat"]["by"]["scope"], found["repeat"]["by"]["session"]
    if not unnamed:
        return None
    return (
        f"{unnamed} of {counted(unnamed + named, 'answered recall')} name no session: the recalls of a scope count as "
        "one session. Where several were open at once, repeat rate, streaks and stale answers are those of the mixture"
    )


def _copies(copies: Mapping[str, int]) -> str | None:
    if not copies["count"]:
        return None
    lost = f" ({copies['lost']} earlier lines no longer known, so some may count twice)" if copies["lost"] else ""
    lines = counted(copies["count"], "line")
    return f"{lines} taken to be of a second log of the same gateway left out, counted once{lost}"


def _pairs(pairs: Mapping[str, Any], receipts: int) -> str | None:
    if pairs["undecided"]:
        return (
            f"{counted(pairs['undecided'], 'receipt')} equal to the one before, in lines without a time: counted as "
            "recalls, though a host that runs two hooks a turn writes the same"
        )
    if not pairs["count"]:
        return None
    how = f"{pairs['by_trace']} by trace id, {pairs['by_time']} by equal receipts within 4 s"
    twice = f"; the block was injected twice in {pairs['injected']}" if pairs["injected"] else ""
    return (
        f"{pairs['count']} of {counted(receipts, 'recall')} have a second receipt of the same turn (the host runs two "
        f"hooks), counted once: {how}{twice}"
    )
