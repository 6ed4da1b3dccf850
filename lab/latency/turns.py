"""What the warm turns of a replay took: every figure and rule on the latency of a run is computed here.

What arms share is booked to each of them (:mod:`lab.retrieval.stage_timer`, :mod:`lab.replay.seat`), so a turn is the
sum of its stages. The first recall point of a conversation, which pays for what is read once, is left out, and so are
turns at which an arm looked for nothing: it skipped them, or failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.columns import codes_of, numbers_of
from lab.latency.quantiles import NS_PER_MS, Spent, spent_of
from lab.replay.seat import WHOLE
from lab.retrieval.stage_timer import SEARCH
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# The whole of a turn, beside its stages.
TOTAL = "total"
# Whoever looked for memories has one of these.
LOOKED = {SEARCH, WHOLE}


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
        table = run.read_latency(conversation, ("arm", "turn", "stage", "ns", "cold"), ("arm", "turn", "stage"))
        if table is None:
            continue
        for arm, by_stage in _booked(table).items():
            searched = ~np.isnan([by_stage[stage] for stage in by_stage if stage in LOOKED]).all(axis=0)
            if not searched.any():
                continue
            total = np.nansum(list(by_stage.values()), axis=0)
            for stage, spent in {TOTAL: total, **by_stage}.items():
                there = searched & ~np.isnan(spent)
                if not there.any():
                    continue
                found.setdefault(arm, {}).setdefault(stage, []).extend((spent[there] / NS_PER_MS).tolist())
    return found


def _booked(table: pa.Table) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return nanoseconds by arm and stage, a value a warm turn of the conversation, NaN where there is none."""
    import numpy as np

    (arm, arms), (turn, turns), (stage, names) = (codes_of(table[name]) for name in ("arm", "turn", "stage"))
    spent, warm = numbers_of(table["ns"]).astype(np.float64), ~numbers_of(table["cold"]).astype(bool)
    grid = np.full((len(arms), len(names), len(turns)), np.nan)
    grid[arm[warm], stage[warm], turn[warm]] = spent[warm]
    booked = {
        name or "": {step or "": grid[number, place] for place, step in enumerate(names[:-1])}
        for number, name in enumerate(arms[:-1])
    }
    return {name: own for name, own in booked.items() if LOOKED & own.keys()}
