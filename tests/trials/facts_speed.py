"""Time facts and the graph at a size: a ledger with so many rows, and as many facts, in processor time.

python tests/trials/facts_speed.py --rows 20000
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lab.memory.facts import store
from lab.memory.facts.asserting import Claim, assert_facts
from lab.memory.facts.pack import FactsLane
from lab.memory.facts.sources import Sources
from lab.memory.facts.store import rebuild
from lab.memory.facts.view import View, current, lint
from lab.memory.graph.build import build, graph_bytes, ledger_texts
from lab.memory.graph.search import GraphLane, shortest_path
from tests.memory.facts.stores import NOW
from tests.memory.ledger.ledgers import filled

T = TypeVar("T")
WORDS = "gateway timeout basil choir mill backup deploy latency cache queue kitchen port config cluster network"


def timed(label: str, work: Callable[[], T]) -> T:
    """Print how long a work takes, and return what it returns."""
    started = time.process_time()
    done = work()
    print(f"{label:32} {1000 * (time.process_time() - started):9.1f} ms")
    return done


def main() -> None:
    """Make the files, and time."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    rows = parser.parse_args().rows
    draw, words = random.Random(0), WORDS.split()
    with tempfile.TemporaryDirectory(prefix="facts-speed-") as name:
        ledger, facts = Path(name, "ledger.sqlite"), Path(name, "facts.jsonl")
        filled(
            ledger,
            (
                {
                    "summary": f"{' '.join(draw.choices(words, k=10))}. service{draw.randint(0, 3000)} uses "
                    f"`tool{draw.randint(0, 500)}`. See #t{draw.randint(0, 5000)}",
                    "detail": {"scope": f"p{number % 9}"},
                }
                for number in range(rows)
            ),
        )
        claims = [
            Claim(f"service {number % 4000}", "uses", f"tool{number}", "2026-11-01", (f"obs:{number + 1}",), "note:x")
            for number in range(rows)
        ]
        timed("import all facts", lambda: assert_facts(facts, claims, Sources(ledger), now=NOW, write=True))
        one = [Claim("gateway", "status", "live", "2026-11-01", ("obs:1",), "note:x")]
        timed("assert one more", lambda: assert_facts(facts, one, Sources(ledger), now=NOW, write=True))
        view = timed("read, and make the view", lambda: View(store.read(facts).records))
        course = view.of("entity:service-7")
        timed("current of a subject", lambda: current(course, "2026-11-05T00:00:00Z", Sources(ledger)))
        timed("lint", lambda: lint(view, Sources(ledger)))
        timed("compare the view's file", lambda: rebuild(facts))
        now = int(NOW.timestamp() * 1000) + 1000
        lane = FactsLane(facts, ledger)
        for label in ("first search of the lane", "further search of the lane"):
            timed(label, lambda: lane.search("what does service 7 use?", 20, scope=None, now_ms=now))
        graph = timed("build the graph", lambda: build(ledger_texts(ledger)))
        print(f"entities: {len(list(graph))}, edges: {len(graph.edges)}")
        exported = Path(name, "graph.json")
        exported.write_bytes(graph_bytes(graph))
        near = GraphLane(exported)
        for label in ("first search of the graph's lane", "further search of the graph's lane"):
            timed(label, lambda: near.search("service7 and tool7 in p1", 20, scope=None, now_ms=now))
        timed("path", lambda: shortest_path(graph, "concept:service7", "concept:t77"))


if __name__ == "__main__":
    main()
