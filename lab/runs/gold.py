"""The judgements that a run is scored with: its golden.jsonl, keys alone."""

from __future__ import annotations

from typing import NamedTuple

from lab.errors import CannotMeasure, UnusableInput
from lab.files import read_json_lines
from lab.runs.directory import GOLDEN, RunDirectory
from lab.shape import expect, field


class Gold(NamedTuple):
    """What the run's golden.jsonl says of one probe."""

    conversation: str
    grades: dict[str, int]
    visible: dict[str, str]
    forbidden: list[str]
    slices: dict[str, str]

    @property
    def judged(self) -> dict[str, int]:
        """Every judgement. A memory that misleads is judged, and not wanted."""
        return dict.fromkeys(self.forbidden, 0) | self.grades


def read_gold(run: RunDirectory) -> dict[str, Gold]:
    """The probes of a run by id, less those at which a recall failed (:attr:`RunDirectory.left_out`).

    Raises :class:`CannotMeasure` for a file that is not as the replay wrote it.
    """
    path = run.check(run.path / GOLDEN)
    found = {}
    for number, line in read_json_lines(path):
        at = f"{path}:{number}"
        try:
            relevant = [expect(one, dict, at) for one in field(line, "relevant", list, at)]
            graded = {field(one, "memory", str, at): field(one, "grade", int, at) for one in relevant}
            seen = {one["memory"]: field(one, "label", str, at) for one in relevant if field(one, "visible", bool, at)}
            forbidden = [expect(one, str, at) for one in field(line, "forbidden", list, at)]
            slices = {name: expect(one, str, at) for name, one in field(line, "slices", dict, at).items()}
            conversation = field(line, "conversation", str, at)
            found[field(line, "probe", str, at)] = Gold(conversation, graded, seen, forbidden, slices)
        except UnusableInput as error:
            raise CannotMeasure(f"{error}; delete it and run the replay again") from None
    return {probe: one for probe, one in found.items() if probe not in run.left_out}
