"""Compare searches of episodes with the arms bm25, hybrid and vector, and print the table of docs/episodes.md.

    python tests/trials/episodes_locomo.py DATA [--format locomo] [--items 6]

DATA is a recording with probes. The turns of each conversation are ingested into a ledger of their own and embedded;
then each probe is searched in the three modes, in both profiles. An event is relevant if the memory of its turn is.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from lab.api import replay, score
from lab.embedding.embedder import DEFAULT_MODEL
from lab.embedding.vectors import Vectors, embedder_named
from lab.golden.model import Probe
from lab.memory.episodes.events import open_episodes
from lab.memory.episodes.ingest import Ingested, insert, recording_events
from lab.memory.episodes.search import MODES, OK, embed, search, sources_of
from lab.recordings.model import Recording
from lab.recordings.readers import read_library

ARMS, PROFILES = ("bm25", "hybrid", "vector"), ("seed", "upstream")


def found_counts(recording: Recording, probes: list[Probe], items: int, vectors: Vectors, path: Path) -> Counter[str]:
    """Return by profile and mode for how many probes a relevant event is among the first ``items``."""
    insert(path, recording_events(recording, "locomo"), Ingested(write=True), now=datetime.now(UTC))
    embed(path, vectors, now=datetime.now(UTC))
    counts = Counter[str]()
    with open_episodes(path) as connection:
        for probe, profile, mode in product(probes, PROFILES, MODES):
            relevant = {key.rpartition("#")[0] for key in probe.grades}
            found = search(connection, probe.query or "", mode=mode, vectors=vectors, upstream=profile == "upstream")
            if {found.lexical_status, found.vector_status} - {OK, None}:
                raise SystemExit(f"{probe.id}: {found.receipt()}")
            counts[f"{profile} {mode}"] += any(relevant & {*sources_of(hit.event)} for hit in found.hits[:items])
    return counts


def main() -> None:
    """Search, replay, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--format", default="locomo")
    parser.add_argument("--items", type=int, default=6)
    options = parser.parse_args()
    library = read_library(options.data, options.format)
    vectors = Vectors(embedder_named(DEFAULT_MODEL))
    total, probes = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="episodes-") as name:
        for number, recording in enumerate(library.recordings):
            own = [probe for probe in library.golden.probes if probe.conversation == recording.conversation]
            path = Path(name) / f"{number}.sqlite"
            total += found_counts(recording, own, options.items, vectors, path)
            probes += len(own)
        run = replay(library, arms=ARMS, out=Path(name) / "run", max_items=options.items)
        means = score(run).means
    measure = f"Success@{options.items}"
    print(f"{measure}, {probes} probes")
    for mode, arm in zip(MODES, ARMS, strict=True):
        shares = " | ".join(f"{total[f'{profile} {mode}'] / probes:.4f}" for profile in PROFILES)
        print(f"| {mode} | {shares} | {arm} | {means[arm][measure]:.4f} |")


if __name__ == "__main__":
    main()
