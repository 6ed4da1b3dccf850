"""What one moment offers to every configuration of a group alike: candidates, their scores apart from repeats, rules.

The engine's own stages say it: nothing of a rule stands here a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.retrieval.collation import id_order
from lab.retrieval.row import Candidate, Row
from lab.systems.contract import Ask
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState
from lab.systems.openclaw.seed.hot_lane import HotLane, is_rescored
from lab.systems.openclaw.seed.stages import built_working_set
from lab.systems.openclaw.seed.turn import SeedTurn
from lab.systems.openclaw.select.tiers import recall_plans

if TYPE_CHECKING:
    import numpy as np


class Known:
    """The memories of a conversation as arrays over row numbers; one more place, the last, stands for none."""

    def __init__(self, rows: Sequence[Row]) -> None:
        import numpy as np

        self.rows = rows
        self.none = len(rows)
        self.number = {row.id: number for number, row in enumerate(rows)}
        ids = [id_order(row.id) for row in rows]
        newest = sorted(range(len(rows)), key=lambda one: (-rows[one].created_at, ids[one]))
        oldest = sorted(range(len(rows)), key=lambda one: (rows[one].created_at, ids[one]))
        # Places in two orders, newest and oldest first; ids decide between equal times in both.
        self.newest, self.oldest = np.zeros(len(rows) + 1, np.int32), np.zeros(len(rows) + 1, np.int32)
        self.newest[newest] = self.oldest[oldest] = np.arange(len(rows))


@dataclass(slots=True)
class Frame:
    """One moment: candidates in the order that decides between equal scores, and hard rules.

    ``rows`` int32 ``[n]``, ``base`` float64 ``[n]``, ``tiers`` int8 ``[n]`` (places in
    :data:`lab.systems.openclaw.many.selection.TIERS`), ``fused`` int32
    ``[n]``: the place in the tier as it was fused.
    """

    skipped: bool
    rows: np.ndarray
    base: np.ndarray
    tiers: np.ndarray
    fused: np.ndarray
    hard: tuple[int, ...]
    _candidates: list[tuple[Candidate, Row]] = field(default_factory=list)
    _lane: HotLane | None = None
    _exempt: dict[int, bool] = field(default_factory=dict)

    def exempt(self, place: int) -> bool:
        """Whether repeats of the candidate at a place are never suppressed."""
        if self._lane is None:
            return True
        if place not in self._exempt:
            self._exempt[place] = self._lane.exempt(*self._candidates[place])
        return self._exempt[place]


class Framer:
    """Makes the frames of one group in one conversation, as ``config``, any of its configurations, sees the moments.

    ``flow``: the whole flow runs, and not selection alone.
    """

    def __init__(self, config: EngineConfig, known: Known, *, flow: bool) -> None:
        self.config, self.known, self.flow = config, known, flow
        # Whether tiers are ordered by a final score.
        self.rescored = flow and is_rescored(config)
        # Whether what was injected before changes anything.
        self.repeats = flow and config.active_phases.repeat

    def frame(self, ask: Ask, memories: Memories) -> Frame:
        """The frame of a moment."""
        config = self.config
        tiers = Tiers(memories.view, memories.rows, config.auto_recall.search_limit, memories.shared)
        plans = recall_plans(unknown_fallback=config.auto_recall.include_unknown_fallback)
        if not self.flow:
            found = [(at, one, one.score) for at, plan in enumerate(plans) for one in tiers.fused(plan, ask.scope)]
            return self._made(found, memories)
        prompt = Prompt(ask.text, ask.now_ms, ask.session, ask.scope, ask.scoping, not ask.probe)
        turn = SeedTurn(prompt, config, memories, RecallState())
        for stage in (stages.scope, stages.trivial, stages.embedding, built_working_set):
            stage(turn)
            if turn.done:
                return self._made([], memories, skipped=True)
        lane = HotLane(turn, Counter())
        found = [
            (at, one.candidate, one.score if lane.rescored else one.candidate.score)
            for at, plan in enumerate(plans)
            for one in lane.entries(turn.filter_scope, plan, turn.tiers)
        ]
        return self._made(found, memories, lane, hard=[row.id for row in turn.hard])

    def _made(
        self,
        found: list[tuple[int, Candidate, float]],
        memories: Memories,
        lane: HotLane | None = None,
        hard: Sequence[str] = (),
        *,
        skipped: bool = False,
    ) -> Frame:
        import numpy as np

        number = self.known.number
        rows = np.asarray([number[one.id] for _, one, _ in found], np.int32)
        tiers = np.asarray([tier for tier, _, _ in found], np.int8)
        places = Counter[int]()
        fused = np.zeros(len(found), np.int32)
        for at, (tier, _, _) in enumerate(found):
            fused[at] = places[tier]
            places[tier] += 1
        order = np.argsort(self.known.newest[rows], kind="stable")
        base = np.asarray([score for _, _, score in found], np.float64)
        return Frame(
            skipped,
            rows[order],
            base[order],
            tiers[order],
            fused[order],
            tuple(number[one] for one in hard),
            [(found[at][1], memories.by_id[found[at][1].id]) for at in order.tolist()],
            lane,
        )
