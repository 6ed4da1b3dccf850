"""Evaluate many configurations of profile ``seed`` at once, over arrays: the fast path of a sweep.

Configurations belong to one group if they differ only in quotas, caps, penalty, window and decay. At each recall point
the engine's own stages compute once what the group shares (:class:`Frame`); then all configurations select and pack in
one step. The rules are those of ``select/policies.py``, :func:`lab.systems.openclaw.seed.score.repeat_factor` and
:func:`lab.systems.openclaw.recall.block.pack_well_formed`; tests compare every result with one evaluated alone.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from lab.base.utf16 import js_length
from lab.recordings.model import Memory
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Candidate, Row
from lab.retrieval.retrievers import QueryContext, Retrieval
from lab.systems.contract import Ask, ManyRecalls, ManySystem, Retriever
from lab.systems.kit import Kit
from lab.systems.openclaw.config.settings import DEFAULT_QUOTA, EngineConfig
from lab.systems.openclaw.memory import DAY_MS, Listing
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.block import Budget, Slot, compose, pack_well_formed
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.stages import memory_slot
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState
from lab.systems.openclaw.seed.hot_lane import IGNORE_PLAN, HotLane, is_rescored, keep_rules, rule_slots
from lab.systems.openclaw.seed.score import novelty, repeat_factor
from lab.systems.openclaw.seed.stages import add_working_set, is_silent, trivial
from lab.systems.openclaw.seed.working_set import SeedTurn
from lab.systems.openclaw.select.outcome import recall_plans
from lab.systems.openclaw.select.policies import TIERS, Arrange, Knobs, Offered, counted, many_of, tier_first_slots

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
        # Ranks of ids; equal ones have the same rank.
        self.id_ranks = np.unique(np.asarray(ids, object), return_inverse=True)[1]
        # Ranks by age, the oldest first; those of one age have the same rank, as the last index has.
        self.age = np.append(np.unique([row.created_at for row in rows], return_inverse=True)[1], 0).astype(np.int64)
        # Ranks in two orders, newest first and oldest first; ids break ties in both.
        self.newest, self.oldest = np.zeros(len(rows) + 1, np.int32), np.zeros(len(rows) + 1, np.int32)
        self.newest[newest] = self.oldest[oldest] = np.arange(len(rows))


@dataclass(slots=True)
class Frame:
    """One recall point: candidates in the order that breaks ties, and hard rules.

    ``rows`` int32 ``[n]``, ``base`` float64 ``[n]`` (scores before repeat suppression), ``tiers`` int8 ``[n]`` (indices
    into :data:`lab.systems.openclaw.select.policies.TIERS`), ``fused`` int32 ``[n]`` (ranks in the tier after fusion,
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

    ``flow``: run the full flow, not only the selection. ``floor`` is that of a selection alone.
    """

    def __init__(self, config: EngineConfig, known: Known, *, flow: bool, floor: float = 0.0) -> None:
        self.config, self.known, self.flow, self.floor = config, known, flow, floor
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
            fused = [
                (tier, hit, hit.score)
                for tier, plan in enumerate(plans)
                for hit in tiers.fused(plan, ask.scope, self.floor)
            ]
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


class Packer:
    """The budget of one conversation. Lengths are UTF-16 units."""

    def __init__(self, known: Known, config: EngineConfig, *, flow: bool) -> None:
        import numpy as np

        self.known, self.budget = known, config.budget if flow else None
        phases = config.active_phases
        most = phases.item_max_chars if flow else 0
        self._slots = [memory_slot(row, 0 if row.hard_rule and phases.hard_rules else most) for row in known.rows]
        # What a slot adds to the length of a block, without the digits of its number.
        self._empty = js_length(compose([]))
        alone = (js_length(compose([slot])) - self._empty - 1 for slot in self._slots)
        self._lengths = np.asarray([*alone, 0], np.int64)
        self._cut = cache(self._pack_one)

    def pack(self, hard: Sequence[int], chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the injected rows ``[c, h + k]``, hard rules first, and the length and cut of each block, ``[c]``.

        Empty slots come last and hold ``known.none``.
        """
        import numpy as np

        none, count = self.known.none, len(chosen)
        slots = np.concatenate([np.tile(np.asarray(hard, np.int32), (count, 1)), chosen], axis=1)
        filled = slots != none
        filled_count = filled.sum(1)
        lengths = np.where(filled_count > 0, self._lengths[slots].sum(1) + _digits(filled_count) + self._empty, 0)
        cut = np.zeros(count, np.int64)
        if self.budget is None or not self.budget.enabled:
            return slots, lengths, cut
        over = (lengths > self.budget.max_chars).nonzero()[0]
        if len(over):
            slots[over], lengths[over], cut[over] = self._drop(slots[over], filled[over], len(hard))
        return slots, lengths, cut

    def _drop(self, slots: np.ndarray, filled: np.ndarray, hard: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        import numpy as np

        budget, known = self.budget, self.known
        assert budget is not None  # noqa: S101 - for the type checker: only budgets drop
        filled_count = filled.sum(1)
        recent = np.argsort(np.where(filled, known.newest[slots], len(known.rows)), axis=1, kind="stable")
        protected = np.zeros(slots.shape, bool)
        least = np.minimum(np.maximum(0, budget.min_recent_slots), filled_count)
        np.put_along_axis(protected, recent, np.arange(slots.shape[1]) < least[:, None], axis=1)
        if budget.overflow_action == "truncate_oldest":
            going = known.oldest[slots].astype(np.int64)
        else:
            going = np.broadcast_to(np.arange(slots.shape[1])[::-1], slots.shape).astype(np.int64)
        soft = filled & (np.arange(slots.shape[1]) >= hard)
        if budget.overflow_action not in ("truncate_oldest", "truncate_tail"):
            soft &= False
        last = np.iinfo(np.int64).max
        # Protected slots go last: the oldest first, of one age from the end of the block.
        behind = (1 << 40) + np.arange(slots.shape[1])[::-1]
        if budget.overflow_action == "truncate_oldest":
            behind = behind + known.age[slots] * slots.shape[1]
        order = np.argsort(np.where(soft, np.where(protected, behind, going), last), axis=1, kind="stable")
        kept, left = filled.copy(), filled_count.copy()
        total = self._lengths[slots].sum(1)
        every = np.arange(len(slots))
        for step in range(int(soft.sum(1).max(initial=0))):
            at = order[:, step]
            dropped = (total + _digits(left) + self._empty > budget.max_chars) & (left > 1) & soft[every, at]
            kept[every[dropped], at[dropped]] = False
            total -= np.where(dropped, self._lengths[slots[every, at]], 0)
            left -= dropped
        lengths = total + _digits(left) + self._empty
        packed = np.full_like(slots, known.none)
        slots_after = np.cumsum(kept, axis=1) - 1
        which, at = kept.nonzero()
        packed[which, slots_after[which, at]] = slots[which, at]
        cut = np.zeros(len(slots), np.int64)
        for row in (lengths > budget.max_chars).nonzero()[0].tolist():
            rows, lengths[row], cut[row] = self._cut(tuple(slots[row][filled[row]].tolist()), hard)
            packed[row] = known.none
            packed[row, : len(rows)] = rows
        return packed, lengths, cut

    def _pack_one(self, rows: tuple[int, ...], hard: int) -> tuple[list[int], int, int]:
        """Pack one block with the engine's own function, for blocks that are too long even after dropping slots."""
        budget = self.budget or Budget(enabled=False)
        slots: list[Slot] = [self._slots[row] for row in rows]
        packed = pack_well_formed(slots, budget, hard=frozenset(slot.id for slot in slots[:hard]))
        kept = [self.known.number[slot.id] for slot in packed.kept]
        return kept, js_length(packed.context), packed.receipt["truncatedChars"]


def _digits(many: np.ndarray) -> np.ndarray:
    """Return the total number of digits of 1 to ``many``, which is below 100."""
    import numpy as np

    digits: np.ndarray = many + np.maximum(0, many - 9)
    return digits


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


NICE = TIERS.index("nice")


def group_of(config: EngineConfig, policy: str, *, flow: bool) -> Hashable | None:
    """Return a key that the configurations of a group share; None for one that cannot be batched.

    Not batched are policies without a vectorised function and, in flows: Working Set, documents, fallback scopes, soft
    trust, receipts inside the prompt, the policy loop, and the plugin's flow.
    """
    if many_of(policy) is None:
        return None
    unsupported = flow and (
        config.upstream
        or config.working_set.enabled
        or config.docs.enabled
        or (config.scope_policy.enabled and config.scope_policy.fallback_scopes)
        or config.phases.trust == "soft"
        or config.phases.tier_mode == "loop_v0"
        or (config.receipts.enabled and config.receipts.verbosity == "high")
        or not config.auto_recall.enabled
    )
    if unsupported:
        return None
    # Set what may differ within a group to one value.
    recall = replace(
        config.auto_recall, quota=DEFAULT_QUOTA, strict_caps=True, repeat_penalty=0.0, repeat_window_turns=0
    )
    shared = replace(config, auto_recall=recall, phases=replace(config.phases, repeat_decay=""))
    return policy, flow, repr(shared)


@dataclass(frozen=True, slots=True)
class Group:
    """Configurations with the same :func:`group_of`."""

    configs: Sequence[EngineConfig]
    policy: str
    flow: bool


class Many(ManySystem):
    """A group in one conversation."""

    def __init__(self, group: Group, kit: Kit, memories: Sequence[Memory]) -> None:
        import numpy as np

        first = self.config = group.configs[0]
        retrieval = Retrieval(first.text, first.embedding)
        self.retrieval_key: Hashable = retrieval
        self._retrieval, self._kit = retrieval, kit
        self._listing = Listing()
        rows = kit.rows.of(memories)
        self._hard = np.asarray([*(row.hard_rule for row in rows), False])
        self._known = Known(rows)
        self._framer = Framer(first, self._known, flow=group.flow, floor=first.floor_under(group.policy))
        self._arrange = many_of(group.policy)
        self._knobs = knobs_of(group.configs)
        self._packer = Packer(self._known, first, flow=group.flow)
        self._histories: dict[str, Histories] = {}
        # In how many turns of any session each configuration injected each row.
        self._lifetimes = np.zeros((len(group.configs), len(rows) + 1), np.int32)

    def open_retriever(self) -> Retriever:
        """Return a retriever over the memories that the loop provides."""
        return self._kit.retriever(self._retrieval)

    def remember(self, memories: Sequence[Memory]) -> None:
        """Add new memories to the listing."""
        self._listing.add(self._kit.rows.of(memories))

    def forget(self, keys: Sequence[str]) -> None:
        """Remove deleted memories."""
        for row in self._kit.rows.known(keys):
            self._listing.remove(row)

    def select_many(self, ask: Ask, candidates: QueryContext) -> ManyRecalls:
        """Select for every configuration."""
        import numpy as np

        framer, known, arrange = self._framer, self._known, self._arrange
        assert arrange is not None  # noqa: S101 - otherwise there is no group
        memories = Memories.of(candidates, self._listing)
        whole = framer.frame(ask, memories)
        history = self._history(ask) if framer.repeats else None
        count = len(self._knobs.strict)
        injected = np.full((count, self.config.max_items), known.none, np.int32)
        hits, chars, cut = injected.copy(), np.zeros(count, np.int64), np.zeros(count, np.int64)
        rule_counts = self._rule_slots(whole)
        for rules in np.unique(rule_counts).tolist():
            at = (rule_counts == rules).nonzero()[0]
            # Configurations with another floor of nice leave slots to another number of hard rules.
            frame = whole if rules == len(whole.hard) else framer.frame(ask, memories, rules)
            earlier = Earlier(
                history.times(frame.rows)[at] if history else None,
                self._lifetimes[at][:, frame.rows] if framer.novel else None,
            )
            knobs = Knobs(*(values[at] for values in self._knobs))
            slots = self.config.max_items - rules
            chosen = select_many(frame, knobs, arrange, slots, earlier, known.none, rescored=framer.rescored)
            injected[at], chars[at], cut[at] = self._packer.pack(frame.hard, chosen)
            hits[at] = np.where(np.isin(injected[at], frame.hard), known.none, injected[at])
        if ask.session is not None and not ask.probe and (not whole.skipped or self._counts_all):
            if history:
                history.remember(hits)
            if framer.novel:
                self._lifetimes[np.arange(count)[:, None], hits] += 1
        # A text is only cut if it is the last one left, and a hard rule that is cut does not count.
        kept: np.ndarray = np.where(cut > 0, 0, self._hard[injected].sum(1))
        return ManyRecalls(injected, chars, kept, "skipped" if whole.skipped else "ok")

    def _rule_slots(self, frame: Frame) -> np.ndarray:
        """Return for how many hard rules each configuration has slots, int64 ``[c]``."""
        import numpy as np

        nice = np.minimum(self._knobs.quotas[:, 1], int((frame.tiers == NICE).sum()))
        return np.asarray([rule_slots(len(frame.hard), self.config.max_items, floor) for floor in nice.tolist()])

    @property
    def _counts_all(self) -> bool:
        return self.config.phases.repeat_counts == "all_user_turns"

    def _history(self, ask: Ask) -> Histories | None:
        if ask.session is None:
            return None
        key = ask.session if self.config.phases.repeat_history == "session" else ""
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = Histories(self._knobs.windows, self._known.none)
        return history
