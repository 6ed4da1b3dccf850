"""Injected faults: what recall does when a part of it fails (E-11, E-47, E-50)."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from lab.base.draw import draw
from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.retrieval.contract import Filter, Lanes, View

# Fault -> effect, for help texts.
KNOWN = {
    "embedder_down": "the prompt gets no vector: provider_unavailable",
    "input_too_long": "the prompt gets no vector: embedding_input_too_long",
    "fts_error": "the text lane returns nothing",
    "vector_error": "the vector lane returns nothing",
    "slow_store": "every search is reported a second slower; the replay itself does not wait",
    "docs_missing": "the documents cannot be searched",
}
NO_VECTOR = {"embedder_down": "provider_unavailable", "input_too_long": "embedding_input_too_long"}
SLOW_NS = 1_000_000_000
# Faults under which every query is still answered in full.
HARMLESS = frozenset({"slow_store"})
Faults = frozenset[str]
NO_FAULTS: Faults = frozenset()


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Which faults happen when: at every turn, at a share of them (sampled by hash), or at one named turn."""

    specs: tuple[str, ...] = ()

    def at(self, key: str) -> Faults:
        """Return the faults of one turn or probe."""
        return frozenset(name for name, when in map(_parsed, self.specs) if _happens(name, when, key))

    def check(self) -> None:
        """Raise :class:`UnusableInput` for an unknown fault or an invalid share."""
        for spec in self.specs:
            name, when = _parsed(spec)
            if name not in KNOWN:
                raise UnusableInput(f"unknown fault {name!r}; {choices(name, KNOWN)}")
            share = _share(when)
            if share is not None and not 0 < share <= 1:
                raise UnusableInput(f"fault {spec!r}: the share must be above 0 and at most 1")

    def require(self, keys: Set[str]) -> None:
        """Raise :class:`UnusableInput` for a fault at a turn or probe outside ``keys``: it would never happen."""
        for name, when in map(_parsed, self.specs):
            if when is not None and when not in keys and _share(when) is None:
                raise UnusableInput(f"fault {name!r}: there is no recall point {when!r}")


def _parsed(spec: str) -> tuple[str, str | None]:
    name, separator, when = spec.partition("=")
    return name, when if separator else None


def _share(when: str | None) -> float | None:
    try:
        return float(when) if when is not None else None
    except ValueError:
        return None


def _happens(name: str, when: str | None, key: str) -> bool:
    share = _share(when)
    if when is None or when == key:
        return True
    return share is not None and draw(0, f"{name} {key}") < share


class FaultyView:
    """A view with failing lanes."""

    def __init__(self, view: View, faults: Iterable[str]) -> None:
        self._view, self._faults = view, frozenset(faults)

    def search(self, where: Filter, limit: int) -> Lanes:
        """Return both lanes, empty where they fail: the engine cannot tell an error from no match (E-9)."""
        lanes = self._view.search(where, limit)
        return Lanes(
            [] if "fts_error" in self._faults else lanes.fts,
            [] if "vector_error" in self._faults else lanes.vec,
            lanes.nanoseconds + (SLOW_NS if "slow_store" in self._faults else 0),
        )
