"""The comparison of the two shown arms, of one run or of two."""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.formatting import interval, p_value
from lab.compare.paired import Comparison, Difference, compare_arms
from lab.report.comparison import first_line, gains, notes, reading
from lab.view.index import Pair
from lab.view.live import State

KEPT = 16


class Line(NamedTuple):
    """A measure in the comparison. ``reading`` is its conclusion in words; ``is_primary`` whether it decides."""

    difference: Difference
    reading: str
    interval: str
    p: str
    is_primary: bool


class Compared:
    """Comparisons, cached by state and arms."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[int, str, str], dict[str, Any]] = {}
        self._state: State | None = None

    def model(self, state: State, pair: Pair) -> dict[str, Any]:
        """Return what the page shows of two arms. Raises :class:`LabError` if they cannot be compared."""
        if pair.candidate is None:
            raise CannotMeasure("a comparison needs two arms")
        with self._lock:
            if self._state is not state or len(self._kept) > KEPT:
                self._kept, self._state = {}, state
            key = (id(state), pair.baseline, pair.candidate)
            if key not in self._kept:
                self._kept[key] = _model(_comparison(state, pair.baseline, pair.candidate))
            return self._kept[key]


def _comparison(state: State, baseline: str, candidate: str) -> Comparison:
    places, runs = state.index.runs.places, state.index.runs
    base, cand = places[baseline], places[candidate]
    if base.run == cand.run:
        return compare_arms(state.index.part(base.run), base.arm, cand.arm, scores=state.values.scores(base.run))
    return compare_arms(
        state.index.part(base.run),
        base.arm,
        f"{runs.all[cand.run].path}:{cand.arm}",
        scores=state.values.scores(base.run),
    )


def _model(comparison: Comparison) -> dict[str, Any]:
    primary = [difference for difference in comparison.differences if difference.measure in comparison.primary]
    cut = ("", str(comparison.cutoff))
    others = [
        difference
        for difference in comparison.differences
        if difference not in primary and difference.measure.partition("@")[2] in cut
    ]
    conversations = max((difference.conversations for difference in primary or others), default=0)
    return {
        "conversations": conversations,
        "family": comparison.family,
        "lines": [_line(difference, comparison) for difference in (*primary, *others)],
        "first": first_line(comparison),
        # Without the legend, which explains columns of another table, and what is said of one of those.
        "notes": [note for note in notes(comparison, primary)[1:] if "deff" not in note],
        "gains": gains(comparison),
        "gained": len(comparison.gained),
        "lost": len(comparison.lost),
        "cutoff": comparison.cutoff,
    }


def _line(difference: Difference, comparison: Comparison) -> Line:
    p = difference.p if difference.p_holm is None else difference.p_holm
    between = interval(difference.estimate.low, difference.estimate.high)
    is_primary = difference.measure in comparison.primary
    return Line(difference, reading(difference, comparison.family), between, p_value(p), is_primary)
