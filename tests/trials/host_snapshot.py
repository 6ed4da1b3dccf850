"""Measure snapshots of a large home: what is there, how long a snapshot takes, how large it is, and a second one.

    python tests/trials/host_snapshot.py FOLDER [--megabytes 1000] [--memories 20000]

Makes ``FOLDER/home``, unless it is there: transcripts of half a megabyte each of two agents, a LanceDB store with so
many memories (vectors of 384 numbers, written in batches of a thousand), a log of a tenth of the size, and a
configuration. Then prints seconds and bytes, as one JSON object. Remove FOLDER with ``chmod -R u+w`` first.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lab.base.files import remove_folder
from lab.host.home import look
from lab.host.snapshot import open_snapshot, take

T = TypeVar("T")
START = 1_790_000_000_000
WORDS = ("garden", "basil", "choir", "mill", "attic", "window", "shed", "key", "clock", "cactus", "fair", "guest")


def make_home(home: Path, megabytes: int, memories: int) -> None:
    """Write a home of about so many megabytes of transcripts."""
    from tests.host.hosts import add_session

    draws = random.Random(1)
    said = [" ".join(draws.choices(WORDS, k=400)) for _ in range(300)]
    size = number = 0
    while size < megabytes * 1_000_000:
        turns = [f"{number} {text}" for text in draws.sample(said, 90)]
        agent = ("main", "second")[number % 2]
        size += add_session(home, f"{number:06d}-aaaa", START + number * 10_000_000, turns, agent).stat().st_size
        number += 1
    _make_store(home / "memory" / "lancedb", memories, draws)
    line = json.dumps({"time": "2026-11-01T00:00:00Z", "0": "x" * 500}) + "\n"
    (home / "gateway.log").write_text(line * (megabytes * 100_000 // len(line)), "utf-8")
    config = {"dbPath": "~/.openclaw/memory/lancedb", "embedding": {"apiKey": "none"}}
    settings = {
        "logging": {"file": "~/.openclaw/gateway.log"},
        "plugins": {"entries": {"openclaw-mem-engine": {"enabled": True, "config": config}}},
    }
    (home / "openclaw.json").write_text(json.dumps(settings), "utf-8")


def _make_store(folder: Path, memories: int, draws: random.Random) -> None:
    import lancedb
    import numpy as np
    import pyarrow as pa

    numbers = np.random.default_rng(1)
    table = None
    for first in range(0, memories, 1000):
        count = min(1000, memories - first)
        vectors = numbers.normal(size=count * 384).astype("float32")
        rows = pa.table(
            {
                "id": [f"{first + row:08d}" for row in range(count)],
                "text": [" ".join(draws.choices(WORDS, k=30)) for _ in range(count)],
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 384),
                "createdAt": [float(START + 1000 * (first + row)) for row in range(count)],
                "importance_label": [("must_remember", "nice_to_have", "unknown")[row % 3] for row in range(count)],
            }
        )
        if table is None:
            table = lancedb.connect(str(folder)).create_table("memories", rows)
        else:
            table.add(rows)


def timed(does: Callable[[], T]) -> tuple[T, float]:
    """Return what a function returns, and its seconds."""
    begin = time.perf_counter()
    found = does()
    return found, round(time.perf_counter() - begin, 2)


def measure(folder: Path, megabytes: int, memories: int) -> dict[str, Any]:
    """Return the measured seconds and sizes."""
    from tests.host.hosts import add_session

    home, root = folder / "home", folder / "snapshots"
    if not home.is_dir():
        make_home(home, megabytes, memories)
    if root.is_dir():
        remove_folder(root)
    found, looked = timed(lambda: look(home))
    first, taken = timed(lambda: take(found, root, date="2026-11-01", created="x"))
    _, checked = timed(lambda: open_snapshot(first.path, first.sha256))
    _, same = timed(lambda: take(found, root, date="2026-11-02", created="x", like=first))
    add_session(home, "later-aaaa", START * 2, ["What is new in the garden today?"])
    second, grown = timed(lambda: take(look(home), root, date="2026-11-03", created="x", like=first))
    (home / "agents" / "main" / "sessions" / "later-aaaa.jsonl").unlink()
    own = sum(file.stat().st_size for file in second.path.rglob("*") if file.is_file() and file.stat().st_nlink == 1)
    return {
        "files": len(first.files),
        "bytes": first.size,
        "seconds": {"look": looked, "take": taken, "check": checked, "unchanged": same, "grown": grown},
        "bytes of the second snapshot that are its own": own,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--memories", type=int, default=20_000)
    given = parser.parse_args()
    print(json.dumps(measure(given.folder, given.megabytes, given.memories)))
