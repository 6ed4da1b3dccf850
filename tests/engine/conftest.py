"""The engine's tests read vectors observed from the public engine, and build rows from a few words."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

# The order of printable characters in the collation by which the public engine breaks ties between ids.
_COLLATION = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789"


@pytest.fixture(scope="session")
def observed(shared: Callable[..., Path]) -> Callable[[str], list[dict[str, Any]]]:
    """The records of one file of vectors; the test is skipped where the file is absent."""

    def read(name: str) -> list[dict[str, Any]]:
        lines = shared("parity", "visible", name).read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line.strip()]

    return read


@pytest.fixture(scope="session")
def renamed() -> Callable[[Iterable[str]], dict[str, str]]:
    """Names for ids that stand by code point as the ids themselves stand in the public engine's collation.

    The public engine breaks ties by locale, the lab by code point; everything else is to be equal.
    """

    def rename(ids: Iterable[str]) -> dict[str, str]:
        ordered = sorted(set(ids), key=_collation_key)
        return {identity: f"{place:04d}" for place, identity in enumerate(ordered)}

    return rename


def _collation_key(identity: str) -> tuple[list[tuple[int, str]], str, str]:
    """Primary weights first, then lower case before upper; accents last, scripts other than Latin after it."""
    primary = []
    for character in unicodedata.normalize("NFD", identity.casefold()):
        if unicodedata.combining(character):
            continue
        place = _COLLATION.find(character)
        if place >= 0:
            primary.append((place, ""))
        elif unicodedata.category(character).startswith("S"):
            primary.append((_COLLATION.index("$"), character))
        else:
            primary.append((len(_COLLATION), character))
    return primary, identity.swapcase(), identity
