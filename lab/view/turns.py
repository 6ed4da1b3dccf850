"""What turn pages show: the strip of the conversation, what each arm injected, remarks on every item, texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, LabError
from lab.measures.inputs import WINDOW
from lab.replay.explain import RecordedConversation
from lab.replay.receipts import listed, marks_of
from lab.runs.directory import RunDirectory
from lab.runs.scores import Gold
from lab.runs.tables import ITEMS
from lab.view.index import Index, Pair
from lab.view.recorded import Recorded

TEXT_COLUMNS = ("arm", "turn", "scope", "probe")
COLUMNS = (
    *TEXT_COLUMNS,
    *(
        "is_recall_turn",
        "injected",
        "chars",
        "tokens",
        "pinned",
        "evicted",
        "superseded",
        "stale",
        "receipt",
        "log",
        "failure",
    ),
    *(f"item_{name}" for name in ITEMS),
)
TURNS_BEFORE = 3


class Again(NamedTuple):
    """An item that was injected before: how many recall turns ago, and at how many earlier turns."""

    ago: int
    times: int

    @property
    def counts(self) -> bool:
        """Whether RepeatRate counts the repetition."""
        return self.ago <= WINDOW


@dataclass(frozen=True, slots=True)
class Shown:
    """One injected memory as shown on a page. ``marks`` name its problems; ``media`` is shown with the text."""

    key: str
    tier: str
    label: str
    scope: str
    score: float
    decision: str
    lanes: str
    grade: int
    again: Again | None
    marks: tuple[str, ...]
    text: str | None
    media: str


class Missed(NamedTuple):
    """A relevant memory that was not injected: its grade, its rank or position in words, and its text if shown.

    ``cause`` and ``reason`` are those of ``lab explain``; empty if the recall was not explained.
    """

    key: str
    grade: int
    where: str
    text: str | None
    cause: str = ""
    reason: str = ""
    media: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One arm at one turn. ``missed`` are relevant memories that it did not inject."""

    arm: str
    hit: bool | None
    marks: tuple[str, ...]
    items: tuple[Shown, ...]
    facts: tuple[str, ...]
    pinned: tuple[str, ...]
    missed: tuple[Missed, ...]
    receipt: str
    log: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn with both arms. ``gold`` summarises its probe, if it has one."""

    number: int
    conversation: str
    key: str
    scope: str
    gold: str | None
    sides: tuple[Side, ...]
    text: str | None
    before: tuple[tuple[str, str], ...]

    def alone(self, key: str) -> bool:
        """Return whether only one arm injects a memory."""
        return sum(any(item.key == key for item in side.items) for side in self.sides) < len(self.sides)


class Reader:
    """Read turns of one conversation from its receipts, and texts from the recording if they may be shown.

    Raises :class:`CannotMeasure` if the receipts are damaged.
    """

    def __init__(
        self, index: Index, conversation: str, pair: Pair, recorded: Sequence[Recorded], *, with_text: bool
    ) -> None:
        if conversation in index.damaged:
            raise CannotMeasure(index.damaged[conversation])
        self._index, self._pair, self._recorded, self._with_text = index, pair, recorded, with_text
        self.conversation = conversation
        self._receipts = {
            number: _Receipts(index.runs.all[number], conversation)
            for number in dict.fromkeys(index.runs.places[arm].run for arm in pair.arms)
        }
        self._again = {arm: self._of(arm).history(index.runs.places[arm].arm) for arm in pair.arms}

    def turns(self, numbers: Sequence[int], *, before: bool = False, explained: bool = False) -> list[TurnView]:
        """Return the turns with these numbers.

        With ``before``, also the turns before each; with ``explained``, the cause of every missed memory, for which
        the recalls are repeated.
        """
        return [self._turn(number, before=before, explained=explained) for number in numbers]

    def _of(self, arm: str) -> _Receipts:
        return self._receipts[self._index.runs.places[arm].run]

    def _turn(self, number: int, *, before: bool, explained: bool) -> TurnView:
        key = self._index.turns[number]
        rows = {arm: self._of(arm).row(self._index.runs.places[arm].arm, key) for arm in self._pair.arms}
        sides = {arm: row for arm, row in rows.items() if row is not None}
        first = next((row for _, row in sides.values()), None)
        gold = self._index.gold.get(first["probe"]) if first and first["probe"] else None
        has_superseded = any(row["superseded"] for _, row in sides.values())
        recorded = self._recorded_conversation() if self._with_text or has_superseded else None
        point = recorded.recall_points.get(key) if recorded else None
        with_text = self._with_text and recorded is not None and point is not None
        return TurnView(
            number,
            self.conversation,
            key,
            first["scope"] if first else "",
            _gold_summary(gold) if gold else None,
            tuple(
                self._side(number, arm, row_number, row, gold, recorded, explained)
                for arm, (row_number, row) in sides.items()
            ),
            point.text if with_text and point else None,
            tuple(recorded.before(key, TURNS_BEFORE)) if with_text and recorded and before else (),
        )

    def _side(
        self,
        number: int,
        arm: str,
        row_number: int,
        row: dict[str, Any],
        gold: Gold | None,
        recorded: RecordedConversation | None,
        explained: bool,
    ) -> Side:
        grades = gold.grades if gold else {}
        items = [listed(row, rank) for rank in range(row["injected"])]
        keys = [item.key for item in items]
        point = recorded.recall_points.get(row["turn"]) if recorded else None
        again = self._again[arm].get(row_number, {})
        texts = recorded.texts if recorded and self._with_text else {}
        media = recorded.media if recorded and self._with_text else {}
        shown = []
        for rank, item in enumerate(items):
            before = (*row["pinned"], *keys[:rank])
            marks = marks_of(
                item.key,
                (gold.forbidden, ()) if gold else None,
                (item.scope, row["scope"] if row["is_recall_turn"] else None),
                recorded.safety_checks.marks(item.key, point.seq, before) if recorded and point else (),
            )
            shown.append(
                Shown(
                    item.key,
                    item.tier or "",
                    item.label or "",
                    item.scope or "",
                    item.score,
                    item.decision or "",
                    f"text {item.fts_rank or '–'}, vector {item.vec_rank or '–'}",
                    grades.get(item.key, 0),
                    again.get(item.key),
                    tuple(marks),
                    texts.get(item.key),
                    media.get(item.key, ""),
                )
            )
        receipt = json.loads(row["receipt"])
        return Side(
            arm,
            bool(self._index.hits(arm, self._pair.cutoff)[number]) if grades and row["failure"] is None else None,
            self._index.marks(number, arm),
            tuple(shown),
            tuple(_facts(row, receipt, itemised=recorded is not None)),
            tuple(row["pinned"]),
            tuple(
                item._replace(media=media.get(item.key, ""))
                for item in self._missed(arm, row, grades, texts, explained=explained)
            ),
            json.dumps(receipt, indent=2, ensure_ascii=False),
            tuple(row["log"]),
        )

    def _missed(
        self, arm: str, row: dict[str, Any], grades: Mapping[str, int], texts: Mapping[str, str], *, explained: bool
    ) -> tuple[Missed, ...]:
        ranks = {key: rank for rank, key in enumerate(row["item_key"], 1)}
        missing = [key for key in grades if ranks.get(key, row["injected"] + 1) > row["injected"]]
        causes: Mapping[str, str] = {}
        reasons: Mapping[str, str] = {}
        place = self._index.runs.places[arm]
        if explained and missing and row["failure"] is None:
            with suppress(LabError):
                about = self._recorded[place.run].explained(
                    self.conversation, row["turn"], place.arm, with_text=self._with_text
                )
                causes, reasons = about.explained.causes, about.explained.reasons
        return tuple(
            Missed(
                key,
                grades[key],
                _where(ranks.get(key), key in row["pinned"]),
                texts.get(key),
                "" if key in row["pinned"] else causes.get(key, ""),
                "" if key in row["pinned"] else reasons.get(key, ""),
            )
            for key in missing
        )

    def _recorded_conversation(self) -> RecordedConversation | None:
        try:
            return self._recorded[0].conversation(self.conversation)
        except LabError:
            return None


class _Receipts:
    """The receipts of one conversation of a run."""

    def __init__(self, run: RunDirectory, conversation: str) -> None:
        self._table = run.read_receipts(conversation, COLUMNS)
        names = ("arm", "turn", "is_recall_turn", "injected", "item_key")
        self._columns = [self._table[name].to_pylist() for name in names]
        places = zip(self._columns[0], self._columns[1], strict=True)
        self._rows = {place: row for row, place in enumerate(places)}

    def row(self, arm: str, key: str) -> tuple[int, dict[str, Any]] | None:
        """Return the number and the values of the row of an arm at a turn; None if there is none."""
        number = self._rows.get((arm, key))
        return None if number is None else (number, self._table.slice(number, 1).to_pylist()[0])

    def history(self, shown_arm: str) -> dict[int, dict[str, Again]]:
        """Return for each row of a recall turn of an arm the injected items that were injected before, by key."""
        history: dict[int, dict[str, Again]] = {}
        last: dict[str, int] = {}
        times: dict[str, int] = {}
        recall = 0
        for row, (arm, _, recalls, injected, keys) in enumerate(zip(*self._columns, strict=True)):
            if arm != shown_arm or not recalls:
                continue
            chosen = keys[:injected]
            history[row] = {key: Again(recall - last[key], times[key]) for key in chosen if key in last}
            for key in chosen:
                last[key], times[key] = recall, times.get(key, 0) + 1
            recall += 1
        return history


def _gold_summary(gold: Gold) -> str:
    if not gold.grades:
        return "probe: nothing is needed"
    relevant = "1 memory is" if len(gold.grades) == 1 else f"{len(gold.grades)} memories are"
    return f"probe: {relevant} relevant" + (f", {len(gold.forbidden)} misleading" if gold.forbidden else "")


def _facts(row: dict[str, Any], receipt: dict[str, Any], *, itemised: bool) -> list[str]:
    if row["failure"] is not None:
        return [f"the recall failed: {row['failure']}"]
    facts = (
        [f"{row['injected']} injected, {row['chars']} characters, about {row['tokens']} tokens"] if row["chars"] else []
    )
    if receipt.get("skipped"):
        facts.append(f"skipped: {receipt.get('skipReason') or receipt['skipped']}")
    if row["evicted"]:
        facts.append(f"{row['evicted']} dropped by the budget")
    if row["superseded"] and not itemised:
        # Only the recording says which items are superseded.
        facts.append(f"{row['superseded']} superseded, {row['stale']} of them before or without their successor")
    return facts


def _where(rank: int | None, pinned: bool) -> str:
    if pinned:
        return "in the Working Set"
    return f"ranked {rank}, not injected" if rank else "not in the ranking"


HIT, NO_HIT, NO_PROBE, NOTHING_NEEDED, FAILED = "hit", "no hit", "no probe", "nothing needed", "failed"
SIGNS = {HIT: "●", NO_HIT: "○", NO_PROBE: "·", NOTHING_NEEDED: "–", FAILED: "!"}


class Cell(NamedTuple):
    """A turn in the strip.

    ``arms`` has what became of each shown arm, a key of :data:`SIGNS`; ``kinds`` are ``probe``, ``flip``, ``gained``,
    ``lost`` and ``repeated``, where they apply. ``begins`` is the session that begins here, else empty.
    """

    number: int
    turn: str
    arms: tuple[str, ...]
    kinds: tuple[str, ...]
    begins: str
    about: str


def strip(index: Index, pair: Pair, conversation: str) -> list[Cell]:
    """Return the cells of a conversation, one for each recall point, in order."""
    position = index.conversations.index(conversation)
    hits = {arm: index.hits(arm, pair.cutoff) for arm in pair.arms}
    flips = {name: index.where(pair, name) for name in ("gained", "lost")} if pair.candidate else {}
    cells: list[Cell] = []
    session = ""
    for number in range(index.starts[position], index.ends[position]):
        turn = index.turns[number]
        own = session_of(turn)
        marks = {arm: index.marks(number, arm) for arm in pair.arms}
        states = tuple(_state(index, number, bool(hits[arm][number]), "failed" in marks[arm], arm) for arm in pair.arms)
        kinds = ["probe"] if index.judged[number] else []
        kinds += [name for name, flags in flips.items() if flags[number]]
        kinds += ["flip"] if len(kinds) > 1 else []
        kinds += ["repeated"] if any("repeated" in marks[arm] for arm in pair.arms) else []
        states_by_arm = zip(pair.arms, states, strict=True)
        words = [f"{arm} {state}" for arm, state in states_by_arm if state != NO_PROBE]
        words += [kind for kind in kinds if kind in ("gained", "lost", "repeated")]
        about = ", ".join(words) or NO_PROBE
        cells.append(Cell(number, turn, states, tuple(kinds), own if own != session else "", about))
        session = own
    return cells


def session_of(turn: str) -> str:
    """Return the session in the key of a turn, which is all but its last part."""
    return turn.rpartition("/")[0]


def _state(index: Index, number: int, hit: bool, failed: bool, arm: str) -> str:
    if failed:
        return FAILED
    if not index.judged[number]:
        return NO_PROBE
    if index.first[arm][number] == 0:
        return NOTHING_NEEDED
    return HIT if hit else NO_HIT


# Characters of a turn in a list.
SHOWN = 160


class Texts:
    """The texts of the recordings of a run."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._lowered: tuple[Index, list[str], list[str]] | None = None

    def of(self, turn: str) -> str | None:
        """Return the start of a turn's text on one line; None if the recordings cannot be read."""
        try:
            text = self._turns.get(turn, "")
        except LabError:
            return None
        return " ".join(text[: 4 * SHOWN].split())[:SHOWN]

    def lowered(self, index: Index) -> tuple[list[str], list[str]]:
        """Return the casefolded texts of the turns and memories of an index, in its order, for the search."""
        if self._lowered is None or self._lowered[0] is not index:
            memories = {
                memory.key: memory.text
                for recording in self._recorded.plan().recordings
                for memory in recording.memories
            }
            self._lowered = (
                index,
                [self._turns.get(key, "").casefold() for key in index.turns],
                [memories.get(key, "").casefold() for key in index.memories],
            )
        return self._lowered[1:]

    @cached_property
    def _turns(self) -> dict[str, str]:
        plan = self._recorded.plan()
        texts = {probe.id: probe.query or "" for probe in plan.library.golden.probes}
        return texts | {turn.key: turn.text for recording in plan.recordings for turn in recording.turns}
