"""The files of a run as pandas frames.

``arm``, ``conversation`` and other columns with few distinct values are categories, in the order of the run. A number
that may be missing is a float64 with NaN; missing text is None or NaN, as in pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lab.base.errors import CannotMeasure
from lab.compare.paired import Comparison
from lab.measures.latency import NS_PER_MS
from lab.measures.score import score_run
from lab.report.comparison import reading
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from lab.runs.tables import ITEMS, READINGS, SAFETY

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

COUNTS = ("injected", "visible", "visible_nice", "chars", "tokens", "hard_rules", "hard_kept")
MAYBE = ("duplicates", "evicted")
TURNS = (
    *("arm", "turn", "seq", "scope", "is_recall_turn", "probe", *COUNTS, "pinned"),
    *(*MAYBE, *SAFETY, "block", *READINGS),
)
FEW = ("tier", "label", "decision")


def turns_frame(run: RunDirectory) -> pd.DataFrame:
    """Return one row per arm and recall point, in the order of the receipts.

    ======================================== ======== ==================================================
    conversation, arm                        category
    turn                                     text     the recall point: a turn, or a probe from outside
    seq                                      int32    the replay clock
    scope                                    text     of the turn
    is_recall_turn                           bool     whether it counts for the measures of turns
    probe                                    text     the probe at this point; missing if there is none
    injected, visible, visible_nice          int32    memories injected, visible, and visible with label nice
    chars, tokens                            int32    size of the injected block
    hard_rules, hard_kept                    int32    visible hard rules, and those in the prompt
    pinned                                   int32    memories pinned in the Working Set
    duplicates, evicted                      float64  injected although pinned; dropped by the budget
    future, duplicate_items, unescaped       int32    failed safety checks (see :mod:`lab.replay.receipts`)
    superseded, stale, outdated              int32    superseded memories injected; without the newer one; in all
    block                                    text     16 digits of the sha256 of the injected text
    prefix_tokens, stable_chars, body_chars  float64  of the block: shared with the one before (see
                                                      :mod:`lab.replay.receipts`)
    receipt_bytes, receipt_lines             float64  size of the receipt
    to_explain, explained                    float64  memories to explain, and those with a reason in the receipt
    ======================================== ======== ==================================================
    """
    import pyarrow.compute as compute

    table, conversation = _concatenated(run, run.read_receipts, TURNS)
    place = table.column_names.index("pinned")
    table = table.set_column(place, "pinned", compute.list_value_length(table["pinned"]))
    frame = table.to_pandas().astype(dict.fromkeys((*MAYBE, *READINGS), "float64"))
    return _named(run, frame, conversation)


def items_frame(run: RunDirectory) -> pd.DataFrame:
    """Return one row per returned memory, injected or not, in the order of its rank.

    ======================== ======== ====================================================================
    conversation, arm        category
    turn, probe              text     as in :func:`turns_frame`
    seq                      int32
    rank                     int32    from 1
    injected                 bool
    memory, id               text     its key in the recording, and the system's id
    tier, label, decision    category the tier it came from, its importance label, the step that took it
    scope                    text     of the memory
    score                    float64  final score
    text_rank, vector_rank   float64  in the two lanes, from 1; NaN if not in that lane
    grade                    float64  for this probe: above 0 relevant, 0 misleading, NaN not judged
    ======================== ======== ====================================================================
    """
    import numpy as np
    import pandas as pd

    names = tuple(f"item_{name}" for name in ITEMS)
    table, conversation = _concatenated(run, run.read_receipts, ("arm", "turn", "seq", "probe", "injected", *names))
    offsets = table["item_key"].combine_chunks().offsets.to_numpy()
    sizes = np.diff(offsets)
    rows = np.repeat(np.arange(table.num_rows), sizes)
    rank = (np.arange(len(rows)) - np.repeat(offsets[:-1] - offsets[0], sizes) + 1).astype("int32")
    frame = table.select(["arm", "turn", "probe", "seq"]).to_pandas().iloc[rows].reset_index(drop=True)
    frame["rank"] = rank
    frame["injected"] = rank <= table["injected"].to_numpy()[rows]
    for name, column in zip(ITEMS, names, strict=True):
        frame[name] = table[column].combine_chunks().flatten().to_pandas()
    frame = frame.astype({"fts_rank": "float64", "vec_rank": "float64"} | dict.fromkeys(FEW, "category"))
    frame = frame.rename(columns={"key": "memory", "fts_rank": "text_rank", "vec_rank": "vector_rank"})
    grades = {(probe, key): grade for probe, gold in read_gold(run).items() for key, grade in gold.judged.items()}
    at_probes = frame.loc[frame["probe"].notna(), ["probe", "memory"]]
    values = [grades.get(pair) for pair in zip(at_probes["probe"], at_probes["memory"], strict=True)]
    frame["grade"] = pd.Series(values, at_probes.index, "float64")
    return _named(run, frame, conversation[rows])


def scores_frame(run: RunDirectory) -> pd.DataFrame:
    """Return one row per arm, measure and unit. The mean of ``value`` is what ``lab score`` shows.

    ========================== ======== ==================================================================
    conversation, arm, measure category
    at                         text     the unit: a probe, a turn, or a conversation
    value                      float64  NaN if there is none
    slice_NAME                 category one column per slice of the golden set; missing if ``at`` is not a probe
    ========================== ======== ==================================================================
    """
    import numpy as np
    import pandas as pd

    scores = score_run(run)
    units = np.array(scores.units, object)
    frame = pd.DataFrame(
        {
            "conversation": pd.Categorical.from_codes(scores.conversation, scores.conversations),
            "arm": pd.Categorical.from_codes(scores.arm, scores.arms),
            "at": pd.Series(units[scores.at], dtype="str"),
            "measure": pd.Categorical.from_codes(scores.measure, scores.measures),
            "value": scores.value,
        }
    )
    gold = read_gold(run)
    for name in sorted({name for probe in gold.values() for name in probe.slices}):
        values = [gold[unit].slices.get(name) if unit in gold else None for unit in scores.units]
        of_place = pd.Categorical(values, categories=sorted({value for value in values if value is not None}))
        frame[f"slice_{name}"] = of_place[scores.at]
    return frame


def latency_frame(run: RunDirectory) -> pd.DataFrame:
    """Return one row per arm, turn and stage.

    ======================== ======== ==================================================
    conversation, arm, stage category
    turn                     text
    ms                       float64  milliseconds
    cold                     bool     whether it was the first recall point of its conversation
    ======================== ======== ==================================================
    """
    table, conversation = _concatenated(run, run.read_latency, ("arm", "turn", "stage", "ns", "cold"))
    frame = table.to_pandas().astype({"stage": "category"})
    frame.insert(3, "ms", frame.pop("ns") / NS_PER_MS)
    return _named(run, frame, conversation)


def comparison_frame(comparison: Comparison) -> pd.DataFrame:
    """Return one row per measure: ``measure, primary, reading``, and the fields of :meth:`Difference.as_json`."""
    import pandas as pd

    rows: list[dict[str, Any]] = [
        {
            "measure": difference.measure,
            "primary": difference.measure in comparison.primary,
            "reading": reading(difference, comparison.family),
        }
        | difference.as_json()
        for difference in comparison.differences
    ]
    return pd.DataFrame(rows).rename(columns={"mean": "difference"})


def _concatenated(
    run: RunDirectory, read: Callable[[str, Sequence[str]], pa.Table | None], columns: Sequence[str]
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the columns of all conversations, concatenated, and the number of each row's conversation."""
    import numpy as np
    import pyarrow as pa

    run.require_done()
    parts = [read(conversation, columns) for conversation in run.conversations]
    tables = [table.select(columns) for table in parts if table is not None]
    if not tables:
        raise CannotMeasure(f"{run.path}: has no timings")
    return pa.concat_tables(tables), np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])


def _named(run: RunDirectory, frame: pd.DataFrame, conversation: NDArray[np.int64]) -> pd.DataFrame:
    """Return the frame with arms as categories, and a first column for the conversation."""
    import pandas as pd

    frame["arm"] = pd.Categorical(frame["arm"], categories=run.arms)
    frame.insert(0, "conversation", pd.Categorical.from_codes(conversation, run.conversations))
    return frame
