"""Compare two golden sets, and split a golden set by conversation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import digest
from lab.base.formatting import counted
from lab.golden.model import GoldenSet, Probe

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
