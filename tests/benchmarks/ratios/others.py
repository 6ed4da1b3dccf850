"""Ratios with work from other test modules: scoring against other evaluators, and two processes against one."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType

from harness import PROJECT, Absent, Bench, Side, Sides, ratio

# Copies of LoCoMo, so that one process takes a minute.
COPIES = 4


def module_at(*parts: str) -> ModuleType:
    """The module in a file below ``tests/``; :class:`Absent` where it, or what it needs, is not there."""
    path = PROJECT.joinpath("tests", *parts)
    if not path.is_file():
        raise Absent(f"{path.relative_to(PROJECT)} is not there")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise Absent(f"{error.name} is not installed; it is in the dependency group bench") from None
    return module


def scored(bench: Bench, theirs: str) -> Sides:
    """Ten measures of 10,000 probes × 20 items, relative to another evaluator."""
    scoring = module_at("benchmarks", "scoring.py")
    found = bench.keep("scoring", None, lambda: scoring.contestants(*scoring.invented(10_000, 20)))
    other = getattr(scoring, theirs)
    if other not in found:
        raise Absent(f"{other.partition(',')[0]} is not installed; it is in the dependency group bench")
    return Sides(Side(scoring.OURS, found[scoring.OURS]), Side(other, found[other]))


@ratio("score-trec", at_most=3, about="Ten measures of 10000 probes of 20 items, over pytrec_eval-terrier.")
def score_trec(bench: Bench) -> Sides:
    """From dicts to values, on both sides."""
    return scored(bench, "TREC")


@ratio("score-ranx", at_most=1, about="The same over ranx, its build counted.")
def score_ranx(bench: Bench) -> Sides:
    """From dicts to values, on both sides."""
    return scored(bench, "RANX")


@ratio(
    "two-processes",
    at_least=1.8,
    asked_only=True,
    repeats=3,
    about="One process over two, LoCoMo replayed long enough.",
)
def two_processes(bench: Bench) -> Sides:
    """Each sample takes a minute or more."""
    trial = module_at("trials", "two_processes.py")
    samples = json.loads(bench.public("locomo", "locomo5_dev.json").read_text("utf-8"))
    many = [{**one, "sample_id": f"{one['sample_id']}-{copy}"} for copy in range(COPIES) for one in samples]
    data = bench.folder / "many_locomo.json"
    data.write_text(json.dumps(many), encoding="utf-8")
    return Sides(
        Side("one process", lambda: trial.replay(data, bench.new_folder())),
        Side("two processes", lambda: trial.replay(data, bench.new_folder(), "--jobs", "2")),
    )
