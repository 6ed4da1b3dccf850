"""What the reading of ``unknown`` in a writeback costs: rows that stay unknown, and hits.

    python tests/trials/writeback_figures.py shipped:operators
    python tests/trials/writeback_figures.py DATA/realmem --format realmem

A share of the memories is stored without an importance, so that their label is unknown; the others are stored with the
grade of heuristic-v1. Then the sidecar grades all of them and writes back. Under ``upstream fill`` the label unknown is
a value and stays; under ``seed fill`` it is replaced by the grade. Recall depends on the label alone, so an ``upstream
fill`` recalls what is recalled without any writeback. The last table has the share of memories from each threshold on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from lab.cli.output import announce
from lab.draw import draw
from lab.recordings.model import UNKNOWN, Recording
from lab.replay.plan import ReplayRequest, make_plan
from lab.sweep.relabelled import Assignment, relabelled, total
from lab.systems.sidecar.heuristic import Grade, grade_observation

POLICIES = ("tier_first_v1", "tier_quota_v1")
SHARES = (1.0, 0.5, 0.1)
THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@lru_cache(maxsize=1 << 16)
def grade(text: str) -> Grade:
    """Return the sidecar's grade of a text."""
    return grade_observation({"summary": text})


@dataclass(frozen=True)
class Written:
    """The labels after a writeback; ``share`` of the memories were stored without an importance."""

    share: float
    fills: bool

    def of(self, recording: Recording, _: Iterable[str], /) -> dict[str, str]:
        """Return labels by memory key."""
        return {
            memory.key: UNKNOWN
            if not self.fills and draw(20, f"importance {memory.key}") < self.share
            else grade(memory.text).label
            for memory in recording.memories
        }


def main() -> None:
    """Replay and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--format", default="lab")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    plan = make_plan(ReplayRequest(given.path, given.format, POLICIES))
    readings = [Written(share, fills) for share, fills in ((0.0, True), *((share, False) for share in SHARES))]
    found = relabelled(plan, tuple(Assignment(one, one) for one in readings), given.jobs, announce)
    print("without importance | reading | arm | unknown for ever | must | ignored | probes | hit | repeat")
    for reading in readings:
        for arm in POLICIES:
            tally = total(found[reading, arm])
            unknown = tally.memories - tally.must - tally.nice - tally.ignored
            name = "seed fill" if reading.fills else "upstream fill"
            print(
                f"{'any' if reading.fills else f'{reading.share:.0%}'} | {name} | "
                f"{arm} | {unknown} of {tally.memories} | {tally.must / tally.memories:.3f} | "
                f"{tally.ignored / tally.memories:.3f} | {tally.probes} | {tally.hits / tally.probes:.3f} | "
                f"{tally.repeat / tally.turns:.3f}"
            )
    scores = [grade(memory.text).score for recording in plan.recordings for memory in recording.memories]
    print("threshold | share of must_remember")
    for threshold in THRESHOLDS:
        print(f"{threshold:.2f} | {sum(score >= threshold for score in scores) / len(scores):.3f}")


if __name__ == "__main__":
    main()
