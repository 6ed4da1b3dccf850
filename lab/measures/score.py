"""Score a run: the values of every measure for every arm, and their means.

``n`` is the number of probes with gold, the same for all arms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import Incomplete
from lab.golden.model import CONDITION, CORRECTION, FAMILY, SUPERSEDED
from lab.measures.catalogue import MEASURES, RANKED, entry_of, is_ranked, of_kind, parse
from lab.measures.inputs import Flags, Floats, Ints, Judged, Probes, judge, turns_of
from lab.measures.model import (
    YES,
    ConversationMeasure,
    InjectedMeasure,
    ProbeMeasure,
    TurnMeasure,
    WritesMeasure,
    name_over_probes,
)
from lab.recordings.model import NICE
from lab.runs.directory import RunDirectory
from lab.runs.receipts import Receipts, read_receipts, read_writes
from lab.runs.scores import Gold, Scores, read_gold, read_scores, write_scores

if TYPE_CHECKING:
    from lab.measures.inputs import Flags, Floats, Ints


class Block(NamedTuple):
    """Values by measure, ``[units]`` each; ``where`` flags those that exist, ``[units, measures]``, by default all."""

    at: Ints
    values: Mapping[str, Floats]
    where: Flags | None = None


class Builder:
    """Collects blocks of values; names are numbered in order of appearance."""

    def __init__(self) -> None:
        self._arms: dict[str, int] = {}
        self._conversations: dict[str, int] = {}
        self._measures: dict[str, int] = {}
        self._units: list[str] = []
        self._blocks: list[tuple[Ints, ...]] = []
        self._values: list[Floats] = []

    def add_units(self, names: Sequence[str]) -> int:
        """Number units consecutively; return the number of the first."""
        first = len(self._units)
        self._units += names
        return first

    def add(self, arm: str, conversation: str, first: int, block: Block) -> None:
        """Add a block whose units are numbered from ``first``."""
        import numpy as np

        grid = np.stack(list(block.values.values()), axis=1)
        rows, columns = np.nonzero(np.ones(grid.shape) if block.where is None else block.where)
        measures = np.array([self._measures.setdefault(name, len(self._measures)) for name in block.values])
        self._blocks.append(
            (
                np.full(len(rows), self._arms.setdefault(arm, len(self._arms))),
                np.full(len(rows), self._conversations.setdefault(conversation, len(self._conversations))),
                block.at[rows] + first,
                measures[columns],
            )
        )
        self._values.append(grid[rows, columns])

    def scores(self) -> Scores:
        """Return all collected values."""
        import numpy as np

        empty = np.zeros(0, np.int64)
        numbers = [np.concatenate([empty, *parts]) for parts in zip(*self._blocks, strict=True)] or [empty] * 4
        names = [list(self._arms), list(self._conversations), self._units, list(self._measures)]
        return Scores(names, numbers, np.concatenate([np.zeros(0), *self._values]))


# Every run is scored at these cutoffs, and at the maximum number of items of each arm.
CUTOFFS = (1, 3, 5, 6, 10, 20, 50)
# A slice with more values than this is an identifier, not a subgroup.
MAX_SLICE_VALUES = 20


def headlines(cutoff: int) -> tuple[str, ...]:
    """Return the headline measures: the primary family of every comparison, fixed in advance."""
    return (f"Success@{cutoff}", f"R@{cutoff}", f"nDCG@{cutoff}", f"GoldNice@{cutoff}", "RepeatRate")


def with_judged(names: Sequence[str]) -> list[str]:
    """Return the measures with Judged@k after each Success@k, because an unjudged memory never counts as a hit."""
    beside: list[str] = []
    for name in names:
        stem, _, cutoff = name.partition("@")
        beside += [name, f"Judged@{cutoff}"] if stem == "Success" else [name]
    return list(dict.fromkeys(beside))


class Limit(NamedTuple):
    """What is measured for an arm.

    The maximum length of its ranking, its maximum number of items, the cutoffs, and additional rank measures.
    """

    depth: int
    max_items: int
    cutoffs: tuple[int, ...]
    also: tuple[str, ...] = ()


def more_measures(names: Iterable[str], max_items: Iterable[int]) -> tuple[str, ...]:
    """Return those of ``names`` that are rank measures at other than the standard cutoffs: ``R@7``, ``P(rel=2)@6``."""
    scored = {f"{name}@{k}" for name, measure in RANKED.items() if measure.cut for k in (*CUTOFFS, *max_items)}
    return tuple(name for name in names if name not in scored and is_ranked(name))


def score_run(run: RunDirectory, also: tuple[str, ...] = ()) -> Scores:
    """Return the scores of a finished run, without writing anything.

    Stored scores are used if they are current (:func:`lab.runs.scores.read_scores`). ``also`` are additional rank
    measures (:func:`more_measures`). Raises :class:`lab.base.errors.Incomplete` if conversations, rows or probes are
    missing, and :class:`lab.base.errors.Altered` for a file that has changed since it was written.
    """
    import numpy as np

    run.require_done()
    if not also and (stored := read_scores(run)) is not None:
        return stored
    gold = read_gold(run)
    cutoffs = tuple(sorted({*CUTOFFS, *run.max_items.values()}))
    limits = {arm: Limit(run.depths[arm], most, cutoffs, also) for arm, most in run.max_items.items()}
    probes: dict[str, set[str]] = {}
    for probe, judgements in gold.items():
        probes.setdefault(judgements.conversation, set()).add(probe)
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
                measures = of_kind(WritesMeasure)
                values = {measure.name: np.array([measure.values(written[arm])]) for measure in measures}
                builder.add(arm, conversation, first, Block(receipts.conversation_unit, values))
    return builder.scores()


def score_and_write(run: RunDirectory) -> Scores:
    """Score a finished run and write its ``scores.parquet``, unless the file is current or the run judged otherwise."""
    run.require_done()
    if (stored := read_scores(run)) is not None:
        return stored
    scores = score_run(run)
    if run.gold is not None:
        return scores
    slices = {
        probe: json.dumps(judgements.slices, ensure_ascii=False, sort_keys=True)
        for probe, judgements in read_gold(run).items()
    }
    write_scores(run, scores, slices)
    return scores


def _require_probes(run: RunDirectory, conversation: str, receipts: Receipts, expected: set[str]) -> None:
    missing = expected.difference(probe for probe in receipts.probe.tolist() if probe is not None)
    if missing:
        raise Incomplete(
            f"{run.receipts(conversation)}: has no row for probe {min(missing)} of golden.jsonl"
            f"{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}; run the replay again into another --out"
        )


def _probe_measures(receipts: Receipts, arm: str, gold: Mapping[str, Gold], limit: Limit) -> Block:
    """Return the measures of every probe. Those that need gold have no value at probes without gold."""
    import numpy as np

    rows = np.array([row for row in receipts.rows_of(arm).tolist() if receipts.probe[row] in gold], np.int64)
    golds = [gold[receipts.probe[row]] for row in rows.tolist()]
    probes = _probes_of(receipts, rows, golds, limit.max_items)
    values = rank_measures(probes.ranked, limit.depth, limit.cutoffs)
    for name in limit.also:
        measure, level, k = parse(name)
        at_level = probes.ranked.at_level(level)
        values[name] = measure.values(at_level, k) if k <= limit.depth else np.full(len(rows), np.nan)
    among = _among(golds, probes)
    where = [among["with gold"]] * len(values)
    for entry in MEASURES:
        if isinstance(entry, InjectedMeasure):
            if entry.family and not among[entry.family].any():
                continue
            columns = {f"{entry.name}@{k}": entry.values(probes, k) for k in limit.cutoffs if k <= limit.max_items}
        elif isinstance(entry, ProbeMeasure):
            columns = {entry.name: entry.values(probes)}
            # Most sets have no answers, and their scores do not name a measure of them.
            if entry.probes == "with answer" and not among[entry.probes].any():
                continue
        else:
            continue
        values |= columns
        where += [among[_which(entry)]] * len(columns)
    return Block(receipts.turn[rows], values, np.stack(where, axis=1))


def values_at(
    receipts: Receipts,
    rows: Ints,
    golds: Sequence[Gold],
    name: str,
    limit: Limit,
    injected: Sequence[Sequence[str]] | None = None,
) -> Floats | None:
    """Return one measure at ``rows`` of receipts, which must be probes, with any gold; None for one of another kind.

    NaN where the measure has no value. ``injected`` replaces what the rows injected.
    """
    import numpy as np

    if is_ranked(name):
        measure, level, k = parse(name)
        with_gold = np.array([bool(judgements.grades) for judgements in golds], bool)
        ranked = judge(receipts.keys_of(rows, limit.max_items), [judgements.judged for judgements in golds])
        return np.where(with_gold, measure.values(ranked.at_level(level), k), np.nan)
    # These measures are of what was injected: no ranking is read.
    probes, entry = _probes_of(receipts, rows, golds, 0, injected), entry_of(name)
    among = _among(golds, probes)
    if not isinstance(entry, InjectedMeasure | ProbeMeasure) or (isinstance(entry, InjectedMeasure) and entry.across):
        return None
    k = int(name.rpartition("@")[2]) if isinstance(entry, InjectedMeasure) else 0
    values = entry.values(probes, k) if isinstance(entry, InjectedMeasure) else entry.values(probes)
    return np.where(among[_which(entry)], values, np.nan)


def _which(entry: InjectedMeasure | ProbeMeasure) -> str:
    return (isinstance(entry, InjectedMeasure) and entry.family) or entry.probes


def _among(golds: Sequence[Gold], probes: Probes) -> dict[str, Flags]:
    """Return which probes have a value of a measure, by what it says of them: gold (:data:`Which`), or their family."""
    import numpy as np

    with_gold = np.array([bool(judgements.grades) for judgements in golds], bool)
    everywhere = np.ones(len(golds), bool)
    # Where no memory is relevant, the right answer is that nothing is known.
    answered = with_gold & ~np.isnan(probes.answer_share)
    families = np.array([judgements.slices.get(FAMILY, "") for judgements in golds], object)
    measured = {entry.family for entry in of_kind(InjectedMeasure) if entry.family}
    return {name: families == name for name in measured} | {
        "with gold": with_gold,
        "without gold": ~with_gold,
        "with answer": answered,
        "all": everywhere,
    }


def corrections_of(golds: Sequence[Gold]) -> list[int]:
    """Return for each probe the number of the correction that it is about; -1 for none.

    Two probes are about one correction if they need the same memory and have the same misleading one.
    """
    numbers: dict[tuple[str, str], int] = {}
    found = []
    for judgements in golds:
        slices = judgements.slices
        is_correction = slices.get(CONDITION) == SUPERSEDED or slices.get(FAMILY, "").startswith(CORRECTION)
        most = max(judgements.grades.values(), default=0)
        needed = [key for key, grade in judgements.grades.items() if grade == most] if is_correction else []
        pairs = [(right, wrong) for right in needed for wrong in judgements.forbidden]
        number = next((numbers[pair] for pair in pairs if pair in numbers), len(numbers)) if pairs else -1
        for pair in pairs:
            numbers.setdefault(pair, number)
        found.append(number)
    return found


def rank_measures(judged: Judged, depth: int, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, Floats]:
    """Return every rank measure at every cutoff, then those over complete rankings; one value for each probe.

    A value is NaN if the cutoff exceeds the ``depth`` of the arm, or, for complete rankings, if the number of relevant
    memories does.
    """
    import numpy as np

    missing = np.full(len(judged.grades), np.nan)
    values = {
        f"{measure.name}@{k}": measure.values(judged, k) if k <= depth else missing
        for k in cutoffs
        for measure in RANKED.values()
        if measure.cut
    }
    return values | {
        measure.name: np.where(judged.gold <= depth, measure.values(judged, depth), np.nan)
        for measure in RANKED.values()
        if not measure.cut
    }


def at_equal_exposure(
    lists: Sequence[Sequence[str]], judged: Container[str], k: int
) -> tuple[list[list[str]], list[int]]:
    """Return the injected memories of several arms at a probe, cut to equally many judged ones, and how many each had.

    Those that nobody judged are left out: nothing is known of them. Of each list the first ``k`` count.
    """
    seen = [[key for key in keys[:k] if key in judged] for keys in lists]
    fewest = min(map(len, seen))
    return [keys[:fewest] for keys in seen], [len(keys) for keys in seen]


def _probes_of(
    receipts: Receipts,
    rows: Ints,
    golds: Sequence[Gold],
    cutoff: int,
    injected: Sequence[Sequence[str]] | None = None,
) -> Probes:
    """Return the columns of ``rows`` of receipts, which must be probes, with their gold."""
    import numpy as np

    injected = receipts.injected_keys_of(rows) if injected is None else injected
    grades = [judgements.grades for judgements in golds]
    nice = [[key for key, label in judgements.visible.items() if label == NICE] for judgements in golds]
    wrong, pinned = [dict.fromkeys(one.forbidden, 1) for one in golds], receipts.pinned_keys_of(rows)
    return Probes(
        ranked=judge(
            receipts.keys_of(rows, cutoff) if cutoff else [[]] * len(rows),
            [judgements.judged if cutoff else {} for judgements in golds],
        ),
        injected=judge(injected, grades),
        pinned=judge(pinned, grades),
        nice=judge(injected, [dict.fromkeys(keys, 1) for keys in nice]),
        misleading=judge(injected, wrong),
        items=receipts.injected[rows],
        chars=receipts.chars[rows],
        tokens=receipts.block["tokens"][rows],
        answer_share=receipts.answer_share[rows],
        points=receipts.turn[rows],
        corrections=np.array(corrections_of(golds), np.int64),
        pinned_misleading=judge(pinned, wrong),
    )


def _turn_measures(receipts: Receipts, arm: str) -> Iterator[Block]:
    """Yield the measures of recall turns, then those of the conversation."""
    import numpy as np

    rows = receipts.rows_of(arm)
    rows = rows[receipts.is_recall_turn[rows]]
    turns = turns_of(receipts, rows)
    is_probe = np.array([receipts.probe[row] is not None for row in rows.tolist()], bool)
    for measure in of_kind(TurnMeasure):
        values = {measure.name: measure.values(turns)}
        if measure.over_probes is not None:
            values[name_over_probes(measure.name)] = np.where(is_probe, values[measure.name], np.nan)
        yield Block(receipts.turn[rows], values)
    for once in of_kind(ConversationMeasure):
        yield Block(receipts.conversation_unit, {once.name: np.array([once.values(turns)])})


def unequal_counts(scores: Scores, measures: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the numbers of values by arm, for those of the ``measures`` whose numbers differ between arms.

    The arms' means of such a measure are over different turns. A comparison pairs them, and reports what it filled in.
    """
    counts: dict[str, dict[str, int]] = {}
    for arm in scores.arms:
        for name, values in scores.of_arm(arm).items():
            counts.setdefault(name, {})[arm] = len(values.at)
    known = ((name, {arm: counts[name].get(arm, 0) for arm in scores.arms}) for name in measures if name in counts)
    return {name: by_arm for name, by_arm in known if len(set(by_arm.values())) > 1}


def summarise(scores: Scores, gold: Mapping[str, Gold], arms: Sequence[str]) -> dict[str, Any]:
    """Return the means of all measures, by arm and by slice.

    ``{"arms": {ARM: {"n", "measures", "unseen"}}, "slices": {SLICE: {VALUE: {ARM: {"n", "measures"}}}}}``, where
    ``unseen`` has, for each harm that an arm never did, the number of units and the upper 95 % bound of its rate if
    units were independent.
    """
    import numpy as np

    judged = {probe: judgements for probe, judgements in gold.items() if judgements.grades}
    (overall,) = _means(scores, arms, np.zeros(len(scores), np.int64), [len(judged)])
    unseen = _unseen(scores, arms)
    summary: dict[str, Any] = {
        "arms": {arm: means | {"unseen": unseen[arm]} for arm, means in overall.items()},
        "slices": {},
    }
    groups: dict[str, dict[str, str]] = {
        name: {} for name in sorted({name for judgements in judged.values() for name in judgements.slices})
    }
    for probe, judgements in gold.items():
        for name, value in judgements.slices.items():
            # A planted condition counts misleading memories, also where nothing is relevant.
            if judgements.grades or (name == CONDITION and name in groups and judgements.forbidden):
                groups[name][probe] = value
    groups["conversation"] = {probe: judgements.conversation for probe, judgements in judged.items()}
    for name, values in groups.items():
        distinct = sorted(set(values.values()))
        if len(distinct) > MAX_SLICE_VALUES:
            continue
        numbers = {value: number for number, value in enumerate(distinct)}
        if name == "conversation":
            group = np.array([numbers.get(key, -1) for key in scores.conversations], np.int64)[scores.conversation]
        else:
            group = np.array([numbers[values[at]] if at in values else -1 for at in scores.units], np.int64)[scores.at]
        counts = [list(values.values()).count(value) for value in distinct]
        summary["slices"][name] = dict(zip(distinct, _means(scores, arms, group, counts), strict=True))
    return summary


def _unseen(scores: Scores, arms: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the bounds of harms (0 or 1 for each unit) that an arm never did, by arm and measure."""
    unseen: dict[str, dict[str, dict[str, float]]] = {arm: {} for arm in arms}
    for number, measure in enumerate(scores.measures):
        entry = entry_of(measure)
        if entry is None or entry.better != "lower" or entry.range != YES:
            continue
        selected = scores.where(scores.measure == number)
        for arm in arms:
            values = selected.value[selected.arm == list(scores.arms).index(arm)]
            n = int((values == values).sum())
            if n and not (values > 0).any():
                unseen[arm][measure] = {"n": n, "at_most": never_seen(n)}
    return unseen


def _means(scores: Scores, arms: Sequence[str], group: Ints, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Return the means of each group by arm and measure; ``counts`` are the probes of each group.

    ``group`` has the group of each value, -1 for none. Measures keep the order of their first value in the group.
    """
    import numpy as np

    shape = (len(counts), len(scores.arms), len(scores.measures))
    known = (group >= 0) & ~np.isnan(scores.value)
    cells = np.ravel_multi_index((group[known], scores.arm[known], scores.measure[known]), shape)
    n = np.bincount(cells, minlength=math.prod(shape)).reshape(shape).tolist()
    sums = np.bincount(cells, scores.value[known], minlength=math.prod(shape)).reshape(shape).tolist()
    first = np.full((len(counts), len(scores.measures)), len(scores))
    np.minimum.at(first, (group[group >= 0], scores.measure[group >= 0]), np.flatnonzero(group >= 0))
    measures = [[number for number in np.argsort(row).tolist() if row[number] < len(scores)] for row in first]
    numbers = {arm: number for number, arm in enumerate(scores.arms)}
    return [
        {
            arm: {
                "n": count,
                "measures": {
                    scores.measures[number]: sums[at][numbers[arm]][number] / n[at][numbers[arm]][number]
                    if n[at][numbers[arm]][number]
                    else None
                    for number in measures[at]
                },
            }
            for arm in arms
        }
        for at, count in enumerate(counts)
    ]


def never_seen(n: int) -> float:
    """Return the 95 % upper bound of the rate of an event not seen in n independent trials, about 3/n.

    Source: Clopper and Pearson 1934.
    """
    return float(1 - 0.05 ** (1 / n))
