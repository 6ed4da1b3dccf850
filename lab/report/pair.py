"""Which two arms of a run are held against each other where nobody says."""

from __future__ import annotations

from lab.errors import UnusableInput
from lab.runs.directory import RunDirectory


def choose_pair(run: RunDirectory, baseline: str | None, candidate: str | None) -> tuple[str, str | None]:
    """The old policy and the new one if the run has them, else its first arms; :class:`UnusableInput` for an unknown.

    What is named as one is not taken for the other. There is no candidate in a run of one arm.
    """
    usual = [one for one in ("tier_first_v1", *run.arms) if one in run.arms and one != candidate]
    base = baseline or (usual[0] if usual else run.arms[0])
    others = [arm for arm in run.arms if arm != base]
    cand = candidate or ("tier_quota_v1" if "tier_quota_v1" in others else others[0] if others else None)
    for arm in (base, cand):
        if arm is not None and arm not in run.arms:
            raise UnusableInput(f"{run.path}: has no arm {arm!r}; it has: {', '.join(run.arms)}")
    return base, cand
