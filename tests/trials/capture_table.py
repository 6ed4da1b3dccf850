"""Replay the public sets with captured memories and print the tables of docs/capture.md.

python -m tests.trials.capture_table DATA --out FOLDER [--set NAME …] [--jobs N]

DATA holds the public sets (``SETS``). Finished replays in FOLDER are not repeated, so a second call only prints.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.base.set_registry import golden_at, recordings_at
from lab.golden.files import read_golden
from lab.recordings.readers import read_library
from lab.report.material import tier_shares
from lab.runs.scores import read_gold
from tests.systems.test_capturing import CUT, rounds
from tests.trials.capture_replays import POLICIES, SETS, Replayed, runs_of, user_sources
from tests.trials.public_tables import share

STORES = (("engine", "seed"), ("todo", "seed"), ("engine", "upstream"), ("todo", "upstream"), ("verbatim", "seed"))


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    runs = {name: runs_of(SETS[name], given.data, given.out, given.jobs) for name in given.set or SETS}
    judged = {name: kinds for name, kinds in runs.items() if SETS[name].slice is not None}
    tables = [kept_table(judged, given.data), hits_table(judged), stored_table(runs)]
    tables += [policies_table({name: kinds for name, kinds in runs.items() if name in ("Hermes", "aider")})]
    tables += [languages_table(runs["shipped:capture"])] if "shipped:capture" in runs else []
    for lines in (*tables, echo_table()):
        print("\n".join([*lines, ""]))


def kept_table(runs: Mapping[str, dict[str, Replayed]], data: Path) -> list[str]:
    """Return the share of the memories that probes need of which each arm stored something, by slice."""
    lines = table("set, probes", "memories", "engine, seed", "engine, upstream", "verbatim")
    arms = (("seed", "engine"), ("upstream", "engine"), ("seed", "verbatim"))
    for name, kinds in runs.items():
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        for gold in read_gold(kinds["seed"].run).values():
            if gold.conversation.startswith(SETS[name].part):
                for value in {"all", gold.slices.get(SETS[name].slice or "", "all")}:
                    wanted[value].update(gold.grades)
        rows = [kinds[kind].created(arm) for kind, arm in arms]
        found = [{row["memory"] for row in created if row["gold"]} for created in rows]
        for value, memories in sorted(wanted.items()):
            lines.append(row_of(f"{name}, {value}", memories, found))
        if name == "RealMem":
            turns = {key: turn for key, turn in user_sources(data / "realmem") if key in wanted["all"]}
            sources = [{turn for row in created for turn in row["sources"]} for created in rows]
            reached = [{key for key, turn in turns.items() if turn in stored} for stored in sources]
            lines.append(row_of(f"{name}, all with a user's turn as their source", set(turns), reached))
    return lines


def row_of(name: str, memories: set[str], found: Iterable[set[str]]) -> str:
    """Return the line of one slice: how many memories it needs, and the share that each arm has."""
    cells = [share(len(memories & have) / len(memories)) for have in found]
    return f"| {name} | {len(memories):,} | {' | '.join(cells)} |"


def hits_table(runs: Mapping[str, dict[str, Replayed]]) -> list[str]:
    """Return hits and repeats of each arm over captured and over given memories."""
    lines = table("set, arm", "hit@6", "RepeatRate")
    arms = [("seed", arm, "captured") for arm in (*POLICIES, "engine", "verbatim")]
    arms += [("upstream", "engine", "captured (upstream, hit@5)")]
    arms += [("given", arm, "given") for arm in (*POLICIES, "hybrid")]
    for name, kinds in runs.items():
        for kind, arm, label in arms:
            hits = kinds[kind].mean(arm, "Success@5" if kind == "upstream" else "Success@6")
            repeats = kinds[kind].mean(arm, "RepeatRate")
            lines.append(f"| {name}, {arm}, {label} | {share(hits)} | {share(repeats)} |")
    return lines


def stored_table(runs: Mapping[str, dict[str, Replayed]]) -> list[str]:
    """Return how much each arm stored, and how much of it is a duplicate, an echo or a secret."""
    lines = table("set, arm", "stored", "per turn", "duplicates", "echoes", "leaks")
    for name, kinds in runs.items():
        for arm, kind in STORES:
            rows, growth = kinds[kind].created(arm), kinds[kind].mean(arm, "StoreGrowth")
            leaks = kinds[kind].scores.of_arm(arm)["Leaks"]
            secrets = sum(
                value
                for conversation, value in zip(leaks.conversation, leaks.value, strict=True)
                if conversation.startswith(SETS[name].part)
            )
            counts = (sum(row["again"] for row in rows), sum(row["echo"] for row in rows), round(secrets))
            lines.append(
                f"| {name}, {arm}, {kind} | {len(rows):,} | {share(growth)} | {' | '.join(map(str, counts))} |"
            )
    return lines


def policies_table(runs: Mapping[str, dict[str, Replayed]]) -> list[str]:
    """Return what both policies inject of captured memories, over time, without judgements."""
    lines = table("set, arm", "must, first tenth", "must, last tenth", "RepeatRate", "tokens per turn")
    for name, kinds in runs.items():
        parts = tier_shares(kinds["seed"].run).by_part
        for arm in (*POLICIES, "engine", "verbatim"):
            must = [share(parts[arm][at]["must"] if any(parts[arm][at].values()) else None) for at in (0, -1)]
            repeats = share(kinds["seed"].mean(arm, "RepeatRate"))
            tokens = kinds["seed"].mean(arm, "InjectedTokens") or 0.0
            lines.append(f"| {name}, {arm} | {' | '.join([*must, repeats])} | {tokens:.1f} |")
    return lines


def languages_table(kinds: Mapping[str, Replayed]) -> list[str]:
    """Return the share of the candidates to keep of shipped:capture that each arm stored, by language."""
    lines = table("language of the line", "to keep", *(f"{arm}, {kind}" for arm, kind in STORES))
    library = read_library(recordings_at("shipped:capture"), "lab")
    golden = read_golden(golden_at("shipped:capture"))
    texts = {memory.key: memory.text for recording in library.recordings for memory in recording.memories}
    marks = [
        key
        for recording in library.recordings
        for key, grade in golden.kept(recording.conversation).items()
        if grade > 0
    ]
    for language, chinese in (("English", False), ("Chinese", True)):
        keep = {key for key in marks if any("\u4e00" <= sign <= "\u9fff" for sign in texts[key]) == chinese}
        found = [{row["memory"] for row in kinds[kind].created(arm) if (row["keep"] or 0) > 0} for arm, kind in STORES]
        lines.append(row_of(language, keep, found))
    return lines


def echo_table() -> list[str]:
    """Return how many injected memories each profile captures over ten rounds in which its block is recorded."""
    lines = table("blocks", "seed", "upstream")
    for name, end in (("whole", None), ("the second one cut off after its memory", CUT)):
        echoes = [
            len(set(stored) - said) for said, stored in (rounds(profile, end) for profile in ("seed", "upstream"))
        ]
        lines.append(f"| {name} | {' | '.join(map(str, echoes))} |")
    return lines


def table(*headers: str) -> list[str]:
    """Return the first two lines of a table; columns after the first hold numbers."""
    return [f"| {' | '.join(headers)} |", f"| --- |{' ---: |' * (len(headers) - 1)}"]


if __name__ == "__main__":
    main()
