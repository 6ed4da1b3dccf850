"""What the warm turns of a replay took: every figure and rule on the latency of a run is computed here.

A replay finds candidates once for all arms that search alike, and books that time to each of them. Of an arm that
searches, turns that searched nothing are left out; an arm that has no stage ``search`` is timed at every turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.columns import codes_of, numbers_of
from lab.latency.quantiles import NS_PER_MS, Spent, spent_of
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

SEARCH, TOTAL = "search", "total"


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

    searching: set[str] = set()
    columns = ("arm", "turn", "stage", "ns", "cold")
    tables = [run.read_latency(name, columns, ("arm", "turn", "stage")) for name in run.conversations]
    booked = [_booked(table, searching) for table in tables if table is not None]
    found: dict[str, dict[str, list[float]]] = {}
    for by_arm in booked:
        for arm, by_stage in by_arm.items():
            timed = ~np.isnan(np.fmax.reduce(list(by_stage.values())))
            if arm in searching:
                timed &= ~np.isnan(by_stage.get(SEARCH, np.full_like(timed, np.nan, np.float64)))
            by_stage = {TOTAL: np.nansum(list(by_stage.values()), axis=0), **by_stage}
            for stage, spent in by_stage.items():
                there = timed & ~np.isnan(spent)
                if there.any():
                    found.setdefault(arm, {}).setdefault(stage, []).extend((spent[there] / NS_PER_MS).tolist())
    return found


def _booked(table: pa.Table, searching: set[str]) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return nanoseconds by arm and stage, a value a warm turn of the conversation, NaN where there is none.

    Arms that search at any turn, a cold one too, are added to ``searching``.
    """
    import numpy as np

    (arm, arms), (turn, turns), (stage, names) = (codes_of(table[name]) for name in ("arm", "turn", "stage"))
    spent, warm = numbers_of(table["ns"]).astype(np.float64), ~numbers_of(table["cold"]).astype(bool)
    grid = np.full((len(arms), len(names), len(turns)), np.nan)
    grid[arm[warm], stage[warm], turn[warm]] = spent[warm]
    if SEARCH in names:
        searching |= {arms[number] or "" for number in set(arm[stage == names.index(SEARCH)].tolist())}
    there = ~np.isnan(grid).all(axis=2)
    return {
        arms[number] or "": {names[place] or "": grid[number, place] for place in np.flatnonzero(there[number])}
        for number in np.flatnonzero(there.any(axis=1))
    }
