"""Time scoring of plain rankings against pytrec_eval and ranx: ten measures, from Python dicts to values.

Run as ``python tests/benchmarks/scoring.py [--json FILE]``. Rounds are interleaved, so that a busy moment hits all. It
measures, and fails on no time. ranx, which is in the group ``bench`` alone, is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytrec_eval

from lab.base.files import dump_json, write_atomically
from lab.measures.trec import evaluate

# The lab's names and those of the other tools; all three have these ten.
MEASURES = {
    "Success@1": ("success_1", "hit_rate@1"),
    "Success@5": ("success_5", "hit_rate@5"),
    "Success@10": ("success_10", "hit_rate@10"),
    "R@5": ("recall_5", "recall@5"),
    "R@10": ("recall_10", "recall@10"),
    "P@5": ("P_5", "precision@5"),
    "P@10": ("P_10", "precision@10"),
    "nDCG@10": ("ndcg_cut_10", "ndcg@10"),
    "AP": ("map", "map"),
    "RR": ("recip_rank", "mrr"),
}
ASKED = {"success.1,5,10", "recall.5,10", "P.5,10", "ndcg_cut.10", "map", "recip_rank"}
OURS, LISTS = "lab, scores in dicts", "lab, ranked lists"
TREC, TREC_ALONE = "pytrec_eval, built", "pytrec_eval, evaluate alone"
RANX = "ranx, built"

Runs = dict[str, dict[str, float]]
Golds = dict[str, dict[str, int]]


def invented(probes: int, items: int) -> tuple[Runs, Golds]:
    """Runs of keys as the lab's look, with one to four graded gold memories each."""
    source = random.Random(1)
    runs, golds = {}, {}
    for number in range(probes):
        pool = [f"talk{number % 40}/s{source.randint(1, 30):02}/t{place:02}#0" for place in range(items * 5 // 4)]
        runs[f"q{number}"] = {key: source.random() for key in source.sample(pool, items)}
        golds[f"q{number}"] = {key: source.randint(1, 3) for key in source.sample(pool, source.randint(1, 4))}
    return runs, golds


def contestants(runs: Runs, golds: Golds) -> dict[str, Callable[[], object]]:
    """Return the timed functions by name."""
    ranked = {probe: sorted(run, key=run.__getitem__, reverse=True) for probe, run in runs.items()}
    built = pytrec_eval.RelevanceEvaluator(golds, ASKED)
    found: dict[str, Callable[[], object]] = {
        OURS: lambda: evaluate(runs, golds, MEASURES),
        LISTS: lambda: evaluate(ranked, golds, MEASURES),
        TREC: lambda: pytrec_eval.RelevanceEvaluator(golds, ASKED).evaluate(runs),
        TREC_ALONE: lambda: built.evaluate(runs),
    }
    if importlib.util.find_spec("ranx"):
        from ranx import Qrels, Run
        from ranx import evaluate as ranx_evaluate

        names = [theirs for _, theirs in MEASURES.values()]
        found[RANX] = lambda: ranx_evaluate(Qrels(golds), Run(runs), names, return_mean=False)
    return found


def largest_difference(runs: Runs, golds: Golds) -> float:
    """Return the largest difference between the lab's values and pytrec_eval's."""
    ours = evaluate(runs, golds, MEASURES)
    theirs = pytrec_eval.RelevanceEvaluator(golds, ASKED).evaluate(runs)
    return max(
        abs(value - theirs[probe][name])
        for measure, (name, _) in MEASURES.items()
        for probe, value in zip(golds, ours[measure].tolist(), strict=True)
    )


def main(probes: int, items: int, rounds: int, out: Path | None) -> None:
    """Time all functions and print medians and ratios."""
    runs, golds = invented(probes, items)
    timed = contestants(runs, golds)
    spent: dict[str, list[float]] = {name: [] for name in timed}
    for number in range(rounds + 1):
        for name, work in timed.items():
            started = time.perf_counter()
            work()
            # The first round warms up: ranx compiles.
            if number:
                spent[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in spent.items()}
    ratios = {
        f"{ours} / {name}": statistics.median(a / b for a, b in zip(spent[ours], spent[name], strict=True))
        for ours in (OURS, LISTS)
        for name in (TREC, TREC_ALONE, RANX)
        if name in spent
    }
    difference = largest_difference(runs, golds)
    sys.stdout.write(f"{probes} probes of {items} items, {len(MEASURES)} measures, {rounds} rounds\n")
    for name, value in medians.items():
        sys.stdout.write(f"{name:<52}{value * 1e3:9.1f} ms\n")
    for name, value in ratios.items():
        sys.stdout.write(f"{name:<52}{value:9.2f}\n")
    sys.stdout.write(f"{'largest difference from pytrec_eval':<52}{difference:9.1e}\n")
    if out:
        settings = {"probes": probes, "items": items, "rounds": rounds, "measures": list(MEASURES)}
        write_atomically(
            out, dump_json(settings | {"seconds": spent, "median": medians, "ratios": ratios, "difference": difference})
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="where the figures are written")
    given = parser.parse_args()
    main(given.probes, given.items, given.rounds, given.json)
