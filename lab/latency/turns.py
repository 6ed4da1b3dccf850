"""What the turns of a run took: which stages add up to a turn, and which turns count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.columns import codes_of, numbers_of
from lab.replay.seat import WHOLE
from lab.retrieval.booking import SEARCH
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

if TYPE_CHECKING:
    import numpy as np

# The whole of a turn, beside its stages: their sum.
TOTAL = "total"
# One of these has whoever looked for memories: a turn without either was passed over, or failed.
LOOKED = (SEARCH, WHOLE)


def warm_turns(run: RunDirectory) -> dict[str, dict[str, np.ndarray]]:
    """Nanoseconds (int64) of the turns by arm and stage, in the order of the turns; ``total`` is the last stage.

    The first moment of each conversation is left out, which pays for what is read once, and so are turns at which an
    arm looked for nothing. An arm, or a run, without timings has none.
    """
    import numpy as np

    found: dict[str, dict[str, list[np.ndarray]]] = {}
    for conversation in run.conversations:
        path = run.latency(conversation)
        if not path.is_file():
            continue
        table = read_table(path, ("arm", "turn", "stage", "ns", "cold"), ("arm", "turn", "stage"))
        (arms, names), (turns, keys), (parts, known) = (codes_of(table[one]) for one in ("arm", "turn", "stage"))
        warm = ~numbers_of(table["cold"]).astype(bool)
        spent = np.full((len(names) * len(keys), len(known)), -1, np.int64)
        spent[(arms * len(keys) + turns)[warm], parts[warm]] = numbers_of(table["ns"])[warm]
        looked = [place for place, stage in enumerate(known) if stage in LOOKED]
        for number, arm in enumerate(names[:-1]):
            own = spent[number * len(keys) : (number + 1) * len(keys)]
            own = own[(own[:, looked] >= 0).any(axis=1)]
            if arm is None or not len(own):
                continue
            by_stage = found.setdefault(arm, {})
            for place, stage in enumerate(known[:-1]):
                values = own[:, place][own[:, place] >= 0]
                if stage is not None and len(values):
                    by_stage.setdefault(stage, []).append(values)
            by_stage.setdefault(TOTAL, []).append(np.where(own < 0, 0, own).sum(axis=1))
    return {
        arm: {stage: np.concatenate(some) for stage, some in sorted(stages.items(), key=lambda one: one[0] == TOTAL)}
        for arm, stages in found.items()
    }
