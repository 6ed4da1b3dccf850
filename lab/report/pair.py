"""The default pair of arms to compare."""

from __future__ import annotations

from lab.base.errors import UnusableInput
from lab.runs.directory import RunDirectory


def choose_pair(run: RunDirectory, baseline: str | None, candidate: str | None) -> tuple[str, str | None]:
    """Return the baseline and the candidate: by default tier_first_v1 and tier_quota_v1, else the first arms.

    An arm that is named for one role is not chosen for the other. A run of one arm has no candidate. Raises
    :class:`UnusableInput` for an unknown arm.
    """
    defaults = [arm for arm in ("tier_first_v1", *run.arms) if arm in run.arms and arm != candidate]
    base = baseline or (defaults[0] if defaults else run.arms[0])
    others = [arm for arm in run.arms if arm != base]
    cand = candidate or ("tier_quota_v1" if "tier_quota_v1" in others else others[0] if others else None)
    for arm in (base, cand):
        if arm is not None and arm not in run.arms:
            raise UnusableInput(f"{run.path}: has no arm {arm!r}; it has: {', '.join(run.arms)}")
    return base, cand
