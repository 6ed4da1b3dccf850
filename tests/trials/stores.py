"""Compare the exact store with LanceDB: whole recordings, and stores of 100,000 memories.

``python tests/trials/stores.py [--rows N] [--set FORMAT=PATH …]`` compares and prints what was compared; it ends with 1
at the first difference. The suite does the same on less (``tests/retrieval/test_stores_agree.py``).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from lab.base.processes import set_up
from lab.recordings.model import LABELS
from lab.replay.run import run_replay
from lab.retrieval.contract import Filter, Query
from lab.retrieval.exact import ExactStore
from lab.retrieval.lance import LanceStore
from lab.retrieval.tokens import TextSettings, Tokens
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table

ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "seed_full")
FILTERS = [
    Filter(), *(Filter(None, (label,)) for label in LABELS), Filter("s1"), Filter("s2", LABELS[:1]), Filter("none")
]  # fmt: skip


def invented(count: int, dimension: int = 384) -> Any:
    """Return rows of real words in Zipf's proportions, with some duplicate vectors and texts."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
    from dataclasses import replace

    import test_turn

    rows, vectors, _ = test_turn.invented(count)
    rows = [replace(row, scope=f"s{at % 3}") for at, row in enumerate(rows)]
    vectors[5::11] = vectors[:1]
    return rows, vectors[:, :dimension]


def at_size(count: int, turns: int) -> int:
    """Compare hits in stores of ``count`` rows, half of them added later; return how many."""
    rows, vectors = invented(count)
    words = Tokens(TextSettings())
    texts = [row.index_text for row in rows]
    words.prepare(texts)
    tokens = words.of(texts)
    random = np.random.default_rng(3)
    exact, lance = ExactStore(vectors.shape[1]), LanceStore(vectors.shape[1], TextSettings())
    compared = 0
    with closing(exact), closing(lance):
        for part in (slice(0, count // 2), slice(count // 2, count)):
            for store in (exact, lance):
                store.add(rows[part], vectors[part], tokens[part])
            asked = random.integers(0, part.stop, turns)
            near = vectors[asked] + 0.02 * random.normal(size=(turns, vectors.shape[1])).astype(np.float32)
            exact.expect(near)
            for at, vector in zip(asked.tolist(), near, strict=True):
                query = Query(texts[at], tokens[at], vector)
                mine, theirs = exact.view(query), lance.view(query)
                for where in FILTERS:
                    for ours, others in zip(mine.search(where, 12)[:2], theirs.search(where, 12)[:2], strict=True):
                        if [hit[:2] for hit in ours] != [hit[:2] for hit in others]:
                            raise SystemExit(f"{count} rows: {where} of {query.text!r}: {ours} is not {others}")
                        compared += len(ours)
    return compared


def of_recordings(format_name: str, path: str, more: dict[str, Any]) -> int:
    """Compare the receipts of every arm at every recall point of a set; return how many."""
    with tempfile.TemporaryDirectory() as folder:
        tables = []
        for store in ("exact", "lancedb"):
            asked = ReplayRequest(path, format_name, ARMS, store=store, labels="sampled", hard_rules=2, **more)
            run = run_replay(asked, Path(folder) / store, jobs=2).run
            run.require_done()
            tables.append({name: read_table(run.receipts(name)) for name in run.conversations})
    for name, mine in tables[0].items():
        if not mine.equals(tables[1][name], check_metadata=True):
            raise SystemExit(f"{path}: {name}: the receipts differ")
    return sum(one.num_rows for one in tables[0].values())


def main() -> None:
    """Run the named comparisons."""
    set_up()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="*", default=[])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--set", nargs="*", default=[], metavar="FORMAT=PATH")
    given = parser.parse_args()
    for count in given.rows:
        started = time.perf_counter()
        sys.stdout.write(f"{count} rows: {at_size(count, given.turns)} hits alike")
        sys.stdout.write(f" ({time.perf_counter() - started:.0f} s)\n")
    for one in given.set:
        format_name, _, path = one.partition("=")
        started = time.perf_counter()
        more = {"scope": "recorded"} if format_name == "lab" else {}
        sys.stdout.write(f"{path}: {of_recordings(format_name, path, more)} receipts alike")
        sys.stdout.write(f" ({time.perf_counter() - started:.0f} s)\n")


if __name__ == "__main__":
    main()
