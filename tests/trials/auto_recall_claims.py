"""Try the claims of openclaw-auto-recall and print the tables of docs/auto-recall.md.

python -m tests.trials.auto_recall_claims DATA --out FOLDER [--part NAME …] [--embedder NAME] [--jobs N]

DATA holds the public sets. Finished replays in FOLDER are not repeated, so a second call only prints.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.api import open_run, replay
from lab.base.draw import draw
from lab.base.set_registry import recordings_at
from lab.embedding.embedder import DOCUMENT, QUERY, Role
from lab.embedding.vectors import embedder_named
from lab.measures.score import score_and_write
from lab.recordings.readers import read_library
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from lab.runs.tables import read_table
from lab.systems.contract import Arm
from lab.systems.files.auto_recall import AutoRecallArm, make, skip_reason
from lab.systems.files.folder import Entry, Folder
from lab.systems.files.index import FileIndex
from lab.systems.files.search import search
from lab.systems.files.settings import RELEASES, Settings
from lab.systems.spec import ArmSpec

MINIMA = (0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7)
# Below the default the plugin injects something, so that other settings show.
OPEN = 0.2
SIZES = (1_000, 10_000, 100_000)
PROMPTS = 200
CHINESE = "\u4e00", "\u9fff"


class Set(NamedTuple):
    """A set: its path in DATA, its ``--format``, the start of its conversations, and how many of them are replayed."""

    path: str
    format: str
    part: str = ""
    limit: int | None = None


SETS = {
    "LoCoMo": Set("locomo", "locomo"),
    "MADial, English": Set("madial", "madial", "en"),
    "MADial, Chinese": Set("madial", "madial", "zh"),
    "REALTALK": Set("realtalk", "realtalk"),
    "RealMem": Set("realmem", "realmem"),
    "shipped:operators": Set("shipped:operators", "lab", limit=6),
}
TALKS = ("shipped:operators",)


def arm(name: str, release: str = "2026.6.6", **config: Any) -> AutoRecallArm:
    """Return the plugin on a release of the host, with other settings."""
    return make(ArmSpec(name, "auto_recall", {"memorySearch": {"release": release}, **config}))


class Trial:
    """Replays of arms over the sets, kept in a folder."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.data, self.out, self.jobs, self.embedder = given.data, given.out, given.jobs, given.embedder
        self.sets = given.set or list(SETS)

    def library(self, name: str) -> Path:
        """Return the path of a set."""
        path = SETS[name].path
        return Path(recordings_at(path)) if path.startswith("shipped:") else self.data / path

    def run(self, kind: str, name: str, arms: Sequence[str | Arm], **options: Any) -> RunDirectory:
        """Replay a set, unless that was done."""
        one = SETS[name]
        folder = self.out / f"{one.path.partition(':')[2] or one.path}-{kind}"
        sys.stderr.write(f"{folder}\n")
        if not (folder / "scores.parquet").exists():
            if one.limit:
                options |= {"limit": one.limit}
            replay(
                self.library(name), arms=arms, out=folder, format=one.format, jobs=self.jobs, embedder=self.embedder,
                **options,
            )  # fmt: skip
        run = open_run(folder).directory
        score_and_write(run)
        return run


def mean(run: RunDirectory, arm: str, measure: str, part: str = "") -> float | None:
    """Return the mean of a measure over the conversations of a set; None without values."""
    values = score_and_write(run).of_arm(arm).get(measure)
    pairs = zip(values.conversation, values.value, strict=True) if values else ()
    chosen = [value for conversation, value in pairs if conversation.startswith(part) and not math.isnan(value)]
    return math.fsum(chosen) / len(chosen) if chosen else None


def hit(run: RunDirectory, arm: str, part: str) -> float | None:
    """Return the share of probes at which a relevant memory was injected."""
    return mean(run, arm, f"Success@{run.max_items[arm]}", part)


def rows_of(run: RunDirectory, arm: str, part: str, *columns: str) -> Iterable[dict[str, Any]]:
    """Yield rows of the receipts of an arm."""
    for name in run.conversations:
        if name.startswith(part):
            for row in read_table(run.receipts(name), ("arm", *columns)).to_pylist():
                if row["arm"] == arm:
                    yield row


def cell(value: float | None, digits: int = 3) -> str:
    """Return a number of a table."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}".removeprefix("0") if digits else f"{value:,.0f}"


def line(*cells: object) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def heads(*names: str) -> list[str]:
    """Return the head of a table."""
    return [line(*names), line("---", *["---:"] * (len(names) - 1))]


def beside(trial: Trial) -> list[str]:
    """Hits, false recalls and tokens of the plugin beside the host's search, hybrid and none."""
    lines = heads("set, arm", "hit", "FalseRecall", "tokens", "items", "silent turns")
    newer = arm("auto_recall on 2026.9.6", "2026.9.6")
    for name in trial.sets:
        run = trial.run("beside", name, ["none", "hybrid", "auto_recall", newer, "memory_core"])
        for each in run.arms:
            part = SETS[name].part
            silent = [not row["chars"] for row in rows_of(run, each, part, "chars")]
            share = sum(silent) / len(silent) if silent else None
            values = (mean(run, each, measure, part) for measure in ("FalseRecall", "InjectedTokens", "InjectedItems"))
            false, tokens, items = values
            lines.append(
                line(
                    f"{name}, {each}",
                    cell(hit(run, each, part)),
                    cell(false),
                    cell(tokens, 0),
                    cell(items, 1),
                    cell(share),
                )
            )
    return lines


def minimum(trial: Trial) -> list[str]:
    """Sweep minScore on both releases of the host, and raw against adjusted at the default."""
    lines = heads("set, release", "minScore", "hit", "FalseRecall", "tokens", "silent turns")
    for name, release in itertools.product(trial.sets, RELEASES):
        arms = [arm(f"{value:g}", release, minScore=value) for value in MINIMA]
        arms.append(arm("0.5, raw", release, min_score_stage="raw"))
        run, part = trial.run(f"minimum-{release}", name, arms), SETS[name].part
        for each in run.arms:
            silent = [not row["chars"] for row in rows_of(run, each, part, "chars")]
            lines.append(
                line(
                    f"{name}, {release}", each, cell(hit(run, each, part)), cell(mean(run, each, "FalseRecall", part)),
                    cell(mean(run, each, "InjectedTokens", part), 0), cell(sum(silent) / max(1, len(silent))),
                )
            )  # fmt: skip
    return lines


def ten_characters(trial: Trial) -> list[str]:
    """Count the prompts that the minimum length skips, by language, and the hits that this costs."""
    lines = heads("set", "prompts", "skipped", "share", "skipped probes with gold", "hits lost")
    plugin, short = arm("ten characters", minScore=OPEN), arm("every prompt", minScore=OPEN, minChars=0)
    for name in trial.sets:
        part = SETS[name].part
        recordings = read_library(trial.library(name), SETS[name].format).recordings
        said = [turn for one in recordings if one.conversation.startswith(part) for turn in one.turns]
        for language in (True, False):
            texts = [turn.text for turn in said if turn.role == "user" and is_chinese(turn.text) == language]
            skipped = sum(bool(skip_reason(plugin, text)) for text in texts)
            if texts:
                which = f"{name}, {'Chinese' if language else 'other'} prompts"
                lines.append(line(which, f"{len(texts):,}", f"{skipped:,}", cell(skipped / len(texts)), "–", "–"))
        run, columns = trial.run("ten", name, [plugin, short]), ("turn", "status", "item_key", "injected")
        rows = list(rows_of(run, short.name, part, *columns))
        found = {row["turn"]: {*row["item_key"][: row["injected"]]} for row in rows}
        statuses = {row["turn"]: row["status"] for row in rows_of(run, plugin.name, part, *columns)}
        gold = {probe: keys for probe, keys in run_gold(run).items() if keys and probe in found}
        missed = [probe for probe in gold if statuses[probe] == "skipped"]
        lost = sum(bool(found[probe] & gold[probe]) for probe in missed)
        lines.append(line(f"{name}, probes", f"{len(gold):,}", "–", "–", f"{len(missed):,}", f"{lost:,}"))
    return lines


def run_gold(run: RunDirectory) -> dict[str, set[str]]:
    """Return the relevant memories of each probe."""
    return {probe: {*judged.grades} for probe, judged in read_gold(run).items()}


def is_chinese(text: str) -> bool:
    """Whether a text has a Chinese character."""
    return any(CHINESE[0] <= character <= CHINESE[1] for character in text)


def drafts(trial: Trial) -> list[str]:
    """Write the assistant's turns into drafts beside the notes; count what the penalty displaces."""
    lines = heads("set, release, penalty", "hit", "tokens", "recalls with a draft", "drafts among results", "displaced")
    for name, release in itertools.product([one for one in trial.sets if one in TALKS or "MADial" in one], RELEASES):
        part, settings = SETS[name].part, {"minScore": 0.0, "draftRoles": ["tool", "assistant"]}
        arms = [arm(f"{penalty:g}", release, draftPenalty=penalty, **settings) for penalty in (0.0, 0.15, 0.3)]
        run = trial.run(f"drafts-{release}", name, [*arms, arm("no drafts", release, minScore=0.0)])
        plain = [drafts_of(receipt) for receipt in receipts_of(run, "0", part)]
        for each in run.arms:
            chosen = [injected_of(receipt) for receipt in receipts_of(run, each, part)]
            found = [drafts_of(receipt) for receipt in receipts_of(run, each, part)]
            # Where a draft would be injected without the penalty, how often the penalty displaces one.
            pairs = [(before, after) for before, after in zip(plain, found, strict=True) if before]
            displaced = sum(not before <= after for before, after in pairs) / max(1, len(pairs))
            share = sum(map(bool, found)) / max(1, len(found))
            among = sum(map(len, found)) / max(1, sum(map(len, chosen)))
            cells = (cell(hit(run, each, part)), cell(mean(run, each, "InjectedTokens", part), 0))
            lines.append(line(f"{name}, {release}, {each}", *cells, *map(cell, (share, among, displaced))))
    return lines


def receipts_of(run: RunDirectory, arm: str, part: str) -> list[dict[str, Any]]:
    """Return the receipts of the recalls that searched."""
    receipts = [json.loads(row["receipt"]) for row in rows_of(run, arm, part, "receipt")]
    return [receipt for receipt in receipts if "results" in receipt]


def injected_of(receipt: dict[str, Any]) -> list[str]:
    """Return the places of the injected results."""
    return [result["at"] for result in receipt["results"] if result["decision"] == "injected"]


def drafts_of(receipt: dict[str, Any]) -> set[str]:
    """Return the places of the injected drafts."""
    return {place for place in injected_of(receipt) if place.startswith("memory/drafts/")}


class Fixed:
    """Vectors from a seed, or of queries from the embedder: a search takes as long whatever they are."""

    def __init__(self, embedder: Any = None) -> None:
        self.dimension, self.embedder = 384, embedder
        self.spent: list[float] = []

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Nothing is cached."""
        return 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> Any:
        """Return vectors, timing those of the embedder."""
        import numpy as np

        if role == QUERY and self.embedder is not None:
            started = time.perf_counter()
            vectors = self.embedder.encode(list(texts), QUERY)
            self.spent.append(time.perf_counter() - started)
            return vectors
        return np.stack([np.random.default_rng(len(text)).standard_normal(384, np.float32) for text in texts])


def latency(trial: Trial) -> list[str]:
    """Time a turn over 1,000, 10,000 and 100,000 chunks of real text, with the embedding of the prompt and without."""
    lines = heads("release, chunks", "search, p50 ms", "p95 ms", "with the prompt's embedding, p50 ms", "p95 ms")
    talk = read_library(trial.library("RealMem"), "realmem").recordings
    said = [" ".join(turn.text.split())[:700] for recording in talk for turn in recording.turns if turn.text]
    prompts = [turn.text for recording in talk for turn in recording.turns if turn.role == "user"][:PROMPTS]
    embedder = embedder_named(trial.embedder)
    embedder.encode(prompts[:2], QUERY)
    for release, size in itertools.product(RELEASES, SIZES):
        index, vectors = filled(trial.out / f"files-{release}-{size}", release, size, said), Fixed(embedder)
        index.vectors = vectors
        times = []
        for text in prompts:
            started = time.perf_counter()
            search(index, text, 10, 0.0, 1_767_603_600_000)
            times.append(time.perf_counter() - started)
        alone = [whole - part for whole, part in zip(times, vectors.spent, strict=True)]
        numbers = [1000 * sorted(one)[int(share * len(one))] for one in (alone, times) for share in (0.5, 0.95)]
        lines.append(line(f"{release}, {len(index.chunks):,}", *(cell(number, 1) for number in numbers)))
        index.close()
    return lines


def filled(root: Path, release: str, size: int, said: Sequence[str]) -> FileIndex:
    """Return an index of at least ``size`` chunks, from lines drawn out of ``said``."""
    import shutil

    shutil.rmtree(root, ignore_errors=True)
    index = FileIndex(Folder(root), Settings(release), Fixed())
    for number in itertools.count():
        path = f"memory/{2000 + number // 336:04}-{1 + number // 28 % 12:02}-{1 + number % 28:02}.md"
        for turn in range(200):
            text = said[int(draw(number, f"{turn}") * len(said))]
            index.folder.append(path, Entry(f"{number}.{turn}", text), [f"- {text}"], 0)
        index.sync()
        if len(index.chunks) >= size:
            shutil.rmtree(root)
            return index
    raise AssertionError


def echo(trial: Trial) -> list[str]:
    """Capture transcripts that hold the injected blocks, and transcripts without them."""
    lines = heads("set, arm", "hit", "tokens", "recalls that quote a block", "results that do", "stored characters")
    kinds = ("blocks kept", "blocks removed")
    for name in [one for one in trial.sets if one in TALKS]:
        arms = [arm(kind, minScore=OPEN, strip_tags=kind == kinds[1]) for kind in kinds]
        run, part = trial.run("echo", name, arms, source="captured"), SETS[name].part
        for each in kinds:
            paths = [run.writes(one) for one in run.conversations if one.startswith(part)]
            writes = [row for path in paths for row in read_table(path, ("arm", "what", "chars")).to_pylist()]
            stored = sum(row["chars"] for row in writes if (row["arm"], row["what"]) == (each, "created"))
            filled = [receipt for receipt in receipts_of(run, each, part) if injected_of(receipt)]
            quoting = [receipt["quoting"] for receipt in filled]
            results = sum(len(injected_of(receipt)) for receipt in filled)
            shares = (sum(map(bool, quoting)) / max(1, len(filled)), sum(quoting) / max(1, results))
            tokens = mean(run, each, "InjectedTokens", part)
            cells = (cell(hit(run, each, part)), cell(tokens, 0), *map(cell, shares), f"{stored:,}")
            lines.append(line(f"{name}, {each}", *cells))
    return lines


PARTS: dict[str, Callable[[Trial], list[str]]] = {
    "beside": beside,
    "minimum": minimum,
    "ten": ten_characters,
    "drafts": drafts,
    "latency": latency,
    "echo": echo,
}


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", action="append", choices=list(PARTS))
    parser.add_argument("--set", action="append", choices=list(SETS))
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    parser.add_argument("--jobs", type=int, default=1)
    trial = Trial(parser.parse_args())
    trial.out.mkdir(parents=True, exist_ok=True)
    for part in parser.parse_args().part or PARTS:
        sys.stdout.write("\n".join([f"## {part}", "", *PARTS[part](trial), "", ""]))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
