"""The results of a sweep: every configuration, the Pareto front, and confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.base.columns import booleans, numbers, strings
from lab.compare.comparable import first_of
from lab.compare.statistics import clustered
from lab.runs.tables import write_table
from lab.studies.points import Configuration
from lab.studies.sweep.groups import MEASURES
from lab.studies.sweep.sweep import Swept, knob_columns

if TYPE_CHECKING:
    import numpy as np

HIT, REPEAT, CHARS = (MEASURES.index(name) for name in ("Success", "RepeatRate", "InjectedChars"))
# Smaller differences come from the order of additions.
EQUAL = 1e-9


def configurations(swept: Swept) -> list[Configuration]:
    """Return every configuration of a sweep, in the order of its grid."""
    import numpy as np

    means = swept.means()
    with_draws = _over(means)
    # A conversation without relevant memories has no hit rate.
    has_hits = swept.counts[..., HIT].any(axis=(1, 2))
    by_conversation = np.nanmean(swept.by_conversation()[has_hits][..., HIT], axis=1)
    knobs = knob_columns(swept.grid)
    behind = (means[:, :-1, HIT] - means[:, -1:, HIT]).min(0)
    repeats = means[:, :-1, REPEAT].max(0)
    # A configuration that injects nothing, or in one turn only, has no repeat rate, which counts as 0.
    front = pareto(np.nan_to_num(with_draws[:-1, [HIT, REPEAT, CHARS]]) * [1, -1, -1])
    return [
        Configuration(
            number,
            {path: values[number] for path, values in knobs.items() if values[number] is not None},
            _named(with_draws[number]),
            float(by_conversation[:, number].min()),
            float(by_conversation[:, number].max()),
            float(behind[number]),
            None if np.isnan(repeats[number]) else float(repeats[number]),
            bool(front[number]),
        )
        for number in range(len(swept.grid))
    ]


def reference(swept: Swept) -> dict[str, float | None]:
    """Return the measures of the untiered hybrid."""
    return _named(_over(swept.means())[-1])


def _over(means: np.ndarray) -> np.ndarray:
    """Return means over draws; NaN if no draw has a value."""
    import numpy as np

    known = ~np.isnan(means)
    result: np.ndarray = np.where(
        known.any(0), np.where(known, means, 0.0).sum(0) / np.maximum(known.sum(0), 1), np.nan
    )
    return result


def _named(values: np.ndarray) -> dict[str, float | None]:
    return {name: None if value != value else float(value) for name, value in zip(MEASURES, values, strict=True)}


def pareto(values: np.ndarray) -> np.ndarray:
    """Return which rows are on the Pareto front: bool ``[n]`` for ``[n, criteria]``, more being better in each.

    A row dominates another if it is at least equal in every criterion and better in one.
    """
    import numpy as np

    front = np.ones(len(values), bool)
    for index, row in enumerate(values):
        no_worse = (values >= row - EQUAL).all(1)
        front[index] = not (no_worse & (values > row + EQUAL).any(1)).any()
    return front


def differences(swept: Swept, number: int, against: int) -> tuple[float, float | None, float | None]:
    """Return the hit rate of a configuration minus that of another, with its 95 % interval over conversations.

    Conversations are weighted by their probes, and copies count as one, as in ``lab compare``; draws of labels are
    averaged within each.
    """
    sums = swept.sums[..., HIT].mean(1)
    counts = swept.counts[..., HIT].mean(1)
    first = first_of(swept.copies)
    groups: dict[str, list[float]] = {}
    for name, total, count in zip(swept.conversations, sums, counts, strict=True):
        if count[number]:
            # A clustered interval depends only on the sum of each conversation, so every probe gets the mean.
            mean = float((total[number] - total[against]) / count[number])
            groups.setdefault(first.get(name, name), []).extend([mean] * round(count[number]))
    estimate = clustered(groups)
    return estimate.mean, estimate.low, estimate.high


def write_configurations(rows: Sequence[Configuration], path: Path) -> None:
    """Write one table with a row per configuration and a column per knob and measure."""
    import json

    import pyarrow as pa

    knobs = list(dict.fromkeys(name for configuration in rows for name in configuration.knobs))
    columns = {"configuration": numbers([configuration.number for configuration in rows], "int32")}
    for name in knobs:
        values = [configuration.knobs.get(name) for configuration in rows]
        is_numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        columns[name] = (
            numbers(values, "float64")
            if is_numeric
            else strings([value if isinstance(value, str) else json.dumps(value) for value in values])
        )
    for name in MEASURES:
        columns[name] = numbers([configuration.measures[name] for configuration in rows], "float64")
    for name in ("lowest", "highest", "behind", "repeats"):
        columns[name] = numbers([getattr(configuration, name) for configuration in rows], "float64")
    columns["on_front"] = booleans([configuration.on_front for configuration in rows])
    write_table(pa.table(columns), path)


def heat(rows: Sequence[Configuration], swept: Swept) -> tuple[str, str, list[Any], list[Any]] | None:
    """Return two knobs for a heat map and their values: penalty and window if both vary, else the first that vary."""
    columns = knob_columns(swept.grid)
    varied = {
        name: sorted(set(values))
        for name, values in columns.items()
        if len({str(value) for value in values}) > 1 and all(isinstance(value, int | float) for value in values)
    }
    knobs = [name for name in varied if name.endswith((".repeatPenalty", ".repeatWindowTurns"))]
    knobs += [name for name in varied if name not in knobs]
    if len(knobs) < 2 or not rows:
        return None
    return knobs[0], knobs[1], varied[knobs[0]], varied[knobs[1]]
