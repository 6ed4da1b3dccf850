"""Many configurations of one arm as one arm: each moment is framed once, and every configuration selects from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab.replay.loop import Answered
from lab.sweep.frames import Framer, Known, group_key
from lab.sweep.pack_many import Packer
from lab.sweep.select_many import Histories, knobs_of, select_many
from lab.systems.contract import Recall, Request, Selector
from lab.systems.openclaw.recall.turn import Memories

if TYPE_CHECKING:
    import numpy as np


class Many:
    """A group of configurations in one conversation.

    ``injected`` are rows ``[c, places]``, ``chars`` lengths and ``rules`` hard rules that stand in the block, ``[c]``:
    an entry a moment, in order.
    """

    def __init__(self, arms: Sequence[Selector], known: Known) -> None:
        import numpy as np

        first = arms[0]
        self.name, self.config, self.depth, self.retrieval = first.name, first.config, first.depth, first.retrieval
        self.members = [arm.name for arm in arms]
        self.injected: list[np.ndarray] = []
        self.chars: list[np.ndarray] = []
        self.rules: list[np.ndarray] = []
        self._hard = np.asarray([*(row.hard_rule for row in known.rows), False])
        self._known = known
        self._framer = Framer(first, known)
        self._knobs = knobs_of([arm.config for arm in arms])
        self._packer = Packer(known, first.config.budget if self._framer.flow else None)
        self._histories: dict[str, Histories] = {}

    def fresh(self) -> Many:
        """Itself: it is made for one conversation."""
        return self

    def describe(self) -> dict[str, Any]:
        """The names of its members."""
        return {"members": self.members}

    def select(self, request: Request, memories: Memories) -> Recall:
        """Select for every configuration; what comes back is empty but for whether the prompt was passed over."""
        import numpy as np

        framer, known = self._framer, self._known
        frame = framer.frame(request, memories)
        places = max(0, self.config.max_items - len(frame.hard))
        history = self._history(request) if framer.repeats else None
        times = history.times(frame.rows) if history else None
        chosen = select_many(frame, self._knobs, framer.policy, places, times, known.none, rescored=framer.rescored)
        injected, chars, cut = self._packer.pack(frame.hard, chosen)
        if history and request.remembered and (not frame.skipped or self._counts_all):
            hits = np.where(np.isin(injected, frame.hard), known.none, injected) if frame.hard else injected
            history.remember(hits)
        self.injected.append(injected)
        self.chars.append(chars)
        # A text is cut where nothing but it is left; a rule that is cut is no rule.
        self.rules.append(np.where(cut > 0, 0, self._hard[injected].sum(1)))
        return Recall((), 0, "", {"skipped": frame.skipped}, {})

    @property
    def _counts_all(self) -> bool:
        return self.config.phases.repeat_counts == "all_user_turns"

    def _history(self, request: Request) -> Histories | None:
        if request.session is None:
            return None
        key = request.session if self.config.phases.repeat_history == "session" else ""
        found = self._histories.get(key)
        if found is None:
            found = self._histories[key] = Histories(self._knobs.windows, self._known.none)
        return found


class Alone:
    """An arm beyond what is done for many at once: its answers in the same form."""

    def __init__(self, arm: Selector, known: Known) -> None:
        self.members = [arm.name]
        self.injected: list[np.ndarray] = []
        self.chars: list[np.ndarray] = []
        self.rules: list[np.ndarray] = []
        self.carried: list[tuple[int, ...]] = []
        self._number = {row.key: number for number, row in enumerate(known.rows)}

    def take(self, answered: Answered, chars: int) -> None:
        """Note one answer."""
        import numpy as np

        recall = answered.recall
        rows = [self._number[item.key] for item in recall.items[: recall.injected]]
        self.injected.append(np.asarray([rows], np.int32).reshape(1, len(rows)))
        self.chars.append(np.asarray([chars], np.int64))
        self.rules.append(np.asarray([answered.hard_kept], np.int64))
        self.carried.append(tuple(self._number[key] for key in recall.pinned))


def grouped(arms: Sequence[Selector], known: Known) -> tuple[list[Many], list[Selector]]:
    """Arms in groups that are done at once, and those that are not."""
    from lab.files import digest

    groups: dict[str, list[Selector]] = {}
    alone: list[Selector] = []
    for arm in arms:
        key = group_key(arm)
        if key is None:
            alone.append(arm)
        else:
            groups.setdefault(digest(key), []).append(arm)
    return [Many(some, known) for some in groups.values()], alone
