"""Print the table of docs/observations.md: tokens, hits and stable prefix of arms under one token budget.

python tests/trials/observations_table.py DATA --out FOLDER [--tokens 512] [--embedder NAME]

DATA holds a folder ``locomo``. Finished replays in FOLDER are not repeated, so a second call only prints. The arm
``recorded`` is ``observations`` with the statements that LoCoMo's authors had a language model write about each session
as recorded outputs of an observer: each counts for the turns that it cites.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.api import replay
from lab.compare.statistics import clustered
from lab.measures.score import score_and_write
from lab.recordings.locomo import split_evidence
from lab.recordings.readers import read_library
from lab.runs.directory import RunDirectory, open_run
from lab.studies.league.table import WHOLE, by_conversation, measured

ARMS = ("observations", "long_context", "recency", "hybrid")
HIT, SHARE, PREFIX, TURN = "hit", "PrefixShare", "PrefixTokens", "InjectedTokens"


def main() -> None:
    """Replay both sets with all arms, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--embedder")
    given = parser.parse_args()
    options: dict[str, Any] = {"embedder": given.embedder} if given.embedder else {}
    sets = {
        "LoCoMo": (given.data / "locomo", "locomo", {"recall_turns": "all"}),
        "shipped:operators": ("shipped:operators", "lab", {"haystack": 0}),
        "shipped:operators, 400 more": ("shipped:operators", "lab", {}),
    }
    given.out.mkdir(parents=True, exist_ok=True)
    recorded = record(given.data / "locomo", given.out)
    print("| set | arm | tokens a turn | whole hits | hits | PrefixShare | PrefixTokens |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for number, (name, (path, form, more)) in enumerate(sets.items()):
        out = given.out / f"{given.tokens}-{number}"
        arms = [f"{arm}@{given.tokens}" for arm in ARMS]
        if number == 0:
            arms.append(f"recorded@{given.tokens}={recorded}")
        replay(path, arms=arms, out=out, format=form, **options, **more)
        for cells in rows(name, open_run(out), [arm.partition("=")[0] for arm in arms]):
            print(f"| {name} | {' | '.join(cells)} |")


def record(locomo: Path, out: Path) -> Path:
    """Write LoCoMo's statements as recorded outputs by the keys of memories; return a configuration that names them."""
    said: dict[str, list[str]] = {}
    for path in sorted(locomo.glob("*.json")):
        for sample in json.loads(path.read_text()):
            for session, speakers in sample["observation"].items():
                for text, cited in (pair for pairs in speakers.values() for pair in pairs):
                    ids = [
                        part for one in (cited if isinstance(cited, list) else [cited]) for part in split_evidence(one)
                    ]
                    for turn in ids:
                        key = f"{sample['sample_id']}/{session.removesuffix('_observation')}/{turn}#0"
                        said.setdefault(key, []).append(text)
    outputs, config = out / "outputs.jsonl", out / "recorded.json"
    memories = [memory for recording in read_library(locomo, "locomo").recordings for memory in recording.memories]
    lines = [{"entry": memory.key, "text": " ".join(said.get(memory.key, []))} for memory in memories]
    outputs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config.write_text(json.dumps({"lab": {"arm": "observations"}, "recorded": str(outputs)}))
    return config


def rows(name: str, run: RunDirectory, arms: list[str]) -> Iterator[list[str]]:
    """Yield the cells of each arm, hits with their 95 % interval."""
    scores = score_and_write(run)
    for arm in arms:
        budget = int(arm.rpartition("@")[2])
        (figures,) = measured(name, arm, run, {arm: budget})
        values = scores.of_arm(arm)
        means = {measure: _mean(values[measure].value) for measure in (TURN, SHARE, PREFIX)}
        hits = []
        for measure in (WHOLE, HIT):
            estimate = clustered(by_conversation(figures.values[measure]))
            few = estimate.low is None or estimate.high is None
            bounds = "" if few else f" ({share(estimate.low)}–{share(estimate.high)})"
            hits.append(share(figures.row.cells[measure].mean) + bounds)
        yield [f"`{arm}`", f"{means[TURN]:.0f}", *hits, share(means[SHARE]), f"{means[PREFIX]:.0f}"]


def share(value: float) -> str:
    """Return a share with three digits and no leading zero."""
    return f"{value:.3f}".removeprefix("0")


def _mean(values: list[float]) -> float:
    known = [value for value in values if value == value]
    return sum(known) / len(known)


if __name__ == "__main__":
    main()
