"""The judgements behind a difference of two arms of a run, and what it is if some of them are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.formatting import counted
from lab.compare.comparable import equal_in
from lab.compare.fragility import Fragility, Label, fragility
from lab.compare.paired import Difference
from lab.measures.catalogue import entry_of
from lab.measures.model import YES
from lab.measures.score import CUTOFFS, Limit, values_at
from lab.runs.directory import RunDirectory
from lab.runs.receipts import Receipts, read_receipts
from lab.runs.scores import Gold, read_gold

if TYPE_CHECKING:
    from lab.measures.inputs import Floats, Ints

RELEVANT, IRRELEVANT, MISLEADING, UNJUDGED = "relevant", "irrelevant", "misleading", "unjudged"


class Judgement(NamedTuple):
    """A judgement by the id of its probe."""

    probe: str
    memory: str
    called: str


class Turns(NamedTuple):
    """What turns a difference: its judgements if some are wrong, and unjudged memories if they are relevant.

    ``judgements`` counts all that its probes have; those that no arm recalls cannot change a hit.
    """

    judgements: int
    wrong: Fragility
    named: tuple[Judgement, ...]
    unjudged: Fragility | None

    @property
    def sentence(self) -> str:
        """Return how many judgements would turn the difference."""
        of = counted(self.judgements, "judgement")
        if self.wrong.most is None:
            said = f"stays shown whichever of its {of} are wrong, as far as a greedy choice finds"
        elif self.wrong.is_exact:
            said = f"is no longer shown if {self.wrong.most} of {of} {'is' if self.wrong.most == 1 else 'are'} wrong"
        else:
            said = (
                f"is no longer shown if {self.wrong.most} of {of} are wrong; fewer than {self.wrong.least} cannot do it"
            )
        if self.unjudged is None or self.unjudged.most is None:
            return said
        return (
            f"{said}; nor if {self.unjudged.most} of {counted(self.unjudged.labels, 'unjudged memory')} were relevant"
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values, with keys and no texts."""
        wrong, more = self.wrong, self.unjudged
        return {
            "judgements": self.judgements,
            "wrong": {"least": wrong.least, "most": wrong.most, "named": [one._asdict() for one in self.named]},
            "unjudged": {"memories": more.labels, "least": more.least, "most": more.most} if more else None,
        }


def what_turns(
    run: RunDirectory, baseline: str, candidate: str, difference: Difference, *, family: int = 1
) -> Turns | None:
    """Return what turns a difference of two arms of one run.

    None if the difference is not shown, or is not one of hits or harms (0 or 1 at a probe), or is one of labels.
    """
    entry = entry_of(difference.measure)
    # A memory that turns out to be relevant may have any importance.
    if not difference.is_shown or entry is None or entry.range != YES or entry.name == "GoldNice":
        return None
    found = _Probes(run, baseline, candidate, difference.measure)
    if not found.names:
        return None
    # One label changes whether there is a hit, in one arm or alike in both.
    wrong = fragility(found.own, found.clusters, found.labels, found.values, largest=1.0, family=family)
    if wrong is None:
        return None
    found.take_unjudged()
    more = fragility(found.own, found.clusters, found.unjudged, found.values, largest=1.0, family=family)
    named = tuple(Judgement(found.names[one.probe], *one[1:]) for one in wrong.named)
    return Turns(found.judgements, wrong, named, more if found.unjudged else None)


class _Probes:
    """The probes of a run at which two arms have a value of a measure."""

    def __init__(self, run: RunDirectory, baseline: str, candidate: str, measure: str) -> None:
        gold, equal = read_gold(run), equal_in(run)
        self.measure = measure
        cutoffs = tuple(sorted({*CUTOFFS, *run.max_items.values()}))
        self.limits = [Limit(run.depths[arm], run.max_items[arm], cutoffs) for arm in (baseline, candidate)]
        self.names, self.golds, self.places = list[str](), list[Gold](), list[tuple[Receipts, tuple[int, int]]]()
        for conversation in run.conversations:
            receipts = read_receipts(run, conversation)
            by_arm = [
                {receipts.probe[row]: row for row in receipts.rows_of(arm).tolist() if receipts.probe[row] in gold}
                for arm in (baseline, candidate)
            ]
            for name in by_arm[0].keys() & by_arm[1].keys():
                self.names.append(name)
                self.golds.append(gold[name])
                self.places.append((receipts, (by_arm[0][name], by_arm[1][name])))
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        own = self._differences([(at, self.golds[at]) for at in order])
        kept = [at for at, value in zip(order, own, strict=True) if value == value]
        self.own = [value for value in own if value == value]
        self.names, self.golds = [self.names[at] for at in kept], [self.golds[at] for at in kept]
        self.places = [self.places[at] for at in kept]
        clusters = [equal.get(one.conversation, one.conversation) for one in self.golds]
        number = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
        self.clusters = [number[name] for name in clusters]
        self.judgements = sum(len(one.judged) for one in self.golds)
        self.labels, self.unjudged = list[Label](), list[Label]()
        for at, (receipts, both) in enumerate(self.places):
            keys: dict[str, None] = {}
            for row, limit in zip(both, self.limits, strict=True):
                for listed in (
                    receipts.keys_of(_ints([row]), limit.max_items),
                    receipts.injected_keys_of(_ints([row])),
                ):
                    keys |= dict.fromkeys(listed[0])
            one = self.golds[at]
            self.labels += [Label(at, key, _called(one, key)) for key in keys if key in one.judged]
            self.unjudged += [Label(at, key, UNJUDGED) for key in keys if key not in one.judged]
            # What no arm recalls has no part in a hit, but for whether the probe has relevant memories at all.
            self.golds[at] = one._replace(
                judged={key: grade for key, grade in one.judged.items() if grade or key in keys}
            )
        self._current = self.labels

    def take_unjudged(self) -> None:
        """Take from now on the memories that an arm recalls and nobody judged for the labels."""
        self._current = self.unjudged

    def values(self, asked: Sequence[tuple[int, tuple[int, ...]]]) -> Sequence[float]:
        """Return the difference at each probe with some of its labels turned round; without relevant memories, 0."""
        golds = [(at, _turned(self.golds[at], [self._current[one] for one in some])) for at, some in asked]
        return [0.0 if value != value else value for value in self._differences(golds)]

    def _differences(self, golds: Sequence[tuple[int, Gold]]) -> list[float]:
        import numpy as np

        by_receipts: dict[int, list[int]] = {}
        for place, (at, _) in enumerate(golds):
            by_receipts.setdefault(id(self.places[at][0]), []).append(place)
        found = np.full(len(golds), np.nan)
        for places in by_receipts.values():
            receipts = self.places[golds[places[0]][0]][0]
            some = [golds[place][1] for place in places]
            values: list[Floats] = []
            for side, limit in enumerate(self.limits):
                rows = _ints([self.places[golds[place][0]][1][side] for place in places])
                value = values_at(receipts, rows, some, self.measure, limit)
                if value is None:
                    return found.tolist()
                values.append(value)
            found[places] = values[1] - values[0]
        return [float(value) for value in found]


def _ints(values: Sequence[int]) -> Ints:
    import numpy as np

    return np.array(values, np.int64)


def _called(gold: Gold, memory: str) -> str:
    if memory in gold.grades:
        return RELEVANT
    return MISLEADING if memory in gold.forbidden else IRRELEVANT


def _turned(gold: Gold, labels: Sequence[Label]) -> Gold:
    """Return judgements with some of them turned round."""
    grades, judged, forbidden, visible = dict(gold.grades), dict(gold.judged), list(gold.forbidden), dict(gold.visible)
    for _, memory, called in labels:
        if called == RELEVANT:
            del grades[memory]
            judged[memory] = 0
            visible.pop(memory, None)
        elif called == MISLEADING:
            forbidden.remove(memory)
        else:
            grades[memory] = judged[memory] = 1
    return gold._replace(grades=grades, judged=judged, forbidden=forbidden, visible=visible)
