"""The data model of a golden set: the probes of a recording and their judgements; how two sets differ, and their split.

Memories and turns are referenced by key, so a golden set is independent of any engine. A judge may also grade memories
of other conversations that a replay adds, the haystack. Their key names where they came from:
``haystack:<conversation>/…``, and for a memory of another set ``haystack:<set>:<conversation>/…``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import digest
from lab.base.formatting import choices, counted

PREFIX = "haystack:"


def is_added(key: str) -> bool:
    """Return whether a key is that of a haystack memory."""
    return key.startswith(PREFIX)


def original_key(key: str) -> str:
    """Return a key without the prefix of haystack memories; other keys are returned unchanged.

    This is the key that the memory has in its own conversation, unless that key does not begin with the conversation's
    name or belongs to another set, whose name then comes first.
    """
    return key.removeprefix(PREFIX)


def added_key(conversation: str, key: str, source: str = "") -> str:
    """Return the key of a memory of ``conversation`` when it is added to another conversation.

    ``source`` is the name of its set, blank if it is the set of that other conversation.
    """
    named = key if key.startswith(f"{conversation}/") else f"{conversation}/{key}"
    return f"{PREFIX}{source}:{named}" if source else f"{PREFIX}{named}"


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

# The slice of the families of harm (the card of golden/harms), and what the names of those of corrections begin with.
FAMILY = "family"
CORRECTION = "correction"


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

    Exactly one of ``turn`` and ``query`` is set: ``turn`` for a turn of the recording, ``query`` for a question after
    the last turn. ``slices`` maps the names of subgroups (type, condition) to this probe's value.
    ``irrelevant`` has the memories that were judged and are neither relevant nor forbidden: grade 0 of TREC.

    A ``capture`` grades instead which candidates of its turn should be kept: ``relevant`` are those to keep (2: it does
    harm to forget it), ``irrelevant`` those not to keep, ``forbidden`` those never to store, such as secrets.
    Candidates are memories of the recording with the key ``<turn>#<ordinal>``.

    ``answer`` is the right answer in words; blank if there is none, or the right one is that nothing is known.
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
    answer: str = ""

    @property
    def grades(self) -> dict[str, int]:
        """The grades of the relevant memories, by key."""
        return {judgement.memory: judgement.grade for judgement in self.relevant}


@dataclass(frozen=True)
class GoldenSet:
    """Probes in file order, captures, and the reader's notes on repaired and dropped probes."""

    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()
    captures: tuple[Probe, ...] = ()

    @property
    def judged(self) -> tuple[Probe, ...]:
        """Everything that a judge judged: the probes, then the captures."""
        return (*self.probes, *self.captures)

    # Every conversation of a replay asks for its own several times.
    @cached_property
    def _probes(self) -> dict[str, tuple[Probe, ...]]:
        return _by_conversation(self.probes)

    @cached_property
    def _captures(self) -> dict[str, tuple[Probe, ...]]:
        return _by_conversation(self.captures)

    def of_conversations(self, names: Container[str]) -> GoldenSet:
        """Return the probes and captures of some conversations."""
        return GoldenSet(
            tuple(probe for probe in self.probes if probe.conversation in names),
            captures=tuple(probe for probe in self.captures if probe.conversation in names),
        )

    def alone(self, conversation: str) -> GoldenSet:
        """Return the probes and captures of one conversation."""
        return GoldenSet(self.of(conversation), captures=self._captures.get(conversation, ()))

    def kept(self, conversation: str) -> dict[str, int]:
        """Return the judgements of one conversation's captures by candidate: the grade, 0 or -1 (forbidden)."""
        grades: dict[str, int] = {}
        for capture in self._captures.get(conversation, ()):
            grades |= dict.fromkeys(capture.irrelevant, 0) | capture.grades
            grades |= {judgement.memory: -1 for judgement in capture.forbidden}
        return grades

    def of(self, conversation: str) -> tuple[Probe, ...]:
        """Return the probes of one conversation."""
        return self._probes.get(conversation, ())


def _by_conversation(probes: Iterable[Probe]) -> dict[str, tuple[Probe, ...]]:
    found: dict[str, list[Probe]] = {}
    for probe in probes:
        found.setdefault(probe.conversation, []).append(probe)
    return {conversation: tuple(some) for conversation, some in found.items()}


class Aside(NamedTuple):
    """What only the side files of judges record, by turn: the memories graded 0, and those left without a grade.

    ``open`` lists the turns of the pool that are not judged yet.
    """

    refused: dict[str, set[str]]
    unjudged: dict[str, set[str]]
    open: tuple[str, ...] = ()


FORBIDDEN, IRRELEVANT, UNLISTED = "forbidden", "0", "–"
TYPE = "type"
SLICES = (TYPE, "condition")


class Change(NamedTuple):
    """One difference in a probe; ``what`` is the key of a memory, or the name of a field (type, query)."""

    probe: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Differences:
    """The probes added and removed, and the changed judgements, questions, types and conditions of the others.

    Types and conditions (``retyped``) are separate, because they only decide the slices in which a probe is reported.
    So are memories that only one set judges, as irrelevant (``graded_zero``): they change no measure but Judged@k.
    Reasons affect no measure: ``reworded`` counts the probes that differ only in their reasons.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[Change, ...]
    retyped: tuple[Change, ...]
    graded_zero: tuple[Change, ...]
    reworded: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changes or self.retyped or self.graded_zero)

    def as_json(self) -> dict[str, Any]:
        """Return the differences as JSON-serializable values."""
        lists = ("changes", "retyped", "graded_zero")
        plain = {name: [change._asdict() for change in getattr(self, name)] for name in lists}
        return asdict(self) | plain


def differences(before: GoldenSet, after: GoldenSet) -> Differences:
    """Return the differences between two golden sets, in the order of the first one's probes."""
    old, new = by_id(before), by_id(after)
    both = [(old[name], new[name]) for name in old if name in new]
    changed_items = [change for pair in both for change in _changes(*pair)]
    changed = {change.probe for change in changed_items}
    return Differences(
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
        tuple(change for change in changed_items if change.what not in SLICES and not _is_graded_zero(change)),
        tuple(change for change in changed_items if change.what in SLICES),
        tuple(change for change in changed_items if _is_graded_zero(change)),
        sum(before_probe != other and before_probe.id not in changed for before_probe, other in both),
    )


def by_id(golden: GoldenSet) -> dict[str, Probe]:
    """Return the probes and captures by id. Raises :class:`UnusableInput` for a duplicate id."""
    probes: dict[str, Probe] = {}
    for probe in golden.judged:
        if probe.id in probes:
            raise UnusableInput(f"golden set: probe {probe.id} occurs twice; `lab golden lint` lists all duplicates")
        probes[probe.id] = probe
    return probes


def marks(probe: Probe) -> dict[str, str]:
    """Return, by memory key, the grade that a probe gives, 0 for an irrelevant memory, or ``forbidden``."""
    listed = {judgement.memory: FORBIDDEN for judgement in probe.forbidden} | {
        judgement.memory: str(judgement.grade) for judgement in probe.relevant
    }
    return listed | {key: IRRELEVANT for key in probe.irrelevant if key not in listed}


def _is_graded_zero(change: Change) -> bool:
    return {change.before, change.after} == {IRRELEVANT, UNLISTED} and change.what not in SLICES


def _changes(before: Probe, after: Probe) -> list[Change]:
    fields = [
        Change(before.id, what, old or UNLISTED, new or UNLISTED)
        for what, old, new in (
            ("conversation", before.conversation, after.conversation),
            ("query", before.query, after.query),
            ("answer", before.answer, after.answer),
            *((name, before.slices.get(name), after.slices.get(name)) for name in SLICES),
        )
        if old != new
    ]
    old_marks, new_marks = marks(before), marks(after)
    return fields + [
        Change(before.id, key, old_marks.get(key, UNLISTED), new_marks.get(key, UNLISTED))
        for key in dict.fromkeys((*old_marks, *new_marks))
        if old_marks.get(key) != new_marks.get(key)
    ]


def split(golden: GoldenSet, share: float, seed: int) -> tuple[GoldenSet, GoldenSet]:
    """Split a golden set by conversation; ``share`` of the conversations go into the first part.

    Conversations are ordered by a hash of ``seed`` and name, so a larger share contains the conversations of a smaller
    one. Raises :class:`UnusableInput` if either part would be empty.
    """
    if not 0 < share < 1:
        raise UnusableInput(f"share {share} is not between 0 and 1")
    names = sorted({probe.conversation for probe in golden.judged}, key=lambda name: digest([seed, name]))
    if len(names) < 2:
        raise UnusableInput(f"{counted(len(names), 'conversation')}: a split by conversation needs at least two")
    first = set(names[: min(max(round(share * len(names)), 1), len(names) - 1)])
    return golden.of_conversations(first), golden.of_conversations(set(names) - first)


def split_by(golden: GoldenSet, name: str) -> dict[str, GoldenSet]:
    """Return the probes of each value of a slice, by value; probes without the slice are left out.

    Raises :class:`UnusableInput`, with the known slices, if no probe has it.
    """
    found: dict[str, list[Probe]] = {}
    for probe in golden.probes:
        if name in probe.slices:
            found.setdefault(probe.slices[name], []).append(probe)
    if not found:
        known = sorted({slice_name for probe in golden.probes for slice_name in probe.slices})
        raise UnusableInput(f"--by {name}: no probe has this slice; {choices(name, known, 'probes have')}")
    return {value: GoldenSet(tuple(found[value])) for value in sorted(found)}
