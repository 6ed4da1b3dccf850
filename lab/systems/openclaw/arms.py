"""openclaw-mem-engine as memory systems: its selection policies alone, and the full flow of a profile.

The base classes say how the arms take a token budget. :class:`DerivedRows` are the Working Sets that the engine stores
by itself (E-28). :class:`SwitchedArm` is the arm of ``lab canary rollback``: its policy is switched while it runs.
"""

from __future__ import annotations

import tempfile
import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from lab.base.errors import UnusableInput
from lab.base.files import sha256_file
from lab.base.token_estimate import most_ascii
from lab.recordings import model
from lab.recordings.model import Memory
from lab.retrieval.contract import Row
from lab.retrieval.faults import HARMLESS, NO_VECTOR
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever
from lab.retrieval.stage_timer import NoTimer, StageTimer
from lab.systems.contract import (
    NOTHING,
    Arm,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    MemorySystem,
    Recall,
    Retriever,
    Status,
    Stored,
    Writes,
)
from lab.systems.kit import Kit, Workshop
from lab.systems.openclaw.capture.pipeline import allowed, captures
from lab.systems.openclaw.capturing import TurnCapture
from lab.systems.openclaw.config.file import embedder_of, locate
from lab.systems.openclaw.config.resolve import describe, refuse_rerank, resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.config.table import MAX_CHARS, MAX_ITEMS
from lab.systems.openclaw.config.values import missing
from lab.systems.openclaw.docs.globs import SourceFile, plan_ingest
from lab.systems.openclaw.docs.lane import DocsLane, open_lane, packed_lane
from lab.systems.openclaw.explain import RecallRecord, explain_recall
from lab.systems.openclaw.finish import RECEIPTS, finish, item_of
from lab.systems.openclaw.js import js_json
from lab.systems.openclaw.many import Group, Many, group_of
from lab.systems.openclaw.memory import Listing, row_of
from lab.systems.openclaw.presets import ABLATION_STEPS, RECOMMENDED, recommended
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.stages import SILENT
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn
from lab.systems.openclaw.seed.stages import recall as seed_recall
from lab.systems.openclaw.select.outcome import Selection, recall_plans
from lab.systems.openclaw.select.policies import POLICIES, policy_named
from lab.systems.openclaw.upstream.stages import recall as upstream_recall
from lab.systems.spec import ArmSpec

# The least that workingSet.maxChars may be.
WS_CHARS = 240


@dataclass(frozen=True, slots=True)
class Configured:
    """An arm with the engine's configuration."""

    name: str
    system: str
    config: EngineConfig
    claims: ClassVar[tuple[str, ...]] = ("relevant", "words", "meaning", "embedder")


class Widening(Configured):
    """An arm without a budget: its ranking can be cut."""

    __slots__ = ()

    def widened(self, items: int) -> Self:
        """Return the same arm with ``items`` items, or the most that its profile allows."""
        return replace(self, config=_with_items(self.config, items))


class Budgeted(Configured):
    """An arm with the plugin's ``budget``, which counts UTF-16 units and drops items as it is configured to."""

    __slots__ = ()

    def with_tokens(self, tokens: int) -> Self:
        """Return the same arm with the ``budget.maxChars`` that so many tokens of ASCII fill, and the most items.

        ``budget`` does not count the Working Set, which is given up to a third of the characters. Other scripts take
        more tokens for each character, so the lab also cuts what is too long.
        """
        config, chars = _with_items(self.config, None), most_ascii(tokens)
        working_set = config.working_set
        if working_set.enabled:
            working_set = replace(working_set, max_chars=min(working_set.max_chars, max(WS_CHARS, chars // 3)))
            chars -= working_set.max_chars
        most = int(min(MAX_CHARS.high_in(config.profile), max(MAX_CHARS.low, chars)))
        budget = config.budget._replace(enabled=True, max_chars=most)
        return replace(self, config=replace(config, budget=budget, working_set=working_set))


def _with_items(config: EngineConfig, items: int | None) -> EngineConfig:
    """Return a configuration with ``items`` items (None: the most), as far as its profile allows."""
    high = int(MAX_ITEMS.high_in(config.profile))
    most = high if items is None else min(items, high)
    return replace(config, auto_recall=replace(config.auto_recall, max_items=most))


class DerivedRows:
    """The stored Working Sets of one conversation, and which of them were reported as writes.

    They are in the ``listing``, and in the ``table`` if the engine searches what it writes (None: no search returns
    them).
    """

    def __init__(self, listing: Listing, table: StoreRetriever | None) -> None:
        self._listing, self._table = listing, table
        self._stored: dict[str, Row] = {}
        self._changed: dict[str, Row] = {}
        self._reported: set[str] = set()

    def __contains__(self, identity: str) -> bool:
        return identity in self._stored

    def write(self, row: Row) -> None:
        """Store a row in place of the earlier one; outside a table, an equal text is not stored again."""
        before = self._stored.get(row.id)
        if before is not None:
            if self._table is None and before.text == row.text:
                return
            self._listing.remove(before)
        if self._table is not None:
            self._table.write([row])
        self._listing.add([row])
        self._stored[row.id] = self._changed[row.id] = row

    def writes(self, turn: Turn) -> Writes:
        """Return what a recall stored since the last call.

        A probe stores nothing in profile ``seed``. In the public plugin it does, which is not reported, because the
        next turn replaces it.
        """
        changed, self._changed = self._changed, {}
        if not turn.prompt.remembered:
            return NOTHING
        rows = turn.memories.by_id
        sources = tuple(rows[identity].key for identity in turn.synthesised if identity in rows)
        stored = [Stored(row.key, row.text, sources) for row in changed.values()]
        new = tuple(entry for entry in stored if entry.id not in self._reported)
        self._reported |= changed.keys()
        return Writes(new, tuple(entry for entry in stored if entry not in new))


# The full flow exactly as configured.
ENGINE = "engine"
FLOWS = {"seed": seed_recall, "upstream": upstream_recall}


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> Turn:
    """Run the flow of the configuration's profile and return the completed turn.

    Its ``context`` is the injected text; it is empty if the prompt was skipped, nothing was selected, or a stage
    failed. Errors of stages are recorded, not raised. ``state`` is updated with what was injected. Timings are
    nanoseconds by stage (:mod:`lab.retrieval.stage_timer`).
    """
    return FLOWS[config.profile](prompt, config, memories, state)


def make(spec: ArmSpec) -> PolicyArm | FlowArm:
    """Make an arm. Raise :class:`UnusableInput` for a configuration that the engine refuses."""
    config = resolve(spec.config, spec.profile, max_items=spec.max_items, where=spec.where)
    refuse_rerank(config.rerank, spec.where, spec.system)
    if config.upstream and spec.system in (*ABLATION_STEPS, RECOMMENDED):
        raise UnusableInput(
            f"arm {spec.name!r}: profile upstream does not support it; use profile seed, or the arm {ENGINE!r}"
        )
    if spec.system == RECOMMENDED:
        # Merge the configuration as written, not as resolved: defaults must not override recommended values.
        written = locate(spec.config, spec.where)
        config = resolve(recommended(written), spec.profile, max_items=spec.max_items, where=spec.where)
    elif spec.system in ABLATION_STEPS:
        config = ABLATION_STEPS[spec.system].config(config)
    arm_class = PolicyArm if spec.system in POLICIES else FlowArm
    unsupported = missing(locate(spec.config, spec.where))
    return arm_class(spec.name, spec.system, config, spec.embedder or embedder_of(spec.raw), unsupported)


@dataclass(frozen=True, slots=True)
class _EngineArm(Configured):
    """The engine under a configuration. ``embedder`` is the model that the configuration names, if any.

    ``missing`` are the configuration keys that the lab does not support.
    """

    embedder: str | None = None
    missing: tuple[str, ...] = ()
    # Whether earlier turns change later answers, as in the full flow.
    stateful: ClassVar[bool] = False

    def describe(self) -> ArmInfo:
        """Return name and configuration."""
        cutoff = self.config.max_items
        files = plan_ingest(self.config.docs).files if self.documented else ()
        return ArmInfo(
            self.name,
            self.system,
            cutoff,
            cutoff,
            describe(self.config),
            at_most=None if self.stateful else cutoff,
            writes=captures(self.config) and bool(allowed(self.config.auto_capture)),
            stateful=self.stateful,
            labelled=True,
            inputs=_inputs(files),
            embedder=self.embedder,
            missing=self.missing,
            derives=self.derives,
        )

    @property
    def retrieval(self) -> Retrieval:
        """The search settings."""
        return Retrieval(self.config.text, self.config.embedding)

    @property
    def shares(self) -> bool:
        """Whether other arms may share its candidates."""
        return True

    @property
    def documented(self) -> bool:
        """Whether documents are consulted."""
        return self.stateful and self.config.docs.enabled

    @property
    def derives(self) -> bool:
        """Whether recalls store a Working Set."""
        return False

    @property
    def policy(self) -> str:
        """The selection policy."""
        return self.config.auto_recall.selection_mode if self.stateful else self.system

    def group_key(self) -> Hashable | None:
        """Return what the arms of one batch share (:mod:`lab.systems.openclaw.many`)."""
        return group_of(self.config, self.policy, flow=self.stateful)

    def open_many(self, arms: Sequence[Arm], kit: Kit, memories: Sequence[Memory]) -> Many:
        """Return one system for all arms of a group."""
        configs = [arm.config for arm in arms if isinstance(arm, _EngineArm)]
        return Many(Group(configs, self.policy, self.stateful), kit, memories)


@dataclass(frozen=True, slots=True)
class PolicyArm(_EngineArm, Widening):
    """A selection policy alone, in any profile: no repeat suppression, no Working Set, no budget."""

    def open(self, kit: Kit) -> PolicySystem:
        """Open the system, which has no state."""
        return PolicySystem(self, kit)


@dataclass(frozen=True, slots=True)
class FlowArm(_EngineArm, Budgeted):
    """The full flow of a profile."""

    stateful: ClassVar[bool] = True

    @property
    def derives(self) -> bool:
        """Whether recalls store a Working Set (E-28). The public plugin writes it even if it is read-only."""
        config, settings = self.config, self.config.working_set
        on = config.auto_recall.enabled and settings.enabled and settings.persist
        return on and (config.upstream or not config.read_only)

    @property
    def shares(self) -> bool:
        """False if the plugin writes its Working Set into the table that it searches."""
        settings = self.config.working_set
        return not (self.config.upstream and settings.enabled and settings.persist)

    def prepare(self, workshop: Workshop) -> bytes | None:
        """Return the index of the documents, if they are consulted."""
        if not self.documented:
            return None
        with (
            tempfile.TemporaryDirectory(prefix="recall-lab-") as folder,
            closing(open_lane(self.config.docs, workshop, Path(folder))) as lane,
        ):
            return lane.index.packed() if lane.index else None

    def open(self, kit: Kit) -> FlowSystem:
        """Open a fresh engine."""
        return FlowSystem(self, kit)


class _Engine(MemorySystem):
    """Base of both systems: how they retrieve candidates and explain a recall."""

    def __init__(self, arm: PolicyArm | FlowArm, kit: Kit) -> None:
        self.arm, self.config = arm, arm.config
        self.retrieval = arm.retrieval
        # A system that writes to the table that it searches has a table of its own.
        self._others = deque(kit.others if arm.config.upstream and isinstance(arm, FlowArm) else ())
        shares = arm.shares and not kit.captures and not self._others
        self.retrieval_key = arm.retrieval if shares else None
        self.turn: Turn | None = None
        # The last candidates, if the search is not shared.
        self.context: QueryContext | None = None
        self._kit = kit
        reads = arm.config.working_set.enabled or arm.config.active_phases.hard_rules
        self._listing = Listing(eager=reads or kit.captures)
        self._table = None if shares else kit.search(arm.retrieval)
        self._capture: TurnCapture | None = None
        if kit.captures and self._table is not None:
            self._capture = TurnCapture(arm.config, kit, self._table, self._listing)

    def open_retriever(self) -> Retriever:
        """Return a retriever over the memories that the loop provides."""
        return self._kit.retriever(self.retrieval)

    def recall(self, ask: Ask) -> Recall:
        """Search the private table, then run :meth:`select`."""
        assert self._table is not None  # noqa: S101 - the loop calls recall only without a shared search
        started = time.perf_counter_ns()
        context = self.context = self._table.retrieve(ask.text, ask.faults)
        retrieved = time.perf_counter_ns() - started
        answer = self.select(ask, context)
        answer.timings["retrieve"] = retrieved
        return answer

    @abstractmethod
    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Select from the candidates."""

    def observe(self, turn: model.Turn) -> Writes:
        """Capture memories at the end of a turn of the agent, if the loop provides none."""
        return NOTHING if self._capture is None else self._capture.observe(turn)

    def close(self) -> None:
        """Close the table if it is private."""
        if self._table is not None:
            self._table.close()

    def explain(
        self, ask: Ask, candidates: QueryContext | None, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain why each memory was injected or not (:mod:`lab.systems.openclaw.explain`)."""
        record = RecallRecord(self.config, ask, recall, self.turn)
        return explain_recall(record, _required(candidates or self.context), relevant, detail)


def _required(candidates: QueryContext | None) -> QueryContext:
    if candidates is None:
        raise ValueError("nothing was recalled yet")
    return candidates


class PolicySystem(_Engine):
    """A selection policy over the tiers."""

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Select, then build the injected block and the receipt."""
        timer = NoTimer() if ask.items_only else StageTimer()
        limit, fusion = self.config.auto_recall.search_limit, self.config.fusion
        tiers = Tiers(candidates.view, candidates.rows, limit, candidates.shared, timer, fusion)
        selection = timer.stage("select", lambda: self.choose(tiers, ask.scope))
        recall = finish(
            self.arm.system,
            ask,
            selection,
            lambda: tiers.lane_summaries(RECEIPTS),
            candidates,
            self.config.max_items,
            timer,
            explain_all=self.config.explains_all,
        )
        if ask.items_only:
            return recall
        missing_must = displaced(tiers, ask.scope, self.config.max_items, recall, candidates.by_id)
        receipt = recall.receipt
        if self.config.explains_all and missing_must:
            ids = {
                candidates.by_id[identity].key: identity
                for identity in tiers.must_first(ask.scope, self.config.max_items)
            }
            floor = self.config.floor_under(self.arm.system)
            candidates_of = {hit.id for result in tiers.results for hit in result.fused}

            def reason(identity: str) -> str:
                return "filtered" if floor and identity not in candidates_of else "quota"

            receipt = {**receipt, "notInjected": {ids[key]: reason(ids[key]) for key in missing_must}}
        receipt_text = js_json(receipt) if self.config.upstream else None
        return replace(recall, receipt=receipt, receipt_text=receipt_text, displaced=missing_must)

    def choose(self, tiers: Tiers, scope: str | None) -> Selection:
        """Run the policy (E-12). Tiers are searched and fused when the policy requests them."""
        settings = self.config.auto_recall
        if tiers.silent(scope, self.config.silence):
            return Selection([], [], [SILENT], settings.quota if self.arm.system == "tier_quota_v1" else None)
        plans = recall_plans(unknown_fallback=settings.include_unknown_fallback)
        choose = policy_named(self.arm.system)
        floor = self.config.floor_under(self.arm.system)
        return choose(plans, settings.max_items, settings, lambda plan: tiers.fused(plan, scope, floor))


def _inputs(files: Iterable[SourceFile]) -> dict[str, str]:
    """Return the sha256 of files by their citation, with ``~n`` behind it for the n-th file that has it."""
    inputs: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for source in files:
        name = f"{source.repo}:{source.path}"
        seen[name] += 1
        inputs[name if seen[name] == 1 else f"{name}~{seen[name]}"] = sha256_file(source.file)
    return inputs


class FlowSystem(_Engine):
    """The flow with its state. ``turn`` is the last turn after the flow ran.

    If the plugin writes its Working Set into the table that it searches, the table is private: :meth:`remember` adds
    to it and :meth:`recall` searches it.
    """

    def __init__(self, arm: FlowArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self._state = RecallState()
        self._docs: DocsLane | None = None
        if arm.documented:
            self._docs = packed_lane(self.config.docs, kit.prepared, kit.embedder, kit.vectors)
        self._no_memories = frozenset(row.key for row in self._others)
        # Profile seed searches no row that it derives, even if its table is private.
        self._derived = DerivedRows(self._listing, None if arm.shares else self._table)

    def remember(self, memories: Sequence[Memory]) -> None:
        """Add new memories to the listing, and to the table if it is private."""
        self.note(self._kit.rows.of(memories))

    def note(self, rows: Sequence[Row]) -> None:
        """Add rows to the listing, and to the table if it is private."""
        self._listing.add(rows)
        if self._table is not None:
            self._table.add(rows)

    def forget(self, keys: Sequence[str]) -> None:
        """Remove deleted memories."""
        rows = self._kit.rows.known(keys)
        for row in rows:
            self._listing.remove(row)
        if self._table is not None:
            self._table.remove(rows)

    def recall(self, ask: Ask) -> Recall:
        """Add the rows that are no memories, as the plugin's table has them, then search it.

        A Working Set that the recorded engine stored at this turn or later does not replace one of this engine.
        """
        while self._others and self._others[0].created_at < ask.now_ms:
            row = row_of(self._others.popleft())
            if row.id not in self._derived:
                self.note([row])
        return super().recall(ask)

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Run the flow and return the items that are whole in the block."""
        docs = self._docs
        if docs is not None:
            index = None if "docs_missing" in ask.faults else docs.index
            docs = DocsLane(docs.settings, index, vectors=ask.faults.isdisjoint(NO_VECTOR))
        write = None if self.arm.shares and ask.probe else self._derived.write
        memories = Memories.of(candidates, self._listing, docs, write)
        prompt = Prompt(ask.text, ask.now_ms, ask.session, ask.scope, ask.scoping, not ask.probe)
        turn = self.turn = recall(prompt, self.config, memories, self._state)
        if turn.error is not None:
            # The plugin would continue without memories. Here the error is the lab's, so the recall must fail.
            raise turn.error
        kept = {slot.id for slot in turn.kept}
        decisions = turn.additions.get("decisions", {})
        items = tuple(
            item_of(pick, candidates.by_id[pick.candidate.id], decisions.get(pick.candidate.id, pick.decision))
            for pick in turn.final
            if pick.candidate.id in kept and candidates.by_id[pick.candidate.id].key not in self._no_memories
        )
        status: Status = "skipped" if turn.skip_reason else "degraded" if ask.faults - HARMLESS else "ok"
        answer = Recall(
            items,
            len(items),
            turn.context,
            turn.receipt or {},
            turn.timings,
            status,
            self._memories(candidates.by_id[identity].key for identity in turn.carried),
            turn.duplicates(),
            log=tuple(text for _, text in turn.log),
            receipt_text=js_json(turn.receipt or {}) if self.config.upstream else None,
            writes=self._derived.writes(turn),
            evicted=turn.packed.receipt["droppedCount"] if turn.packed else 0 if turn.receipt else None,
        )
        if turn.skip_reason:
            return answer
        missing_must = displaced(turn.tiers, turn.filter_scope, self.config.max_items, answer, candidates.by_id)
        return replace(answer, displaced=self._memories(missing_must))

    def _memories(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if key not in self._no_memories)

    def close(self) -> None:
        """Close the index of the documents, and the table if it is private."""
        if self._docs is not None:
            self._docs.close()
        super().close()


def displaced(tiers: Tiers, scope: str | None, slots: int, recall: Recall, rows: Mapping[str, Row]) -> tuple[str, ...]:
    """Return the keys of the first ``slots`` candidates of the must tier that a recall neither injected nor pinned.

    These are the candidates that ``tier_first_v1`` would have injected in the turn's scope (E-14).
    """
    present = {item.id for item in recall.items[: recall.injected]}.union(recall.pinned)
    keys = (rows[identity].key for identity in tiers.must_first(scope, slots))
    return tuple(key for key in keys if key not in present)


OLD_POLICY, NEW_POLICY = "tier_first_v1", "tier_quota_v1"


def with_policy(config: EngineConfig, policy: str) -> EngineConfig:
    """Return a configuration whose one line ``autoRecall.selectionMode`` names the policy."""
    return replace(config, auto_recall=replace(config.auto_recall, selection_mode=policy))


@dataclass(frozen=True, slots=True)
class SwitchedArm(FlowArm):
    """The flow under its configuration, except at the turns ``switched``, where it has the new policy.

    Store, history and stored Working Sets are kept over both switches, as in an engine that is not restarted.
    """

    switched: frozenset[str] = frozenset()

    def open(self, kit: Kit) -> FlowSystem:
        """Open a fresh engine."""
        return _SwitchedSystem(self, kit)


class _SwitchedSystem(FlowSystem):
    """A flow that takes its policy from the turn."""

    def __init__(self, arm: SwitchedArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self._switched = arm.switched
        self._configs = {policy: with_policy(arm.config, policy) for policy in (OLD_POLICY, NEW_POLICY)}

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Run the flow under the policy of this turn."""
        self.config = self._configs[NEW_POLICY if ask.turn in self._switched else OLD_POLICY]
        return super().select(ask, candidates)
