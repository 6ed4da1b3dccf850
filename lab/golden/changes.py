"""What two golden sets judge differently, and a golden set split in two by conversation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from lab.errors import UnusableInput
from lab.files import digest
from lab.formatting import counted
from lab.golden.model import GoldenSet, Probe

FORBIDDEN, UNLISTED = "forbidden", "–"
TYPE = "type"


class Change(NamedTuple):
    """Something of a probe that differs; ``what`` is a memory's key, ``type``, ``query`` or ``conversation``."""

    probe: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Differences:
    """Probes added and removed, and what changed in the others: judgements and questions, and their types.

    A type decides no measure, only the slice that a probe is told in. Reasons are no difference, for nothing reads
    them: ``reworded`` is how many probes differ in their words alone.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[Change, ...]
    retyped: tuple[Change, ...]
    reworded: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changes or self.retyped)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = {name: [one._asdict() for one in getattr(self, name)] for name in ("changes", "retyped")}
        return asdict(self) | plain


def differences(before: GoldenSet, after: GoldenSet) -> Differences:
    """What changed from one golden set to another, probes in the order of the first."""
    old, new = by_id(before), by_id(after)
    both = [(old[name], new[name]) for name in old if name in new]
    found = [change for pair in both for change in _changes(*pair)]
    changed = {change.probe for change in found}
    return Differences(
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
        tuple(change for change in found if change.what != TYPE),
        tuple(change for change in found if change.what == TYPE),
        sum(one != other and one.id not in changed for one, other in both),
    )


def by_id(golden: GoldenSet) -> dict[str, Probe]:
    """Probes by id; :class:`UnusableInput` where one occurs twice."""
    found: dict[str, Probe] = {}
    for probe in golden.probes:
        if probe.id in found:
            raise UnusableInput(f"golden set: probe {probe.id} occurs twice; `lab golden lint` lists all such")
        found[probe.id] = probe
    return found


def marks(probe: Probe) -> dict[str, str]:
    """What a probe says of each memory that it lists: a grade, or forbidden."""
    return {one.memory: FORBIDDEN for one in probe.forbidden} | {one.memory: str(one.grade) for one in probe.relevant}


def _changes(before: Probe, after: Probe) -> list[Change]:
    found = [
        Change(before.id, what, old or UNLISTED, new or UNLISTED)
        for what, old, new in (
            ("conversation", before.conversation, after.conversation),
            ("query", before.query, after.query),
            (TYPE, before.slices.get(TYPE), after.slices.get(TYPE)),
        )
        if old != new
    ]
    old_marks, new_marks = marks(before), marks(after)
    return found + [
        Change(before.id, key, old_marks.get(key, UNLISTED), new_marks.get(key, UNLISTED))
        for key in dict.fromkeys((*old_marks, *new_marks))
        if old_marks.get(key) != new_marks.get(key)
    ]


def split(golden: GoldenSet, share: float, seed: int) -> tuple[GoldenSet, GoldenSet]:
    """Two golden sets without a conversation in common; ``share`` of the conversations are in the first.

    Conversations are ordered by a hash of seed and name, so those of a smaller share are among those of a larger one.
    Raises :class:`UnusableInput` where either would be empty.
    """
    if not 0 < share < 1:
        raise UnusableInput(f"share {share} is not between 0 and 1")
    names = sorted({probe.conversation for probe in golden.probes}, key=lambda name: digest([seed, name]))
    if len(names) < 2:
        raise UnusableInput(f"{counted(len(names), 'conversation')}: a split by conversation needs two at least")
    first = set(names[: min(max(round(share * len(names)), 1), len(names) - 1)])
    return (
        GoldenSet(tuple(probe for probe in golden.probes if probe.conversation in first)),
        GoldenSet(tuple(probe for probe in golden.probes if probe.conversation not in first)),
    )
