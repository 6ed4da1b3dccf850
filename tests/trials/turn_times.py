"""How long a turn waits, with and without the embedding of its prompt (seeds 002 and 004: about 100 ms a turn).

lab study latency DATA/realmem --format realmem --out OUT --memories 1000 --memories 10000 --memories 100000 \
    --turns 100 --cold 0 --appends 0 --waiting 0 --store lancedb --store exact --arm hybrid --arm seed_full …
python -m tests.trials.turn_times OUT DATA

Reads the warm turns that `lab study latency` timed, and adds to each the embedding of one prompt of the set, computed
alone and with one thread, as in a live system. The lab's own batches have 16 rows and take longer.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from lab.embedding.embedder import QUERY, SentenceTransformerEmbedder
from lab.measures.latency import NS_PER_MS, Quantile, spent_of
from lab.measures.model import TOTAL
from lab.recordings import read
from lab.runs.tables import read_table
from tests.trials.lanes import table

# Prompts before the first one that counts, so that the model is loaded.
WARM_UP = 5


def embedded(prompts: list[str]) -> tuple[list[float], list[float]]:
    """Return the milliseconds that the embedding of each prompt takes, by the clock and of the processor."""
    embedder = SentenceTransformerEmbedder()
    waited: list[float] = []
    computed: list[float] = []
    for prompt in [*prompts[:WARM_UP], *prompts]:
        clock, processor = time.perf_counter_ns(), time.process_time_ns()
        embedder.alone(prompt, QUERY)
        waited.append((time.perf_counter_ns() - clock) / NS_PER_MS)
        computed.append((time.process_time_ns() - processor) / NS_PER_MS)
    return waited[-len(prompts) :], computed[-len(prompts) :]


def ms(value: Quantile | None) -> str:
    """Return a quantile in milliseconds with its interval."""
    return "–" if value is None else f"{value.value:.1f} ({value.low:.1f}–{value.high:.1f})"


def main() -> None:
    """Print p50 and p95 of every arm, store and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    rows = [
        row
        for out in given.out
        for path in sorted((out / "samples").iterdir())
        for row in read_table(path).to_pylist()
        if row["part"] == "warm" and row["stage"] == TOTAL and not row["passed_over"]
    ]
    turns = max(row["turn"] for row in rows) + 1
    library = read(given.data / "realmem", "realmem")
    prompts = [turn.text for one in library.recordings for turn in one.turns if turn.role == "user"]
    prompt_ms, processor_ms = embedded(prompts[:turns])
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f}; embedding one of {turns} prompts, ms\n")
    for name, spent in (("by the clock", spent_of(prompt_ms)), ("of the processor", spent_of(processor_ms))):
        sys.stdout.write(f"{name}: p50 {ms(spent.p50)}, p95 {ms(spent.p95)}\n")
    sys.stdout.write("\n")
    times: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for row in rows:
        key = row["arm"], row["store"], row["memories"]
        times.setdefault(key, []).append((row["turn"], row["ns"] / NS_PER_MS))
    cells = []
    for (arm, store, size), pairs in sorted(times.items()):
        without = spent_of([spent for _, spent in pairs])
        total = spent_of([spent + prompt_ms[turn] for turn, spent in pairs])
        cells.append([arm, store, f"{size:,}", *map(ms, (without.p50, without.p95, total.p50, total.p95))])
    print(table(("arm", "store", "memories", "p50", "p95", "p50 with embedding", "p95 with embedding"), cells))


if __name__ == "__main__":
    main()
