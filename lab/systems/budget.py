"""Any arm under a token budget: equal injected tokens for all arms (LG-1, LG-2, LG-3, LG-4).

The configuration key ``{"lab": {"tokens": 256}}`` of any arm, or ``NAME@256`` on the command line, makes a
:class:`BudgetArm`. The budget counts the whole injected text, frame included, by
:func:`lab.base.token_estimate.tokens`.

* An arm with a budget of its own (:class:`lab.systems.contract.TakesTokens`) is given that budget.
* Any other arm ranks as many items as its rules allow (:class:`lab.systems.contract.Widens`), and the lab cuts the
  ranking: whole items in rank order, up to the first that does not fit.

What an arm injects beyond the budget in spite of its own is cut likewise. The lab does not know how a system writes its
text: :func:`cut` finds the texts of the injected items in it, in rank order, as they are, escaped as in markup, or with
white space folded. What comes before the first item and after the last one is the frame, which stays as long as any
item does.

Arms of one conversation that differ in nothing but the budget share one system if the lab does the cutting, so that it
is fed and queried once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import digest
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Turn
from lab.systems.contract import (
    NOTHING,
    Arm,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    Explains,
    Item,
    MemorySystem,
    Proves,
    Recall,
    Rehearses,
    Rephrases,
    Retriever,
    Searches,
    SharedRetrieval,
    Step,
    TakesTokens,
    Widens,
    Writes,
)
from lab.systems.kit import Kit, Workshop
from lab.systems.openclaw.recall.block import escape

# An item whose whole text is not there, because the system clips long texts, is found by so many of its characters.
START = 40
# The key of a receipt with the ranks of items that are injected in part.
CLIPPED = "clipped"


def cut(recall: Recall, budget: int, most: int) -> Recall:
    """Return a recall whose injected text has at most ``budget`` tokens and ``most`` items.

    Only injected items stay in the ranking, so that measures at any cutoff see what is in the prompt. If nothing fits,
    or the items of a text that is too long are not found in it, nothing is injected: pinned memories neither.
    """
    timings = dict(recall.timings)
    injected = recall.items[: recall.injected]
    if tokens(recall.context) <= budget and len(injected) <= most:
        return replace(recall, items=injected, timings=timings)
    spans = spans_of(recall.context, injected)
    kept = 0
    if spans is not None:
        counts = range(1, min(len(injected), most) + 1)
        kept = bisect_right(counts, budget, key=lambda count: tokens(_first(recall.context, spans, count)))
    context = _first(recall.context, spans, kept) if spans is not None and kept else ""
    return replace(
        recall,
        items=injected[:kept],
        injected=kept,
        context=context,
        timings=timings,
        # The receipt would explain items that the cut removed.
        receipt={"cut": {"tokens": budget, "of": len(injected), "kept": kept, "found": spans is not None}},
        receipt_text=None,
        pinned=recall.pinned if kept else (),
        duplicates=recall.duplicates if kept == len(injected) else None,
        evicted=(recall.evicted or 0) + len(injected) - kept,
    )


def clipped_in(recall: Recall, texts: Mapping[str, str]) -> list[int]:
    """Return the ranks, from 0, of injected items whose whole text is not in the injected text (LG-4).

    ``texts`` are those of the memories by id; the system's own text of an item counts for one that is not there. White
    space is folded, and markup may be escaped.
    """
    plain = " ".join(recall.context.split())
    forms = (plain, unescape(plain)) if "&" in plain else (plain,)
    clipped = []
    for rank, item in enumerate(recall.items[: recall.injected]):
        text = " ".join(texts.get(item.id, item.text).split())
        if not any(text in form for form in forms) and escape(text) not in plain:
            clipped.append(rank)
    return clipped


def spans_of(context: str, items: Sequence[Item]) -> list[tuple[int, int]] | None:
    """Return where the line of each item starts and its text ends in the context; None if one is not found in order."""
    spans: list[tuple[int, int]] = []
    at = 0
    for item in items:
        span = _found(context, item.text, at)
        if span is None:
            return None
        begin, end = span
        line = context.rfind("\n", at, begin) + 1 or at
        spans.append((max(line, at), end))
        at = end
    return spans


def _found(context: str, text: str, at: int) -> tuple[int, int] | None:
    forms = dict.fromkeys((escape(text), text, escape(" ".join(text.split())), " ".join(text.split())))
    for form in forms:
        if form and (begin := context.find(form, at)) >= 0:
            return begin, begin + len(form)
    for form in forms:
        if len(form) > START and (begin := context.find(form[:START], at)) >= 0:
            end = context.find("\n", begin + START)
            return begin, end if end >= 0 else len(context)
    return None


def _first(context: str, spans: Sequence[tuple[int, int]], count: int) -> str:
    """Return the text with the first ``count`` items, 1 or more."""
    if count >= len(spans):
        return context
    return context[: spans[count][0]].rstrip("\n ") + context[spans[-1][1] :]


# The most items that a ranking is widened to, and the cutoff of every measure of an arm under a budget.
WIDE = 100
LEAST, MOST = 16, 32_768
KEY = "tokens"


def budget_in(config: Any, where: str) -> tuple[Any, int | None]:
    """Return a configuration without ``lab.tokens``, and its value (None: there is none).

    Raises :class:`UnusableInput` unless the value is a whole number from :data:`LEAST` to :data:`MOST`.
    """
    lab = config.get("lab") if isinstance(config, Mapping) else None
    if not isinstance(lab, Mapping) or KEY not in lab:
        return config, None
    value = lab[KEY]
    if type(value) is not int or not LEAST <= value <= MOST:
        raise UnusableInput(f"{where}: lab.tokens: expected a whole number from {LEAST} to {MOST}, found {value!r}")
    rest = {key: content for key, content in lab.items() if key != KEY}
    return {
        **{key: content for key, content in config.items() if key != "lab"},
        **({"lab": rest} if rest else {}),
    }, value


def with_budget(config: Any, tokens: int) -> dict[str, Any]:
    """Return a configuration, which may be None, with ``lab.tokens``."""
    given = dict(config) if isinstance(config, Mapping) else {}
    lab = given.get("lab")
    return {**given, "lab": {**(lab if isinstance(lab, Mapping) else {}), KEY: tokens}}


def named_budget(name: str) -> tuple[str, int | None]:
    """Split ``NAME@256`` into the name of a system and a budget; the budget is None if there is none."""
    system, at, number = name.rpartition("@")
    if not at or not system or not (number.isascii() and number.isdigit()):
        return name, None
    return system, int(number)


def within(arm: Arm, tokens: int) -> BudgetArm:
    """Return an arm under a token budget."""
    kind = SearchingBudgetArm if isinstance(arm, Searches) else BudgetArm
    return kind(arm, tokens)


@dataclass(frozen=True, slots=True)
class BudgetArm:
    """An arm, ``base``, under a budget of ``tokens``."""

    base: Arm
    tokens: int

    @property
    def name(self) -> str:
        """The name of the arm."""
        return self.base.name

    @property
    def inner(self) -> Arm:
        """The arm that is replayed: with a budget of its own, or as wide as it can be."""
        if isinstance(self.base, TakesTokens):
            return self.base.with_tokens(self.tokens)
        return self.base.widened(WIDE) if isinstance(self.base, Widens) else self.base

    @property
    def claims(self) -> tuple[str, ...] | None:
        """What the arm claims."""
        return getattr(self.base, "claims", None)

    def describe(self) -> ArmInfo:
        """Return the description of the arm, with the budget in its configuration and :data:`WIDE` as its cutoff."""
        info, inner = self.base.describe(), self.inner.describe()
        lab = info.config.get("lab")
        config = {**info.config, "lab": {**(lab if isinstance(lab, Mapping) else {}), KEY: self.tokens}}
        return replace(inner, config=config, cutoff=WIDE, depth=WIDE, at_most=WIDE)

    def query_for(self, prompt: str) -> str:
        """Return the text that the arm embeds in place of a prompt, if any."""
        return self.base.query_for(prompt) if isinstance(self.base, Rephrases) else ""

    @property
    def rehearsal_key(self) -> Hashable:
        """What the texts of a rehearsal depend on; a budget changes none. None if the arm offers no rehearsal."""
        return self.base.rehearsal_key if isinstance(self.base, Rehearses) else None

    def rehearse(self, kit: Kit, steps: Iterable[Step]) -> Iterator[str]:
        """Yield what the arm would embed."""
        return self.base.rehearse(kit, steps) if isinstance(self.base, Rehearses) else iter(())

    def prepare(self, workshop: Workshop) -> bytes | None:
        """Return what the arm prepares, if anything."""
        prepare = getattr(self.base, "prepare", None)
        return prepare(workshop) if prepare is not None else None

    def open(self, kit: Kit) -> BudgetSystem:
        """Open the system, or take part in that of an arm with another budget."""
        if isinstance(self.base, TakesTokens):
            return BudgetSystem(_Shared(self.inner.open(kit)), self.tokens, leads=True)
        info = self.base.describe()
        key = digest(["budget", info.system, dict(info.config), info.seed, kit.captures, info.version])
        shared = kit.shared.get(key)
        if shared is None:
            shared = kit.shared[key] = _Shared(self.inner.open(kit))
            return BudgetSystem(shared, self.tokens, leads=True)
        return BudgetSystem(shared, self.tokens, leads=False)


@dataclass(frozen=True, slots=True)
class SearchingBudgetArm(BudgetArm):
    """An arm that states its search settings, under a budget."""

    @property
    def retrieval(self) -> Any:
        """The search settings."""
        return getattr(self.inner, "retrieval")  # noqa: B009 - the protocol is checked when the arm is made

    @property
    def shares(self) -> bool:
        """Whether candidates are shared."""
        return bool(getattr(self.inner, "shares"))  # noqa: B009 - as above


class _Shared:
    """One system for the arms that differ in their budget only, and its last answers."""

    def __init__(self, system: MemorySystem) -> None:
        self.system = system
        self.last_ask: Ask | None = None
        self.answer: Recall | BaseException | None = None
        self.watched: Turn | None = None
        self.wrote: Writes | BaseException = NOTHING
        self.broken: BaseException | None = None
        # Texts of memories that were given or written, by id.
        self.texts: dict[str, str] = {}


class BudgetSystem(MemorySystem):
    """A system under a budget. The one that ``leads`` calls the system; the others use its answers."""

    def __init__(self, shared: _Shared, tokens: int, *, leads: bool) -> None:
        self._shared, self._tokens, self._leads = shared, tokens, leads
        # None if the search of the system is not shared with other arms.
        self.retrieval_key = getattr(shared.system, "retrieval_key", None)
        self._last: tuple[Recall, Recall] | None = None

    @property
    def base(self) -> MemorySystem:
        """The system under the budget."""
        return self._shared.system

    def open_retriever(self) -> Retriever:
        """Return the retriever of the system."""
        return self._sharing().open_retriever()

    def remember(self, memories: Sequence[Memory]) -> None:
        """Pass created memories on, once."""
        self._shared.texts.update((memory.key, memory.text) for memory in memories)
        self._once("remember", memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Pass forgotten memories on, once."""
        self._once("forget", keys)

    def recall(self, ask: Ask) -> Recall:
        """Return the answer of the system, cut at the budget."""
        return self._within(ask, None)

    def select(self, ask: Ask, candidates: Any) -> Recall:
        """Return the selection of the system, cut at the budget."""
        return self._within(ask, candidates)

    def observe(self, turn: Turn) -> Writes:
        """Show a turn to the system once; return what it wrote."""
        shared = self._shared
        if self._leads or shared.watched != turn:
            shared.watched = turn
            try:
                shared.wrote = shared.system.observe(turn)
            except BaseException as error:
                shared.wrote = error
                raise
        if isinstance(shared.wrote, BaseException):
            raise shared.wrote
        shared.texts.update((row.id, row.text) for row in (*shared.wrote.created, *shared.wrote.updated))
        return shared.wrote

    def prove(self) -> Mapping[str, Any]:
        """Return the counters of the system, if it has any."""
        system = self._shared.system
        return system.prove() if isinstance(system, Proves) else {}

    def explain(self, ask: Ask, candidates: Any, recall: Recall, relevant: Sequence[str], detail: Detail) -> Explained:
        """Explain what the system did; what the lab cut was dropped by the budget."""
        uncut = self._last[0] if self._last is not None else recall
        system = self._shared.system
        explained = (
            system.explain(ask, candidates, uncut, relevant, detail) if isinstance(system, Explains) else Explained()
        )
        kept = {item.id for item in recall.items[: recall.injected]}
        dropped = [item.id for item in uncut.items[: uncut.injected] if item.id not in kept]
        text = f"ranked within reach; it does not fit into {self._tokens} tokens after the items before it"
        lost = {key: text for key in relevant if key in dropped}
        return replace(
            explained,
            reasons={**explained.reasons, **lost},
            causes={**explained.causes, **dict.fromkeys(lost, "budget")},
        )

    def close(self) -> None:
        """Close the system."""
        if self._leads:
            self._shared.system.close()

    def _sharing(self) -> SharedRetrieval:
        system = self._shared.system
        assert isinstance(system, SharedRetrieval)  # noqa: S101 - the loop selects only by systems with a retrieval key
        return system

    def _once(self, call: str, values: Sequence[Any]) -> None:
        shared = self._shared
        if shared.broken is not None:
            raise shared.broken
        if self._leads:
            try:
                getattr(shared.system, call)(values)
            except BaseException as error:
                shared.broken = error
                raise

    def _within(self, ask: Ask, candidates: Any) -> Recall:
        shared = self._shared
        # The injected text decides what is cut.
        ask = replace(ask, items_only=False)
        if self._leads or shared.last_ask != ask:
            shared.last_ask = ask
            try:
                answer = shared.system.recall(ask) if candidates is None else self._sharing().select(ask, candidates)
                shared.answer = answer
            except BaseException as error:
                shared.answer = error
                raise
        uncut = shared.answer
        if isinstance(uncut, BaseException):
            raise uncut
        assert uncut is not None  # noqa: S101 - it was queried
        recall = cut(uncut, self._tokens, WIDE)
        if clipped := clipped_in(recall, shared.texts):
            # Ranks, from 0, of injected items of which the text has a part only: a hit may be in what is missing.
            recall = replace(recall, receipt={**recall.receipt, CLIPPED: clipped}, receipt_text=None)
        self._last = uncut, recall
        return recall
