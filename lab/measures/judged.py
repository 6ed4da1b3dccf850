"""Judged@k of a finished run with any golden set, also one that was judged after the replay.

The values are those of the measure ``Judged@k`` (:mod:`lab.measures.definitions.judged`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean
from typing import NamedTuple

from lab.base.errors import UnusableInput
from lab.measures.definitions.judged import judged_share
from lab.measures.inputs import judge
from lab.runs.directory import RunDirectory
from lab.runs.receipts import read_receipts


class JudgedShare(NamedTuple):
    """Judged@k of one arm.

    ``returned`` and ``judged`` count the memories among the first ``k`` at ``probes``. ``share`` is Judged@k, the mean
    over the probes with gold as in the scores of a run; None without such a probe.
    """

    arm: str
    k: int
    probes: int
    returned: int
    judged: int
    share: float | None


def judged_shares(
    run: RunDirectory, judged: Mapping[str, Collection[str]], with_gold: Collection[str], k: int
) -> list[JudgedShare]:
    """Return Judged@k of every arm of a run; ``judged`` maps probes to judged memories, ``with_gold`` are probes.

    Raises :class:`UnusableInput` if the run has none of these probes.
    """
    import numpy as np

    run.require_done()
    known = {probe: dict.fromkeys(keys, 0) for probe, keys in judged.items()}
    sizes: dict[str, list[int]] = {arm: [] for arm in run.arms}
    counts: dict[str, list[int]] = {arm: [] for arm in run.arms}
    values: dict[str, list[float]] = {arm: [] for arm in run.arms}
    for conversation in run.conversations:
        receipts = read_receipts(run, conversation)
        turns = [receipts.units[number] for number in receipts.turn.tolist()]
        for arm, most in run.max_items.items():
            rows = [row for row in receipts.rows_of(arm).tolist() if turns[row] in known]
            probes = [turns[row] for row in rows]
            rankings = judge(receipts.keys_of(np.array(rows, np.int64), most), [known[probe] for probe in probes])
            share, size = judged_share(rankings, k), np.minimum(rankings.sizes, k)
            sizes[arm] += size.tolist()
            counts[arm] += np.rint(share * size).astype(np.int64).tolist()
            values[arm] += [value for probe, value in zip(probes, share.tolist(), strict=True) if probe in with_gold]
    if not any(sizes.values()):
        raise UnusableInput(f"{run.path}: has no probe of this golden set; replay it with this set")
    return [
        JudgedShare(
            arm, k, len(sizes[arm]), sum(sizes[arm]), sum(counts[arm]), fmean(values[arm]) if values[arm] else None
        )
        for arm in run.arms
    ]
