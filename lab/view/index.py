"""A run in memory, turn by turn: who found what was wanted, what else is worth a look, and how a turn is found again.

Every receipts file is read once, here. What it takes is kept as arrays over all turns, so that a filter or a search of
a thousand conversations is a few operations on them; what a page shows of a turn is read anew from its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.errors import CannotMeasure, UnusableInput
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.ranking import judge
from lab.measures.repetition import numbered_selections
from lab.report.pair import choose_pair
from lab.runs.directory import RunDirectory
from lab.runs.gold import Gold, read_gold
from lab.runs.receipts import Receipts, read_receipts

if TYPE_CHECKING:
    from lab.columns import Flags, Ints

# What an arm did at a turn, a bit each.
REPEATED, FOREIGN, STALE, FORBIDDEN, NEEDLESS = 1, 2, 4, 8, 16
# The rank of a gold memory that the ranking does not hold.
NOWHERE = 1 << 30
TOLD_EVERY = 100

# Which turns to show, and what the words mean. Those of one arm hold where either of the two does it.
FILTERS = {
    "flipped": "one of the two arms has a hit, the other has none",
    "gained": "the candidate has a hit, the baseline has none",
    "lost": "the baseline has a hit, the candidate has none",
    "missed": "a memory is wanted, and no arm that is shown has a hit",
    "stale": "a memory is injected that a newer one replaced, and none that replaces it stands before it",
    "wrong scope": "a memory of another scope than the turn's is injected; global ones are of every scope",
    "repeated": "a memory is injected that was injected in the six recall turns before",
    "forbidden": "a memory is injected that was judged misleading here",
    "needless": "nothing was needed here, and something was injected",
}
# Those that are about two arms.
BETWEEN = ("flipped", "gained", "lost")
BITS = {
    "stale": STALE,
    "wrong scope": FOREIGN,
    "repeated": REPEATED,
    "forbidden": FORBIDDEN,
    "needless": NEEDLESS,
}


class Pair(NamedTuple):
    """The two arms that are shown side by side, and the cutoff of their hits; one alone where a run has no other."""

    baseline: str
    candidate: str | None
    cutoff: int

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, the baseline first."""
        return (self.baseline, self.candidate) if self.candidate else (self.baseline,)

    @property
    def filters(self) -> dict[str, str]:
        """What can be asked of them, and what it means: of one arm nothing that takes two."""
        return {name: about for name, about in FILTERS.items() if self.candidate or name not in BETWEEN}


class Facts(NamedTuple):
    """One conversation: its turns (and probes from outside) in order, and by arm what it did at each.

    ``first`` is the rank of the first gold memory, 0 where none is wanted; ``marks`` are bits; ``injected`` the keys.
    """

    turns: list[str]
    first: dict[str, Ints]
    marks: dict[str, Ints]
    injected: dict[str, list[list[str]]]


class Tally(NamedTuple):
    """What the list of conversations says of one."""

    name: str
    turns: int
    probes: int
    gained: int
    lost: int
    matching: int
    hits: dict[str, float | None]
    damaged: str | None


def facts_of(receipts: Receipts, arms: Sequence[str], gold: Mapping[str, Gold]) -> Facts:
    """What the receipts of one conversation say, in the terms of the measures of the same names."""
    import numpy as np

    turns = receipts.units[:-1]
    facts = Facts(turns, {}, {}, {})
    for arm in arms:
        rows = receipts.rows_of(arm)
        marks = facts.marks[arm] = np.zeros(len(turns), np.int64)
        first = facts.first[arm] = np.zeros(len(turns), np.int64)
        injected: list[list[str]] = [[] for _ in turns]
        for place, keys in zip(receipts.turn[rows].tolist(), receipts.injected_keys_of(rows), strict=True):
            injected[place] = keys
        facts.injected[arm] = injected
        recalls = rows[receipts.is_recall_turn[rows]]
        chosen = receipts.injected_of(recalls)
        bits = {
            REPEATED: repeat_rates(numbered_selections(chosen.memory, chosen.sizes)) > 0,
            FOREIGN: chosen.by_row(chosen.foreign) > 0,
            STALE: receipts.block["stale"][recalls] > 0,
        }
        for bit, which in bits.items():
            marks[receipts.turn[recalls[which]]] |= bit
        probes = [(row, gold[receipts.probe[row]]) for row in rows.tolist() if receipts.probe[row] in gold]
        for row, one in probes:
            place = receipts.turn[row]
            if not set(one.forbidden).isdisjoint(injected[place]):
                marks[place] |= FORBIDDEN
            if not one.grades and receipts.chars[row] > 0:
                marks[place] |= NEEDLESS
        wanting = [(row, one.judged) for row, one in probes if one.grades]
        if wanting:
            seeking = np.array([row for row, _ in wanting], np.int64)
            found = judge(receipts.keys_of(seeking), [grades for _, grades in wanting]).hits
            first[receipts.turn[seeking]] = np.where(found[:, -1] > 0, np.count_nonzero(found == 0, axis=1), NOWHERE)
    return facts


class Index:
    """Every turn of a run, numbered in the order of its conversations. ``damaged`` says what could not be read."""

    def __init__(self, run: RunDirectory, announce: Callable[[str], None] = lambda _: None) -> None:
        import numpy as np

        self.run, self.arms = run, run.arms
        self.gold = read_gold(run)
        self.conversations = run.assigned
        self.damaged: dict[str, str] = {}
        self.turns: list[str] = []
        self.starts: list[int] = []
        self._known: dict[str, int] = {}
        first: dict[str, list[Ints]] = {arm: [] for arm in self.arms}
        marks: dict[str, list[Ints]] = {arm: [] for arm in self.arms}
        codes: list[int] = []
        at: list[int] = []
        for number, name in enumerate(self.conversations, 1):
            self.starts.append(len(self.turns))
            facts = self._read(name)
            for arm in self.arms:
                first[arm].append(facts.first[arm])
                marks[arm].append(facts.marks[arm])
                for place, keys in enumerate(facts.injected[arm], len(self.turns)):
                    codes += [self._known.setdefault(key, len(self._known)) for key in keys]
                    at += [place] * len(keys)
            self.turns += facts.turns
            if number % TOLD_EVERY == 0:
                announce(f"{number} of {len(self.conversations)} conversations read")
        none = np.zeros(0, np.int64)
        self._first = {arm: np.concatenate([none, *first[arm]]) for arm in self.arms}
        self._marks = {arm: np.concatenate([none, *marks[arm]]) for arm in self.arms}
        self._codes, self._at = np.array(codes, np.int64), np.array(at, np.int64)
        sizes = np.diff([*self.starts, len(self.turns)])
        self.conversation_of = np.repeat(np.arange(len(self.conversations)), sizes)
        self._turns_lower = [one.casefold() for one in self.turns]
        self._keys_lower = [one.casefold() for one in self._known]

    @property
    def memories(self) -> list[str]:
        """The memories that were ever injected, by key."""
        return list(self._known)

    def _read(self, name: str) -> Facts:
        import numpy as np

        path = self.run.receipts(name)
        if path.is_file():
            try:
                return facts_of(read_receipts(self.run, name), self.arms, self.gold)
            except CannotMeasure as error:
                self.damaged[name] = str(error)
        else:
            self.damaged[name] = f"{path}: is not replayed yet; run the same replay again to finish it"
        empty = {arm: np.zeros(0, np.int64) for arm in self.arms}
        return Facts([], empty, empty, {arm: [] for arm in self.arms})

    def pair(self, baseline: str | None, candidate: str | None) -> Pair:
        """Two arms of the run, by default the two that a report compares; :class:`UnusableInput` for one it lacks."""
        base, cand = choose_pair(self.run, baseline, candidate)
        if cand == base:
            raise UnusableInput(f"{base} beside itself shows no difference; choose two arms")
        most = self.run.max_items
        return Pair(base, cand, min(most[base], most[cand] if cand else most[base]))

    def hits(self, arm: str, cutoff: int) -> Flags:
        """At which turns an arm has a hit: Success@cutoff."""
        import numpy as np

        return np.asarray((self._first[arm] > 0) & (self._first[arm] <= cutoff))

    def wanting(self) -> Flags:
        """At which turns a memory is wanted."""
        import numpy as np

        return np.asarray(self._first[self.arms[0]] > 0)

    def marks(self, turn: int, arm: str) -> list[str]:
        """What an arm did at a turn, under the names of the filters."""
        return [name for name, bit in BITS.items() if self._marks[arm][turn] & bit]

    def where(self, pair: Pair, name: str) -> Flags:
        """The turns of a filter; :class:`UnusableInput` for one that does not exist."""
        import numpy as np

        if name and name not in pair.filters:
            alone = f" of {pair.baseline} alone" if name in FILTERS else ""
            raise UnusableInput(f"there is no filter {name!r}{alone}; there are: {', '.join(pair.filters)}")
        if not name:
            return np.ones(len(self.turns), bool)
        if name in BITS:
            return np.asarray(np.any([self._marks[arm] & BITS[name] for arm in pair.arms], axis=0))
        base = self.hits(pair.baseline, pair.cutoff)
        cand = self.hits(pair.candidate, pair.cutoff) if pair.candidate else base
        kinds = {
            "flipped": base != cand,
            "gained": cand & ~base,
            "lost": base & ~cand,
            "missed": self.wanting() & ~base & ~cand,
        }
        return np.asarray(kinds[name])

    def search(
        self, words: str, turn_texts: Sequence[str] | None = None, memory_texts: Sequence[str] | None = None
    ) -> Flags:
        """The turns in which every word occurs.

        In the turn's key, in the key of a memory that an arm injected there, or, where they are given, in their texts
        (casefolded, in the order of ``turns`` and ``memories``).
        """
        import numpy as np

        found = np.ones(len(self.turns), bool)
        for word in words.casefold().split():
            here = _holding(word, self._turns_lower, turn_texts)
            codes = np.flatnonzero(_holding(word, self._keys_lower, memory_texts))
            wanted = np.zeros(len(self._keys_lower), bool)
            wanted[codes] = True
            here[self._at[wanted[self._codes]]] = True
            found &= here
        return found

    def tallies(self, pair: Pair, matching: Flags) -> list[Tally]:
        """Every conversation, and how many of some turns are its own."""
        import numpy as np

        def count(which: Flags) -> list[int]:
            return list(np.bincount(self.conversation_of[which], minlength=len(self.conversations)).tolist())

        never = np.zeros(len(self.turns), bool)
        moved = (self.where(pair, name) if pair.candidate else never for name in ("gained", "lost"))
        wanting, gained, lost = map(count, (self.wanting(), *moved))
        hits = {arm: count(self.hits(arm, pair.cutoff)) for arm in self.arms}
        turns, some = count(np.ones(len(self.turns), bool)), count(matching)
        return [
            Tally(
                name,
                turns[one],
                wanting[one],
                gained[one],
                lost[one],
                some[one],
                {arm: hits[arm][one] / wanting[one] if wanting[one] else None for arm in self.arms},
                self.damaged.get(name),
            )
            for one, name in enumerate(self.conversations)
        ]

    def number_of(self, conversation: str, key: str) -> int | None:
        """The number of a turn of a conversation."""
        if conversation not in self.conversations:
            return None
        place = self.conversations.index(conversation)
        start, end = self.starts[place], [*self.starts, len(self.turns)][place + 1]
        own = self.turns[start:end]
        return start + own.index(key) if key in own else None


def _holding(word: str, keys: Sequence[str], texts: Sequence[str] | None) -> Flags:
    import numpy as np

    found = np.fromiter((word in key for key in keys), bool, len(keys))
    return found if texts is None else found | np.fromiter((word in text for text in texts), bool, len(texts))
