"""The data model of a golden set: the probes of a recording and their judgements.

Memories and turns are referenced by key, so a golden set is independent of any engine.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

NOTHING = "needs_nothing"
# The types of probes in the shipped sets, with descriptions; other sets may define more.
TYPES = {
    "standing_rule": "a rule that holds until revoked and that the prompt does not mention",
    "preference": "how somebody likes things done",
    "decision": "what was decided, and why",
    "todo": "what is still to be done, or was completed",
    "update": "a fact has changed, and the old value would mislead",
    "identifier": "a path, number or name must be recalled exactly",
    "paraphrase": "the question uses other words than the memory",
    "repeated_topic": "an earlier topic comes up again",
    "cross_language": "the question and the memory are in different languages",
    "wrong_scope_temptation": "another project's memory looks right",
    NOTHING: "no memory helps",
}
# The planted harms of the shipped sets: why a memory that fits the words of a probe is forbidden there.
CONDITION = "condition"
ABSENT, SUPERSEDED = "absent", "superseded"
CONDITIONS = {
    ABSENT: "no memory has what the prompt asks for; close ones that would mislead are forbidden",
    SUPERSEDED: "the old value and its successor are both stored; the old one is forbidden",
    "contradicted": "two memories disagree, and the conversation shows which is right; the wrong one is forbidden",
    "adjacent": "the right topic of the wrong project, person or thing is forbidden",
}


def capture_id(turn: str) -> str:
    """Return the id of the capture of a turn, which may be a probe as well."""
    return f"capture {turn}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one memory for one probe. ``grade`` 1 is relevant; 2: the answer is wrong without it."""

    memory: str
    grade: int = 1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A query with judged memories.

    Exactly one of ``turn`` and ``query`` is set: ``turn`` for a turn of the recording, ``query`` for a question that is
    asked after the last turn. ``slices`` maps the names of subgroups (type, condition) to this probe's value.
    ``irrelevant`` has the memories that were judged and are neither relevant nor forbidden: grade 0 of TREC.

    A ``capture`` grades instead which candidates of its turn should be kept: ``relevant`` are those to keep (2: it does
    harm to forget it), ``irrelevant`` those not to keep, ``forbidden`` those never to store, such as secrets.
    Candidates are memories of the recording with the key ``<turn>#<ordinal>``.
    """

    id: str
    conversation: str
    turn: str | None
    query: str | None
    relevant: tuple[Judgement, ...]
    forbidden: tuple[Judgement, ...] = ()
    slices: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    irrelevant: tuple[str, ...] = ()
    capture: bool = False

    @property
    def grades(self) -> dict[str, int]:
        """The grades of the relevant memories, by key."""
        return {judgement.memory: judgement.grade for judgement in self.relevant}


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """Probes in file order, captures, and the reader's notes on repaired and dropped probes."""

    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()
    captures: tuple[Probe, ...] = ()

    @property
    def judged(self) -> tuple[Probe, ...]:
        """Everything that a judge judged: the probes, then the captures."""
        return (*self.probes, *self.captures)

    def of_conversations(self, names: Container[str]) -> GoldenSet:
        """Return the probes and captures of some conversations."""
        return GoldenSet(
            tuple(probe for probe in self.probes if probe.conversation in names),
            captures=tuple(probe for probe in self.captures if probe.conversation in names),
        )

    def kept(self, conversation: str) -> dict[str, int]:
        """Return the judgements of one conversation's captures by candidate: the grade, 0 or -1 (forbidden)."""
        grades: dict[str, int] = {}
        for capture in self.captures:
            if capture.conversation == conversation:
                grades |= dict.fromkeys(capture.irrelevant, 0) | capture.grades
                grades |= {judgement.memory: -1 for judgement in capture.forbidden}
        return grades

    def of(self, conversation: str) -> tuple[Probe, ...]:
        """Return the probes of one conversation."""
        return tuple(probe for probe in self.probes if probe.conversation == conversation)
