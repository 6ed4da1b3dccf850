"""Judged@k: the share of returned memories that a golden set judges (named as in ir_measures)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from lab.errors import UnusableInput
from lab.runs.directory import RunDirectory


class JudgedShare(NamedTuple):
    """Counts of one arm: memories ``returned`` among the first ``k`` at ``probes``, and how many are ``judged``."""

    arm: str
    k: int
    probes: int
    returned: int
    judged: int

    @property
    def share(self) -> float | None:
        """Judged@k; None if nothing was returned."""
        return self.judged / self.returned if self.returned else None


def judged_shares(run: RunDirectory, judged: Mapping[str, Collection[str]], k: int) -> list[JudgedShare]:
    """Return Judged@k of every arm of a run over the probes of ``judged``, which maps probes to judged memories.

    Raises :class:`UnusableInput` if the run has none of these probes.
    """
    run.require_done()
    counts = {arm: [0, 0, 0] for arm in run.arms}
    for conversation in run.conversations:
        table = run.read_receipts(conversation, ("arm", "turn", "item_key"))
        for arm, turn, keys in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
            if turn in judged:
                count = counts[arm]
                count[0] += 1
                count[1] += len(keys[:k])
                count[2] += sum(key in judged[turn] for key in keys[:k])
    shares = [JudgedShare(arm, k, *count) for arm, count in counts.items()]
    if not any(share.probes for share in shares):
        raise UnusableInput(f"{run.path}: has no probe of this golden set; replay it with this set")
    return shares
