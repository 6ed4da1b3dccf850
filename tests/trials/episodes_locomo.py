"""Compare the verbatim lane of episodes with the arms bm25, vector and hybrid, and print the table of docs/episodes.md.

    python tests/trials/episodes_locomo.py DATA [--format locomo] [--items 6]

DATA is a recording with probes. The turns of each conversation are ingested into a ledger of their own and embedded;
then each probe is searched in the three modes. An event is relevant if the memory of its turn is.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from lab.api import replay, score
from lab.embedding.embedder import DEFAULT_MODEL, embedder_named
from lab.embedding.vectors import Vectors
from lab.golden.model import Probe
from lab.recordings.model import Recording
from lab.recordings.readers import read_library
from lab.systems.episodes.embed import embed
from lab.systems.episodes.ingest import Ingested, insert, recording_events
from lab.systems.episodes.lane import EpisodesLane
from lab.systems.episodes.search import MODES

ARMS = ("bm25", "hybrid", "vector")
LAST_MS = 253_402_300_799_999


def found_shares(recording: Recording, probes: list[Probe], items: int, vectors: Vectors, path: Path) -> dict[str, int]:
    """Return by mode for how many probes a relevant event is among the first ``items``."""
    insert(path, recording_events(recording, "locomo"), Ingested(write=True), now=datetime.now(UTC))
    embed(path, vectors)
    found = dict.fromkeys(MODES, 0)
    for mode in MODES:
        lane = EpisodesLane(path, mode, vectors)
        for probe in probes:
            relevant = {key.rpartition("#")[0] for key in probe.grades}
            result = lane.search(probe.query or "", items, scope=None, now_ms=LAST_MS)
            if result.reason:
                raise SystemExit(f"{probe.id}: {result.reason}")
            found[mode] += any(relevant & {*candidate.sources} for candidate in result.candidates)
    return found


def main() -> None:
    """Search, replay, and print."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--format", default="locomo")
    parser.add_argument("--items", type=int, default=6)
    options = parser.parse_args()
    library = read_library(options.data, options.format)
    vectors = Vectors(embedder_named(DEFAULT_MODEL))
    total, probes = dict.fromkeys(MODES, 0), 0
    with tempfile.TemporaryDirectory(prefix="episodes-") as name:
        for number, recording in enumerate(library.recordings):
            own = [probe for probe in library.golden.probes if probe.conversation == recording.conversation]
            path = Path(name) / f"{number}.sqlite"
            for mode, count in found_shares(recording, own, options.items, vectors, path).items():
                total[mode] += count
            probes += len(own)
        run = replay(library, arms=ARMS, out=Path(name) / "run", max_items=options.items)
        means = score(run).means
    measure = f"Success@{options.items}"
    print(f"{measure}, {probes} probes")
    for mode, arm in zip(MODES, ARMS, strict=True):
        value = means[arm][measure]
        print(f"| {mode} {total[mode] / probes:.3f} | {arm} {value:.3f} |" if value is not None else f"{arm}: no value")


if __name__ == "__main__":
    main()
