"""Selecting for many configurations at once: what differs within a group, what each injected before, who goes where.

The rules are those of ``lab/systems/openclaw/select`` and ``lab/systems/openclaw/seed/repeat.py``, which stay the
truth. Here ``c`` configurations choose from ``n`` candidates in one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.many.frames import Frame
from lab.systems.openclaw.many.selection import Arrange, Knobs, Offered, counted
from lab.systems.openclaw.seed.repeat import repeat_factor

if TYPE_CHECKING:
    import numpy as np


def knobs_of(configs: Sequence[EngineConfig]) -> Knobs:
    """The knobs of configurations."""
    import numpy as np

    recalls = [one.auto_recall for one in configs]
    most = max(one.repeat_window_turns for one in recalls)
    factors = np.ones((len(configs), most + 1))
    for at, (config, recall) in enumerate(zip(configs, recalls, strict=True)):
        window, decay = recall.repeat_window_turns, config.phases.repeat_decay
        for times in range(1, window + 1):
            factors[at, times] = repeat_factor(times, recall.repeat_penalty, window, decay)
    return Knobs(
        np.asarray([one.quota[:3] for one in recalls], np.int64),
        np.asarray([one.strict_caps for one in recalls], bool),
        np.asarray([one.repeat_window_turns for one in recalls], np.int64),
        factors,
    )


class Histories:
    """What each configuration injected in the recall turns of one session."""

    def __init__(self, windows: np.ndarray, rows: int) -> None:
        import numpy as np

        self._counts = np.zeros((len(windows), rows + 1), np.int16)
        self._all = np.arange(len(windows))[:, None]
        self._windows = [(int(window), (windows == window).nonzero()[0][:, None]) for window in np.unique(windows)]
        self._turns: deque[np.ndarray] = deque(maxlen=int(windows.max()) + 1)

    def times(self, rows: np.ndarray) -> np.ndarray:
        """int16 ``[c, n]``: in how many turns of its window a configuration injected each row."""
        found: np.ndarray = self._counts[:, rows]
        return found

    def remember(self, injected: np.ndarray) -> None:
        """Note a turn: rows ``[c, k]``, the last number standing for none."""
        # Within a turn a row stands once; only the place for none comes twice, and nobody reads it.
        self._counts[self._all, injected] += 1
        self._turns.append(injected)
        for window, which in self._windows:
            if len(self._turns) > window:
                self._counts[which, self._turns[-1 - window][which[:, 0]]] -= 1


def select_many(
    frame: Frame, knobs: Knobs, arrange: Arrange, places: int, times: np.ndarray | None, none: int, *, rescored: bool
) -> np.ndarray:
    """Rows ``[c, places]`` in the order of injection, ``none`` where a place stays empty.

    ``times`` ``[c, n]`` are earlier injections, where repeats are suppressed. ``rescored``: a tier is ordered by score,
    then age, as the wildcards are; else it is as it was fused.
    """
    import numpy as np

    count, n = len(knobs.strict), len(frame.rows)
    chosen = np.full((count, places), none, np.int32)
    if not n or not places:
        return chosen
    every = np.arange(count)[:, None]
    if times is None or not times.any():
        # Nothing tells the configurations apart yet: one order serves all.
        order = np.argsort(-frame.base, kind="stable")[None].repeat(count, 0)
    else:
        factors = knobs.factors[every, times]
        for candidate in np.flatnonzero(times.any(0)).tolist():
            if frame.exempt(candidate):
                factors[:, candidate] = 1.0
        order = np.argsort(-(frame.base * factors), axis=1, kind="stable")
    tiers: np.ndarray = frame.tiers[order]
    members: list[np.ndarray] = [tiers == tier for tier in range(3)]
    rank = counted(members) if rescored else frame.fused[order]
    sizes = [int((frame.tiers == tier).sum()) for tier in range(3)]
    place = arrange(Offered(knobs, places, sizes, tiers, members, rank))
    which, at = np.nonzero(place < places)
    chosen[which, place[which, at]] = frame.rows[order[which, at]]
    return chosen
