"""Read the judgements that a run is scored with: golden.jsonl, which holds keys and no texts."""

from __future__ import annotations

from typing import NamedTuple

from lab.errors import CannotMeasure, UnusableInput
from lab.files import read_json_lines
from lab.runs.directory import GOLDEN, RunDirectory
from lab.shape import expect, field


class Gold(NamedTuple):
    """The judgements of one probe."""

    conversation: str
    grades: dict[str, int]
    visible: dict[str, str]
    forbidden: list[str]
    slices: dict[str, str]

    @property
    def judged(self) -> dict[str, int]:
        """The grade of every judged memory; 0 for one that is judged misleading."""
        return dict.fromkeys(self.forbidden, 0) | self.grades


def read_gold(run: RunDirectory) -> dict[str, Gold]:
    """Return the probes of a run by id, without those at which a recall failed (:attr:`RunDirectory.left_out`).

    Raises :class:`CannotMeasure` for a malformed line.
    """
    path = run.check(run.path / GOLDEN)
    probes = {}
    for number, line in read_json_lines(path):
        at = f"{path}:{number}"
        try:
            relevant = [expect(entry, dict, at) for entry in field(line, "relevant", list, at)]
            grades = {field(entry, "memory", str, at): field(entry, "grade", int, at) for entry in relevant}
            in_reach = [entry for entry in relevant if field(entry, "visible", bool, at)]
            visible = {entry["memory"]: field(entry, "label", str, at) for entry in in_reach}
            forbidden = [expect(memory, str, at) for memory in field(line, "forbidden", list, at)]
            slices = {name: expect(value, str, at) for name, value in field(line, "slices", dict, at).items()}
            conversation = field(line, "conversation", str, at)
            probes[field(line, "probe", str, at)] = Gold(conversation, grades, visible, forbidden, slices)
        except UnusableInput as error:
            raise CannotMeasure(f"{error}; delete it and run the replay again") from None
    return {probe: gold for probe, gold in probes.items() if probe not in run.left_out}
