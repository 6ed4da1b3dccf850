"""Read the judgements that a run is scored with: golden.jsonl, which holds keys and no texts."""

from __future__ import annotations

from typing import NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import read_json_lines
from lab.base.shape import expect, field, optional
from lab.runs.directory import GOLDEN, RunDirectory


class Gold(NamedTuple):
    """The judgements of one probe.

    ``grades`` has those of the relevant memories; ``judged`` those of all judged ones, 0 for forbidden and irrelevant
    memories.
    """

    conversation: str
    grades: dict[str, int]
    visible: dict[str, str]
    forbidden: list[str]
    slices: dict[str, str]
    judged: dict[str, int]


def read_gold(run: RunDirectory) -> dict[str, Gold]:
    """Return the probes of a run by id, without those at which a recall failed (:attr:`RunDirectory.left_out`).

    A run of some conversations (:meth:`RunDirectory.of`) has only their probes.

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
            irrelevant = [expect(memory, str, at) for memory in optional(line, "irrelevant", list, [], at)]
            judged = dict.fromkeys((*forbidden, *irrelevant), 0) | grades
            slices = {name: expect(value, str, at) for name, value in field(line, "slices", dict, at).items()}
            conversation = field(line, "conversation", str, at)
            probes[field(line, "probe", str, at)] = Gold(conversation, grades, visible, forbidden, slices, judged)
        except UnusableInput as error:
            raise CannotMeasure(f"{error}; delete it and run the replay again") from None
    chosen = set(run.conversations)
    return {probe: gold for probe, gold in probes.items() if probe not in run.left_out and gold.conversation in chosen}
