"""In-memory index of a run: hits, ranks and notable events of every turn, for lists, filters and search.

Every receipts file is read once. Facts are kept as arrays over all turns, so that a filter or a search over a thousand
conversations takes a few array operations. Details of a turn are read again from its file when a page shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.inputs import judge, numbered_selections
from lab.runs.directory import RunDirectory
from lab.runs.receipts import Receipts, read_receipts
from lab.runs.scores import Gold, read_gold
from lab.view.runs import Runs, so_far

if TYPE_CHECKING:
    from lab.base.columns import Flags, Ints

# Events of an arm at a turn, as bits.
REPEATED, FOREIGN, STALE, FORBIDDEN, NEEDLESS, FAILED = 1, 2, 4, 8, 16, 32
# The rank of a relevant memory that is not in the ranking.
NOT_RANKED = 1 << 30


class Facts(NamedTuple):
    """The recall points of one conversation in order, and facts of each arm at each point.

    Arrays are int64 ``[turns]``. ``probes`` has the id of the probe at each point, or None. ``first`` is the rank of
    the first relevant memory, 0 if none is relevant and :data:`NOT_RANKED` if none is ranked; ``marks`` are event bits;
    ``injected`` holds keys of memories; ``missed`` holds, for each relevant memory that is neither injected nor in the
    Working Set, the position of its turn and its key.
    """

    turns: list[str]
    probes: list[str | None]
    first: dict[str, Ints]
    marks: dict[str, Ints]
    injected: dict[str, list[list[str]]]
    missed: dict[str, list[tuple[int, str]]]


def facts_of(
    receipts: Receipts,
    arms: Sequence[str],
    gold: Mapping[str, Gold],
    failed: Collection[tuple[str, str]] = (),
) -> Facts:
    """Return the facts of one conversation from its receipts, defined like the measures of the same names.

    ``failed`` has the arm and the turn of every failed recall. No arm has facts at such a turn but ``FAILED``.
    """
    import numpy as np

    turns = receipts.units[:-1]
    facts = Facts(turns, [None] * len(turns), {}, {}, {}, {})
    places = {turn: position for position, turn in enumerate(turns)}
    for position, probe in zip(receipts.turn.tolist(), receipts.probe.tolist(), strict=True):
        facts.probes[position] = probe
    for arm in arms:
        rows = receipts.rows_of(arm)
        marks = facts.marks[arm] = np.zeros(len(turns), np.int64)
        first = facts.first[arm] = np.zeros(len(turns), np.int64)
        marks[[places[turn] for name, turn in failed if name == arm]] |= FAILED
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
        graded = [(row, judgement) for row, judgement in probes if judgement.grades]
        graded_rows = np.array([row for row, _ in graded], np.int64)
        facts.missed[arm] = [
            (position, key)
            for position, pinned, (_, judgement) in zip(
                receipts.turn[graded_rows].tolist(), receipts.pinned_keys_of(graded_rows), graded, strict=True
            )
            for key in judgement.grades
            if key not in injected[position] and key not in pinned
        ]
        if graded:
            hits = judge(receipts.keys_of(graded_rows), [judgement.judged for _, judgement in graded]).hits
            ranks = np.where(hits[:, -1] > 0, np.count_nonzero(hits == 0, axis=1), NOT_RANKED)
            first[receipts.turn[graded_rows]] = ranks
    return facts


def merged(parts: Sequence[tuple[Facts, Mapping[str, str]]]) -> Facts:
    """Return the facts of several runs of the same turns, each given with the other names of its arms."""
    by_arm: dict[str, Any] = {
        field: {names[arm]: value for facts, names in parts for arm, value in getattr(facts, field).items()}
        for field in ("first", "marks", "injected", "missed")
    }
    return parts[0][0]._replace(**by_arm)


ANNOUNCE_EVERY = 100

# Filters of turns and their meaning. A filter on a single arm matches if either of the two arms matches.
FILTERS = {
    "probes": "the turn is judged: something is relevant here, or nothing is needed",
    "flipped": "exactly one of the two arms has a hit",
    "gained": "the candidate has a hit, the baseline has none",
    "lost": "the baseline has a hit, the candidate has none",
    "missed": "a memory is relevant, and neither arm has a hit",
    "superseded": "an injected memory was replaced by a newer one, which is not injected before it",
    "another scope": "an injected memory has another scope than the turn; global memories match every scope",
    "repeated": "an injected memory was already injected in the six recall turns before",
    "misleading": "an injected memory was judged misleading here",
    "needless": "something was injected although nothing was needed",
    "failed": "a recall failed; no measure counts this turn",
}
# Filters that need two arms.
PAIR_FILTERS = ("flipped", "gained", "lost")
BITS = {
    "superseded": STALE,
    "another scope": FOREIGN,
    "repeated": REPEATED,
    "misleading": FORBIDDEN,
    "needless": NEEDLESS,
    "failed": FAILED,
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


# Facts of a conversation in a run, by the number of the run and the name of the conversation, and the state of the file
# that they were read from.
Known = dict[tuple[int, str], tuple[tuple[int, int, int], Facts]]


class Index:
    """All turns of one or several runs, numbered in the order of their conversations.

    ``damaged`` maps a conversation that could not be read to the reason, ``waiting`` lists those that are not replayed
    yet. ``known`` keeps what was read for the next index of a growing run.
    """

    def __init__(
        self,
        runs: Runs | RunDirectory,
        announce: Callable[[str], None] = lambda _: None,
        known: Known | None = None,
    ) -> None:
        import numpy as np

        self.runs = runs if isinstance(runs, Runs) else Runs([runs])
        self.run, self.arms = self.runs.first, self.runs.arms
        self.gold = read_gold(self.run)
        self.conversations = self.run.assigned
        self.damaged: dict[str, str] = {}
        self.waiting: list[str] = []
        self.turns: list[str] = []
        self.probes: list[str | None] = []
        self.starts: list[int] = []
        self.known: Known = {} if known is None else known
        self._memories: dict[str, int] = {}
        first: dict[str, list[Ints]] = {arm: [] for arm in self.arms}
        marks: dict[str, list[Ints]] = {arm: [] for arm in self.arms}
        counts: dict[str, list[int]] = {arm: [] for arm in self.arms}
        self.missed: dict[str, list[tuple[int, str]]] = {arm: [] for arm in self.arms}
        codes: list[int] = []
        positions: list[int] = []
        for number, name in enumerate(self.conversations, 1):
            start = len(self.turns)
            self.starts.append(start)
            facts = self._read(name)
            if facts is None:
                continue
            for arm in self.arms:
                first[arm].append(facts.first[arm])
                marks[arm].append(facts.marks[arm])
                self.missed[arm] += [(start + position, key) for position, key in facts.missed[arm]]
                for position, keys in enumerate(facts.injected[arm], start):
                    codes += [self._memories.setdefault(key, len(self._memories)) for key in keys]
                    positions += [position] * len(keys)
                    counts[arm].append(len(keys))
            self.turns += facts.turns
            self.probes += facts.probes
            if number % ANNOUNCE_EVERY == 0:
                announce(f"{number} of {len(self.conversations)} conversations read")
        none = np.zeros(0, np.int64)
        self.first = {arm: np.concatenate([none, *first[arm]]) for arm in self.arms}
        self._marks = {arm: np.concatenate([none, *marks[arm]]) for arm in self.arms}
        self.injected = {arm: np.array(counts[arm], np.int64) for arm in self.arms}
        self._codes, self._positions = np.array(codes, np.int64), np.array(positions, np.int64)
        self.ends = [*self.starts[1:], len(self.turns)] if self.starts else []
        sizes = np.diff([*self.starts, len(self.turns)])
        self.conversation_of = np.repeat(np.arange(len(self.conversations)), sizes)
        self._turns_lower = [turn.casefold() for turn in self.turns]
        self._keys_lower = [key.casefold() for key in self._memories]

    @property
    def memories(self) -> list[str]:
        """Keys of all memories that were injected at any turn."""
        return list(self._memories)

    @cached_property
    def judged(self) -> Flags:
        """For each turn, bool ``[turns]``, whether it is a probe of the golden set."""
        import numpy as np

        return np.fromiter((probe in self.gold for probe in self.probes), bool, len(self.probes))

    @cached_property
    def numbers(self) -> dict[tuple[str, str], int]:
        """The number of each turn by conversation and key."""
        names = (self.conversations[at] for at in self.conversation_of.tolist())
        return {place: number for number, place in enumerate(zip(names, self.turns, strict=True))}

    @property
    def read(self) -> list[str]:
        """The conversations that could be read."""
        unread = {*self.damaged, *self.waiting}
        return [name for name in self.conversations if name not in unread]

    def part(self, number: int) -> RunDirectory:
        """Return a run with the conversations that could be read, to be scored."""
        return so_far(self.runs.all[number], self.read)

    def _read(self, name: str) -> Facts | None:
        """Return the facts of a conversation in all runs; None if a run lacks it or holds it damaged."""
        parts = []
        for number, run in enumerate(self.runs.all):
            if name not in run.assigned or not run.receipts(name).is_file():
                self.waiting.append(name)
                return None
            try:
                parts.append((self._facts(number, run, name), self.runs.names(number)))
            except CannotMeasure as error:
                self.damaged[name] = str(error)
                return None
        if any(facts.turns != parts[0][0].turns for facts, _ in parts):
            self.damaged[name] = f"{name}: the runs have other recall points here"
            return None
        return merged(parts)

    def _facts(self, number: int, run: RunDirectory, name: str) -> Facts:
        stat = run.receipts(name).stat()
        state = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        kept = self.known.get((number, name))
        if kept is None or kept[0] != state:
            failed: list[tuple[str, str]] = []
            # An unfinished run has not counted its failed recalls yet.
            if run.manifest.failed or self.runs.growing:
                table = run.read_receipts(name, ("arm", "turn", "failure"))
                failed = [(row["arm"], row["turn"]) for row in table.to_pylist() if row["failure"] is not None]
            receipts = read_receipts(run, name, {turn for _, turn in failed})
            kept = self.known[number, name] = (state, facts_of(receipts, run.arms, self.gold, failed))
        return kept[1]

    def pair(self, baseline: str | None, candidate: str | None) -> Pair:
        """Return two arms, by default those of a report. Raises :class:`UnusableInput` for an unknown arm."""
        base, cand = self.runs.pair(baseline, candidate)
        if cand == base:
            raise UnusableInput(f"{base} is both baseline and candidate; choose two different arms")
        return Pair(base, cand, min(self.runs.most(arm) for arm in (base, cand) if arm))

    def hits(self, arm: str, cutoff: int) -> Flags:
        """Return for each turn, bool ``[turns]``, whether an arm has a hit: Success@cutoff."""
        import numpy as np

        return np.asarray((self.first[arm] > 0) & (self.first[arm] <= cutoff))

    def with_gold(self) -> Flags:
        """Return for each turn, bool ``[turns]``, whether a memory is relevant."""
        import numpy as np

        return np.asarray(self.first[self.arms[0]] > 0)

    def marks(self, turn: int, arm: str) -> tuple[str, ...]:
        """Return the events of an arm at a turn, as names of filters."""
        return _names(int(self._marks[arm][turn]))

    def where(self, pair: Pair, name: str) -> Flags:
        """Return for each turn whether a filter matches. Raises :class:`UnusableInput` for an unknown filter."""
        import numpy as np

        if name and name not in pair.filters:
            problem = f"filter {name!r} needs two arms" if name in FILTERS else f"no filter {name!r}"
            raise UnusableInput(f"{problem}; known: {', '.join(pair.filters)}")
        if not name:
            return np.ones(len(self.turns), bool)
        if name == "probes":
            return self.judged.copy()
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
        return self.numbers.get((conversation, key))


@lru_cache
def _names(bits: int) -> tuple[str, ...]:
    return tuple(name for name, bit in BITS.items() if bits & bit)


def _containing(word: str, keys: Sequence[str], texts: Sequence[str] | None) -> Flags:
    import numpy as np

    matches = np.fromiter((word in key for key in keys), bool, len(keys))
    return matches if texts is None else matches | np.fromiter((word in text for text in texts), bool, len(texts))
