"""Recalls a second, p50 and p95 of the arms of a run: ``python tests/peers/latencies.py RUN``, without cold recalls."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from lab.runs.tables import read_table


def main(run: Path) -> None:
    """Print one line for each arm; a recall takes the sum of its stages, in milliseconds."""
    spent: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for path in sorted((run / "latency").glob("*.parquet")):
        for row in read_table(path).to_pylist():
            if not row["cold"]:
                spent[row["arm"]][path.stem, row["turn"]] += row["ns"]
    for arm, recalls in spent.items():
        times = np.array([*recalls.values()]) / 1e6
        p50, p95 = np.percentile(times, (50, 95))
        print(f"{arm}: {len(times):,} recalls, {1000 / times.mean():,.0f} a second, p50 {p50:.2f} ms, p95 {p95:.2f} ms")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
