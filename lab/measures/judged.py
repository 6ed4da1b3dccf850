"""How much of what a run returned anybody has judged: Judged@k over a golden set (ir_measures' name for it)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from lab.errors import UnusableInput
from lab.runs.directory import RunDirectory


class JudgedShare(NamedTuple):
    """Of ``returned`` memories among the first ``k`` of one arm at judged probes, ``judged`` were judged."""

    arm: str
    k: int
    probes: int
    returned: int
    judged: int

    @property
    def share(self) -> float | None:
        """None where nothing was returned."""
        return self.judged / self.returned if self.returned else None


def judged_shares(run: RunDirectory, judged: Mapping[str, Collection[str]], k: int) -> list[JudgedShare]:
    """Judged@k of every arm of a run over the probes of ``judged``, which maps each to the memories judged there.

    Raises :class:`UnusableInput` where the run recalled at none of them.
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
    found = [JudgedShare(arm, k, *count) for arm, count in counts.items()]
    if not any(one.probes for one in found):
        raise UnusableInput(f"{run.path}: recalls at no probe of this golden set")
    return found
