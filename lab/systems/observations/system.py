"""``observations``: a stable log of observations and a buffer of the last turns, as seed 003 describes (OB-2).

If the arm captures, its entries are the turns; otherwise they are the memories that it receives. Configuration:
``{"tokens": 1200, "buffer": 0.25, "roles": ["user", "assistant"], "recorded": FILE}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from lab.base.errors import UnusableInput
from lab.base.files import sha256_file
from lab.base.shape import expect, with_keys
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Turn
from lab.systems.baselines.long_context import ITEMS, TOKENS, budget_of, roles_of
from lab.systems.contract import (
    NOTHING,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    Item,
    MemorySystem,
    Recall,
    Signals,
    Stored,
    Writes,
)
from lab.systems.kit import Kit
from lab.systems.observations.log import LEVELS, Observation
from lab.systems.observations.observer import Entry, Observe, observer_of
from lab.systems.observations.window import Block, Change, Sizes, Window, block_of
from lab.systems.plans import PLAN, due_at_of
from lab.systems.spec import ArmSpec

# The share of the tokens that the raw buffer may have.
BUFFER = 0.25
RECEIPT = "lab.observations.receipt.v1"


def make(spec: ArmSpec) -> ObservationsArm:
    """Make the arm; read its recorded outputs. Raises :class:`UnusableInput` for an unusable configuration."""
    config = with_keys(
        {} if spec.config is None else spec.config, ("lab", "tokens", "buffer", "roles", "recorded"), spec.where
    )
    recorded = config.get("recorded", "")
    expect(recorded, str, f"{spec.where}: recorded", "the path of a file")
    return ObservationsArm(
        spec.name,
        budget_of(config, TOKENS, spec.where),
        share_of(config.get("buffer", BUFFER), f"{spec.where}: buffer"),
        roles_of(config, spec.where),
        recorded,
        observer_of(recorded),
    )


def share_of(value: object, where: str) -> float:
    """Return the share of the buffer; raise :class:`UnusableInput` unless it is a number from 0.05 to 0.95."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.05 <= value <= 0.95:
        raise UnusableInput(f"{where}: expected a number from 0.05 to 0.95, found {value!r:.40}")
    return float(value)


@dataclass(frozen=True, slots=True)
class ObservationsArm:
    """A block of ``tokens`` tokens, of which the raw buffer has the share ``buffer``; ``observe`` is the observer."""

    name: str
    tokens: int
    buffer: float
    roles: tuple[str, ...]
    recorded: str
    observe: Observe = field(repr=False)
    claims: ClassVar[tuple[str, ...]] = ("recent",)

    @property
    def sizes(self) -> Sizes:
        """The sizes of the blocks."""
        return Sizes(self.tokens, int(self.tokens * self.buffer))

    def describe(self) -> ArmInfo:
        """Return name and configuration."""
        config = {"tokens": self.tokens, "buffer": self.buffer, "roles": list(self.roles)}
        path = Path(self.recorded)
        return ArmInfo(
            self.name,
            "observations",
            ITEMS,
            ITEMS,
            config | ({"recorded": self.recorded} if self.recorded else {}),
            at_most=ITEMS,
            writes=True,
            inputs={path.name: sha256_file(path)} if self.recorded else {},
        )

    def with_tokens(self, tokens: int) -> ObservationsArm:
        """Return the arm with another budget."""
        return replace(self, tokens=tokens)

    def open(self, kit: Kit) -> Observations:
        """Open an empty system."""
        return Observations(self, kit)


class Observations(MemorySystem):
    """A window for each scope if scopes are enforced, else one for the conversation."""

    def __init__(self, arm: ObservationsArm, kit: Kit) -> None:
        self._arm, self._kit = arm, kit
        self._windows: dict[str | None, Window] = {}
        self._scopes: dict[str, str] = {}
        # Why entries are gone, by key: a cause and a reason (:class:`lab.systems.contract.Explained`).
        self._gone: dict[str, tuple[str, str]] = {}

    def remember(self, memories: Sequence[Memory]) -> None:
        """Add memories that the loop provides, in order of creation."""
        for memory in memories:
            entry = Entry(memory.key, memory.text, memory.created_at, (memory.key,), due_at_of(memory))
            self._add(entry, memory.scope)

    def forget(self, keys: Sequence[str]) -> None:
        """Drop memories that the recording deletes."""
        for window in self._windows.values():
            window.forget({*keys})

    def observe(self, turn: Turn) -> Writes:
        """Add the turn to the buffer; return the changes of the store (OB-6)."""
        text = turn.said or turn.text
        if not self._kit.captures or turn.role not in self._arm.roles or not text.strip():
            return NOTHING
        entry = Entry(f"{turn.key}#0", text, turn.time_ms, (turn.key,))
        return self._writes(entry, self._add(entry, turn.scope))

    def recall(self, ask: Ask) -> Recall:
        """Inject the log and the buffer of the scope.

        Items are ranked: the buffer, newest first, then observations by importance, newest first.
        """
        windows = [window for scope, window in self._windows.items() if ask.scope is None or scope in (None, ask.scope)]
        block = block_of(windows, self._arm.sizes, ITEMS, ask.now_ms)
        items = tuple(self._items(block))
        receipt = {
            "receipt": RECEIPT,
            "tokens": tokens(block.text),
            "budget": self._arm.tokens,
            "observations": [observation.key for observation in block.log],
            "buffer": [entry.key for entry in block.buffer],
            "gone": len(self._gone),
        }
        return Recall(items, len(items), block.text, receipt, status="ok" if items else "skipped")

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain what the observer and the reflector did with each memory."""
        shown = {item.id for item in recall.items}
        lost = {key: self._lost(key, ask) for key in relevant if key in self._scopes and key not in shown}
        return Explained.of(f"a log of observations and a raw buffer, {self._arm.tokens} tokens", lost)

    def _lost(self, key: str, ask: Ask) -> tuple[str, str]:
        home = self._scopes[key]
        if self._kit.scoping != "open" and ask.scope not in (None, home):
            return "scope", f"its scope is {home}; the scope of the turn is {ask.scope}"
        return self._gone.get(key, ("budget", f"it does not fit into {self._arm.tokens} tokens, or is a past plan"))

    def _add(self, entry: Entry, scope: str) -> Change:
        self._scopes[entry.key] = scope
        home = None if self._kit.scoping == "open" else scope
        window = self._windows.get(home)
        if window is None:
            window = self._windows[home] = Window(self._arm.sizes, self._arm.observe)
        change = window.add(entry)
        added = {observation.key for observation in change.added}
        for gone in change.observed:
            if gone.key not in added:
                self._gone[gone.key] = "score", "the observer kept nothing of it"
        for pruned in change.pruned:
            self._gone[pruned.key] = "budget", "the reflector pruned it from the log"
        return change

    def _writes(self, entry: Entry, change: Change) -> Writes:
        """Return the changes of the store: an entry is stored as it is, becomes its observation, or is deleted."""
        pruned = {observation.key for observation in change.pruned}
        kept = {observation.key: observation for observation in change.added if observation.key not in pruned}
        deleted = [gone.key for gone in change.observed if gone.key not in kept]
        deleted += [key for key in pruned if key not in {gone.key for gone in change.observed}]
        was = {gone.key: gone.text for gone in change.observed}
        updated = [_stored(one) for key, one in kept.items() if key != entry.key and one.text != was[key]]
        created = Stored(entry.key, entry.text, entry.sources)
        if entry.key in kept:
            created = _stored(kept[entry.key])
        receipt = {"observed": len(change.observed), "added": len(change.added), "pruned": len(change.pruned)}
        return Writes(
            () if entry.key in deleted else (created,),
            tuple(updated),
            tuple(sorted(key for key in deleted if key != entry.key)),
            {"receipt": RECEIPT, **receipt} if change.observed else {},
        )

    def _items(self, block: Block) -> Iterator[Item]:
        newest = list(reversed(block.log))
        log = sorted(newest, key=lambda observation: LEVELS[observation.level])
        ranked: list[Entry | Observation] = [*reversed(block.buffer), *log]
        for rank, one in enumerate(ranked):
            if isinstance(one, Entry):
                label, decision = None, "buffer"
            else:
                label, decision = one.label, "observation" if one.due_ms is None else PLAN
            signals = Signals(one.key, label, self._scopes[one.key], decision=decision)
            yield Item(one.key, one.text, one.sources, 0.0 - rank, signals)


def _stored(observation: Observation) -> Stored:
    return Stored(observation.key, observation.text, observation.sources)
