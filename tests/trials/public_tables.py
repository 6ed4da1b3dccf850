"""Replay the public sets through all arms and print the tables of docs/public.md.

python tests/trials/public_tables.py DATA --out FOLDER [--haystack 0] [--set NAME …] [--jobs N]

DATA holds one folder for each set (:data:`SETS`). With a haystack, sets that have too few memories are filled from
:data:`FILL`. Finished replays in FOLDER are not repeated, so a second call only prints.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.api import open_run, replay
from lab.compare.statistics import clustered
from lab.measures.score import score_and_write

ARMS = ("tier_first_v1", "tier_quota_v1", "seed_full", "recommended", "hybrid", "vector", "bm25", "recency", "random")
SAMPLED: dict[str, Any] = {"labels": "sampled", "must_share": 0.10, "nice_share": 0.63}
HIT, REPEATS = "Success@6", "RepeatRate"
MEASURES = {HIT: "hit@6", "CleanHit@6": "CleanHit@6", "R@6": "R@6", "nDCG@6": "nDCG@6", REPEATS: REPEATS}
HARMS = {"FalseRecall": "FalseRecall", "Judged@6": "Judged@6"}
# Nobody judged added memories, so of the measures of ranks only hits remain.
ENLARGED = {HIT: "hit@6", "CleanHit@6": "CleanHit@6"}


class Set(NamedTuple):
    """A set: the folder in DATA, which is also its ``--format``; the start of its conversations; what fills it."""

    folder: str
    part: str = ""
    fill: str | None = None
    # LoCoMo asks after the last session; only if every turn is a recall turn can an item repeat.
    recall_turns: str | None = None


SETS = {
    "RealMem": Set("realmem", fill="locomo"),
    "LoCoMo": Set("locomo", recall_turns="all"),
    "iKAT": Set("ikat", fill="locomo"),
    "BEAM": Set("beam"),
    "REALTALK": Set("realtalk", fill="locomo"),
    "MADial, English": Set("madial", "en", "locomo"),
    "MADial, Chinese": Set("madial", "zh", "locomo"),
}


class Row(NamedTuple):
    """One arm on one set: means by measure, and the 95 % interval of the hits if there are enough conversations."""

    set: str
    arm: str
    probes: int
    means: dict[str, float | None]
    interval: tuple[float, float] | None


def main() -> None:
    """Print the hits of each set by arm, then every measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--haystack", type=int, default=0)
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    names = given.set or list(SETS)
    rows = [row for name in names for row in rows_of(name, given.data, given.out, given.haystack, given.jobs)]
    measures = (ENLARGED if given.haystack else MEASURES) | HARMS
    print("\n".join([*hits_table(rows), "", *measures_table(rows, measures)]))


def rows_of(name: str, data: Path, out: Path, haystack: int, jobs: int) -> list[Row]:
    """Replay one set and return a row for each arm."""
    one = SETS[name]
    options: dict[str, Any] = SAMPLED | {"haystack": haystack}
    if one.recall_turns:
        options["recall_turns"] = one.recall_turns
    if one.fill and haystack:
        options["haystack_from"] = (f"{data / one.fill}:{one.fill}",)
    folder = out / f"{one.folder}-{haystack}"
    sys.stderr.write(f"{folder}\n")
    replay(data / one.folder, arms=ARMS, out=folder, format=one.folder, jobs=jobs, **options)
    scores = score_and_write(open_run(folder).directory)
    rows = []
    for arm in ARMS:
        means: dict[str, float | None] = {}
        hits: dict[str, list[float]] = {}
        for measure, values in scores.of_arm(arm).items():
            pairs = [
                pair for pair in zip(values.conversation, values.value, strict=True) if pair[0].startswith(one.part)
            ]
            means[measure] = math.fsum(value for _, value in pairs) / len(pairs) if pairs else None
            for conversation, value in pairs if measure == HIT else []:
                hits.setdefault(conversation, []).append(value)
        estimate = clustered(hits)
        bounds = None
        # Equal conversations, such as those without any hit, give no width.
        if estimate.low is not None and estimate.high is not None and estimate.low < estimate.high:
            bounds = (max(0.0, estimate.low), min(1.0, estimate.high))
        rows.append(Row(name, arm, sum(map(len, hits.values())), means, bounds))
    return rows


def hits_table(rows: Sequence[Row]) -> list[str]:
    """Return the table of the hits: a line for each set, a column for each arm."""
    lines = [f"| set | probes | {' | '.join(ARMS)} |", f"| --- | {' | '.join(['---:'] * (len(ARMS) + 1))} |"]
    for at in range(0, len(rows), len(ARMS)):
        part = rows[at : at + len(ARMS)]
        lines.append(f"| {part[0].set} | {part[0].probes} | {' | '.join(share(row.means[HIT]) for row in part)} |")
    return lines


def measures_table(rows: Sequence[Row], measures: dict[str, str]) -> list[str]:
    """Return the table of all measures: a line for each set and arm."""
    lines = [
        f"| set | arm | {' | '.join(measures.values())} |",
        f"| --- | --- | {' | '.join(['---:'] * len(measures))} |",
    ]
    for row in rows:
        cells = [share(row.means.get(measure)) for measure in measures]
        if row.interval:
            cells[0] += f" ({share(row.interval[0])}–{share(row.interval[1])})"
        lines.append(f"| {f'{row.set} ' if row.arm == ARMS[0] else ''}| {row.arm} | {' | '.join(cells)} |")
    return lines


def share(value: float | None) -> str:
    """Return a share with three digits, as the tables write it."""
    return "–" if value is None else f"{value:.3f}".removeprefix("0") if value < 1 else "1.00"


if __name__ == "__main__":
    main()
