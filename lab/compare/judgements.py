"""The judgements behind a difference of two arms, and what it is if some of them are wrong."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.files import dump_json
from lab.base.formatting import counted
from lab.compare.comparable import equal_in
from lab.compare.fragility import Conclusion, Fragility, Label, fragility
from lab.compare.paired import Difference, Pairs
from lab.measures.catalogue import entry_of
from lab.measures.model import COUNT, NET, SHARE, YES, ProbeMeasure
from lab.measures.score import CUTOFFS, Limit, at_equal_exposure, values_at
from lab.recordings.model import NICE
from lab.runs.directory import RunDirectory
from lab.runs.receipts import Receipts, read_receipts
from lab.runs.scores import Gold, read_gold

if TYPE_CHECKING:
    from lab.measures.inputs import Ints

RELEVANT, IRRELEVANT, MISLEADING, UNMARKED, UNJUDGED = "relevant", "irrelevant", "misleading", "unmarked", "unjudged"
# Kinds of judgements that add something, by number.
KINDS = {IRRELEVANT: 1, UNMARKED: 2}
# The label of a memory that turns out to be relevant and is not nice.
OTHER = "must_remember"


# The shares of judgements that are wrong at random, and how many draws are made for each.
RATES, DRAWS = (0.01, 0.02, 0.05, 0.1), 100


class Judgement(NamedTuple):
    """A judgement by the id of its probe; ``called`` is what it says, and ``nice`` whether it is of a nice memory."""

    probe: str
    memory: str
    called: str
    nice: bool = False

    @property
    def is_mark(self) -> bool:
        """Whether it says that a memory misleads, or not."""
        return self.called in (MISLEADING, UNMARKED)

    def as_json(self) -> dict[str, str]:
        """Return plain values."""
        return {"probe": self.probe, "memory": self.memory, "called": self.called}


class Turns(NamedTuple):
    """What turns a conclusion: its judgements if some are wrong, and unjudged memories if they are relevant.

    ``judgements`` counts all that its probes have; those that no arm recalls cannot change a hit. ``named`` and
    ``found`` are judgements, and unjudged memories, that turn it together.
    """

    judgements: int
    wrong: Fragility
    named: tuple[Judgement, ...]
    unjudged: Fragility | None
    found: tuple[Judgement, ...] = ()

    @property
    def sentence(self) -> str:
        """Return how many judgements would turn a difference that is shown."""
        said = f"is no longer shown {self.clause}"
        if self.wrong.most is None:
            said = "stays shown whichever of its judgements are wrong, as far as a greedy choice finds"
        if self.unjudged is not None and self.unjudged.most is not None:
            said += f"; nor if {self.unjudged.most} of {counted(self.unjudged.labels, 'unjudged memory')} were relevant"
        return f"{said}; {at_random(shares(self.wrong.drawn))}"

    @property
    def clause(self) -> str:
        """Return how many judgements turn a conclusion, as a clause that follows "turns"."""
        return turned_by(self.wrong.least, self.wrong.most, self.judgements)

    @property
    def bounds(self) -> str:
        """Return the number of judgements that turn it, in a word."""
        return in_short(self.wrong.least, self.wrong.most)

    def as_json(self) -> dict[str, Any]:
        """Return plain values, with keys and no texts."""
        wrong, more = self.wrong, self.unjudged
        return {
            "judgements": self.judgements,
            "wrong": {
                "least": wrong.least,
                "most": wrong.most,
                "named": [one.as_json() for one in self.named],
                "at_random": shares(wrong.drawn),
            },
            "unjudged": {"memories": more.labels, "least": more.least, "most": more.most} if more else None,
        }


def turned_by(least: int, most: int | None, judgements: int) -> str:
    """Return by how many wrong judgements something turns, as a clause; ``most`` is None if it does not."""
    of = counted(judgements, "judgement")
    if most is None:
        return f"by no choice of its {of} that was found; fewer than {least} cannot do it"
    if least == most:
        return f"if {most} of {of} {'is' if most == 1 else 'are'} wrong"
    return f"if {most} of {of} are wrong; fewer than {least} cannot do it"


def in_short(least: int, most: int | None) -> str:
    """Return bounds of a number of judgements in a word: ``3``, ``4-9``, or ``none``."""
    if most is None:
        return "none"
    return str(most) if least == most else f"{least}-{most}"


def shares(drawn: Sequence[bool]) -> dict[str, float]:
    """Return the share of draws that turn something, by the share of judgements that are wrong at random."""
    return {
        f"{rate:g}": sum(drawn[number * DRAWS : (number + 1) * DRAWS]) / DRAWS
        for number, rate in enumerate(RATES if drawn else ())
    }


def at_random(turned: Mapping[str, float]) -> str:
    """Return in words what :func:`shares` gives."""
    rates = ", ".join(f"{100 * float(rate):.0f}" for rate in turned)
    found = ", ".join(f"{DRAWS * share:.0f}" for share in turned.values())
    return f"if {rates} % are wrong at random, in {found} of {DRAWS} draws"


class Drawn:
    """Draws of judgements that are wrong, the same for all measures of a run: grades and marks, each independent."""

    def __init__(self, gold: Mapping[str, Gold]) -> None:
        import numpy as np

        pairs = ((probe, memory) for probe in sorted(gold) for memory in sorted(gold[probe].judged))
        self._at = {pair: number for number, pair in enumerate(pairs)}
        random = np.random.default_rng(0)
        self._wrong = [np.flatnonzero(random.random(2 * len(self._at)) < rate) for rate in RATES for _ in range(DRAWS)]

    def of(self, labels: Sequence[tuple[str, str, bool]]) -> list[Ints]:
        """Return of each draw the places of its labels in a list of probe, memory, and whether it is a mark."""
        import numpy as np

        places = np.full(2 * len(self._at), -1)
        places[[2 * self._at[probe, memory] + is_mark for probe, memory, is_mark in labels]] = range(len(labels))
        found = (places[wrong] for wrong in self._wrong)
        return [np.sort(chosen[chosen >= 0]) for chosen in found]


class Arm(NamedTuple):
    """An arm of a run, and its weight in what is compared: a difference is the sum of 1 and -1 times two arms."""

    run: RunDirectory
    name: str
    weight: float


class Reading:
    """Receipts and gold of runs, read once for many measures, and draws of wrong judgements."""

    def __init__(self) -> None:
        self.receipts, self.gold = cache(read_receipts), cache(read_gold)
        self.drawn = cache(lambda run: Drawn(self.gold(run)))


def of_difference(
    run: RunDirectory,
    baseline: str,
    candidate: str,
    difference: Difference,
    family: int,
    reading: Reading,
) -> Turns | None:
    """Return what turns a difference of two arms of one run; None if it is not shown, or not one of hits or harms.

    ``family`` is the size of Holm's: any of its differences counts as the one with the smallest p.
    """
    entry = entry_of(difference.measure)
    if not difference.is_shown or entry is None or entry.range != YES:
        return None
    sign = 1.0 if difference.estimate.mean >= 0 else -1.0
    conclusion = Conclusion(adjust=lambda p: min(1.0, family * p))
    arms = Arm(run, candidate, sign), Arm(run, baseline, -sign)
    return what_turns(arms, difference.measure, conclusion, reading)


def what_turns(
    arms: Sequence[Arm],
    measure: str,
    conclusion: Conclusion,
    reading: Reading,
    *,
    shift: float = 0.0,
    probes: Container[str] | None = None,
    random: bool = True,
    equal: bool = False,
) -> Turns | None:
    """Return what turns the conclusion that the weighted sum of arms, plus ``shift``, is above 0.

    The runs of the arms have the same gold. ``probes`` restricts it to some, ``random`` adds draws. None if it does
    not hold, or if the measure does not depend on judgements. ``equal``: the arms are compared at equal exposure.
    """
    entry = entry_of(measure)
    if entry is None or entry.unit != "probe":
        return None
    if entry.range == COUNT and not (isinstance(entry, ProbeMeasure) and entry.probes == "without gold"):
        return None
    found = _Probes(arms, measure, reading, shift, probes, equal)
    found.take_labels()
    if not found.names or not found.labels:
        return None
    labels = [(found.names[at], memory, called in (MISLEADING, UNMARKED)) for at, memory, called in found.labels]
    drawn = reading.drawn(arms[0].run).of(labels) if random else ()
    wrong = found.turns(conclusion, found.labels, drawn)
    if wrong is None:
        return None
    more = found.turns(conclusion, found.unjudged) if found.unjudged else None
    return Turns(found.judgements, wrong, found.named(wrong), more, found.named(more) if more else ())


class _Probes:
    """The probes at which arms have a value of a measure."""

    def __init__(
        self,
        arms: Sequence[Arm],
        measure: str,
        reading: Reading,
        shift: float,
        probes: Container[str] | None,
        equal_exposure: bool = False,
    ) -> None:
        run = arms[0].run
        gold, equal = reading.gold(run), equal_in(run)
        self.measure, self.shift, self.equal_exposure = measure, shift, equal_exposure
        self.weights, self.limits = [arm.weight for arm in arms], [_limit(arm) for arm in arms]
        self.names, self.golds = list[str](), list[Gold]()
        self.places: list[list[tuple[Receipts, int]]] = []
        for conversation in run.conversations:
            rows = [_rows(reading, arm, conversation) for arm in arms]
            for name in set.intersection(*(set(of_arm) for of_arm in rows)):
                if name in gold and (probes is None or name in probes):
                    self.names.append(name)
                    self.golds.append(gold[name])
                    self.places.append([of_arm[name] for of_arm in rows])
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        own = self._values([(at, self.golds[at]) for at in order])
        kept = [at for at, value in zip(order, own, strict=True) if value == value]
        self.own = [value for value in own if value == value]
        self.names, self.golds = [self.names[at] for at in kept], [self.golds[at] for at in kept]
        self.places = [self.places[at] for at in kept]
        clusters = [equal.get(one.conversation, one.conversation) for one in self.golds]
        number = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
        self.clusters = [number[name] for name in clusters]
        self.judgements = sum(len(one.judged) for one in self.golds)
        self.labels, self.unjudged, self.nice = list[Label](), list[Label](), list[set[str]]()
        self._current = self.labels

    def take_labels(self) -> None:
        """Take the judgements of every probe on which the measure depends, and the memories without one."""
        entry = entry_of(self.measure)
        ranges = entry.range if entry else SHARE
        # One label changes whether there is a hit, in one arm or alike in several; a share, by its weight in each.
        self.is_hit = ranges != SHARE
        up = sum(weight for weight in self.weights if weight > 0)
        self.largest = sum(map(abs, self.weights))
        if ranges in (YES, NET):
            self.largest = max(up, self.largest - up)
        elif ranges == COUNT:
            # A probe that needs nothing after all has no difference.
            self.largest = max((abs(value - self.shift) for value in self.own), default=0.0)
        for at, rows_at in enumerate(self.places):
            self._take(at, rows_at)
        if self.is_hit:
            # What no arm recalls has no part in a hit, but for whether the probe has relevant memories at all.
            known = [set[str]() for _ in self.golds]
            for label in self.labels:
                known[label.probe].add(label.memory)
            self.golds = [
                one._replace(judged={key: grade for key, grade in one.judged.items() if grade or key in of_probe})
                for one, of_probe in zip(self.golds, known, strict=True)
            ]
        if not self._reads(MISLEADING):
            self.labels = [label for label in self.labels if label.called not in (MISLEADING, UNMARKED)]
        if not self._reads(RELEVANT):
            self.labels = [label for label in self.labels if label.called in (MISLEADING, UNMARKED)]
            self.unjudged = []
        self._current = self.labels

    def _take(self, at: int, rows: Sequence[tuple[Receipts, int]]) -> None:
        """Take the labels of a probe: of hits, those of memories that an arm recalls."""
        recalled: dict[str, None] = {}
        nice: set[str] = set()
        for (receipts, row), limit in zip(rows, self.limits, strict=True):
            at_row = _ints([row])
            injected = receipts.injected_keys_of(at_row)[0]
            recalled |= dict.fromkeys((*receipts.keys_of(at_row, limit.max_items)[0], *injected))
            are_nice = receipts.injected_of(at_row).nice.tolist()
            nice.update(key for key, is_nice in zip(injected, are_nice, strict=True) if is_nice)
        self.nice.append(nice)
        one = self.golds[at]
        keys = recalled if self.is_hit else dict.fromkeys((*recalled, *one.judged))
        for key in keys:
            if key in one.grades:
                self.labels.append(Label(at, key, RELEVANT))
            elif key in one.forbidden:
                self.labels.append(Label(at, key, MISLEADING))
            elif key in one.judged:
                self.labels += [Label(at, key, IRRELEVANT), Label(at, key, UNMARKED)]
            else:
                self.unjudged.append(Label(at, key, UNJUDGED))

    def _reads(self, what: str) -> bool:
        """Return whether the measure reads grades, or marks: whether it changes if those of a probe are turned."""
        self._current = self.labels
        found: dict[tuple[int, str], list[int]] = {}
        for number, label in enumerate(self.labels):
            if label.called in ((RELEVANT, IRRELEVANT) if what == RELEVANT else (MISLEADING, UNMARKED)):
                found.setdefault((label.probe, label.called), []).append(number)
        tried = [(at, tuple(some)) for (at, _), some in found.items()]
        return any(value != self.own[at] for (at, _), value in zip(tried, self.values(tried), strict=True))

    def turns(self, conclusion: Conclusion, labels: list[Label], drawn: Sequence[Ints] = ()) -> Fragility | None:
        """Return what turns a conclusion, among these labels."""
        self._current = labels
        # Further relevant memories, or further marks, change a hit only if one of them alone does.
        inert = [KINDS.get(label.called, 0) if self.is_hit else 0 for label in labels]
        own, of, largest = self.own, self.clusters, self.largest
        return fragility(own, of, labels, self.values, largest=largest, conclusion=conclusion, drawn=drawn, inert=inert)

    def named(self, found: Fragility) -> tuple[Judgement, ...]:
        """Return the labels that turn it as judgements."""
        return tuple(
            Judgement(self.names[at], memory, called, memory in self.nice[at]) for at, memory, called in found.named
        )

    def values(self, asked: Sequence[tuple[int, tuple[int, ...]]]) -> Sequence[float]:
        """Return the value at each probe with some of its labels turned round; without a difference, that of 0."""
        golds = [
            (
                at,
                _turned(self.golds[at], [self._current[one] for one in some], self.nice[at])
                if some
                else self.golds[at],
            )
            for at, some in asked
        ]
        return [self.shift if value != value else value for value in self._values(golds)]

    def _turned(self, at: int, some: Sequence[int]) -> Gold:
        return _turned(self.golds[at], [self._current[one] for one in some], self.nice[at])

    def _values(self, golds: Sequence[tuple[int, Gold]]) -> list[float]:
        import numpy as np

        by_receipts: dict[tuple[int, ...], list[int]] = {}
        for place, (at, _) in enumerate(golds):
            by_receipts.setdefault(tuple(id(receipts) for receipts, _ in self.places[at]), []).append(place)
        found = np.full(len(golds), np.nan)
        for places in by_receipts.values():
            some = [golds[place][1] for place in places]
            sides = list(zip(*(self.places[golds[place][0]] for place in places), strict=True))
            rows = [_ints([row for _, row in side]) for side in sides]
            injected: list[Sequence[Sequence[str]] | None] = [None] * len(sides)
            if self.equal_exposure:
                lists = [side[0][0].injected_keys_of(at) for side, at in zip(sides, rows, strict=True)]
                most = min(limit.max_items for limit in self.limits)
                cut = [at_equal_exposure(each, one.judged, most)[0] for *each, one in zip(*lists, some, strict=True)]
                injected = [list(side) for side in zip(*cut, strict=True)]
            total = np.full(len(places), self.shift)
            for side, limit in enumerate(self.limits):
                value = values_at(sides[side][0][0], rows[side], some, self.measure, limit, injected[side])
                if value is None:
                    return found.tolist()
                total += self.weights[side] * value
            found[places] = total
        return [float(value) for value in found]


def _limit(arm: Arm) -> Limit:
    run, name, _ = arm
    return Limit(run.depths[name], run.max_items[name], tuple(sorted({*CUTOFFS, *run.max_items.values()})))


def _rows(reading: Reading, arm: Arm, conversation: str) -> dict[str, tuple[Receipts, int]]:
    """Return where the probes of a conversation are in the receipts of an arm."""
    receipts = reading.receipts(arm.run, conversation)
    rows = receipts.rows_of(arm.name).tolist()
    return {receipts.probe[row]: (receipts, row) for row in rows if receipts.probe[row] is not None}


def _ints(values: Sequence[int]) -> Ints:
    import numpy as np

    return np.array(values, np.int64)


def _turned(gold: Gold, labels: Sequence[Label], nice: Container[str]) -> Gold:
    """Return judgements with some of them turned round; ``nice`` are recalled memories labelled nice_to_have."""
    grades, judged, forbidden, visible = dict(gold.grades), dict(gold.judged), list(gold.forbidden), dict(gold.visible)
    for _, memory, called in labels:
        if called == RELEVANT:
            del grades[memory]
            judged[memory] = 0
            visible.pop(memory, None)
        elif called == MISLEADING:
            forbidden.remove(memory)
        elif called == UNMARKED:
            forbidden.append(memory)
        else:
            grades[memory] = judged[memory] = 1
            if memory in nice:
                visible[memory] = NICE
    return gold._replace(grades=grades, judged=judged, forbidden=forbidden, visible=visible)


class Exposed(NamedTuple):
    """Pairs of a measure at equal exposure, and at how many probes each arm injects a judged memory.

    ``deaf`` counts the ``conversations`` in which the candidate does so at less than half as many probes.
    """

    pairs: Pairs
    baseline: int
    candidate: int
    deaf: int
    conversations: int


def pairs_at_equal_exposure(baseline: Arm, candidate: Arm, measure: str, reading: Reading) -> Exposed | None:
    """Return the values of two arms at the probes of a measure; None if it has none, or is not one of injections."""
    found = _Probes((baseline, candidate), measure, reading, 0.0, None, True)
    if not found.names:
        return None
    values = []
    for weights in ((1.0, 0.0), (0.0, 1.0)):
        found.weights = list(weights)
        values.append(found.values([(at, ()) for at in range(len(found.names))]))
    equal = equal_in(baseline.run)
    conversations = [equal.get(one.conversation, one.conversation) for one in found.golds]
    exposed = dict.fromkeys(conversations, (0, 0))
    for at, rows in enumerate(found.places):
        lists = [receipts.injected_keys_of(_ints([row]))[0] for receipts, row in rows]
        _, (old, new) = at_equal_exposure(lists, found.golds[at].judged, min(limit.max_items for limit in found.limits))
        so_far = exposed[conversations[at]]
        exposed[conversations[at]] = so_far[0] + bool(old), so_far[1] + bool(new)
    pairs = Pairs(measure, found.names, conversations, list(values[0]), list(values[1]))
    counts = exposed.values()
    old, new = sum(old for old, _ in counts), sum(new for _, new in counts)
    return Exposed(pairs, old, new, sum(2 * new < old for old, new in counts), len(exposed))


def turned_lines(lines: Sequence[Mapping[str, Any]], wrong: Sequence[Judgement]) -> bytes:
    """Return the lines of a golden.jsonl with judgements turned round."""
    by_probe: dict[str, list[Judgement]] = {}
    for one in wrong:
        by_probe.setdefault(one.probe, []).append(one)
    return b"".join(dump_json(_turned_line(dict(line), by_probe.get(line["probe"], ())), indent=None) for line in lines)


def _turned_line(line: dict[str, Any], wrong: Sequence[Judgement]) -> dict[str, Any]:
    irrelevant = list(line.get("irrelevant", ()))
    for _, memory, called, nice in wrong:
        if called == RELEVANT:
            line["relevant"] = [entry for entry in line["relevant"] if entry["memory"] != memory]
            irrelevant.append(memory)
        elif called == MISLEADING:
            line["forbidden"] = [other for other in line["forbidden"] if other != memory]
            irrelevant.append(memory)
        elif called == UNMARKED:
            line["forbidden"] = [*line["forbidden"], memory]
        else:
            entry = {"memory": memory, "grade": 1, "visible": True, "label": NICE if nice else OTHER}
            line["relevant"] = [*line["relevant"], entry]
    return line | ({"irrelevant": irrelevant} if irrelevant else {})
