"""Candidates for the tests of packs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.memory.pack.candidate import Candidate, Found, Settings
from lab.memory.pack.packer import Pack, pack


def candidate(ref: str, text: str, **fields: Any) -> Candidate:
    """Return a candidate of the lane ``test``."""
    return Candidate(ref, text, "test", **({"trust": "trusted"} | fields))


def packed(query: str, *candidates: Candidate, turns: Sequence[str] = (), now_ms: int = 0, **values: Any) -> Pack:
    """Return the pack of candidates, best first, under the settings ``values``."""
    scored = [one._replace(score=one.score or 1 / rank) for rank, one in enumerate(candidates, 1)]
    return pack(query, [Found("test", scored)], Settings(**values), now_ms=now_ms, tail=turns)


def reasons(done: Pack) -> dict[str, tuple[str, ...]]:
    """Return the reasons of every candidate by ref."""
    return {one.candidate.ref: one.reasons for one in done.decisions}
