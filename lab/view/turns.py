"""What a page shows of turns: what each arm injected there, item by item, and what is to be said of every one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.errors import CannotMeasure, LabError
from lab.measures.repetition import WINDOW
from lab.recordings.model import GLOBAL
from lab.replay.receipts import ITEM_FIELDS, listed
from lab.runs.gold import Gold
from lab.view.index import Index, Pair
from lab.view.recorded import Recorded, Told

TEXT_COLUMNS = ("arm", "turn", "scope", "probe")
COLUMNS = (
    *TEXT_COLUMNS,
    *("is_recall_turn", "injected", "chars", "tokens", "pinned", "evicted", "superseded", "stale", "receipt", "log"),
    *(f"item_{name}" for name in ITEM_FIELDS),
)
SAID_BEFORE = 3


class Again(NamedTuple):
    """An item that was injected before: how many recall turns ago, and in how many of those so far."""

    ago: int
    times: int

    @property
    def counts(self) -> bool:
        """Whether RepeatRate counts it."""
        return self.ago <= WINDOW


@dataclass(frozen=True, slots=True)
class Shown:
    """One injected memory, in the words of its page. ``marks`` are what is wrong with it."""

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


class Lost(NamedTuple):
    """A relevant memory that was not injected: its grade, where it stood, and its text where texts are shown."""

    key: str
    grade: int
    where: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Side:
    """One arm at one turn. ``lost`` are gold memories that it did not inject."""

    arm: str
    hit: bool | None
    marks: tuple[str, ...]
    items: tuple[Shown, ...]
    facts: tuple[str, ...]
    pinned: tuple[str, ...]
    lost: tuple[Lost, ...]
    receipt: str
    log: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn, both arms. ``asks`` says what its probe wants, if it has one."""

    number: int
    conversation: str
    key: str
    scope: str
    asks: str | None
    sides: tuple[Side, ...]
    said: str | None
    before: tuple[tuple[str, str], ...]

    def alone(self, key: str) -> bool:
        """Whether one arm injects a memory, and the other does not."""
        return sum(any(one.key == key for one in side.items) for side in self.sides) < len(self.sides)


class Reader:
    """Reads turns of one conversation from its receipts; texts where there is somebody to ask for them.

    Raises :class:`CannotMeasure` for damaged receipts.
    """

    def __init__(self, index: Index, conversation: str, pair: Pair, recorded: Recorded, *, with_text: bool) -> None:
        if conversation in index.damaged:
            raise CannotMeasure(index.damaged[conversation])
        self._index, self._pair, self._recorded, self._with_text = index, pair, recorded, with_text
        self.conversation = conversation
        self._table = index.run.read_receipts(conversation, COLUMNS)
        columns = [self._table[name].to_pylist() for name in ("arm", "turn", "is_recall_turn", "injected", "item_key")]
        self._rows = {(arm, turn): row for row, (arm, turn) in enumerate(zip(columns[0], columns[1], strict=True))}
        self._again = _history(columns, pair.arms)

    def turns(self, numbers: Sequence[int], *, before: bool = False) -> list[TurnView]:
        """Some turns of the conversation, by their numbers; ``before``: with what was said before them."""
        import pyarrow as pa

        keys = [self._index.turns[number] for number in numbers]
        wanted = [self._rows[arm, key] for key in keys for arm in self._pair.arms if (arm, key) in self._rows]
        rows = {
            (row["arm"], row["turn"]): (place, row)
            for place, row in zip(wanted, self._table.take(pa.array(wanted, pa.int64())).to_pylist(), strict=True)
        }
        return [self._turn(number, key, rows, before=before) for number, key in zip(numbers, keys, strict=True)]

    def _turn(
        self, number: int, key: str, rows: Mapping[tuple[str, str], tuple[int, dict[str, Any]]], *, before: bool
    ) -> TurnView:
        found = [rows[arm, key] for arm in self._pair.arms if (arm, key) in rows]
        probe = next((row["probe"] for _, row in found), None)
        gold = self._index.gold.get(probe) if probe else None
        replaced = any(row["superseded"] for _, row in found)
        told = self._told() if self._with_text or replaced else None
        point = told.recall_points.get(key) if told else None
        text = self._with_text and told is not None and point is not None
        return TurnView(
            number,
            self.conversation,
            key,
            next((row["scope"] for _, row in found), ""),
            _asks(gold) if gold else None,
            tuple(self._side(number, place, row, gold, told) for place, row in found),
            point.text if text and point else None,
            tuple(told.before(key, SAID_BEFORE)) if text and told and before else (),
        )

    def _side(self, number: int, place: int, row: dict[str, Any], gold: Gold | None, told: Told | None) -> Side:
        arm, grades = row["arm"], gold.grades if gold else {}
        items = [listed(row, rank) for rank in range(row["injected"])]
        keys = [one.key for one in items]
        point = told.recall_points.get(row["turn"]) if told else None
        again = self._again.get(place, {})
        texts = told.texts if told and self._with_text else {}
        shown = []
        for rank, one in enumerate(items):
            marks = []
            if gold and one.key in gold.forbidden:
                marks.append("forbidden")
            if row["is_recall_turn"] and one.scope not in (row["scope"], GLOBAL):
                marks.append("wrong scope")
            if told and point and told.safety_checks.superseded(one.key, point.seq):
                bare = told.safety_checks.unreplaced(one.key, (*row["pinned"], *keys[:rank]))
                marks.append("stale" if bare else "superseded")
            shown.append(
                Shown(
                    one.key,
                    one.tier or "",
                    one.label or "",
                    one.scope or "",
                    one.score,
                    one.decision or "",
                    f"text {one.fts_rank or '–'}, vector {one.vec_rank or '–'}",
                    grades.get(one.key, 0),
                    again.get(one.key),
                    tuple(marks),
                    texts.get(one.key),
                )
            )
        receipt = json.loads(row["receipt"])
        ranks = {key: rank for rank, key in enumerate(row["item_key"], 1)}
        return Side(
            arm,
            bool(self._index.hits(arm, self._pair.cutoff)[number]) if grades else None,
            tuple(self._index.marks(number, arm)),
            tuple(shown),
            tuple(_facts(row, receipt, itemised=told is not None)),
            tuple(row["pinned"]),
            tuple(
                Lost(key, grade, _where(ranks.get(key), key in row["pinned"]), texts.get(key))
                for key, grade in grades.items()
                if key not in keys
            ),
            json.dumps(receipt, indent=2, ensure_ascii=False),
            tuple(row["log"]),
        )

    def _told(self) -> Told | None:
        try:
            return self._recorded.told(self.conversation)
        except LabError:
            return None


def _history(columns: Sequence[Sequence[Any]], arms: Sequence[str]) -> dict[int, dict[str, Again]]:
    """Of each row of a recall turn, the items that were injected before."""
    found: dict[int, dict[str, Again]] = {}
    for wanted in arms:
        last: dict[str, int] = {}
        times: dict[str, int] = {}
        at = 0
        for row, (arm, _, recalls, injected, keys) in enumerate(zip(*columns, strict=True)):
            if arm != wanted or not recalls:
                continue
            chosen = keys[:injected]
            found[row] = {key: Again(at - last[key], times[key]) for key in chosen if key in last}
            for key in chosen:
                last[key], times[key] = at, times.get(key, 0) + 1
            at += 1
    return found


def _asks(gold: Gold) -> str:
    if not gold.grades:
        return "probe: nothing is needed"
    what = "1 memory is" if len(gold.grades) == 1 else f"{len(gold.grades)} memories are"
    return f"probe: {what} wanted" + (f", {len(gold.forbidden)} would mislead" if gold.forbidden else "")


def _facts(row: dict[str, Any], receipt: dict[str, Any], *, itemised: bool) -> list[str]:
    said = (
        [f"{row['injected']} injected, {row['chars']} characters, about {row['tokens']} tokens"] if row["chars"] else []
    )
    if receipt.get("skipped"):
        said.append(f"passed over: {receipt.get('skipReason') or receipt['skipped']}")
    if row["evicted"]:
        said.append(f"{row['evicted']} dropped by the budget")
    if row["superseded"] and not itemised:
        # Which of them it is, the recording alone tells.
        said.append(f"{row['superseded']} superseded, {row['stale']} of them stale")
    return said


def _where(rank: int | None, pinned: bool) -> str:
    if pinned:
        return "in the Working Set"
    return f"ranked {rank}, not injected" if rank else "not in the ranking: explain says why"
