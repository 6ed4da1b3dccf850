"""What the warm turns of a replay took: every figure and rule on the latency of a run is computed here.

A replay retrieves once for all arms that search alike, and its file may book that time to the first of them alone. It
counts for each of them, whatever their order. Where a turn has several searches and the file does not say which of
them an arm shares, the longest counts. Turns that searched nothing are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.columns import codes_of, numbers_of
from lab.latency.quantiles import NS_PER_MS, Spent, spent_of
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RETRIEVE, SEARCH, TOTAL = "retrieve", "search", "total"


class Stage(NamedTuple):
    """What a stage of an arm took over its warm turns; ``total`` is the whole turn."""

    arm: str
    stage: str
    spent: Spent


def stages(run: RunDirectory) -> list[Stage]:
    """Return every stage of every arm, ``total`` last; nothing where a run has no timings."""
    times = warm_times(run)
    return [
        Stage(arm, stage, spent_of(times[arm][stage]))
        for arm in run.arms
        for stage in sorted(times.get(arm, ()), key=lambda one: (one == TOTAL, one))
    ]


def warm_times(run: RunDirectory) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds of the warm turns by arm and stage, turns in order; an arm without any is left out."""
    import numpy as np

    found: dict[str, dict[str, list[float]]] = {}
    for conversation in run.conversations:
        if not run.latency(conversation).is_file():
            continue
        for arm, by_stage in _booked(run, conversation).items():
            searched = ~np.isnan(by_stage[SEARCH])
            total = np.nansum(list(by_stage.values()), axis=0)
            for stage, spent in {TOTAL: total, **by_stage}.items():
                there = searched & ~np.isnan(spent)
                found.setdefault(arm, {}).setdefault(stage, []).extend((spent[there] / NS_PER_MS).tolist())
    return found


def _booked(run: RunDirectory, conversation: str) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return nanoseconds by arm and stage, a value a warm turn of the conversation, NaN where there is none."""
    import numpy as np

    table = read_table(run.latency(conversation), ("arm", "turn", "stage", "ns", "cold"), ("arm", "turn", "stage"))
    (arm, arms), (turn, turns), (stage, names) = (codes_of(table[name]) for name in ("arm", "turn", "stage"))
    spent, warm = numbers_of(table["ns"]).astype(np.float64), ~numbers_of(table["cold"]).astype(bool)
    grid = np.full((len(arms), len(names), len(turns)), np.nan)
    grid[arm[warm], stage[warm], turn[warm]] = spent[warm]
    booked = {
        name or "": {step or "": grid[number, place] for place, step in enumerate(names[:-1])}
        for number, name in enumerate(arms[:-1])
    }
    empty = np.full(len(turns), np.nan)
    longest = np.zeros(len(turns))
    for own in booked.values():
        longest = np.fmax(longest, own.get(RETRIEVE, empty))
    for own in booked.values():
        retrieved = own.get(RETRIEVE, empty)
        own.setdefault(SEARCH, empty)
        own[RETRIEVE] = np.where(np.isnan(retrieved), longest, retrieved)
    return {name: own for name, own in booked.items() if not np.isnan(own[SEARCH]).all()}
