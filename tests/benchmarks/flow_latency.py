"""Latency of the live path by stage: both policies and the whole seed flow over LanceDB, interleaved turn by turn.

Run ``python tests/benchmarks/flow_latency.py [ROWS …] [--turns N]``; no file is written. Quantiles are over turns; the
ratio of the flow's own stages to the search is the figure to quote, for times are this machine's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lab.engine.recall.turn import Memories
from lab.engine.settings import AutoRecall, EngineConfig, WorkingSetSettings
from lab.engine.store.contract import Query
from lab.engine.store.lance import LanceStore
from lab.engine.store.listing import Listing
from lab.engine.store.tokens import TextSettings
from lab.systems.contract import Request
from lab.systems.engine import FlowRecall, TieredRecall

CATEGORIES = ("fact", "preference", "decision", "todo", "entity")
SEARCHES = ("search", "retrieve")
WARM_UP = 5


def _invented(count: int) -> Any:
    # Its neighbour is a test module, and the folder no package.
    sys.path.insert(0, str(Path(__file__).parent))
    import test_turn

    return test_turn.invented(count), test_turn.WORDS, test_turn.DIMENSION


def main(sizes: list[int], turns: int) -> None:
    """Print a table for each size."""
    for size in sizes:
        (rows, vectors, texts), words, dimension = _invented(size)
        rows = [_kind(row, place) for place, row in enumerate(rows)]
        store, listing = LanceStore(dimension, TextSettings()), Listing()
        store.add(rows, vectors, texts)
        listing.add(rows)
        by_id = {row.id: row for row in rows}
        full = EngineConfig(
            auto_recall=AutoRecall(selection_mode="tier_quota_v1"), working_set=WorkingSetSettings(enabled=True)
        )
        arms: list[Any] = [TieredRecall("tier_first_v1", EngineConfig()), TieredRecall("tier_quota_v1", EngineConfig())]
        arms.append(FlowRecall("seed_full", full))
        spent: dict[tuple[str, str], list[float]] = {}
        random = np.random.default_rng(1)
        for turn in range(turns + WARM_UP):
            asked = [words[place] for place in np.minimum(random.zipf(1.3, 10), len(words)) - 1]
            vector = vectors[random.integers(size)]
            # Every second turn the other way round: what the first arm warms is not always the same arm's.
            for arm in arms if turn % 2 else arms[::-1]:
                query = Query(" ".join(asked), asked, vector)
                memories = Memories(store.view(query), store.rows, by_id, listing)
                recall = arm.select(Request(f"t{turn}", query.text, None, size + turn, "s"), memories)
                if turn >= WARM_UP:
                    for stage, nanoseconds in recall.timings.items():
                        spent.setdefault((arm.name, stage), []).append(nanoseconds / 1e6)
                    own = sum(value for stage, value in recall.timings.items() if stage not in SEARCHES)
                    spent.setdefault((arm.name, "all but search"), []).append(own / 1e6)
        store.close()
        _show(size, turns, arms, spent)


def _kind(row: Any, place: int) -> Any:
    from dataclasses import replace

    return replace(row, category=CATEGORIES[place % len(CATEGORIES)], hard_rule=place in (3, 5))


def _show(size: int, turns: int, arms: list[Any], spent: dict[tuple[str, str], list[float]]) -> None:
    sys.stdout.write(f"\n{size} memories, {turns} turns, milliseconds\n")
    sys.stdout.write(f"{'arm':<15}{'stage':<16}{'p50':>9}{'p95':>9}{'of search':>11}\n")
    for arm in arms:
        search = np.percentile(spent[arm.name, "search"], 50)
        for (name, stage), values in spent.items():
            if name == arm.name:
                middle, high = np.percentile(values, [50, 95])
                sys.stdout.write(f"{name:<15}{stage:<16}{middle:9.3f}{high:9.3f}{middle / search:11.1%}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--turns", type=int, default=100)
    given = parser.parse_args()
    main(given.rows, given.turns)
