"""Scores of a run: every measure of every arm, one row a probe or turn, and the means over them.

``n`` is the number of probes with gold, one denominator for all arms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lab.errors import Incomplete
from lab.measures.catalogue import MEASURES, RANKED, entry_of, of_kind
from lab.measures.columns import Flags, Floats, Ints
from lab.measures.conversation import Probes, turns_of
from lab.measures.model import (
    YES,
    ConversationMeasure,
    InjectedMeasure,
    ProbeMeasure,
    TurnMeasure,
    Which,
    WritesMeasure,
    name_over_probes,
)
from lab.measures.names import is_ranked, parse
from lab.measures.ranking import Judged, judge
from lab.measures.table import Block, Builder
from lab.recordings.model import NICE
from lab.runs.directory import RunDirectory
from lab.runs.gold import Gold, read_gold
from lab.runs.receipts import Receipts, read_receipts
from lab.runs.scores import Scores, read_scores, write_scores
from lab.runs.writes import read_writes

# Every run is scored at these, and at the most items that an arm injects.
CUTOFFS = (1, 3, 5, 6, 10, 20, 50)
# A slice with more values than this is an identifier, not a subgroup.
MAX_SLICE_VALUES = 20


def headlines(cutoff: int) -> tuple[str, ...]:
    """The measures that come first, and the primary family of every comparison: declared before anybody looks."""
    return (f"Success@{cutoff}", f"R@{cutoff}", f"nDCG@{cutoff}", f"GoldNice@{cutoff}", "RepeatRate")


class Limit(NamedTuple):
    """How far an arm is measured.

    Places of its ranking, the most items it injects, the cutoffs of the run, and rank measures besides.
    """

    depth: int
    max_items: int
    cutoffs: tuple[int, ...]
    also: tuple[str, ...] = ()


def more_measures(names: Iterable[str], max_items: Iterable[int]) -> tuple[str, ...]:
    """Return the names of rank measures at a cutoff that no run is scored by: ``R@7``, ``P(rel=2)@6``."""
    scored = {f"{name}@{k}" for name, one in RANKED.items() if one.cut for k in (*CUTOFFS, *max_items)}
    return tuple(name for name in names if name not in scored and is_ranked(name))


def score_run(run: RunDirectory, also: tuple[str, ...] = ()) -> Scores:
    """The scores of a finished run; nothing is written.

    They are read back where the run keeps them and they are current (:func:`lab.runs.scores.read_scores`). ``also`` are
    rank measures (:func:`more_measures`) besides its own. Raises :class:`lab.errors.Incomplete` where conversations,
    rows or probes are missing, and :class:`lab.errors.Altered` for a file that is not as it was written.
    """
    import numpy as np

    run.require_done()
    if not also and (kept := read_scores(run)) is not None:
        return kept
    gold = read_gold(run)
    cutoffs = tuple(sorted({*CUTOFFS, *run.max_items.values()}))
    limits = {arm: Limit(run.depths[arm], most, cutoffs, also) for arm, most in run.max_items.items()}
    probes: dict[str, set[str]] = {}
    for probe, one in gold.items():
        probes.setdefault(one.conversation, set()).add(probe)
    builder = Builder()
    for conversation in run.conversations:
        receipts = read_receipts(run, conversation)
        _require_probes(run, conversation, receipts, probes.get(conversation, set()))
        first = builder.add_units(receipts.units)
        written = read_writes(run, conversation)
        for arm, limit in limits.items():
            for block in (_probe_measures(receipts, arm, gold, limit), *_turn_measures(receipts, arm)):
                builder.add(arm, conversation, first, block)
            if arm in written:
                values = {one.name: np.array([one.values(written[arm])]) for one in of_kind(WritesMeasure)}
                builder.add(arm, conversation, first, Block(receipts.conversation_unit, values))
    return builder.scores()


def score_and_write(run: RunDirectory) -> Scores:
    """Score a finished run, and keep every value in its ``scores.parquet``; a file that is current is left alone."""
    run.require_done()
    if (kept := read_scores(run)) is not None:
        return kept
    scores = score_run(run)
    slices = {
        probe: json.dumps(one.slices, ensure_ascii=False, sort_keys=True) for probe, one in read_gold(run).items()
    }
    write_scores(run, scores, slices)
    return scores


def _require_probes(run: RunDirectory, conversation: str, receipts: Receipts, wanted: set[str]) -> None:
    lacking = wanted.difference(one for one in receipts.probe.tolist() if one is not None)
    if lacking:
        raise Incomplete(
            f"{run.receipts(conversation)}: has no row for probe {min(lacking)} of golden.jsonl"
            f"{f' and {len(lacking) - 1} more' if len(lacking) > 1 else ''}; run the replay again into another --out"
        )


def _probe_measures(receipts: Receipts, arm: str, gold: Mapping[str, Gold], limit: Limit) -> Block:
    """Return the measures of every judged probe: what looks for gold has a value where there is some."""
    import numpy as np

    rows = np.array([row for row in receipts.rows_of(arm).tolist() if receipts.probe[row] in gold], np.int64)
    golds = [gold[receipts.probe[row]] for row in rows.tolist()]
    probes = _probes_of(receipts, rows, golds, limit.max_items)
    values = rank_measures(probes.ranked, limit.depth, limit.cutoffs)
    for name in limit.also:
        measure, level, k = parse(name)
        at_level = probes.ranked.at_level(level)
        values[name] = measure.values(at_level, k) if k <= limit.depth else np.full(len(rows), np.nan)
    with_gold = np.array([bool(one.grades) for one in golds], bool)
    among: dict[Which, Flags] = {"with gold": with_gold, "without gold": ~with_gold, "all": np.ones(len(rows), bool)}
    where = [with_gold] * len(values)
    for one in MEASURES:
        if isinstance(one, InjectedMeasure):
            found = {f"{one.name}@{k}": one.values(probes, k) for k in limit.cutoffs if k <= limit.max_items}
        elif isinstance(one, ProbeMeasure):
            found = {one.name: one.values(probes)}
        else:
            continue
        values |= found
        where += [among[one.probes]] * len(found)
    return Block(receipts.turn[rows], values, np.stack(where, axis=1))


def rank_measures(judged: Judged, depth: int, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, Floats]:
    """Return every rank measure at every cutoff, one value a probe, then those that look at the whole ranking.

    NaN where a cutoff is beyond the ``depth`` of the arm, and, of a whole ranking, where more is relevant than that.
    """
    import numpy as np

    nothing = np.full(len(judged.grades), np.nan)
    values = {
        f"{one.name}@{k}": one.values(judged, k) if k <= depth else nothing
        for k in cutoffs
        for one in RANKED.values()
        if one.cut
    }
    return values | {
        one.name: np.where(judged.gold <= depth, one.values(judged, depth), np.nan)
        for one in RANKED.values()
        if not one.cut
    }


def _probes_of(receipts: Receipts, rows: Ints, golds: Sequence[Gold], cutoff: int) -> Probes:
    """Return the columns of some rows of receipts, which are probes, beside their gold."""
    injected = receipts.injected_keys_of(rows)
    grades = [one.grades for one in golds]
    return Probes(
        ranked=judge(receipts.keys_of(rows, cutoff), [one.judged for one in golds]),
        injected=judge(injected, grades),
        pinned=judge(receipts.pinned_keys_of(rows), grades),
        nice=judge(injected, [_wanted(key for key, label in one.visible.items() if label == NICE) for one in golds]),
        misleading=judge(injected, [_wanted(one.forbidden) for one in golds]),
        items=receipts.injected[rows],
        chars=receipts.chars[rows],
    )


def _turn_measures(receipts: Receipts, arm: str) -> Iterator[Block]:
    """Yield the measures of every recall turn, one by one; at the end, those of the conversation."""
    import numpy as np

    rows = receipts.rows_of(arm)
    rows = rows[receipts.is_recall_turn[rows]]
    turns = turns_of(receipts, rows)
    is_probe = np.array([receipts.probe[row] is not None for row in rows.tolist()], bool)
    for one in of_kind(TurnMeasure):
        values = {one.name: one.values(turns)}
        if one.over_probes is not None:
            values[name_over_probes(one.name)] = np.where(is_probe, values[one.name], np.nan)
        yield Block(receipts.turn[rows], values)
    for whole in of_kind(ConversationMeasure):
        yield Block(receipts.conversation_unit, {whole.name: np.array([whole.values(turns)])})


def _wanted(keys: Iterable[str]) -> dict[str, int]:
    """Memories of which none is wanted more than another."""
    return dict.fromkeys(keys, 1)


def summarise(scores: Scores, gold: Mapping[str, Gold], arms: Sequence[str]) -> dict[str, Any]:
    """``{"arms": {ARM: {"n", "measures", "unseen"}}, "slices": {SLICE: {VALUE: {ARM: {"n", "measures"}}}}}``.

    ``unseen``: of each harm that an arm never did, in how many places, and how often it may happen all the same: the
    upper bound of the 95 % interval, were places independent.
    """
    import numpy as np

    judged = {probe: one for probe, one in gold.items() if one.grades}
    (whole,) = _means(scores, arms, np.zeros(len(scores), np.int64), [len(judged)])
    unseen = _unseen(scores, arms)
    summary: dict[str, Any] = {"arms": {arm: one | {"unseen": unseen[arm]} for arm, one in whole.items()}, "slices": {}}
    names = sorted({name for one in judged.values() for name in one.slices})
    groups = {name: {probe: one.slices[name] for probe, one in judged.items() if name in one.slices} for name in names}
    groups["conversation"] = {probe: one.conversation for probe, one in judged.items()}
    for name, values in groups.items():
        distinct = sorted(set(values.values()))
        if len(distinct) > MAX_SLICE_VALUES:
            continue
        numbers = {value: number for number, value in enumerate(distinct)}
        if name == "conversation":
            group = np.array([numbers.get(one, -1) for one in scores.conversations], np.int64)[scores.conversation]
        else:
            group = np.array([numbers[values[at]] if at in values else -1 for at in scores.units], np.int64)[scores.at]
        counts = [sum(one == value for one in values.values()) for value in distinct]
        summary["slices"][name] = dict(zip(distinct, _means(scores, arms, group, counts), strict=True))
    return summary


def _unseen(scores: Scores, arms: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Harms of yes or no that an arm never did, by arm and measure."""
    found: dict[str, dict[str, dict[str, float]]] = {arm: {} for arm in arms}
    for number, measure in enumerate(scores.measures):
        entry = entry_of(measure)
        if entry is None or entry.better != "lower" or entry.range != YES:
            continue
        some = scores.where(scores.measure == number)
        for arm in arms:
            values = some.value[some.arm == list(scores.arms).index(arm)]
            n = int((values == values).sum())
            if n and not (values > 0).any():
                found[arm][measure] = {"n": n, "at_most": never_seen(n)}
    return found


def _means(scores: Scores, arms: Sequence[str], group: Ints, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Means by arm and measure of each group, whose probes are counted; a value of group -1 is in none.

    Measures stand in the order in which a group has them.
    """
    import numpy as np

    shape = (len(counts), len(scores.arms), len(scores.measures))
    known = (group >= 0) & ~np.isnan(scores.value)
    cells = np.ravel_multi_index((group[known], scores.arm[known], scores.measure[known]), shape)
    n = np.bincount(cells, minlength=math.prod(shape)).reshape(shape).tolist()
    sums = np.bincount(cells, scores.value[known], minlength=math.prod(shape)).reshape(shape).tolist()
    first = np.full((len(counts), len(scores.measures)), len(scores))
    np.minimum.at(first, (group[group >= 0], scores.measure[group >= 0]), np.flatnonzero(group >= 0))
    seen = [[one for one in np.argsort(row).tolist() if row[one] < len(scores)] for row in first]
    numbers = {arm: number for number, arm in enumerate(scores.arms)}
    return [
        {
            arm: {
                "n": count,
                "measures": {
                    scores.measures[one]: sums[place][numbers[arm]][one] / n[place][numbers[arm]][one]
                    if n[place][numbers[arm]][one]
                    else None
                    for one in seen[place]
                },
            }
            for arm in arms
        }
        for place, count in enumerate(counts)
    ]


def never_seen(n: int) -> float:
    """Return the 95 % upper bound of a rate of which nothing was seen in n independent draws, about 3/n.

    Source: Clopper and Pearson 1934.
    """
    return float(1 - 0.05 ** (1 / n))
