"""What started the conversations of a set, and which of them were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import UnusableInput
from lab.base.formatting import choices, counted

# What started a conversation (OR-1 to OR-3): a person, or else what the host says.
PERSON, GROUP, CRON, HOOK, HEARTBEAT, SUBAGENT, ACP, SYSTEM = (
    *("person", "group", "cron", "hook"),
    *("heartbeat", "subagent", "acp", "system"),
)
# Nothing says what started it; unlike the label of the same name.
UNKNOWN_ORIGIN = "unknown"
ORIGINS = (PERSON, GROUP, CRON, HOOK, HEARTBEAT, SUBAGENT, ACP, SYSTEM, UNKNOWN_ORIGIN)
ALL = "all"
DEFAULT = (PERSON,)


@dataclass(frozen=True, slots=True)
class Origins:
    """How many conversations of each origin were taken and left out."""

    taken: Mapping[str, int]
    left_out: Mapping[str, int]

    @property
    def is_plain(self) -> bool:
        """Whether there are conversations of persons alone, so that there is nothing to say."""
        return not self.left_out and self.taken.keys() <= {PERSON}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, and what was taken although nothing says that a person started it, as sentences."""
        texts = []
        if self.left_out:
            texts.append(f"left out: {in_words(self.left_out)}; --origin {ALL} takes them")
        others = {name: count for name, count in self.taken.items() if name not in (PERSON, UNKNOWN_ORIGIN)}
        if others:
            persons = self.taken.get(PERSON, 0)
            texts.append(f"origins: {in_words(({PERSON: persons} if persons else {}) | others)}")
        if number := self.taken.get(UNKNOWN_ORIGIN, 0):
            count, what = ("counts as a person's", "it") if number == 1 else ("count as persons'", "them")
            said = counted(number, "conversation")
            texts.append(f"{said} of unknown origin {count}: nothing says what started {what}")
        return tuple(texts)


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts by origin as in ``40 conversations of cron, 3 of subagent``."""
    parts = [f"{count} of {name}" for name, count in counts.items()]
    first, count = next(iter(counts.items()))
    return ", ".join([f"{counted(count, 'conversation')} of {first}", *parts[1:]])


def require_known(origins: Sequence[str], where: str = "--origin") -> None:
    """Raise :class:`UnusableInput` for a name that is no origin; the message proposes a similar one."""
    for name in origins:
        if name not in (*ORIGINS, ALL):
            raise UnusableInput(f"{where}: unknown origin {name!r}; {choices(name, (*ORIGINS, ALL))}")
