"""The one seam behind which every memory system stands (docs/systems.md).

An :class:`Arm` is a system with its configuration; :meth:`Arm.open` makes the :class:`MemorySystem` of one
conversation. The loop (:mod:`lab.replay.loop`) gives it memories from outside, asks it before a turn, and shows it
every turn of every role. This module knows no system.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from lab.recordings.model import Memory, Turn
from lab.retrieval.faults import NO_FAULTS, Faults

if TYPE_CHECKING:
    import numpy as np

    from lab.systems.kit import Kit, Workshop

Status = Literal["ok", "skipped", "degraded", "failed"]


@dataclass(frozen=True, slots=True)
class ArmInfo:
    """What the lab has to know of an arm; everything else in ``config`` is the system's own business.

    ``cutoff`` items are meant to be injected, which is where headline measures cut; it promises never to inject more
    than ``at_most`` (None: it promises nothing). Of a ranking ``depth`` places mean something: a measure with a cutoff
    beyond it is null. ``writes``: it captures memories itself. ``stateful``: what it was asked before changes what it
    answers. ``needs_gold``: it is told what is wanted (:attr:`Ask.grades`). ``labelled``: importance labels change what
    it recalls. ``config`` is
    resolved, in plain JSON values, without secrets, and makes the same arm again. ``inputs`` are files that it reads:
    the sha256 of each by name. ``embedder`` is the embedding model that the configuration names, if it names
    one; ``seed`` that of its draws, if it draws. ``missing`` are the keys of what
    its configuration asks for and the system here does not have.
    """

    name: str
    system: str
    cutoff: int = field(metadata={"about": "items that it is meant to inject"})
    depth: int = field(metadata={"about": "ranks that are meaningful"})
    config: Mapping[str, object] = field(default_factory=dict, metadata={"about": "opaque to the lab"})
    version: str = field(default="", metadata={"about": "package, version and hash of sources, if from elsewhere"})
    at_most: int | None = field(default=None, metadata={"about": "items that it promises never to exceed"})
    writes: bool = field(default=False, metadata={"about": "whether it captures memories"})
    stateful: bool = True
    needs_gold: bool = False
    labelled: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict, metadata={"about": "sha256 of the files it reads, by name"})
    embedder: str | None = field(default=None, metadata={"about": "the embedding model that its configuration names"})
    seed: int | None = None
    missing: tuple[str, ...] = field(default=(), metadata={"about": "configuration keys that are not implemented"})


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a memory system: what the user says at ``turn``, at ``now_ms`` of the recording's clock.

    ``scope`` None: scopes are not enforced; ``scoping`` says where the scope comes from: ``given`` in ``scope``, the
    ``tags`` of the text, or nowhere (``open``). ``session`` None: asked from outside any session. A ``probe`` is a
    question that belongs to no conversation, and must leave no trace. ``faults`` are the failures that the lab plays
    (:mod:`lab.retrieval.faults`). ``items_only``: nobody will read the block, the receipt or the log, and a system may
    leave them out. ``grades`` maps relevant memories to grades, where :attr:`ArmInfo.needs_gold` says so.
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
    """Why an item has its place, as far as its system says; None where it does not.

    ``id`` is the system's own name for the item. Ranks of lanes count from 1; None: the lane did not return it.
    """

    id: str | None = None
    label: str | None = None
    scope: str | None = None
    fts_rank: int | None = None
    vec_rank: int | None = None
    decision: str | None = None


class Item(NamedTuple):
    """A returned memory; its place in the list is its rank.

    ``id`` is the key of a memory that was given, or what the system called one that it created (:class:`Stored`).
    ``sources`` are keys of the turns or memories that it came from.
    """

    id: str
    text: str
    sources: tuple[str, ...] = ()
    score: float = 0.0
    signals: Signals = Signals()
    tier: str | None = None


class Stored(NamedTuple):
    """A memory that a system wrote. ``sources`` are keys of the turns or memories that it came from."""

    id: str
    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Writes:
    """What a system changed in its store; ``deleted`` are ids."""

    created: tuple[Stored, ...] = ()
    updated: tuple[Stored, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.updated or self.deleted)


NOTHING = Writes()


@dataclass(frozen=True, slots=True)
class Recall:
    """What a system answers.

    ``items`` is its ranking, of which the first ``injected`` are injected; ``context`` is the exact text that is put
    before the prompt. ``receipt`` says why, in plain JSON values and without the texts of memories; ``timings`` are
    nanoseconds by stage. ``pinned`` are ids of memories that stand in the text besides the items; ``duplicates`` is
    how many injected items say what a digest in the text says already (None: there is no digest). ``writes`` is what
    the recall itself changed; ``log`` the lines that the system would have logged.

    ``receipt_text`` is the receipt as the system itself writes it (None: as JSON); ``evicted`` is how many items a
    budget dropped (None: nothing is said of it).

    ``status``: ``skipped`` where the system chose silence, ``degraded`` where a part of it failed and it said so,
    ``failed`` where it raised or broke this contract. The loop alone makes failed recalls.
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


class Arm(Protocol):
    """A system with its configuration: immutable and picklable."""

    @property
    def name(self) -> str:
        """What the run calls it."""
        ...

    def describe(self) -> ArmInfo:
        """What the lab has to know of it."""
        ...

    def open(self, kit: Kit) -> MemorySystem:
        """The system at the start of one conversation, without a past."""
        ...


class MemorySystem(Protocol):
    """One arm in one conversation. Whoever inherits from this class writes only the methods that do something."""

    def remember(self, memories: Sequence[Memory]) -> None:
        """Take in memories from outside, born since the last call."""
        return

    def forget(self, keys: Sequence[str]) -> None:
        """Lose memories from outside, which the recording deletes at this point."""
        return

    def recall(self, ask: Ask) -> Recall:
        """Answer a question. What is raised here makes a failed recall."""
        raise TypeError(f"{type(self).__name__} has no recall()")

    def observe(self, turn: Turn) -> Writes:
        """See a turn of any role, after the recall; write what is worth keeping, where ``kit.captures`` allows it."""
        return NOTHING

    def close(self) -> None:
        """Give back what is held."""
        return


class Candidates(Protocol):
    """What a retriever found for one question: a view to be searched further, and not a list.

    :class:`lab.retrieval.query_context.QueryContext` is the toolkit's.
    """


class Retriever(Protocol):
    """Finds candidates for all arms with the same :attr:`SharedRetrieval.retrieval_key`."""

    def observe(self, memories: Sequence[Memory]) -> None:
        """Take in memories from outside, born since the last call."""
        ...

    def forget(self, keys: Sequence[str]) -> None:
        """Leave memories out of every answer from now on."""
        ...

    def expect(self, texts: Sequence[str]) -> None:
        """Hear which texts will be asked about, in this order; some may be left out."""
        ...

    def retrieve(self, ask: Ask) -> Candidates:
        """Make everything observed ready to be searched for a question."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


@runtime_checkable
class SharedRetrieval(Protocol):
    """A system whose search is made once a turn for all arms with an equal key; ``select`` is then asked, not recall.

    ``retrieval_key`` is None once the system writes what it searches: nobody else may share that.
    """

    retrieval_key: Hashable | None

    def open_retriever(self) -> Retriever:
        """A retriever for this key, which the loop feeds, asks and closes."""
        ...

    def select(self, ask: Ask, candidates: Any) -> Recall:
        """Choose from the candidates of this system's own retriever."""
        ...


@runtime_checkable
class Searches(Protocol):
    """An arm of which is known how it searches, so that texts are embedded and split into words in one go.

    ``retrieval`` is a :class:`lab.retrieval.query_context.Retrieval`. ``shares``: its systems share their search, with
    it as their key, so that candidates may be kept from run to run.
    """

    @property
    def retrieval(self) -> Any:
        """The toolkit's settings."""
        ...

    @property
    def shares(self) -> bool:
        """Whether candidates are shared."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """An arm that needs something which takes long to make and can be sent to a worker, such as an index of documents.

    What it returns reaches :meth:`Arm.open` as ``kit.prepared``.
    """

    def prepare(self, workshop: Workshop) -> bytes | None:
        """Make it once for all conversations, where the caches are."""
        ...


class Standing(NamedTuple):
    """Where a memory stood: its tier, its rank among the tier's candidates (None: it was none), and its score.

    ``fts`` and ``vec`` are its ranks in the two lanes, over the whole tier.
    """

    tier: str | None = None
    rank: int | None = None
    score: float | None = None
    fts: int | None = None
    vec: int | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a recall is as it is, told by the system that made it.

    By memory key: ``places``, ``reasons`` (why one was not injected) and ``below`` (a line below an item).
    ``runners_up`` are keys of memories that were next in line. ``about`` goes behind the name of the arm; ``head``,
    ``suppressed`` and ``candidates`` are lines of at most 80 columns, ``value`` is the same for machines.
    """

    about: str = ""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    runners_up: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    suppressed: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    below: Mapping[str, str] = field(default_factory=dict)
    value: Mapping[str, Any] = field(default_factory=dict)


class Detail(NamedTuple):
    """How much to explain: ``texts`` of memories may be quoted; ``full``: everything there is to say."""

    texts: bool = False
    full: bool = False


@runtime_checkable
class Explains(Protocol):
    """A system that can say why each memory has its place, or lost it."""

    def explain(self, ask: Ask, candidates: Any, recall: Recall, relevant: Sequence[str], detail: Detail) -> Explained:
        """Explain the recall that this system has just made, and what became of the memories ``wanted``.

        ``found`` are the candidates that it chose from, where its search is shared; None where it searched by itself.
        Memories that were not there at the time are not asked about.
        """
        ...


@dataclass(frozen=True, slots=True)
class ManyRecalls:
    """What each of ``c`` arms of a group injects at one moment.

    ``injected`` int32 ``[c, k]`` are places among the memories of :meth:`SelectsMany.open_many`, in the order of
    injection; the number of memories stands for none, behind all others. ``chars`` int64 ``[c]`` are lengths of the
    texts that are put before the prompt, in UTF-16 units, and ``rules`` int64 ``[c]`` how many hard rules stand in
    them.
    """

    injected: np.ndarray
    chars: np.ndarray
    rules: np.ndarray
    status: Status = "ok"


@runtime_checkable
class SelectsMany(Protocol):
    """An arm that can select together with others of its kind at once: the fast path of a sweep.

    Tests hold what it gives equal to :meth:`SharedRetrieval.select` of each arm. It is for arms whose systems share
    their search, pin nothing and write nothing.
    """

    def group_key(self) -> Hashable | None:
        """What arms of one group share; None: this one is not done together with others."""
        ...

    def open_many(self, arms: Sequence[Arm], kit: Kit, memories: Sequence[Memory]) -> ManySystem:
        """One system in place of all arms of a group; ``memories`` are all of the conversation, in order of birth."""
        ...


class ManySystem(Protocol):
    """The arms of one group in one conversation. The loop feeds it as it feeds a :class:`MemorySystem`."""

    retrieval_key: Hashable

    def open_retriever(self) -> Retriever:
        """A retriever for this key."""
        ...

    def remember(self, memories: Sequence[Memory]) -> None:
        """Take in memories from outside, born since the last call."""
        return

    def forget(self, keys: Sequence[str]) -> None:
        """Lose memories from outside, which the recording deletes at this point."""
        return

    def select_many(self, ask: Ask, candidates: Any) -> ManyRecalls:
        """Choose for every arm from the candidates of the system's own retriever."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        return
