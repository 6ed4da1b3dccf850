"""``long_context``: no memory system at all, but the last N tokens of what there is, in order (HB-15).

If the arm captures, that is the conversation, turn by turn; otherwise the memories that it receives, in order of
creation. Configuration: ``{"tokens": 1200, "roles": ["user", "assistant"]}``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.shape import with_keys
from lab.base.token_estimate import tokens
from lab.recordings import native
from lab.recordings.model import Memory, Turn
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
from lab.systems.openclaw.recall.block import escape
from lab.systems.spec import ArmSpec

TOKENS, ROLES = 1200, ("user", "assistant")
LEAST, MOST = 16, 1_000_000
# The most memories or turns that it injects, however short they are.
ITEMS = 100


def make(spec: ArmSpec) -> LongContextArm:
    """Make the arm. Raise :class:`UnusableInput` for an unknown key, or a value that is none."""
    config = with_keys({} if spec.config is None else spec.config, ("lab", "tokens", "roles"), spec.where)
    return LongContextArm(spec.name, budget_of(config, TOKENS, spec.where), roles_of(config, spec.where))


def budget_of(config: Mapping[str, object], default: int, where: str) -> int:
    """Return the key ``tokens``. Raise :class:`UnusableInput` unless it is a whole number of tokens."""
    value = config.get("tokens", default)
    if type(value) is not int or not LEAST <= value <= MOST:
        raise UnusableInput(f"{where}: tokens: expected a whole number from {LEAST} to {MOST}, found {value!r}")
    return value


def roles_of(config: Mapping[str, object], where: str) -> tuple[str, ...]:
    """Return the key ``roles``. Raise :class:`UnusableInput` unless it is a list of roles, none of them misspelt.

    A recording of another format may have roles of its own, so only a name that is nearly one of ours is an error.
    """
    roles = config.get("roles", ROLES)
    if not isinstance(roles, list | tuple) or not roles or not all(isinstance(role, str) for role in roles):
        raise UnusableInput(f"{where}: roles: expected a list of roles such as {list(ROLES)}, found {roles!r}")
    for role in roles:
        near = [] if role in native.ROLES else difflib.get_close_matches(role.lower(), native.ROLES, 1, 0.8)
        if near:
            raise UnusableInput(f"{where}: roles: {role!r} is no role of a turn; did you mean {near[0]!r}?")
    return tuple(roles)


@dataclass(frozen=True, slots=True)
class LongContextArm:
    """The last ``tokens`` tokens; of a conversation, those of turns with one of the ``roles``."""

    name: str
    tokens: int = TOKENS
    roles: tuple[str, ...] = ROLES
    claims: ClassVar[tuple[str, ...]] = ("recent",)

    def describe(self) -> ArmInfo:
        """Return name and configuration."""
        config = {"tokens": self.tokens, "roles": list(self.roles)}
        return ArmInfo(self.name, "long_context", ITEMS, ITEMS, config, at_most=ITEMS, writes=True)

    def with_tokens(self, tokens: int) -> LongContextArm:
        """Return the arm with another budget."""
        return replace(self, tokens=tokens)

    def open(self, kit: Kit) -> LongContext:
        """Open an empty system."""
        return LongContext(self, kit)


class Entry(NamedTuple):
    """A memory or turn: its text, scope, and the keys that it came from."""

    text: str
    scope: str
    sources: tuple[str, ...]


class LongContext(MemorySystem):
    """What there is, in order."""

    def __init__(self, arm: LongContextArm, kit: Kit) -> None:
        self._arm, self._kit = arm, kit
        self._entries: dict[str, Entry] = {}

    def remember(self, memories: Sequence[Memory]) -> None:
        """Append memories that the loop provides, in order of creation."""
        self._entries.update((memory.key, Entry(memory.text, memory.scope, (memory.key,))) for memory in memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Drop memories that the recording deletes."""
        for key in keys:
            del self._entries[key]

    def observe(self, turn: Turn) -> Writes:
        """Append the turn unchanged."""
        text = turn.said or turn.text
        if not self._kit.captures or turn.role not in self._arm.roles or not text.strip():
            return NOTHING
        key = f"{turn.key}#0"
        self._entries[key] = Entry(text, turn.scope, (turn.key,))
        return Writes(created=(Stored(key, text, (turn.key,)),))

    def recall(self, ask: Ask) -> Recall:
        """Inject the last entries of the scope, whole ones, until the first that does not fit.

        Items are ranked newest first; the text has them in order, oldest first.
        """
        newest = [(key, entry) for key, entry in reversed(self._entries.items()) if ask.scope in (None, entry.scope)]
        lines: list[str] = []
        for _, entry in newest[:ITEMS]:
            if tokens("\n".join([*lines, line := f"- {escape(entry.text)}"])) > self._arm.tokens:
                break
            lines.append(line)
        items = tuple(
            Item(key, entry.text, entry.sources, 0.0 - rank, Signals(key, None, entry.scope))
            for rank, (key, entry) in enumerate(newest[: min(ITEMS, len(lines) + 3)])
        )
        receipt = {
            "policy": "long_context",
            "tokens": self._arm.tokens,
            "reachable": len(newest),
            "injected": len(lines),
        }
        text = "\n".join(reversed(lines))
        return Recall(items, len(lines), text, receipt, status="ok" if lines else "skipped")

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain each memory by how many newer ones there are."""
        injected = {item.id for item in recall.items[: recall.injected]}
        reach = [key for key, entry in self._entries.items() if ask.scope in (None, entry.scope)]
        newer = {key: len(reach) - 1 - position for position, key in enumerate(reach)}
        lost = {
            key: ("budget", f"{newer[key]} newer ones filled the last {self._arm.tokens} tokens")
            if key in newer
            else ("scope", f"its scope is {self._entries[key].scope}; the scope of the turn is {ask.scope}")
            for key in relevant
            if key in self._entries and key not in injected
        }
        return Explained.of(f"the last {self._arm.tokens} tokens", lost)
