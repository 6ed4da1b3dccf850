"""Select for many configurations at once: ``c`` configurations choose from ``n`` candidates in one step.

``lab/systems/openclaw/select`` and ``lab/systems/openclaw/seed/repeat.py`` define the rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.many.frames import Frame
from lab.systems.openclaw.many.selection import Arrange, Knobs, Offered, counted, tier_first_slots
from lab.systems.openclaw.seed.repeat import novelty, repeat_factor

if TYPE_CHECKING:
    import numpy as np


def knobs_of(configs: Sequence[EngineConfig]) -> Knobs:
    """Return the settings that may differ between the configurations of a group, as arrays."""
    import numpy as np

    recalls = [config.auto_recall for config in configs]
    most = max(recall.repeat_window_turns for recall in recalls)
    factors = np.ones((len(configs), most + 1))
    for at, (config, recall) in enumerate(zip(configs, recalls, strict=True)):
        window, decay = recall.repeat_window_turns, config.phases.repeat_decay
        for times in range(1, window + 1):
            factors[at, times] = repeat_factor(times, recall.repeat_penalty, window, decay)
    return Knobs(
        np.asarray([recall.quota[:3] for recall in recalls], np.int64),
        np.asarray([recall.strict_caps for recall in recalls], bool),
        np.asarray([recall.repeat_window_turns for recall in recalls], np.int64),
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
        """Return in how many turns of its window each configuration injected each row, int16 ``[c, n]``."""
        counts: np.ndarray = self._counts[:, rows]
        return counts

    def remember(self, injected: np.ndarray) -> None:
        """Record a turn: rows ``[c, k]``; the last row number means none."""
        # A row occurs once per turn; only the number for none repeats, and its count is never read.
        self._counts[self._all, injected] += 1
        self._turns.append(injected)
        for window, which in self._windows:
            if len(self._turns) > window:
                self._counts[which, self._turns[-1 - window][which[:, 0]]] -= 1


class Earlier(NamedTuple):
    """Earlier injections ``[c, n]``: in the window, and ever. None if repeats are not suppressed, or novelty is off."""

    recent: np.ndarray | None
    ever: np.ndarray | None


def select_many(
    frame: Frame, knobs: Knobs, arrange: Arrange, slots: int, earlier: Earlier, none: int, *, rescored: bool
) -> np.ndarray:
    """Return the selected rows ``[c, slots]`` in the order of injection, ``none`` in empty slots.

    ``rescored``: tiers are sorted by score, then age, like the wildcards; otherwise they keep the order of fusion.
    """
    import numpy as np

    count, n = len(knobs.strict), len(frame.rows)
    chosen = np.full((count, slots), none, np.int32)
    if not n or not slots:
        return chosen
    every = np.arange(count)[:, None]
    counts = [times for times in earlier if times is not None and times.any()]
    if not counts:
        # The configurations do not differ yet, so they share one order.
        order = np.argsort(-frame.base, kind="stable")[None].repeat(count, 0)
    else:
        scores = frame.base[None].repeat(count, 0)
        seen = np.any([times.any(0) for times in counts], axis=0)
        exempt = [candidate for candidate in np.flatnonzero(seen).tolist() if frame.exempt(candidate)]
        factors = []
        if earlier.ever is not None:
            factors.append(np.asarray([novelty(times) for times in range(int(earlier.ever.max()) + 1)])[earlier.ever])
        if earlier.recent is not None:
            factors.append(knobs.factors[every, earlier.recent])
        # Multiplied in the engine's order, so that scores are equal to the last bit.
        for factor in factors:
            factor[:, exempt] = 1.0
            scores = scores * factor
        order = np.argsort(-scores, axis=1, kind="stable")
    tiers: np.ndarray = frame.tiers[order]
    members: list[np.ndarray] = [tiers == tier for tier in range(3)]
    rank = counted(members) if rescored else frame.fused[order]
    sizes = [int((frame.tiers == tier).sum()) for tier in range(3)]
    arrange = tier_first_slots if frame.ignored else arrange
    slot = arrange(Offered(knobs, slots, sizes, tiers, members, rank, frame.recent[order]))
    which, at = np.nonzero(slot < slots)
    chosen[which, slot[which, at]] = frame.rows[order[which, at]]
    return chosen
