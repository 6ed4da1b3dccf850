"""The state of one turn in the flow: its input, the results of the stages, and its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lab.base.utf16 import js_length
from lab.recordings.model import GLOBAL
from lab.retrieval.contract import Row
from lab.retrieval.retrievers import QueryContext
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.memory import Listing
from lab.systems.openclaw.near_duplicate import says_the_same
from lab.systems.openclaw.recall.block import Packed, Slot
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.scope import barred, scope_plan
from lab.systems.openclaw.recall.working_set import WHOLE, normal_line
from lab.systems.openclaw.select.outcome import Picked, Selection


class History:
    """Ids injected in each recall turn, by session key."""

    def __init__(self) -> None:
        self._turns: dict[str, list[frozenset[str]]] = {}
        self._lifetime: Counter[str] = Counter()

    def recent(self, session: str, window: int) -> Counter[str]:
        """Return in how many of the session's last ``window`` recall turns each id was injected."""
        turns = self._turns.get(session, ())
        return Counter(identity for turn in turns[-window:] for identity in turn) if window > 0 else Counter()

    def times(self, identity: str) -> int:
        """Return how many recall turns of any session injected an id."""
        return self._lifetime[identity]

    def remember(self, session: str, ids: Iterable[str]) -> None:
        """Record a recall turn: the ids of the memories kept in the injected block."""
        turn = frozenset(ids)
        self._turns.setdefault(session, []).append(turn)
        self._lifetime.update(turn)


class Prompt(NamedTuple):
    """What the host passes before a turn.

    ``scoping`` says where the scope comes from: the ``tags`` of the prompt, ``given`` in ``scope``, or nowhere
    (``open``: every scope is searched). ``session`` is the key under which repeats are counted, None for a query
    outside any session. ``remembered``: whether this recall becomes part of the history.
    """

    text: str
    now_ms: int
    session: str | None = ""
    scope: str | None = None
    scoping: str = "tags"
    remembered: bool = True


@dataclass(frozen=True, slots=True)
class Memories(QueryContext):
    """The store as the flow sees it for one prompt. ``write`` stores a Working Set row, None if none is stored."""

    listing: Listing = field(default_factory=Listing)
    docs: DocsLane | None = None
    write: Callable[[Row], None] | None = None

    @classmethod
    def of(
        cls,
        store: QueryContext,
        listing: Listing,
        docs: DocsLane | None = None,
        write: Callable[[Row], None] | None = None,
    ) -> Memories:
        """Return the content of a store at a query, with what a flow needs besides."""
        content = (store.view, store.rows, store.by_id, store.shared, store.no_vector, store.gone)
        return cls(*content, listing, docs, write)


@dataclass(slots=True)
class RecallState:
    """The state kept from turn to turn in one conversation of one arm: which ids were injected."""

    history: History = field(default_factory=History)


class Factors(NamedTuple):
    """The factors of a candidate's score (E-56). A disabled factor is 1."""

    relevance: float = 1.0
    scope_match: float = 1.0
    recency: float = 1.0
    importance_prior: float = 1.0
    novelty: float = 1.0
    repeat: float = 1.0
    trust: float = 1.0
    exact: float = 1.0
    current: float = 1.0

    @property
    def base(self) -> float:
        """The score before repeat suppression."""
        # Novelty comes last, because it alone differs between configurations that are selected together.
        fixed = self.relevance * self.scope_match * self.recency * self.importance_prior * self.trust * self.exact
        return fixed * self.current * self.novelty

    @property
    def product(self) -> float:
        """The final score."""
        return self.base * self.repeat


class Scoped(NamedTuple):
    """The trimmed prompt and its scope; see the fields of :class:`Turn`."""

    text: str
    scope: str = GLOBAL
    scope_mode: str = GLOBAL
    scope_invalid: bool = False
    filter_scope: str | None = None


class Skipped(NamedTuple):
    """Why a turn ends before anything is searched."""

    skip_reason: str
    rejected: list[str]
    receipt: dict[str, Any] | None
    done: bool = True


class WithoutVector(NamedTuple):
    """What is missing, with the reason why there is no query vector."""

    rejected: list[str]


class Taken(NamedTuple):
    """A selection over scopes, what it could not have, and the log with its fallback."""

    selection: Selection
    fallback: dict[str, Any] | None
    rejected: list[str]
    log: list[tuple[str, str]]


class Documented(NamedTuple):
    """The documents that were found."""

    docs: list[Slot]
    cold_lane: dict[str, Any] | None
    log: list[tuple[str, str]]


class Collected(NamedTuple):
    """The slots in the order of the block."""

    slots: list[Slot]
    additions: dict[str, Any]


class Injected(NamedTuple):
    """The block as it fits, and the receipt."""

    packed: Packed | None
    receipt: dict[str, Any] | None
    log: list[tuple[str, str]]


class Failed(NamedTuple):
    """A turn that ends because a stage raised: nothing is injected."""

    error: Exception
    log: list[tuple[str, str]]
    slots: list[Slot]
    hits: list[Picked]
    final: list[Picked]
    packed: Packed | None = None
    receipt: dict[str, Any] | None = None
    done: bool = True


@dataclass(slots=True)
class Turn:
    """The turn so far: its input, and what the stages decided.

    A stage reads it and returns a record, whose fields :meth:`add` takes over; nothing else changes a turn.

    ``filter_scope`` None searches every scope; ``done`` ends the flow; ``error`` is the exception of a failed stage.
    ``silent``: the search found nothing relevant enough to inject (``lab.silence``). ``hard`` are hard rules injected
    as items, ``waiting`` those without a slot of their own. ``synthesised`` are ids of the memories that the Working
    Set was built from. ``log`` has level and text of what the plugin would log, except the receipt. ``exempt``,
    ``excluded``, ``stale``, ``outdated`` and ``factors`` record by id what happened to candidates; ``outdated`` has the
    id of the memory that replaces one, blank if it has ended. Profiles subclass it and define
    which memories their Working Set covers.
    """

    prompt: Prompt
    config: EngineConfig
    memories: Memories
    state: RecallState
    text: str = ""
    scope: str = GLOBAL
    scope_mode: str = GLOBAL
    scope_invalid: bool = False
    filter_scope: str | None = None
    skip_reason: str | None = None
    silent: bool = False
    done: bool = False
    error: Exception | None = None
    selection: Selection = field(default_factory=lambda: Selection([], [], []))
    fallback: dict[str, Any] | None = None
    rejected: list[str] = field(default_factory=list)
    hits: list[Picked] = field(default_factory=list)
    final: list[Picked] = field(default_factory=list)
    hard: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    pinned: Slot | None = None
    synthesised: tuple[str, ...] = ()
    docs: list[Slot] = field(default_factory=list)
    cold_lane: dict[str, Any] | None = None
    working_set: dict[str, Any] | None = None
    factors: dict[str, Factors] = field(default_factory=dict)
    exempt: dict[str, str] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    outdated: dict[str, str] = field(default_factory=dict)
    additions: dict[str, Any] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    packed: Packed | None = None
    receipt: dict[str, Any] | None = None
    log: list[tuple[str, str]] = field(default_factory=list)
    tiers: Tiers = field(init=False)
    timings: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        memories, limit = self.memories, self.config.auto_recall.search_limit
        self.tiers = Tiers(memories.view, memories.rows, limit, memories.shared, fusion=self.config.fusion)
        self.timings = self.tiers.timer.timings

    def add(self, record: NamedTuple | None) -> None:
        """Take over what a stage decided; the fields of its record have the names of the turn's."""
        if record is not None:
            for name, value in record._asdict().items():
                setattr(self, name, value)

    @property
    def barred(self) -> str | None:
        """The reason why fallbacks are suppressed; None if they are allowed."""
        return barred(self.config.scope_policy, invalid=self.scope_invalid)

    @property
    def scopes(self) -> Sequence[tuple[str | None, str]]:
        """The scopes to search in order, with their origin."""
        if self.filter_scope is None:
            return [(None, "primary")]
        return [*scope_plan(self.scope, self.config.scope_policy, allow_fallback=self.barred is None)]

    @property
    def working_set_slot(self) -> Slot | None:
        """The Working Set's slot in the block, where it may have been shortened; None if there is none."""
        return next((slot for slot in self.kept if self.pinned and slot.id == self.pinned.id), None)

    @property
    def covered(self) -> tuple[str, ...]:
        """Ids of the memories that the Working Set in the block covers."""
        return ()

    @property
    def carried(self) -> tuple[str, ...]:
        """Ids of the memories that the Working Set contains in full, so that they are in the prompt like items."""
        return tuple(key for key in self.covered if self.is_whole(self.memories.by_id[key]))

    def is_whole(self, row: Row) -> bool:
        """Whether the Working Set's line of a memory is its full text."""
        return js_length(normal_line(row.text, WHOLE)) <= self.config.working_set.max_item_chars

    def working_set_receipt(self, slots: Sequence[Slot]) -> dict[str, Any] | None:
        """Return the receipt of the Working Set for a block of these slots."""
        return self.working_set

    def duplicates(self) -> int | None:
        """Return how many injected memories duplicate a line of the Working Set; None without one."""
        pinned = self.working_set_slot
        if pinned is None:
            return None
        body = pinned.text.partition("\nopen_questions:")[0]
        lines = [line[2:] for line in body.split("\n") if line.startswith("- ")]
        memories = [slot for slot in self.kept if slot.id in self.memories.by_id and slot.id != pinned.id]
        return sum(any(says_the_same(slot.text, line) for line in lines) for slot in memories)

    @property
    def context(self) -> str:
        """The text put before the prompt; empty if nothing is injected."""
        return self.packed.context if self.packed else ""

    @property
    def kept(self) -> tuple[Slot, ...]:
        """The slots that are complete in the injected text."""
        return self.packed.intact if self.packed else ()
