"""The interface between the lab and every memory system (docs/systems.md).

An :class:`Arm` is a system with its configuration; :meth:`Arm.open` creates the :class:`MemorySystem` of one
conversation. The loop (:mod:`lab.replay.loop`) gives it the memories of the recording, queries it before a turn, and
shows it every turn of every role. This module depends on no system.

All other protocols are optional. :mod:`lab.systems.budget` uses :class:`TakesTokens` and :class:`Widens`,
:mod:`lab.replay.sources` :class:`Rephrases` and :class:`Rehearses`, :mod:`lab.replay.admission` :class:`Claims` and
:class:`Proves`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from lab.recordings.model import Memory, Turn
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.systems.arm_info import ArmInfo as ArmInfo

if TYPE_CHECKING:
    import numpy as np

    from lab.systems.kit import Kit, Workshop


Status = Literal["ok", "skipped", "degraded", "failed"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One query to a memory system: the user's text at ``turn``.

    ``now_ms``: the time in the recording, in milliseconds since the epoch. ``scope`` None: scopes are not enforced.
    ``scoping``: where the scope comes from: ``given`` in ``scope``, the ``tags`` of the text, or nowhere (``open``).
    ``session`` None: the query belongs to no session. A ``probe`` belongs to no conversation and must not change the
    system's state. ``faults``: injected faults (:mod:`lab.retrieval.faults`). ``items_only``: the injected text, the
    receipt and the log are not used, so a system may leave them out. ``grades``: grades of the relevant memories, if
    :attr:`ArmInfo.needs_gold`.
    """

    turn: str
    text: str
    now_ms: int
    scope: str | None = None
    session: str | None = None
    probe: bool = False
    scoping: str = "open"
    faults: Faults = NO_FAULTS
    items_only: bool = False
    grades: Mapping[str, int] = field(default_factory=dict)


class Signals(NamedTuple):
    """Why an item has its rank, as far as the system reports it; fields that it does not report are None.

    ``id`` is the system's own id of the item. ``fts_rank`` and ``vec_rank`` are its ranks in the searches by words and
    by vectors, from 1; None: that search did not return it.
    """

    id: str | None = None
    label: str | None = None
    scope: str | None = None
    fts_rank: int | None = None
    vec_rank: int | None = None
    decision: str | None = None


class Item(NamedTuple):
    """A recalled memory; its position in the list is its rank.

    ``id`` is the key of a memory that the loop provided, or the id of one that the system created (:class:`Stored`).
    ``sources`` are the keys of the turns or memories that it came from.
    """

    id: str
    text: str
    sources: tuple[str, ...] = ()
    score: float = 0.0
    signals: Signals = Signals()
    tier: str | None = None


class Stored(NamedTuple):
    """A memory that a system wrote. ``sources`` are the keys of the turns or memories that it came from."""

    id: str
    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Writes:
    """The changes that a system made in its store; ``deleted`` are ids. ``receipt`` and ``log`` are without texts."""

    created: tuple[Stored, ...] = ()
    updated: tuple[Stored, ...] = ()
    deleted: tuple[str, ...] = ()
    receipt: Mapping[str, Any] = field(default_factory=dict)
    log: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.updated or self.deleted or self.receipt or self.log)


NOTHING = Writes()


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer of a system.

    ``items`` is its ranking, of which the first ``injected`` are injected; ``context`` is the exact text put before
    the prompt. ``receipt`` explains the recall in plain JSON values, without texts of memories; ``timings`` are
    nanoseconds by stage. ``pinned`` are ids of memories in the text besides the items; ``duplicates`` is how many
    injected items repeat the Working Set (None: there is none). ``writes`` are changes made by the recall itself;
    ``log`` the lines that the system would have logged.

    ``receipt_text`` is the receipt as the system itself writes it (None: as JSON); ``evicted`` is how many items a
    budget dropped (None: not reported).

    ``displaced`` are keys of must_remember memories that a must-first rule would have injected from the same
    candidates, and that this recall neither injected nor pinned; empty if the system has no tiers.
    ``status``: ``skipped`` if the system chose to inject nothing, ``degraded`` if a part of it failed and it reported
    so, ``failed`` if it raised or broke this contract. Only the loop creates failed recalls.
    """

    items: tuple[Item, ...] = ()
    injected: int = 0
    context: str = ""
    receipt: Mapping[str, Any] = field(default_factory=dict)
    timings: dict[str, int] = field(default_factory=dict)
    status: Status = "ok"
    pinned: tuple[str, ...] = ()
    duplicates: int | None = None
    writes: Writes = NOTHING
    log: tuple[str, ...] = ()
    receipt_text: str | None = None
    evicted: int | None = None
    displaced: tuple[str, ...] = ()


class Arm(Protocol):
    """A system with its configuration: immutable and picklable."""

    @property
    def name(self) -> str:
        """The name of the arm in the run."""
        ...

    def describe(self) -> ArmInfo:
        """Return what the lab needs to know about the arm."""
        ...

    def open(self, kit: Kit) -> MemorySystem:
        """Return a fresh system for one conversation."""
        ...


class MemorySystem(Protocol):
    """One arm in one conversation. Subclasses must override :meth:`recall`; the other methods are optional."""

    def remember(self, memories: Sequence[Memory]) -> None:
        """Receive memories of the recording created since the last call."""
        return

    def forget(self, keys: Sequence[str]) -> None:
        """Remove memories that the recording deletes at this point."""
        return

    def recall(self, ask: Ask) -> Recall:
        """Answer a query. If it raises, the recall counts as failed."""
        raise TypeError(f"{type(self).__name__} has no recall()")

    def observe(self, turn: Turn) -> Writes:
        """Receive a turn of any role, after the recall; store memories if ``kit.captures`` allows it."""
        return NOTHING

    def close(self) -> None:
        """Release resources."""
        return


class Candidates(Protocol):
    """A retriever's view for one query, such as :class:`lab.retrieval.retrievers.QueryContext`; not a list."""


class Retriever(Protocol):
    """Retrieves candidates for all arms with the same :attr:`SharedRetrieval.retrieval_key`."""

    def observe(self, memories: Sequence[Memory]) -> None:
        """Receive memories of the recording created since the last call."""
        ...

    def forget(self, keys: Sequence[str]) -> None:
        """Exclude memories from all further results."""
        ...

    def expect(self, texts: Sequence[str]) -> None:
        """Receive the texts of the coming queries, in order; some may be skipped."""
        ...

    def retrieve(self, ask: Ask) -> Candidates:
        """Return the candidates for a query, over everything observed."""
        ...

    def close(self) -> None:
        """Release resources."""
        ...


@runtime_checkable
class SharedRetrieval(Protocol):
    """A system that shares one search per turn with all arms of equal key; the loop calls ``select``, not ``recall``.

    ``retrieval_key`` is None if the system writes to the store that it searches; such a store cannot be shared.
    """

    retrieval_key: Hashable | None

    def open_retriever(self) -> Retriever:
        """Return a retriever for this key, which the loop feeds, queries and closes."""
        ...

    def select(self, ask: Ask, candidates: Any) -> Recall:
        """Select from the candidates of this system's retriever."""
        ...


@runtime_checkable
class Searches(Protocol):
    """An arm that states its search settings, so that texts can be embedded and split into words in bulk.

    ``retrieval`` is a :class:`lab.retrieval.retrievers.Retrieval`. ``shares``: its systems share their search, with
    ``retrieval`` as the key, so that candidates can be cached between runs.
    """

    @property
    def retrieval(self) -> Any:
        """The search settings."""
        ...

    @property
    def shares(self) -> bool:
        """Whether candidates are shared."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """An arm that builds something expensive once and sends it to the workers, such as an index of documents.

    :meth:`Arm.open` receives the result as ``kit.prepared``.
    """

    def prepare(self, workshop: Workshop) -> bytes | None:
        """Return the prepared data, or None; called once for all conversations, on the machine with the caches."""
        ...


class Standing(NamedTuple):
    """Where a memory ranked: its tier, its rank among the tier's candidates (None: not a candidate) and its score.

    ``fts`` and ``vec`` are its ranks in the searches by words and by vectors, over the whole tier.
    """

    tier: str | None = None
    rank: int | None = None
    score: float | None = None
    fts: int | None = None
    vec: int | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """A system's explanation of one of its recalls.

    By memory key: ``standings``, ``reasons`` (why a memory was not injected), ``causes`` (the same as a word, one of
    :data:`lab.replay.explain.CAUSES`) and ``below`` (a line below an item).
    ``runners_up`` are the keys of the next-ranked memories. ``about`` is shown after the name of the arm; ``head``,
    ``suppressed`` and ``candidates`` are lines of at most 80 columns; ``value`` has the same facts as JSON values.
    """

    about: str = ""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)
    runners_up: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    suppressed: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    below: Mapping[str, str] = field(default_factory=dict)
    value: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, about: str, lost: Mapping[str, tuple[str, str]], **more: Any) -> Explained:
        """Return an explanation with the cause and the reason of every memory of ``lost``, by its key."""
        reasons, causes = ({key: pair[part] for key, pair in lost.items()} for part in (1, 0))
        return cls(about, reasons=reasons, causes=causes, **more)


class Detail(NamedTuple):
    """How much to explain. ``texts``: texts of memories may be quoted; ``full``: show every detail."""

    texts: bool = False
    full: bool = False


@runtime_checkable
class Explains(Protocol):
    """A system that can explain why each memory was injected or not."""

    def explain(self, ask: Ask, candidates: Any, recall: Recall, relevant: Sequence[str], detail: Detail) -> Explained:
        """Explain the last recall of this system, and what happened to the ``relevant`` memories.

        ``candidates`` are those it selected from if its search is shared, else None. All ``relevant`` memories existed.
        """
        ...


@dataclass(frozen=True, slots=True)
class ManyRecalls:
    """What each of ``c`` arms of a group injects at one recall point.

    ``injected`` int32 ``[c, k]``: indices into the memories of :meth:`SelectsMany.open_many`, in the order of
    injection; empty slots come last and hold the number of memories. ``chars`` int64 ``[c]``: lengths of the texts put
    before the prompt, in UTF-16 units. ``rules`` int64 ``[c]``: the number of hard rules in them.
    """

    injected: np.ndarray
    chars: np.ndarray
    rules: np.ndarray
    status: Status = "ok"


@runtime_checkable
class SelectsMany(Protocol):
    """An arm that can be evaluated together with similar arms in one batch: the fast path of a sweep.

    Tests check that the results equal :meth:`SharedRetrieval.select` of each arm. It is for arms whose systems share
    their search, pin nothing and write nothing.
    """

    def group_key(self) -> Hashable | None:
        """Return the key that all arms of a batch share; None: this arm cannot be batched."""
        ...

    def open_many(self, arms: Sequence[Arm], kit: Kit, memories: Sequence[Memory]) -> ManySystem:
        """Return one system for all arms of a group; ``memories`` are all of the conversation, in creation order."""
        ...


class ManySystem(Protocol):
    """The arms of one group in one conversation, fed by the loop like a :class:`MemorySystem`."""

    retrieval_key: Hashable

    def open_retriever(self) -> Retriever:
        """Return a retriever for this key."""
        ...

    def remember(self, memories: Sequence[Memory]) -> None:
        """Receive memories of the recording created since the last call."""
        return

    def forget(self, keys: Sequence[str]) -> None:
        """Remove memories that the recording deletes at this point."""
        return

    def select_many(self, ask: Ask, candidates: Any) -> ManyRecalls:
        """Select for every arm from the candidates of the system's retriever."""
        ...

    def close(self) -> None:
        """Release resources."""
        return


@runtime_checkable
class TakesTokens(Protocol):
    """An arm with a token budget of its own."""

    def with_tokens(self, tokens: int) -> Arm:
        """Return the same arm with its own budget set to ``tokens``, as near as its rules allow."""
        ...


@runtime_checkable
class Widens(Protocol):
    """An arm without a token budget of its own, whose ranking can be cut at any budget."""

    def widened(self, items: int) -> Arm:
        """Return the same arm that injects up to ``items`` items, or as many as its rules allow."""
        ...


@runtime_checkable
class Rephrases(Protocol):
    """An arm that embeds another text than the prompt, so that all of them can be embedded in bulk."""

    def query_for(self, prompt: str) -> str:
        """Return the text that a system of this arm embeds for a prompt; blank if it embeds none."""
        ...


class Step(NamedTuple):
    """What a system is given, in order: memories ``born`` and ``gone`` (keys), queries, and a turn, or None."""

    born: Sequence[Memory]
    gone: Sequence[str]
    asks: Sequence[Ask]
    turn: Turn | None


@runtime_checkable
class Rehearses(Protocol):
    """An arm whose systems embed texts of their own making, such as chunks of files: they are embedded in bulk.

    One text alone costs as much as a batch of 16. Texts that a rehearsal misses are embedded when they are needed.
    """

    @property
    def rehearsal_key(self) -> Hashable:
        """What the texts depend on: of arms with equal keys, one is rehearsed; one whose key is None is not."""
        ...

    def rehearse(self, kit: Kit, steps: Iterable[Step]) -> Iterator[str]:
        """Yield the documents that a system of this arm would embed in a conversation; it embeds none."""
        ...


@runtime_checkable
class Claims(Protocol):
    """An arm that says what it is named for, to be proved before it counts."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The names of the proofs that it must give."""
        ...


@runtime_checkable
class Proves(Protocol):
    """A system that counts what took place in it, as evidence."""

    def prove(self) -> Mapping[str, Any]:
        """Return its counters in plain JSON values.

        Known are ``hooks`` and ``tools`` (calls by name), ``stored``, ``embedded``, ``embedder`` (the name of the model
        that it asked), ``lanes`` (answers by lane: ``fts``, ``vec``) and ``model_calls``.
        """
        ...
