"""Find the configuration of ``recommended`` by nested, clustered cross-validation over public development sets.

    python -m tests.trials.recommended DATA OUT [--grid FILE]

``DATA`` holds the sets of :data:`SETS`, ``OUT`` receives a sweep for each set and grid; a repeated call only adds what
is missing. Clusters are conversations. Each outer fold leaves out a set, or a part of the conversations of every set;
the configuration is chosen on the rest and evaluated on what was left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.base.draw import draw
from lab.compare.statistics import t_quantile
from lab.report.tables import text_table
from lab.runs.request import ReplayRequest
from lab.studies.sweep.grid import Grid, flat, grid_of, read_grid
from lab.studies.sweep.groups import MEASURES
from lab.studies.sweep.sweep import sweep

# Name, folder, format, conversations (by a part of their names), other options.
SETS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "RealMem": ("realmem", "realmem", "", {}),
    "LoCoMo": ("locomo", "locomo", "", {"recall_turns": "all"}),
    "REALTALK": ("realtalk", "realtalk", "", {}),
    "BEAM": ("beam", "beam", "", {}),
    "iKAT": ("ikat", "ikat", "", {}),
    "MADial en": ("madial", "madial", "en", {}),
    "MADial zh": ("madial", "madial", "zh", {}),
}
LANES = ("vector", "bm25")
# Folds of conversations, the limits of the issue, and the margin that the choice keeps to the limit of repeats.
FOLDS, LOSS, REPEATS, MARGIN = 4, 0.02, 0.75, 0.03
HIT, REPEAT, FALSE, HARM = (MEASURES.index(name) for name in ("Success", "RepeatRate", "FalseRecall", "Forbidden"))


class Data(NamedTuple):
    """One set: ``sums`` and ``counts`` ``[conversations, configurations + 3, measures]``.

    The last three configurations are the lanes alone and ``hybrid``.
    """

    name: str
    conversations: tuple[str, ...]
    sums: np.ndarray
    counts: np.ndarray

    def part(self, chosen: Sequence[int]) -> Data:
        """Return some of the conversations."""
        at = list(chosen)
        return Data(self.name, tuple(self.conversations[index] for index in at), self.sums[at], self.counts[at])

    def mean(self, measure: int) -> np.ndarray:
        """Return the mean of a measure for every configuration; NaN if it has none."""
        sums, counts = self.sums[..., measure].sum(0), self.counts[..., measure].sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums / counts


def read_set(name: str, data: Path, out: Path, grid: Grid, embedder: str) -> Data:
    """Sweep one set, or read its sweep."""
    folder, format_name, part, more = SETS[name]
    request = ReplayRequest(
        str(data / folder),
        format_name,
        (),
        labels="sampled",
        must_share=0.10,
        nice_share=0.63,
        embedder=embedder,
        **more,
    )

    def announce(text: str) -> None:
        sys.stderr.write(f"{name}: {text}\n")

    swept = sweep(request, grid, out / folder, announce=announce)
    lanes = [
        sweep(
            request,
            grid_of({"arm": arm, "grid": {"budget.enabled": [True]}}, arm),
            out / f"{folder}-{arm}",
            announce=announce,
        )
        for arm in LANES
    ]
    sums = np.concatenate([swept.sums[:, 0, :-1], *(lane.sums[:, 0, :1] for lane in lanes), swept.sums[:, 0, -1:]], 1)
    counts = np.concatenate(
        [swept.counts[:, 0, :-1], *(lane.counts[:, 0, :1] for lane in lanes), swept.counts[:, 0, -1:]], 1
    )
    at = [index for index, conversation in enumerate(swept.conversations) if conversation.startswith(part)]
    return Data(name, swept.conversations, sums, counts).part(at)


def pooled_repeats(sets: Sequence[Data]) -> np.ndarray:
    """Return the repeat rate over the turns of all sets."""
    rates: np.ndarray = sum(data.sums[..., REPEAT].sum(0) for data in sets) / np.maximum(
        1, sum(data.counts[..., REPEAT].sum(0) for data in sets)
    )
    return rates


def differences(data: Data) -> np.ndarray:
    """Return each configuration's hit rate minus that of the better lane alone."""
    hit = data.mean(HIT)
    better: np.ndarray = hit - max(hit[-3], hit[-2])
    return better


def choose(sets: Sequence[Data]) -> int:
    """Return the configuration whose worst set is least behind its better lane, then best on average.

    Only those count whose repeats over all sets keep :data:`MARGIN` to the limit and that are not below hybrid.
    """
    with_hits = [data for data in sets if data.counts[..., HIT].any()]
    behind = np.stack([differences(data) for data in with_hits])[:, :-3]
    repeats = pooled_repeats(sets)
    allowed = repeats[:-3] <= (REPEATS - MARGIN) * repeats[-1]
    # A loss within the limit of a probe or two is noise, so the mean decides among those within the limit.
    score = np.minimum(behind.min(0), -LOSS) * 2 + behind.mean(0)
    return int(np.argmax(np.where(allowed, score, -np.inf)))


def folds(sets: Sequence[Data], seed: int = 0) -> list[tuple[list[Data], list[Data]]]:
    """Return training and held-out parts for folds of conversations; a set of one conversation is never split."""
    parts = []
    for fold in range(FOLDS):
        train, held = [], []
        for data in sets:
            order = sorted(range(len(data.conversations)), key=lambda at: draw(seed, data.conversations[at]))
            out = order[fold::FOLDS] if len(order) > 1 else []
            train.append(data.part([at for at in range(len(order)) if at not in out]))
            if out:
                held.append(data.part(out))
        parts.append((train, held))
    return parts


def detectable(data: Data, first: int, second: int) -> float | None:
    """Return the smallest difference of hit rates that conversations would show (80 % power, 5 %).

    None for a single conversation.
    """
    counts = data.counts[:, first, HIT].astype(float)
    clusters = int((counts > 0).sum())
    if clusters < 2:
        return None
    sums = data.sums[:, first, HIT] - data.sums[:, second, HIT]
    mean = sums.sum() / counts.sum()
    error = (clusters / (clusters - 1) * ((sums - counts * mean) ** 2).sum()) ** 0.5 / counts.sum()
    return float((t_quantile(0.975, clusters - 1) + t_quantile(0.8, clusters - 1)) * error)


def against_hybrid(sets: Sequence[Data], number: int) -> tuple[float, float, float]:
    """Return the pooled hit rate minus that of hybrid, with its 95 % interval over conversations."""
    sums = np.concatenate([data.sums[:, number, HIT] - data.sums[:, -1, HIT] for data in sets])
    counts = np.concatenate([data.counts[:, -1, HIT] for data in sets]).astype(float)
    sums, counts = sums[counts > 0], counts[counts > 0]
    clusters, mean = len(counts), sums.sum() / counts.sum()
    error = (clusters / (clusters - 1) * ((sums - counts * mean) ** 2).sum()) ** 0.5 / counts.sum()
    reach = t_quantile(0.975, clusters - 1) * error
    return float(mean), float(mean - reach), float(mean + reach)


def print_sets(sets: Sequence[Data], number: int, grid: Grid) -> None:
    """Print every set under one configuration; an arrow leads from hybrid to the configuration."""
    print(f"#{number}: {flat(grid.points()[number])}")
    rows = []
    for data in sets:
        hit = data.mean(HIT)
        lane = len(hit) - (3 if hit[-3] >= hit[-2] else 2)
        mde = detectable(data, number, lane)
        arrows = [
            f"{values[-1]:.3f}→{values[number]:.3f}"
            for values in (data.mean(REPEAT), data.mean(FALSE), data.mean(HARM))
        ]
        rows.append([data.name, hit[-2], hit[-3], hit[-1], hit[number], hit[number] - hit[lane], mde, *arrows])
    headers = ["set", "bm25", "vector", "hybrid", "this", "behind", "MDE", "repeats", "FalseRecall", "Forbidden"]
    print(text_table(headers, rows))
    rates = pooled_repeats(sets)
    mean, low, high = against_hybrid(sets, number)
    print(
        f"pooled: {mean:+.3f} [{low:+.3f}, {high:+.3f}] of hybrid; repeats {rates[number] / rates[-1]:.2f} of hybrid's"
    )


def without_each_set(sets: Sequence[Data], overall: int, grid: Grid) -> None:
    """Print each set under the configuration that the other sets choose."""
    print("\nExpected on a set that tuned nothing: each under the configuration that the other sets choose")
    rows = []
    for index, data in enumerate(sets):
        chosen = choose([*sets[:index], *sets[index + 1 :]])
        hit = data.mean(HIT)
        lane = max(hit[-3], hit[-2])
        rows.append([data.name, hit[chosen], hit[chosen] - lane, hit[chosen] - hit[-1], hit[overall], chosen])
        print(f"#{chosen}: {flat(grid.points()[chosen])}")
    print(text_table(["set", "expected", "minus lane", "minus hybrid", "on everything", "#"], rows))


def other_conversations(sets: Sequence[Data], overall: int) -> None:
    """Print the hits on held-out conversations, summed over the folds."""
    print(f"\nExpected on other conversations of the same sets, {FOLDS} folds:")
    sums: dict[str, np.ndarray] = {}
    for train, held in folds(sets):
        chosen = choose(train)
        for data in held:
            hits = data.sums[:, [chosen, overall, -1, -2, -3], HIT].sum(0)
            sums[data.name] = sums.get(data.name, 0) + np.append(hits, data.counts[:, -1, HIT].sum())
    rows = []
    for name, values in sums.items():
        chosen_hit, whole_hit, hybrid, text, near = values[:5] / values[5]
        rows.append([name, chosen_hit, chosen_hit - max(text, near), chosen_hit - hybrid, whole_hit])
    print(text_table(["set", "expected", "minus lane", "minus hybrid", "on everything"], rows))


def main() -> None:
    """Sweep, choose, cross-validate, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--grid", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--embedder", default="all-MiniLM-L6-v2")
    given = parser.parse_args()
    grid = read_grid(given.grid)
    sets = [read_set(name, given.data, given.out, grid, given.embedder) for name in given.sets]
    overall = choose(sets)
    print("Chosen on everything, evaluated on everything:")
    print_sets(sets, overall, grid)
    if len(sets) > 1:
        without_each_set(sets, overall, grid)
    other_conversations(sets, overall)


if __name__ == "__main__":
    main()
