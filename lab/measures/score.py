"""Scores of a run: every measure of every arm, one row a probe or turn, and the means over them.

``n`` is the number of probes with gold, one denominator
for all arms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.files import read_json_lines
from lab.measures.injection import (
    backbone_duplication,
    forbidden,
    gold_nice,
    hard_rules,
    nice_presence,
    present,
    wrong_scope,
)
from lab.measures.ranking import CUTOFFS, rank_measures
from lab.measures.repetition import dominance, longest_streak, neighbour_jaccard, repeat_rates
from lab.replay.receipts import read_table, write_table
from lab.replay.run_directory import RunDirectory

COLUMNS = (
    "arm",
    "turn",
    "scope",
    "recalls",
    "probe",
    "injected",
    "chars",
    "visible_nice",
    "hard_rules",
    "hard_kept",
    "pinned",
    "duplicates",
    "item_key",
    "item_label",
    "item_scope",
)
ALIASES = {"hit": "Success", "mrr": "RR", "recall": "R", "precision": "P", "ndcg": "nDCG"}
# A slice with more values than this is an identifier, not a subgroup.
MAX_SLICE_VALUES = 20


class Score(NamedTuple):
    """One value. ``at`` is the probe or the turn, or the conversation for a measure of the whole of it."""

    arm: str
    conversation: str
    at: str
    measure: str
    value: float | None


class Gold(NamedTuple):
    """What the run's golden.jsonl says of one probe."""

    conversation: str
    grades: dict[str, int]
    visible: dict[str, str]
    forbidden: list[str]
    slices: dict[str, str]


def headlines(cutoff: int) -> tuple[str, ...]:
    """The measures that come first, and the primary family of every comparison: declared before anybody looks."""
    return (f"Success@{cutoff}", f"R@{cutoff}", f"nDCG@{cutoff}", f"GoldNice@{cutoff}", "RepeatRate")


def canonical(name: str) -> str:
    """A measure under its own name: ``hit@5`` is Success@5, ``MRR`` and ``recall`` are RR and R."""
    stem, at, k = name.partition("@")
    return f"{ALIASES.get(stem.lower(), stem)}{at}{k}"


def read_gold(run: RunDirectory) -> dict[str, Gold]:
    """The probes of a run by id."""
    return {
        line["probe"]: Gold(
            line["conversation"],
            {one["memory"]: one["grade"] for one in line["relevant"]},
            {one["memory"]: one["label"] for one in line["relevant"] if one["visible"]},
            line["forbidden"],
            line["slices"],
        )
        for _, line in read_json_lines(run.path / "golden.jsonl")
    }


def score_run(run: RunDirectory) -> list[Score]:
    """Score a finished run, write ``scores.parquet`` and return its rows."""
    run.require_done()
    gold = read_gold(run)
    cutoffs = tuple(sorted({*CUTOFFS, *run.max_items.values()}))
    limits = {name: (run.depths[name], most, cutoffs) for name, most in run.max_items.items()}
    scores = [
        score
        for conversation in run.conversations
        for score in _conversation(
            conversation, read_table(run.receipts(conversation), COLUMNS).to_pylist(), gold, limits
        )
    ]
    write_scores(scores, gold, run.path / "scores.parquet")
    return scores


def _conversation(
    conversation: str,
    rows: list[dict[str, Any]],
    gold: dict[str, Gold],
    limits: dict[str, tuple[int, int, tuple[int, ...]]],
) -> Iterator[Score]:
    for arm, limit in limits.items():
        mine = [row for row in rows if row["arm"] == arm]
        for row in mine:
            yield from (
                Score(arm, conversation, row["turn"], name, value) for name, value in _probe_measures(row, gold, *limit)
            )
        turns = [row for row in mine if row["recalls"]]
        yield from (
            Score(arm, conversation, at, name, value) for at, name, value in _turn_measures(conversation, turns)
        )


def _probe_measures(
    row: dict[str, Any], gold: dict[str, Gold], depth: int, max_items: int, cutoffs: Sequence[int]
) -> Iterator[tuple[str, float | None]]:
    judged = gold.get(row["probe"]) if row["probe"] else None
    if judged is None:
        return
    injected = row["item_key"][: row["injected"]]
    within = [k for k in cutoffs if k <= max_items]
    if judged.grades:
        yield from rank_measures(row["item_key"], judged.grades, depth, cutoffs).items()
        for k in within:
            yield f"GoldNice@{k}", gold_nice(injected[:k], judged.visible)
        yield "Present", present(injected, row["pinned"], judged.grades)
    for k in within:
        yield f"Forbidden@{k}", forbidden(injected[:k], judged.forbidden)


def _turn_measures(conversation: str, turns: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, float | None]]:
    selections = [row["item_key"][: row["injected"]] for row in turns]
    per_turn: dict[str, list[float | None]] = {
        "RepeatRate": repeat_rates(selections),
        "RepeatDominance": dominance(selections),
        "Jaccard": neighbour_jaccard(selections),
        "NicePresence": [nice_presence(row["item_label"][: row["injected"]], row["visible_nice"]) for row in turns],
        "BackboneDuplication": [backbone_duplication(row["duplicates"], row["injected"]) for row in turns],
        "HardRules": [hard_rules(row["hard_kept"], row["hard_rules"]) for row in turns],
        "WrongScope": [wrong_scope(row["item_scope"][: row["injected"]], row["scope"]) for row in turns],
        "InjectedItems": [float(row["injected"]) for row in turns],
        "InjectedChars": [float(row["chars"]) for row in turns],
    }
    for name, values in per_turn.items():
        for row, value in zip(turns, values, strict=True):
            yield row["turn"], name, value
            if name == "RepeatRate":
                yield row["turn"], "RepeatRate(probes)", value if row["probe"] else None
    yield conversation, "LongestStreak", longest_streak(selections)


def write_scores(scores: Sequence[Score], gold: dict[str, Gold], path: Path) -> None:
    """Write the long form.

    ``arm, conversation, at, measure, value, slices`` (a JSON object of the probe's subgroups, or null).
    """
    import pyarrow as pa

    slices = {probe: json.dumps(one.slices, ensure_ascii=False, sort_keys=True) for probe, one in gold.items()}
    columns = list(zip(*scores, strict=True)) if scores else [()] * 5
    names = ("arm", "conversation", "at", "measure", "value")
    types = (pa.string(), pa.string(), pa.string(), pa.string(), pa.float64())
    data = {name: pa.array(column, kind) for name, column, kind in zip(names, columns, types, strict=True)}
    data["slices"] = pa.array([slices.get(score.at) for score in scores], pa.string())
    write_table(pa.table(data).replace_schema_metadata({"kind": "lab.scores", "schema_version": "1"}), path)


def summarise(scores: Sequence[Score], gold: dict[str, Gold], arms: Sequence[str]) -> dict[str, Any]:
    """``{"arms": {ARM: {"n", "measures"}}, "slices": {SLICE: {VALUE: {ARM: {"n", "measures"}}}}}``."""
    judged = {probe: one for probe, one in gold.items() if one.grades}
    summary: dict[str, Any] = {"arms": _means(scores, arms, len(judged)), "slices": {}}
    names = sorted({name for one in judged.values() for name in one.slices})
    groups = {name: {probe: one.slices[name] for probe, one in judged.items() if name in one.slices} for name in names}
    groups["conversation"] = {probe: one.conversation for probe, one in judged.items()}
    for name, values in groups.items():
        distinct = sorted(set(values.values()))
        if len(distinct) > MAX_SLICE_VALUES:
            continue
        by_value: dict[str, list[Score]] = {value: [] for value in distinct}
        for score in scores:
            value = values.get(score.at) or (score.conversation if name == "conversation" else None)
            if value in by_value:
                by_value[value].append(score)
        counts = {value: sum(one == value for one in values.values()) for value in distinct}
        summary["slices"][name] = {value: _means(by_value[value], arms, counts[value]) for value in distinct}
    return summary


def _means(scores: Sequence[Score], arms: Sequence[str], n: int) -> dict[str, Any]:
    sums: dict[tuple[str, str], list[float]] = {}
    seen: dict[str, None] = {}
    for score in scores:
        seen.setdefault(score.measure)
        if score.value is not None:
            total = sums.setdefault((score.arm, score.measure), [0.0, 0])
            total[0] += score.value
            total[1] += 1
    return {
        arm: {
            "n": n,
            "measures": {
                name: sums[arm, name][0] / sums[arm, name][1] if (arm, name) in sums else None for name in seen
            },
        }
        for arm in arms
    }
