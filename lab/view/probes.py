"""The table of probes: rows that a query selects, in its order, and the cells of each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import UnusableInput
from lab.runs.scores import Gold
from lab.view.causes import NAMES, words
from lab.view.index import NOT_RANKED, Pair
from lab.view.live import State

if TYPE_CHECKING:
    import numpy as np

    from lab.base.columns import Flags, Floats, Ints

BASELINE, CANDIDATE, DIFFERENCE = "baseline", "candidate", "difference"
SORTS = ("turn", "relevant", "rank baseline", "rank candidate", BASELINE, CANDIDATE, DIFFERENCE)
SLICE = "slice."
# Slices with more values are identifiers, not subgroups.
MOST_VALUES = 60
ORDERS = ("ascending", "descending")


class Query(NamedTuple):
    """What the table shows, as in its address; empty means everything, or the order of the conversations.

    ``label`` is one of a relevant memory, ``cause`` one of a missed memory under the arm ``by`` (either, if empty).
    ``low`` and ``high`` bound the ``measure`` of the arm ``of``. ``slices`` has one value for each subgroup by name.
    """

    measure: str = ""
    label: str = ""
    cause: str = ""
    by: str = ""
    of: str = ""
    low: str = ""
    high: str = ""
    sort: str = ""
    order: str = ""
    slices: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_address(cls, query: Mapping[str, str]) -> Query:
        """Return the query of an address."""
        own = {name: query.get(name, "").strip() for name in cls._fields if name != "slices"}
        slices = {name: value for name, value in query.items() if name.startswith(SLICE) and value}
        return cls(**own, slices=tuple(sorted(slices.items())))

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the address."""
        return {name: value for name, value in self._asdict().items() if name != "slices"} | dict(self.slices)


class Choices(NamedTuple):
    """What a query may name, for the form: measures, labels, causes, and the values of each slice."""

    measures: list[str]
    labels: list[str]
    causes: list[str]
    slices: dict[str, list[str]]


class Row(NamedTuple):
    """A probe in the table. ``values`` are baseline, candidate and difference; ranks and causes are by arm."""

    number: int
    conversation: str
    turn: str
    slices: tuple[str, ...]
    labels: str
    relevant: int
    ranks: list[str]
    hits: list[bool | None]
    marks: list[tuple[str, ...]]
    causes: list[tuple[str, ...]]
    values: list[float | None]


class ProbeTable:
    """The probes of an index with what can be filtered and sorted by."""

    def __init__(self, state: State) -> None:
        import numpy as np

        self._state, self._index = state, state.index
        golds = [self._index.gold.get(probe or "") for probe in self._index.probes]
        labels = sorted({label for gold in golds if gold for label in gold.visible.values()})
        self._own = _slices(state, golds)
        values: dict[str, set[str]] = {}
        for own in self._own:
            for name, value in own.items():
                values.setdefault(name, set()).add(value)
        self._slices = {name: sorted(known) for name, known in sorted(values.items()) if len(known) <= MOST_VALUES}
        self._labels = labels
        # By turn: the number of relevant memories, their labels as bits, and the place of its value in each slice.
        self._relevant = np.fromiter((len(gold.grades) if gold else 0 for gold in golds), np.int64, len(golds))
        self._label_bits = np.fromiter(
            (sum(1 << labels.index(label) for label in set(gold.visible.values())) if gold else 0 for gold in golds),
            np.int64,
            len(golds),
        )
        self._label_names = {
            bits: ", ".join(label for place, label in enumerate(labels) if bits >> place & 1)
            for bits in set(self._label_bits.tolist())
        }
        self._places = {
            name: np.fromiter(
                (known.index(own[name]) if name in own else -1 for own in self._own),
                np.int64,
                len(golds),
            )
            for name, known in self._slices.items()
        }

    @property
    def choices(self) -> Choices:
        """What a query may name."""
        return Choices(self._state.values.measures, self._labels, list(NAMES), self._slices)

    def select(self, query: Query, pair: Pair, matching: Flags) -> Ints:
        """Return the numbers of the turns to show, in order. Raises :class:`UnusableInput` for an unknown name."""
        import numpy as np

        self._require(query, pair)
        chosen = matching & self._index.judged
        if query.label:
            chosen &= self._label_bits & (1 << self._labels.index(query.label)) > 0
        for parameter, value in query.slices:
            name = parameter.removeprefix(SLICE)
            chosen &= self._places[name] == (self._slices[name].index(value) if value in self._slices[name] else -2)
        if query.cause:
            bit = 1 << NAMES.index(query.cause)
            chosen &= np.any([self._state.causes.bits(arm) & bit for arm in _arms(pair, query.by)], axis=0)
        if query.low or query.high:
            values = self.values(pair, query.measure)[query.of or (CANDIDATE if pair.candidate else BASELINE)]
            low, high = (float(query.low) if query.low else -math.inf), (float(query.high) if query.high else math.inf)
            # Comparisons with NaN are false.
            chosen &= (values >= low) & (values <= high)
        numbers = np.flatnonzero(chosen)
        if query.sort and query.sort != "turn":
            numbers = numbers[_order(self._key(query, pair)[numbers], descending=query.order == "descending")]
        elif query.order == "descending":
            numbers = numbers[::-1]
        return numbers

    def values(self, pair: Pair, measure: str) -> dict[str, Floats]:
        """Return the values of a measure at each turn: of the arms, and their difference; empty without a measure."""
        if not measure:
            return {}
        base = self._state.values.at(pair.baseline, measure)
        if pair.candidate is None:
            return {BASELINE: base}
        cand = self._state.values.at(pair.candidate, measure)
        return {BASELINE: base, CANDIDATE: cand, DIFFERENCE: cand - base}

    def rows(self, numbers: list[int], query: Query, pair: Pair) -> list[Row]:
        """Return the rows of some turns."""
        index, values = self._index, self.values(pair, query.measure)
        hits = {arm: index.hits(arm, pair.cutoff) for arm in pair.arms}
        causes = {arm: self._state.causes.bits(arm) for arm in pair.arms}
        rows = []
        for number in numbers:
            gold = index.gold[index.probes[number] or ""]
            graded = bool(gold.grades)
            rows.append(
                Row(
                    number,
                    index.conversations[index.conversation_of[number]],
                    index.turns[number],
                    tuple([self._own[number].get(name, "") for name in self._slices]),
                    self._label_names[int(self._label_bits[number])],
                    len(gold.grades),
                    [_rank(int(index.first[arm][number])) if graded else "" for arm in pair.arms],
                    [bool(hits[arm][number]) if graded else None for arm in pair.arms],
                    [index.marks(number, arm) for arm in pair.arms],
                    [words(int(causes[arm][number])) for arm in pair.arms],
                    [_number(float(column[number])) for column in values.values()],
                )
            )
        return rows

    def _key(self, query: Query, pair: Pair) -> Floats:
        import numpy as np

        if query.sort == "relevant":
            return self._relevant.astype(float)
        if query.sort.startswith("rank "):
            ranks = self._index.first[_arms(pair, query.sort.removeprefix("rank "))[0]].astype(float)
            return np.where(ranks > 0, ranks, np.nan)
        if query.sort.startswith(SLICE):
            places = self._places[query.sort.removeprefix(SLICE)].astype(float)
            return np.where(places >= 0, places, np.nan)
        return self.values(pair, query.measure)[query.sort]

    def _require(self, query: Query, pair: Pair) -> None:
        """Raise :class:`UnusableInput` unless everything that a query names is there."""
        arms = (BASELINE, CANDIDATE) if pair.candidate else (BASELINE,)
        columns = (*arms, DIFFERENCE) if pair.candidate else arms
        sorts = [*SORTS, *(SLICE + name for name in self._slices)]
        if not query.measure:
            sorts = [name for name in sorts if name not in (BASELINE, CANDIDATE, DIFFERENCE)]
        measures = self._state.values.measures
        if not self._state.values.is_done:
            measures = [*measures, query.measure]
        for what, value, known in (
            ("measure", query.measure, measures),
            ("label", query.label, self._labels),
            ("cause", query.cause, NAMES),
            ("arm", query.by, arms),
            ("column", query.of, columns),
            ("order", query.order, ORDERS),
            ("sort key", query.sort, sorts),
            *(("slice", name.removeprefix(SLICE), self._slices) for name, _ in query.slices),
        ):
            if value and value not in known:
                raise UnusableInput(f"no {what} {value!r}; known: {', '.join(known) or 'none'}")
        for bound in (query.low, query.high):
            if bound and not query.measure:
                raise UnusableInput("bounds need a measure; choose one")
            if bound and not _is_number(bound):
                raise UnusableInput(f"{bound!r} is not a number")


def _slices(state: State, golds: Sequence[Gold | None]) -> list[dict[str, str]]:
    """Return the slices of each turn by name, with the language of its recording if the recordings have several."""
    index = state.index
    slices = [dict(gold.slices) if gold else {} for gold in golds]
    languages = state.recorded[0].languages()
    if len(set(languages.values())) > 1:
        for own, gold, conversation in zip(slices, golds, index.conversation_of.tolist(), strict=True):
            if gold and index.conversations[conversation] in languages:
                own.setdefault("language", languages[index.conversations[conversation]])
    return slices


def _arms(pair: Pair, which: str) -> tuple[str, ...]:
    """Return the arms that ``which`` names: baseline, candidate, or both if it is empty."""
    if which == CANDIDATE and pair.candidate:
        return (pair.candidate,)
    return (pair.baseline,) if which else pair.arms


def _order(keys: Floats, *, descending: bool) -> Ints:
    """Return the order of some keys; equal ones keep theirs, and missing ones come last."""
    import numpy as np

    ordered: np.ndarray = np.argsort(-keys if descending else keys, kind="stable")
    return ordered


def _rank(rank: int) -> str:
    return "–" if rank >= NOT_RANKED else str(rank)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and len(text) < 30
    except ValueError:
        return False
