"""Processor time of ``lab canary shadow`` beside the recalls of a real gateway (docs/canary.md).

    python -m tests.peers.live_shadow FOLDER --openclaw NODE_MODULES --engine FOLDER [--turns 100]

The packages are those of :mod:`tests.peers.live_watch`. FOLDER gets a home whose store has so many memories. The
gateway serves turns, of which the engine skips every other one; the difference of its processor time is what a recall
costs, without the provider of embeddings, which is another process. Then a shadow looks at the recalls, and looks again
after ``--more`` turns. Its processor time is printed by part.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.peers.live_watch import DIMENSIONS, ENTRY, Home, _vector

# The engine makes no recall for such a text.
SKIPPED = "ok"
WARM, NEWEST = 20, 1_700_000_000_000
WORDS = [
    a + b + c for a in ("ka", "lo", "mi", "ne", "su", "ta", "ri") for b in "bdgklmnprst" for c in ("an", "el", "is")
]


def sentence(draw: random.Random, words: int = 12) -> str:
    """Return a sentence of drawn words."""
    return " ".join(draw.choices(WORDS, k=words)).capitalize() + "."


def write_memories(home: Home, count: int) -> None:
    """Write the engine's table with so many memories, a third of each importance."""
    import pyarrow as pa

    from lab.retrieval.quiet import import_lancedb
    from lab.systems.openclaw.table.schema import schema

    draw = random.Random(7)
    texts = [sentence(draw) for _ in range(count)]
    labels = ["must_remember", "nice_to_have", "unknown"]
    columns: dict[str, list[Any]] = {
        "id": [f"{draw.getrandbits(32):08x}-0000-4000-8000-{at:012x}" for at in range(count)],
        "text": texts,
        "vector": [_vector(text, DIMENSIONS) for text in texts],
        "createdAt": [float(NEWEST - 1000 * (count - at)) for at in range(count)],
        "category": ["fact"] * count,
        "importance": [(0.9, 0.6, 0.3)[at % 3] for at in range(count)],
        "importance_label": [labels[at % 3] for at in range(count)],
        "scope": ["global"] * count,
        "trust_tier": ["user"] * count,
    }
    store = home.state / "memory" / "lancedb"
    import_lancedb().connect(str(store)).create_table("memories", pa.table(columns, schema=schema(DIMENSIONS, ())))


def configured(home: Home) -> None:
    """Let the engine recall from the store alone, and store nothing."""
    value = json.loads(home.config.read_text("utf-8"))
    engine = value["plugins"]["entries"][ENTRY]["config"]
    engine["autoCapture"]["enabled"] = False
    del engine["docsColdLane"]
    engine["receipts"]["maxItems"] = 10
    home.config.write_text(json.dumps(value, indent=2), "utf-8")


def processor_time(process: int) -> float:
    """Return the seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_a_recall(home: Home, turns: int, session: int) -> tuple[float, float]:
    """Serve turns in pairs, one of which the engine skips; return what the other takes more, and its standard error."""
    draw, differences = random.Random(3), []
    for number in range(WARM + turns):
        spent = {}
        for text in (SKIPPED, sentence(draw))[:: 1 if number % 2 else -1]:
            before = processor_time(home.process)
            home.say(text, f"room{number // session}")
            time.sleep(0.1)
            spent[text == SKIPPED] = processor_time(home.process) - before
        differences.append(spent[False] - spent[True])
    kept = differences[WARM:]
    return statistics.mean(kept), statistics.stdev(kept) / len(kept) ** 0.5


PARTS = {
    "lab.host.snapshot": {"take": "snapshot", "open_snapshot": "snapshot"},
    "lab.canary.agree.logged": {"read_log": "reading"},
    "lab.recordings.readers": {"read_library": "reading"},
    "lab.replay.plan": {"make_plan": "reading"},
    "lab.replay.run": {"prepare": "embedding", "replay_each": "replay", "contents_of": "reading"},
    "lab.canary.rollout.shadow": {
        "pool_of": "pool",
        "score_and_write": "comparison",
        "compare_arms": "comparison",
        "deleted_rows": "reading",
    },
}


def look(words: list[str]) -> None:
    """Run a shadow in this process; print its seconds of processor time by part as the last line."""
    import importlib

    spent, stack = Counter[str](), ["other"]
    last = time.process_time()
    spent["start-up"] = last

    def switch() -> None:
        nonlocal last
        now = time.process_time()
        spent[stack[-1]] += now - last
        last = now

    @contextmanager
    def part(name: str) -> Iterator[None]:
        switch()
        stack.append(name)
        try:
            yield
        finally:
            switch()
            stack.pop()

    def timed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with part(name):
                found = function(*args, **kwargs)
            if not isinstance(found, Iterator):
                return found
            return each(found, name)

        return call

    def each(found: Iterator[Any], name: str) -> Iterator[Any]:
        while True:
            with part(name):
                one = next(found, stack)
            if one is stack:
                return
            yield one

    with part("start-up"):
        from lab.cli.main import main as lab

        modules = {name: importlib.import_module(name) for name in PARTS}
        from lab.retrieval.quiet import import_lancedb

        import_lancedb()
    for module, functions in PARTS.items():
        for name, bucket in functions.items():
            original = getattr(modules[module], name)
            for other in list(sys.modules.values()):
                if getattr(other, name, None) is original:
                    setattr(other, name, timed(original, bucket))
    sys.argv = ["lab", *words]
    try:
        lab()
    finally:
        switch()
        print(json.dumps({"seconds": {name: round(value, 3) for name, value in spent.items()}}), flush=True)


def shadowed(home: Home, candidate: Path) -> dict[str, float]:
    """Let a shadow look at the home; return its seconds of processor time by part."""
    url = f"openai:text-embedding-3-small@{home.stubs.url}/v1"
    words = ["canary", "shadow", str(home.state), "--candidate", str(candidate), "--embedder", url]
    words += ["--out", str(home.folder / "shadow")]
    env = {**os.environ, "LAB_EMBEDDER_KEY": "stub", "LAB_CACHE_DIR": str(home.folder / "cache")}
    command = [sys.executable, "-m", "tests.peers.live_shadow", "--look", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    print(done.stdout.partition("\n")[0], file=sys.stderr)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main() -> None:
    """Measure, and print a line of JSON for each figure."""
    if sys.argv[1:2] == ["--look"]:
        look(sys.argv[2:])
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--openclaw", type=Path, required=True)
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--port", type=int, default=18941)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--more", type=int, default=50)
    parser.add_argument("--session", type=int, default=10, help="turns of a session")
    given = parser.parse_args()
    home = Home(given.folder, given.openclaw.resolve(), given.engine.resolve(), given.port)
    try:
        write_memories(home, given.memories)
        configured(home)
        home.start()
        mean, error = of_a_recall(home, given.turns, given.session)
        print(json.dumps({"seconds of a recall": round(mean, 4), "standard error": round(error, 4)}), flush=True)
        value = json.loads(home.config.read_text("utf-8"))
        value["plugins"]["entries"][ENTRY]["config"]["autoRecall"]["selectionMode"] = "tier_first_v1"
        candidate = home.folder / "candidate.json"
        candidate.write_text(json.dumps(value), "utf-8")
        for recalls, name in ((WARM + given.turns, ""), (given.more, "more"), (0, "")):
            for number in range(recalls if name else 0):
                home.say(sentence(random.Random(number)), f"{name}{number // given.session}")
            spent = shadowed(home, candidate)
            print(json.dumps({"new recalls": recalls, "engine": round(recalls * mean, 3), "shadow": spent}), flush=True)
    finally:
        home.close()


if __name__ == "__main__":
    main()
