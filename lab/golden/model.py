"""What should come back: judged probes of a recording.

Memories and turns are named by key, so a golden set needs no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NOTHING = "needs_nothing"
# What a probe tries, as the shipped sets name it, and in words; a set may have types of its own.
TYPES = {
    "standing_rule": "a rule that holds until revoked, and is not named",
    "preference": "how somebody likes things done",
    "decision": "what was decided, and why",
    "todo": "what is still to be done, or no longer",
    "update": "something changed: what was true would mislead",
    "identifier": "a path, number or name has to come back exactly",
    "paraphrase": "asked in other words than it was kept in",
    "repeated_topic": "a topic that was there before comes up again",
    "cross_language": "asked in one language, and kept in another",
    "wrong_scope_temptation": "another project's memory looks right",
    NOTHING: "no memory helps",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """One memory judged for one probe. ``grade`` >= 1 is relevant (2: the answer is wrong without it)."""

    memory: str
    grade: int = 1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A question put to recall.

    ``turn`` is set for a probe that is a turn of the recording; ``query`` for one that is asked from outside after
    the last turn. Exactly one of them is set. ``slices`` are names of subgroups (category, type) with this probe's
    value.
    """

    id: str
    conversation: str
    turn: str | None
    query: str | None
    relevant: tuple[Judgement, ...]
    forbidden: tuple[Judgement, ...] = ()
    slices: dict[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def grades(self) -> dict[str, int]:
        """Memory key to grade, relevant ones alone."""
        return {judgement.memory: judgement.grade for judgement in self.relevant}


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """Probes in the order of their file, with the notes of whoever repaired or dropped some."""

    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, conversation: str) -> tuple[Probe, ...]:
        """The probes of one conversation."""
        return tuple(probe for probe in self.probes if probe.conversation == conversation)
