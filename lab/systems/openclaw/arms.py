"""openclaw-mem-engine behind the seam: its selection policies alone, and the whole flow of a profile."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from lab.errors import UnusableInput
from lab.files import sha256_file
from lab.recordings.model import Memory
from lab.retrieval.booking import Booking, Unbooked
from lab.retrieval.faults import HARMLESS
from lab.retrieval.query_context import Found, Retrieval
from lab.retrieval.row import Row
from lab.systems.contract import Arm, ArmInfo, Ask, Detail, Explained, MemorySystem, Recall, Retriever, Status
from lab.systems.kit import Kit, Workshop
from lab.systems.openclaw.ablation import ABLATION_STEPS
from lab.systems.openclaw.config.file import embedder_of, locate
from lab.systems.openclaw.config.missing import missing
from lab.systems.openclaw.config.resolve import describe, resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.docs.globs import plan_ingest
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.docs.open import open_lane, packed_lane
from lab.systems.openclaw.explain import Told, explain_recall
from lab.systems.openclaw.finish import RECEIPTS, finish, item_of
from lab.systems.openclaw.flow import recall
from lab.systems.openclaw.listing import Listing
from lab.systems.openclaw.many.system import Group, Many, group_of
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn
from lab.systems.openclaw.recommended import ARM as RECOMMENDED
from lab.systems.openclaw.recommended import recommended
from lab.systems.openclaw.select.outcome import Selection
from lab.systems.openclaw.select.policies import POLICIES, policy_named
from lab.systems.openclaw.select.tiers import recall_plans
from lab.systems.openclaw.upstream.js import js_json
from lab.systems.spec import ArmSpec

# The whole flow as the configuration says, nothing added and nothing taken away.
ENGINE = "engine"


def make(spec: ArmSpec) -> PolicyArm | FlowArm:
    """The arm that was asked for; :class:`UnusableInput` for a configuration that the engine refuses."""
    config = resolve(spec.config, spec.profile, max_items=spec.max_items, where=spec.where)
    if config.upstream and spec.system in (*ABLATION_STEPS, RECOMMENDED):
        raise UnusableInput(
            f"arm {spec.name!r}: the public plugin has nothing of the kind; use profile seed, or the arm {ENGINE!r}"
        )
    if spec.system == RECOMMENDED:
        # What was written is merged, and not what it came to: a default is no wish of the operator's.
        own = locate(spec.config, spec.where)
        config = resolve(recommended(own), spec.profile, max_items=spec.max_items, where=spec.where)
    elif spec.system in ABLATION_STEPS:
        config = ABLATION_STEPS[spec.system].config(config)
    made = PolicyArm if spec.system in POLICIES else FlowArm
    absent = missing(locate(spec.config, spec.where))
    return made(spec.name, spec.system, config, spec.embedder or embedder_of(spec.raw), absent)


@dataclass(frozen=True, slots=True)
class _EngineArm(ABC):
    """The engine under a configuration. ``embedder`` is the model that the configuration names, if it names one.

    ``missing`` are keys of what it asks for and nothing here reads.
    """

    name: str
    system: str
    config: EngineConfig
    embedder: str | None = None
    missing: tuple[str, ...] = ()

    def describe(self) -> ArmInfo:
        """Name and configuration."""
        cutoff = self.config.max_items
        files = plan_ingest(self.config.docs).files if self.documented else ()
        return ArmInfo(
            self.name,
            self.system,
            cutoff,
            cutoff,
            describe(self.config),
            at_most=None if self.stateful else cutoff,
            stateful=self.stateful,
            labelled=True,
            inputs={f"{file.repo}:{file.path}": sha256_file(file.file) for file in files},
            embedder=self.embedder,
            missing=self.missing,
        )

    @property
    def retrieval(self) -> Retrieval:
        """How the engine searches."""
        return Retrieval(self.config.text, self.config.embedding)

    @property
    def shares(self) -> bool:
        """Not where the plugin writes its Working Set into the table that it searches."""
        return True

    @property
    def documented(self) -> bool:
        """Whether documents are consulted."""
        return False

    @property
    def stateful(self) -> bool:
        """Whether it has a past, which the whole flow has."""
        return False

    @property
    @abstractmethod
    def policy(self) -> str:
        """The policy that selects."""

    def group_key(self) -> Hashable | None:
        """What arms share that are done at once (:mod:`lab.systems.openclaw.many`)."""
        return group_of(self.config, self.policy, flow=self.stateful)

    def open_many(self, arms: Sequence[Arm], kit: Kit, memories: Sequence[Memory]) -> Many:
        """One system in place of all arms of a group."""
        configs = [arm.config for arm in arms if isinstance(arm, _EngineArm)]
        return Many(Group(configs, self.policy, self.stateful), kit, memories)


@dataclass(frozen=True, slots=True)
class PolicyArm(_EngineArm):
    """A selection policy alone, in every profile: no repeat suppression, no working set, no budget."""

    def open(self, kit: Kit) -> PolicySystem:
        """It has no past."""
        return PolicySystem(self, kit)

    @property
    def policy(self) -> str:
        """The policy that selects."""
        return self.system


@dataclass(frozen=True, slots=True)
class FlowArm(_EngineArm):
    """The whole flow of a profile."""

    @property
    def documented(self) -> bool:
        """Whether documents are consulted."""
        return self.config.docs.enabled

    @property
    def stateful(self) -> bool:
        """Whether it has a past."""
        return True

    @property
    def shares(self) -> bool:
        """Not where the plugin writes its Working Set into the table that it searches."""
        settings = self.config.working_set
        return not (self.config.upstream and settings.enabled and settings.persist)

    def prepare(self, workshop: Workshop) -> bytes | None:
        """The index of the documents, where they are consulted."""
        if not self.documented:
            return None
        lane = open_lane(self.config.docs, workshop)
        return lane.index.packed() if lane.index else None

    def open(self, kit: Kit) -> FlowSystem:
        """The engine without a past."""
        return FlowSystem(self, kit)

    @property
    def policy(self) -> str:
        """The policy that selects."""
        return self.config.auto_recall.selection_mode


class _Engine(MemorySystem):
    """What both systems share: the candidates they look at, and how they explain themselves."""

    def __init__(self, arm: PolicyArm | FlowArm, kit: Kit) -> None:
        self.arm, self.config = arm, arm.config
        self.retrieval = arm.retrieval
        self.retrieval_key = arm.retrieval if arm.shares else None
        self.turn: Turn | None = None
        # What was found last, where nobody else searches it.
        self.found: Found | None = None
        self._kit = kit

    def open_retriever(self) -> Retriever:
        """A search of the memories from outside."""
        return self._kit.retriever(self.retrieval)

    @abstractmethod
    def select(self, ask: Ask, found: Found) -> Recall:
        """Choose from what was found."""

    def explain(
        self, ask: Ask, found: Found | None, recall: Recall, wanted: Sequence[str], detail: Detail
    ) -> Explained:
        """Why each memory has its place, or lost it (:mod:`lab.systems.openclaw.explain`)."""
        told = Told(self.config, ask, recall, self.turn)
        return explain_recall(told, _there(found or self.found), wanted, detail)


def _there(found: Found | None) -> Found:
    if found is None:
        raise ValueError("nothing was recalled yet")
    return found


class PolicySystem(_Engine):
    """A selection policy over the tiers."""

    def select(self, ask: Ask, found: Found) -> Recall:
        """Choose, then build the injected block and the receipt."""
        booking = Unbooked() if ask.items_only else Booking()
        tiers = Tiers(found.view, found.rows, self.config.auto_recall.search_limit, found.shared, booking)
        selection = booking.stage("select", lambda: self.choose(tiers, ask.scope))
        recall = finish(
            self.arm.system, ask, selection, lambda: tiers.told(RECEIPTS), found, self.config.max_items, booking
        )
        if self.config.upstream and not ask.items_only:
            return replace(recall, receipt_text=js_json(recall.receipt))
        return recall

    def choose(self, tiers: Tiers, scope: str | None) -> Selection:
        """The selection alone (E-12): tiers are searched and fused as the policy asks for them."""
        settings = self.config.auto_recall
        plans = recall_plans(unknown_fallback=settings.include_unknown_fallback)
        choose = policy_named(self.arm.system)
        return choose(plans, settings.max_items, settings, lambda plan: tiers.fused(plan, scope))


class FlowSystem(_Engine):
    """The flow, with its past. ``turn`` is the last turn as the flow left it.

    The plugin writes its Working Set into the table that it searches, which nobody else may search then: it is fed by
    :meth:`remember`, and asked by :meth:`recall`.
    """

    def __init__(self, arm: FlowArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self._listing, self._state = Listing(), RecallState()
        self._docs: DocsLane | None = None
        if arm.documented:
            self._docs = packed_lane(self.config.docs, kit.prepared, kit.embedder, kit.vectors)
        self._own = None if arm.shares else kit.search(arm.retrieval)

    def remember(self, memories: Sequence[Memory]) -> None:
        """List what is new, and search it where the table is the system's own."""
        self.note(self._kit.rows.of(memories))

    def note(self, rows: Sequence[Row]) -> None:
        """The same of rows."""
        self._listing.add(rows)
        if self._own is not None:
            self._own.add(rows)

    def forget(self, keys: Sequence[str]) -> None:
        """Lose what is gone."""
        rows = self._kit.rows.known(keys)
        for row in rows:
            self._listing.remove(row)
        if self._own is not None:
            self._own.remove(rows)

    def recall(self, ask: Ask) -> Recall:
        """Search the system's own table, then as :meth:`select`."""
        assert self._own is not None  # noqa: S101 - only then is recall asked
        started = time.perf_counter_ns()
        found = self.found = self._own.retrieve(ask.text, ask.faults)
        retrieved = time.perf_counter_ns() - started
        answer = self.select(ask, found)
        answer.timings["retrieve"] = retrieved
        return answer

    def select(self, ask: Ask, found: Found) -> Recall:
        """Run the flow; the items returned are those that stand whole in the block."""
        docs = self._docs
        if docs is not None and "docs_missing" in ask.faults:
            docs = DocsLane(docs.settings, None)
        memories = Memories(
            found.view,
            found.rows,
            found.by_id,
            self._listing,
            found.shared,
            found.no_vector,
            docs,
            self._write if self._own is not None else None,
            found.gone,
        )
        prompt = Prompt(ask.text, ask.now_ms, ask.session, ask.scope, ask.scoping, not ask.probe)
        turn = self.turn = recall(prompt, self.config, memories, self._state)
        if turn.error is not None:
            # The plugin would go on without memories. Here it is a fault of this project's, which is no measurement.
            raise turn.error
        kept = {slot.id for slot in turn.kept}
        decided = turn.additions.get("decisions", {})
        items = tuple(
            item_of(one, found.by_id[one.candidate.id], decided.get(one.candidate.id, one.decision))
            for one in turn.final
            if one.candidate.id in kept
        )
        status: Status = "skipped" if turn.skip_reason else "degraded" if ask.faults - HARMLESS else "ok"
        return Recall(
            items,
            len(items),
            turn.context,
            turn.receipt or {},
            turn.timings,
            status,
            tuple(found.by_id[identity].key for identity in turn.carried),
            turn.duplicates(),
            log=tuple(text for _, text in turn.log),
            receipt_text=js_json(turn.receipt or {}) if self.config.upstream else None,
            evicted=(turn.receipt.get("budget") or {}).get("droppedCount", 0) if turn.receipt else None,
        )

    def _write(self, row: Row) -> None:
        """Keep a row that recall itself wrote, in the place of the one before."""
        if self._own is not None:
            before = self._own.known(row.id)
            if before is not None:
                self._listing.remove(before)
            self._own.write([row])
            self._listing.add([row])

    def close(self) -> None:
        """Close the table, where it is the system's own."""
        if self._own is not None:
            self._own.close()
