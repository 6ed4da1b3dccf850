"""Times of the warm turns of a replay: the source of every figure and rule on the latency of a run.

Work that arms share is charged to each of them (:mod:`lab.retrieval.stage_timer`, :mod:`lab.replay.seat`), so a turn is
the sum of its stages. The first recall point of a conversation is left out, because it includes one-time work, and so
are turns in which the arm did not search: it skipped them or failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.base.columns import codes_of, numbers_of
from lab.measures.quantiles import NS_PER_MS, Spent, spent_of
from lab.replay.seat import WHOLE
from lab.retrieval.stage_timer import SEARCH
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# The whole turn, listed beside its stages.
TOTAL = "total"
# A turn with a search has one of these stages.
LOOKED = {SEARCH, WHOLE}


class Stage(NamedTuple):
    """The time of a stage of an arm over its warm turns; ``total`` is the whole turn."""

    arm: str
    stage: str
    spent: Spent


def stages(run: RunDirectory) -> list[Stage]:
    """Return every stage of every arm, ``total`` last; empty if the run has no timings."""
    times = warm_times(run)
    return [
        Stage(arm, stage, spent_of(times[arm][stage]))
        for arm in run.arms
        for stage in sorted(times.get(arm, ()), key=lambda name: (name == TOTAL, name))
    ]


def warm_times(run: RunDirectory) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds of the warm turns by arm and stage, turns in order; an arm without any is left out."""
    import numpy as np

    times: dict[str, dict[str, list[float]]] = {}
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
                has_value = searched & ~np.isnan(spent)
                if not has_value.any():
                    continue
                times.setdefault(arm, {}).setdefault(stage, []).extend((spent[has_value] / NS_PER_MS).tolist())
    return times


def _booked(table: pa.Table) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return nanoseconds by arm and stage, one value per warm turn of the conversation, NaN if there is none."""
    import numpy as np

    (arm, arms), (turn, turns), (stage, names) = (codes_of(table[name]) for name in ("arm", "turn", "stage"))
    spent, warm = numbers_of(table["ns"]).astype(np.float64), ~numbers_of(table["cold"]).astype(bool)
    grid = np.full((len(arms), len(names), len(turns)), np.nan)
    grid[arm[warm], stage[warm], turn[warm]] = spent[warm]
    booked = {
        name or "": {step or "": grid[number, column] for column, step in enumerate(names[:-1])}
        for number, name in enumerate(arms[:-1])
    }
    return {name: by_stage for name, by_stage in booked.items() if LOOKED & by_stage.keys()}
