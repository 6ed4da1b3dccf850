"""What a sweep found: every configuration on one line, the front that nothing beats, and how sure one can be of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.columns import booleans, numbers, strings
from lab.compare.statistics import clustered
from lab.runs.tables import write_table
from lab.sweep.sweep import Swept, knob_columns
from lab.sweep.tally import MEASURES

if TYPE_CHECKING:
    import numpy as np

HIT, REPEAT, CHARS = (MEASURES.index(name) for name in ("Success", "RepeatRate", "InjectedChars"))
# Less than this is no difference, only the order of additions.
EQUAL = 1e-9


class Configuration(NamedTuple):
    """One configuration.

    ``measures`` are means over all probes or turns, and over the draws of labels. ``lowest`` and ``highest`` are the
    hit rates of the conversation where it did worst and best. ``behind`` is its hit rate less that of the untiered
    hybrid, at the draw where that is lowest, and ``repeats`` its repeat rate at the draw where that is highest, None
    where there is none.
    """

    number: int
    knobs: dict[str, Any]
    measures: dict[str, float | None]
    lowest: float
    highest: float
    behind: float
    repeats: float | None
    on_front: bool


def configurations(swept: Swept) -> list[Configuration]:
    """Every configuration of a sweep, in the order of its grid."""
    import numpy as np

    means = swept.means()
    with_draws = _over(means)
    # A conversation that wants nothing has no hit rate, be it the lowest or the highest.
    wanting = swept.counts[..., HIT].any(axis=(1, 2))
    by_conversation = np.nanmean(swept.by_conversation()[wanting][..., HIT], axis=1)
    knobs = knob_columns(swept.grid)
    behind = (means[:, :-1, HIT] - means[:, -1:, HIT]).min(0)
    repeats = means[:, :-1, REPEAT].max(0)
    # What injects nothing, or is asked but once, repeats nothing.
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
    """The measures of the untiered hybrid."""
    return _named(_over(swept.means())[-1])


def _over(means: np.ndarray) -> np.ndarray:
    """Means over draws; nan where no draw counts anything."""
    import numpy as np

    known = ~np.isnan(means)
    found: np.ndarray = np.where(known.any(0), np.where(known, means, 0.0).sum(0) / np.maximum(known.sum(0), 1), np.nan)
    return found


def _named(values: np.ndarray) -> dict[str, float | None]:
    return {name: None if value != value else float(value) for name, value in zip(MEASURES, values, strict=True)}


def pareto(values: np.ndarray) -> np.ndarray:
    """Which rows no other row beats: bool ``[n]`` for ``[n, criteria]``, more being better in each.

    A row beats another that it equals in every criterion and betters in one.
    """
    import numpy as np

    front = np.ones(len(values), bool)
    for at, one in enumerate(values):
        no_worse = (values >= one - EQUAL).all(1)
        front[at] = not (no_worse & (values > one + EQUAL).any(1)).any()
    return front


def differences(swept: Swept, number: int, against: int) -> tuple[float, float | None, float | None]:
    """Hit rate of a configuration less that of another, and the 95 % interval over conversations.

    Every conversation counts by its probes, as in ``lab compare``; draws of labels are averaged within it.
    """
    sums = swept.sums[..., HIT].mean(1)
    counts = swept.counts[..., HIT].mean(1)
    # Of a conversation only its sum matters to a clustered interval, so its probes may all bear the mean.
    found = clustered(
        {
            name: [float((one[number] - one[against]) / count[number])] * round(count[number])
            for name, one, count in zip(swept.conversations, sums, counts, strict=True)
            if count[number]
        }
    )
    return found.mean, found.low, found.high


def write_configurations(found: Sequence[Configuration], path: Path) -> None:
    """Write one table: a row a configuration, a column a knob and a column a measure."""
    import json

    import pyarrow as pa

    knobs = list(dict.fromkeys(name for one in found for name in one.knobs))
    columns = {"configuration": numbers([one.number for one in found], "int32")}
    for name in knobs:
        values = [one.knobs.get(name) for one in found]
        plain = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        columns[name] = (
            numbers(values, "float64")
            if plain
            else strings([value if isinstance(value, str) else json.dumps(value) for value in values])
        )
    for name in MEASURES:
        columns[name] = numbers([one.measures[name] for one in found], "float64")
    for name in ("lowest", "highest", "behind", "repeats"):
        columns[name] = numbers([getattr(one, name) for one in found], "float64")
    columns["on_front"] = booleans([one.on_front for one in found])
    write_table(pa.table(columns), path)


def heat(found: Sequence[Configuration], swept: Swept) -> tuple[str, str, list[Any], list[Any]] | None:
    """The two knobs of a heat map and their values: penalty and window where both vary, else the first two that do."""
    columns = knob_columns(swept.grid)
    varied = {
        name: sorted(set(values))
        for name, values in columns.items()
        if len({str(one) for one in values}) > 1 and all(isinstance(one, int | float) for one in values)
    }
    wanted = [name for name in varied if name.endswith((".repeatPenalty", ".repeatWindowTurns"))]
    wanted += [name for name in varied if name not in wanted]
    if len(wanted) < 2 or not found:
        return None
    return wanted[0], wanted[1], varied[wanted[0]], varied[wanted[1]]
