"""What all configurations of a group share at a recall point: candidates, scores before repeat suppression, hard rules.

It is computed by the engine's own stages, so that no rule is implemented twice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Candidate, Row
from lab.systems.contract import Ask
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.todo import DAY_MS
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState
from lab.systems.openclaw.seed.hard_rules import keep_rules
from lab.systems.openclaw.seed.hot_lane import IGNORE_PLAN, HotLane, is_rescored
from lab.systems.openclaw.seed.stages import add_working_set, is_silent, trivial
from lab.systems.openclaw.seed.turn import SeedTurn
from lab.systems.openclaw.select.outcome import recall_plans

if TYPE_CHECKING:
    import numpy as np


class Known:
    """The memories of a conversation as arrays over row numbers. The last index, ``none``, means no memory."""

    def __init__(self, rows: Sequence[Row]) -> None:
        import numpy as np

        self.rows = rows
        self.none = len(rows)
        self.number = {row.id: number for number, row in enumerate(rows)}
        ids = [id_order(row.id) for row in rows]
        newest = sorted(range(len(rows)), key=lambda number: (-rows[number].created_at, ids[number]))
        oldest = sorted(range(len(rows)), key=lambda number: (rows[number].created_at, ids[number]))
        # Ranks in two orders, newest first and oldest first; ids break ties in both.
        self.newest, self.oldest = np.zeros(len(rows) + 1, np.int32), np.zeros(len(rows) + 1, np.int32)
        self.newest[newest] = self.oldest[oldest] = np.arange(len(rows))


@dataclass(slots=True)
class Frame:
    """One recall point: candidates in the order that breaks ties, and hard rules.

    ``rows`` int32 ``[n]``, ``base`` float64 ``[n]`` (scores before repeat suppression), ``tiers`` int8 ``[n]`` (indices
    into :data:`lab.systems.openclaw.many.selection.TIERS`), ``fused`` int32 ``[n]`` (ranks in the tier after fusion,
    from 0), ``recent`` bool ``[n]`` (whether it may take the slot of an unknown memory). ``ignored``: the candidates
    are those of the tier ignore, because there are no others.
    """

    skipped: bool
    rows: np.ndarray
    base: np.ndarray
    tiers: np.ndarray
    fused: np.ndarray
    recent: np.ndarray
    ignored: bool
    hard: tuple[int, ...]
    _candidates: list[tuple[Candidate, Row]] = field(default_factory=list)
    _lane: HotLane | None = None
    _exempt: dict[int, bool] = field(default_factory=dict)

    def exempt(self, candidate: int) -> bool:
        """Whether the candidate with this index is exempt from repeat suppression."""
        if self._lane is None:
            return True
        if candidate not in self._exempt:
            self._exempt[candidate] = self._lane.exempt(*self._candidates[candidate])
        return self._exempt[candidate]


class Framer:
    """Creates the frames of one group in one conversation. ``config`` is any configuration of the group.

    ``flow``: run the full flow, not only the selection.
    """

    def __init__(self, config: EngineConfig, known: Known, *, flow: bool) -> None:
        self.config, self.known, self.flow = config, known, flow
        # Whether tiers are sorted by a final score.
        self.rescored = flow and is_rescored(config)
        # Whether earlier injections change the selection.
        self.repeats = flow and config.active_phases.repeat
        self.novel = flow and "novelty" in config.active_phases.score

    def frame(self, ask: Ask, memories: Memories, rules: int | None = None) -> Frame:
        """Return the frame of a recall point. At most ``rules`` hard rules get slots of their own (None: all)."""
        config = self.config
        limit = config.auto_recall.search_limit
        tiers = Tiers(memories.view, memories.rows, limit, memories.shared, fusion=config.fusion)
        plans = recall_plans(unknown_fallback=config.auto_recall.include_unknown_fallback)
        if not self.flow:
            if tiers.silent(ask.scope, config.silence):
                return self._build([], memories)
            fused = [(tier, hit, hit.score) for tier, plan in enumerate(plans) for hit in tiers.fused(plan, ask.scope)]
            return self._build(fused, memories)
        prompt = Prompt(ask.text, ask.now_ms, ask.session, ask.scope, ask.scoping, not ask.probe)
        turn = SeedTurn(prompt, config, memories, RecallState())
        for stage in (stages.scope, trivial, stages.embedding, add_working_set):
            turn.add(stage(turn))
            if turn.done:
                return self._build([], memories, skipped=True)
        if rules is not None:
            turn.add(keep_rules(turn, rules))
        if is_silent(turn):
            return self._build([], memories, hard=[row.id for row in turn.hard])
        lane = HotLane(turn, Counter())
        hits: list[tuple[int, Candidate, float]] = []
        ignored = False
        for attempt in lane.attempts:
            ignored = attempt.ignored
            searched = (IGNORE_PLAN,) if attempt.ignored else plans
            hits = [
                (tier, entry.candidate, entry.score if lane.rescored else entry.candidate.score)
                for tier, plan in enumerate(searched)
                for entry in lane.find(turn.filter_scope, plan, turn.tiers, attempt.barred).entries
            ]
            if hits or lane.carries_memories:
                break
        phases, hard = config.active_phases, [row.id for row in turn.hard]
        recent_from = prompt.now_ms - phases.recent_days * DAY_MS if phases.recent_days else math.inf
        return self._build(hits, memories, lane, hard, recent_from=recent_from, ignored=ignored)

    def _build(
        self,
        hits: list[tuple[int, Candidate, float]],
        memories: Memories,
        lane: HotLane | None = None,
        hard: Sequence[str] = (),
        *,
        recent_from: float = math.inf,
        ignored: bool = False,
        skipped: bool = False,
    ) -> Frame:
        import numpy as np

        number = self.known.number
        rows = np.asarray([number[candidate.id] for _, candidate, _ in hits], np.int32)
        tiers = np.asarray([tier for tier, _, _ in hits], np.int8)
        counts = Counter[int]()
        fused = np.zeros(len(hits), np.int32)
        for at, (tier, _, _) in enumerate(hits):
            fused[at] = counts[tier]
            counts[tier] += 1
        order = np.argsort(self.known.newest[rows], kind="stable")
        base = np.asarray([score for _, _, score in hits], np.float64)
        recent = np.asarray([candidate.created_at >= recent_from for _, candidate, _ in hits], bool)
        return Frame(
            skipped,
            rows[order],
            base[order],
            tiers[order],
            fused[order],
            recent[order],
            ignored,
            tuple(number[identity] for identity in hard),
            [(hits[at][1], memories.by_id[hits[at][1].id]) for at in order.tolist()],
            lane,
        )
