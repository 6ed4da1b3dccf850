"""What the reading of ``unknown`` in a writeback costs: rows that stay unknown for ever, and hits.

    python tests/trials/writeback_figures.py shipped:operators
    python tests/trials/writeback_figures.py DATA/realmem --format realmem

A share of the memories is stored without an importance, so that their label is unknown; the others are stored with
their grade. Then all are graded and written back. Under ``upstream fill`` the label unknown is a value and stays; under
``seed fill`` the grade replaces it. Grades are those of heuristic-v1, and the labels of the recording if it has any.
Recall depends on the label alone, so an ``upstream fill`` recalls what is recalled without any writeback. Differences
are of hits at the same probes, with 95 % intervals by conversation; below six conversations there is none.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.base.draw import draw
from lab.base.set_registry import recordings_at
from lab.cli.output import announce
from lab.compare.statistics import clustered, sign_flip
from lab.golden.model import is_added
from lab.recordings.model import UNKNOWN, Recording
from lab.replay.plan import Plan, make_plan
from lab.runs.request import ReplayRequest
from lab.studies.governance import Grading
from lab.studies.points import POLICIES
from lab.studies.relabelled import Assignment, Tally, relabelled, total

HEURISTIC, RECORDED = "heuristic-v1", "recorded"
SHARES = (1.0, 0.5, 0.1)


@dataclass(frozen=True)
class Written:
    """The labels after a writeback of a grader's labels; ``share`` of the memories keep the label unknown."""

    grader: str
    share: float

    def of(self, recording: Recording, gold: Iterable[str], /) -> dict[str, str]:
        """Return labels by memory key."""
        if self.grader == RECORDED:
            labels = {memory.key: memory.label or UNKNOWN for memory in recording.memories}
        else:
            labels = Grading(self.grader).of(recording, gold)
        return {key: UNKNOWN if draw(20, f"importance {key}") < self.share else label for key, label in labels.items()}


def unknown(plan: Plan, written: Written) -> tuple[int, int]:
    """Return how many memories are unknown, of how many; those of a haystack are copies and do not count."""
    labels = [
        label for recording in plan.recordings for key, label in written.of(recording, ()).items() if not is_added(key)
    ]
    return labels.count(UNKNOWN), len(labels)


def difference(before: Sequence[Tally], after: Sequence[Tally]) -> str:
    """Return the change of hits from ``before`` to ``after`` with its interval and p, or by conversation."""
    sums = [new.hits - old.hits for old, new in zip(before, after, strict=True) if old.probes]
    sizes = [one.probes for one in before if one.probes]
    # Only the sums and sizes of the clusters enter the interval.
    estimate = clustered({str(at): [sums[at] / size] * size for at, size in enumerate(sizes)})
    if estimate.low is None or estimate.high is None:
        parts = ", ".join(f"{part / size:+.3f}" for part, size in zip(sums, sizes, strict=True))
        return f"{estimate.mean:+.3f} (by conversation {parts})"
    return f"{estimate.mean:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}], p {sign_flip(sums):.4f}"


def main() -> None:
    """Replay and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--format", default="lab")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    plan = make_plan(ReplayRequest(str(recordings_at(given.path)), given.format, POLICIES))
    has_labels = any(memory.label for recording in plan.recordings for memory in recording.memories)
    graders = (HEURISTIC, RECORDED) if has_labels else (HEURISTIC,)
    readings = [Written(grader, share) for grader in graders for share in (0.0, *SHARES)]
    found = relabelled(plan, tuple(Assignment(one, one) for one in readings), given.jobs, announce)
    print("grades | stored without importance | arm | unknown for ever | probes | hit | upstream fill less seed fill")
    for reading in readings:
        count, memories = unknown(plan, reading)
        for arm in POLICIES:
            tallies, filled = found[reading, arm], found[Written(reading.grader, 0.0), arm]
            tally = total(tallies)
            print(
                f"{reading.grader} | {f'{reading.share:.0%}, upstream fill' if reading.share else 'any, seed fill'} | "
                f"{arm} | {count} of {memories} | {tally.probes} | {tally.hits / tally.probes:.3f} | "
                f"{difference(filled, tallies) if reading.share else ''}"
            )


if __name__ == "__main__":
    main()
