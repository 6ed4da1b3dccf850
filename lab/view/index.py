"""In-memory index of a run: hits, ranks and notable events of every turn, for lists, filters and search.

Every receipts file is read once. Facts are kept as arrays over all turns, so that a filter or a search over a thousand
conversations takes a few array operations. Details of a turn are read again from its file when a page shows it.
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

# Events of an arm at a turn, as bits.
REPEATED, FOREIGN, STALE, FORBIDDEN, NEEDLESS = 1, 2, 4, 8, 16
# The rank of a relevant memory that is not in the ranking.
NOT_RANKED = 1 << 30
ANNOUNCE_EVERY = 100

# Filters of turns and their meaning. A filter on a single arm matches if either of the two arms matches.
FILTERS = {
    "flipped": "exactly one of the two arms has a hit",
    "gained": "the candidate has a hit, the baseline has none",
    "lost": "the baseline has a hit, the candidate has none",
    "missed": "a memory is relevant, and neither arm has a hit",
    "stale": "an injected memory was replaced by a newer one, which is not injected before it",
    "wrong scope": "an injected memory has another scope than the turn; global memories match every scope",
    "repeated": "an injected memory was already injected in the six recall turns before",
    "forbidden": "an injected memory was judged misleading here",
    "needless": "something was injected although nothing was needed",
}
# Filters that need two arms.
PAIR_FILTERS = ("flipped", "gained", "lost")
BITS = {
    "stale": STALE,
    "wrong scope": FOREIGN,
    "repeated": REPEATED,
    "forbidden": FORBIDDEN,
    "needless": NEEDLESS,
}


class Pair(NamedTuple):
    """The two arms shown side by side, and the cutoff of their hits. ``candidate`` is None if the run has one arm."""

    baseline: str
    candidate: str | None
    cutoff: int

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, the baseline first."""
        return (self.baseline, self.candidate) if self.candidate else (self.baseline,)

    @property
    def filters(self) -> dict[str, str]:
        """The available filters and their meaning; with one arm, none that compares two."""
        return {name: about for name, about in FILTERS.items() if self.candidate or name not in PAIR_FILTERS}


class Facts(NamedTuple):
    """The recall points of one conversation in order, and facts of each arm at each point.

    Arrays are int64 ``[turns]``. ``first`` is the rank of the first relevant memory, 0 if none is relevant and
    :data:`NOT_RANKED` if none is ranked; ``marks`` are event bits; ``injected`` holds keys of memories.
    """

    turns: list[str]
    first: dict[str, Ints]
    marks: dict[str, Ints]
    injected: dict[str, list[list[str]]]


class Tally(NamedTuple):
    """A row of the list of conversations.

    ``hits`` is each arm's share of probes with a hit, None without probes; ``damaged`` is the reason why a conversation
    could not be read.
    """

    name: str
    turns: int
    probes: int
    gained: int
    lost: int
    matching: int
    hits: dict[str, float | None]
    damaged: str | None


def facts_of(receipts: Receipts, arms: Sequence[str], gold: Mapping[str, Gold]) -> Facts:
    """Return the facts of one conversation from its receipts, defined like the measures of the same names."""
    import numpy as np

    turns = receipts.units[:-1]
    facts = Facts(turns, {}, {}, {})
    for arm in arms:
        rows = receipts.rows_of(arm)
        marks = facts.marks[arm] = np.zeros(len(turns), np.int64)
        first = facts.first[arm] = np.zeros(len(turns), np.int64)
        injected: list[list[str]] = [[] for _ in turns]
        for position, keys in zip(receipts.turn[rows].tolist(), receipts.injected_keys_of(rows), strict=True):
            injected[position] = keys
        facts.injected[arm] = injected
        recalls = rows[receipts.is_recall_turn[rows]]
        chosen = receipts.injected_of(recalls)
        bits = {
            REPEATED: repeat_rates(numbered_selections(chosen.memory, chosen.sizes)) > 0,
            FOREIGN: chosen.by_row(chosen.foreign) > 0,
            STALE: receipts.block["stale"][recalls] > 0,
        }
        for bit, flagged in bits.items():
            marks[receipts.turn[recalls[flagged]]] |= bit
        probes = [(row, gold[receipts.probe[row]]) for row in rows.tolist() if receipts.probe[row] in gold]
        for row, judgement in probes:
            position = receipts.turn[row]
            if not set(judgement.forbidden).isdisjoint(injected[position]):
                marks[position] |= FORBIDDEN
            if not judgement.grades and receipts.chars[row] > 0:
                marks[position] |= NEEDLESS
        graded = [(row, judgement.judged) for row, judgement in probes if judgement.grades]
        if graded:
            graded_rows = np.array([row for row, _ in graded], np.int64)
            hits = judge(receipts.keys_of(graded_rows), [grades for _, grades in graded]).hits
            ranks = np.where(hits[:, -1] > 0, np.count_nonzero(hits == 0, axis=1), NOT_RANKED)
            first[receipts.turn[graded_rows]] = ranks
    return facts


class Index:
    """All turns of a run, numbered in the order of its conversations.

    ``damaged`` maps a conversation that could not be read to the reason.
    """

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
        positions: list[int] = []
        for number, name in enumerate(self.conversations, 1):
            self.starts.append(len(self.turns))
            facts = self._read(name)
            for arm in self.arms:
                first[arm].append(facts.first[arm])
                marks[arm].append(facts.marks[arm])
                for position, keys in enumerate(facts.injected[arm], len(self.turns)):
                    codes += [self._known.setdefault(key, len(self._known)) for key in keys]
                    positions += [position] * len(keys)
            self.turns += facts.turns
            if number % ANNOUNCE_EVERY == 0:
                announce(f"{number} of {len(self.conversations)} conversations read")
        none = np.zeros(0, np.int64)
        self._first = {arm: np.concatenate([none, *first[arm]]) for arm in self.arms}
        self._marks = {arm: np.concatenate([none, *marks[arm]]) for arm in self.arms}
        self._codes, self._positions = np.array(codes, np.int64), np.array(positions, np.int64)
        sizes = np.diff([*self.starts, len(self.turns)])
        self.conversation_of = np.repeat(np.arange(len(self.conversations)), sizes)
        self._turns_lower = [turn.casefold() for turn in self.turns]
        self._keys_lower = [key.casefold() for key in self._known]

    @property
    def memories(self) -> list[str]:
        """Keys of all memories that were injected at any turn."""
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
            self.damaged[name] = f"{path}: not replayed yet; run the same replay again to finish it"
        empty = {arm: np.zeros(0, np.int64) for arm in self.arms}
        return Facts([], empty, empty, {arm: [] for arm in self.arms})

    def pair(self, baseline: str | None, candidate: str | None) -> Pair:
        """Return two arms, by default those of a report. Raises :class:`UnusableInput` for an unknown arm."""
        base, cand = choose_pair(self.run, baseline, candidate)
        if cand == base:
            raise UnusableInput(f"{base} is both baseline and candidate; choose two different arms")
        most = self.run.max_items
        return Pair(base, cand, min(most[base], most[cand] if cand else most[base]))

    def hits(self, arm: str, cutoff: int) -> Flags:
        """Return for each turn, bool ``[turns]``, whether an arm has a hit: Success@cutoff."""
        import numpy as np

        return np.asarray((self._first[arm] > 0) & (self._first[arm] <= cutoff))

    def with_gold(self) -> Flags:
        """Return for each turn, bool ``[turns]``, whether a memory is relevant."""
        import numpy as np

        return np.asarray(self._first[self.arms[0]] > 0)

    def marks(self, turn: int, arm: str) -> list[str]:
        """Return the events of an arm at a turn, as names of filters."""
        return [name for name, bit in BITS.items() if self._marks[arm][turn] & bit]

    def where(self, pair: Pair, name: str) -> Flags:
        """Return for each turn whether a filter matches. Raises :class:`UnusableInput` for an unknown filter."""
        import numpy as np

        if name and name not in pair.filters:
            problem = f"filter {name!r} needs two arms" if name in FILTERS else f"no filter {name!r}"
            raise UnusableInput(f"{problem}; known: {', '.join(pair.filters)}")
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
            "missed": self.with_gold() & ~base & ~cand,
        }
        return np.asarray(kinds[name])

    def search(
        self, words: str, turn_texts: Sequence[str] | None = None, memory_texts: Sequence[str] | None = None
    ) -> Flags:
        """Return for each turn whether every word occurs in it.

        A word may occur in the turn's key or in the key of a memory that an arm injected there. If texts are given
        (casefolded, in the order of ``turns`` and ``memories``), it may also occur in those.
        """
        import numpy as np

        matching = np.ones(len(self.turns), bool)
        for word in words.casefold().split():
            turns = _containing(word, self._turns_lower, turn_texts)
            memories = _containing(word, self._keys_lower, memory_texts)
            turns[self._positions[memories[self._codes]]] = True
            matching &= turns
        return matching

    def tallies(self, pair: Pair, matching: Flags) -> list[Tally]:
        """Return the counts of every conversation, including its number of ``matching`` turns."""
        import numpy as np

        def count(flags: Flags) -> list[int]:
            return list(np.bincount(self.conversation_of[flags], minlength=len(self.conversations)).tolist())

        none = np.zeros(len(self.turns), bool)
        flips = (self.where(pair, name) if pair.candidate else none for name in ("gained", "lost"))
        probes, gained, lost = map(count, (self.with_gold(), *flips))
        hits = {arm: count(self.hits(arm, pair.cutoff)) for arm in self.arms}
        turns, matches = count(np.ones(len(self.turns), bool)), count(matching)
        return [
            Tally(
                name,
                turns[number],
                probes[number],
                gained[number],
                lost[number],
                matches[number],
                {arm: hits[arm][number] / probes[number] if probes[number] else None for arm in self.arms},
                self.damaged.get(name),
            )
            for number, name in enumerate(self.conversations)
        ]

    def number_of(self, conversation: str, key: str) -> int | None:
        """Return the number of a turn of a conversation, or None if there is no such turn."""
        if conversation not in self.conversations:
            return None
        position = self.conversations.index(conversation)
        start, end = self.starts[position], [*self.starts, len(self.turns)][position + 1]
        turns = self.turns[start:end]
        return start + turns.index(key) if key in turns else None


def _containing(word: str, keys: Sequence[str], texts: Sequence[str] | None) -> Flags:
    import numpy as np

    matches = np.fromiter((word in key for key in keys), bool, len(keys))
    return matches if texts is None else matches | np.fromiter((word in text for text in texts), bool, len(texts))
