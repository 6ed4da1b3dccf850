"""The judgements that a run is scored with: its golden.jsonl, keys alone."""

from __future__ import annotations

from typing import NamedTuple

from lab.errors import CannotMeasure
from lab.files import read_json_lines
from lab.runs.directory import GOLDEN, RunDirectory


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
        try:
            found[line["probe"]] = Gold(
                line["conversation"],
                {one["memory"]: int(one["grade"]) for one in line["relevant"]},
                {one["memory"]: one["label"] for one in line["relevant"] if one["visible"]},
                list(line["forbidden"]),
                dict(line["slices"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            told = f"damaged ({type(error).__name__}: {error})"
            raise CannotMeasure(f"{path}:{number}: {told}; delete it and run the replay again") from None
    return {probe: one for probe, one in found.items() if probe not in run.left_out}
