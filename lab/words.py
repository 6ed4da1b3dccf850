"""Words for people."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 probe``, ``3 probes``, ``2 memories``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
