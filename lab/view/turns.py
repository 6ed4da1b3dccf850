"""The content of turn pages: what each arm injected at a turn, and remarks on every item."""

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
from lab.view.recorded import Recorded, RecordedConversation

TEXT_COLUMNS = ("arm", "turn", "scope", "probe")
COLUMNS = (
    *TEXT_COLUMNS,
    *("is_recall_turn", "injected", "chars", "tokens", "pinned", "evicted", "superseded", "stale", "receipt", "log"),
    *(f"item_{name}" for name in ITEM_FIELDS),
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
    """One injected memory as shown on a page. ``marks`` name its problems."""

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


class Missed(NamedTuple):
    """A relevant memory that was not injected: its grade, its rank or position in words, and its text if shown."""

    key: str
    grade: int
    where: str
    text: str | None


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
        """Return the turns with these numbers; with ``before``, also the turns before each."""
        import pyarrow as pa

        keys = [self._index.turns[number] for number in numbers]
        numbers_of_rows = [self._rows[arm, key] for key in keys for arm in self._pair.arms if (arm, key) in self._rows]
        records = self._table.take(pa.array(numbers_of_rows, pa.int64())).to_pylist()
        rows = {(row["arm"], row["turn"]): (number, row) for number, row in zip(numbers_of_rows, records, strict=True)}
        return [self._turn(number, key, rows, before=before) for number, key in zip(numbers, keys, strict=True)]

    def _turn(
        self, number: int, key: str, rows: Mapping[tuple[str, str], tuple[int, dict[str, Any]]], *, before: bool
    ) -> TurnView:
        sides = [rows[arm, key] for arm in self._pair.arms if (arm, key) in rows]
        probe = next((row["probe"] for _, row in sides), None)
        gold = self._index.gold.get(probe) if probe else None
        has_superseded = any(row["superseded"] for _, row in sides)
        recorded = self._recorded_conversation() if self._with_text or has_superseded else None
        point = recorded.recall_points.get(key) if recorded else None
        with_text = self._with_text and recorded is not None and point is not None
        return TurnView(
            number,
            self.conversation,
            key,
            next((row["scope"] for _, row in sides), ""),
            _gold_summary(gold) if gold else None,
            tuple(self._side(number, row_number, row, gold, recorded) for row_number, row in sides),
            point.text if with_text and point else None,
            tuple(recorded.before(key, TURNS_BEFORE)) if with_text and recorded and before else (),
        )

    def _side(
        self,
        number: int,
        row_number: int,
        row: dict[str, Any],
        gold: Gold | None,
        recorded: RecordedConversation | None,
    ) -> Side:
        arm, grades = row["arm"], gold.grades if gold else {}
        items = [listed(row, rank) for rank in range(row["injected"])]
        keys = [item.key for item in items]
        point = recorded.recall_points.get(row["turn"]) if recorded else None
        again = self._again.get(row_number, {})
        texts = recorded.texts if recorded and self._with_text else {}
        shown = []
        for rank, item in enumerate(items):
            marks = []
            if gold and item.key in gold.forbidden:
                marks.append("forbidden")
            if row["is_recall_turn"] and item.scope not in (row["scope"], GLOBAL):
                marks.append("wrong scope")
            if recorded and point and recorded.safety_checks.superseded(item.key, point.seq):
                stale = recorded.safety_checks.unreplaced(item.key, (*row["pinned"], *keys[:rank]))
                marks.append("stale" if stale else "superseded")
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
                )
            )
        receipt = json.loads(row["receipt"])
        ranks = {key: rank for rank, key in enumerate(row["item_key"], 1)}
        return Side(
            arm,
            bool(self._index.hits(arm, self._pair.cutoff)[number]) if grades else None,
            tuple(self._index.marks(number, arm)),
            tuple(shown),
            tuple(_facts(row, receipt, itemised=recorded is not None)),
            tuple(row["pinned"]),
            tuple(
                Missed(key, grade, _where(ranks.get(key), key in row["pinned"]), texts.get(key))
                for key, grade in grades.items()
                if key not in keys
            ),
            json.dumps(receipt, indent=2, ensure_ascii=False),
            tuple(row["log"]),
        )

    def _recorded_conversation(self) -> RecordedConversation | None:
        try:
            return self._recorded.conversation(self.conversation)
        except LabError:
            return None


def _history(columns: Sequence[Sequence[Any]], arms: Sequence[str]) -> dict[int, dict[str, Again]]:
    """Return for each row of a recall turn the injected items that were injected before, by key."""
    history: dict[int, dict[str, Again]] = {}
    for shown_arm in arms:
        last: dict[str, int] = {}
        times: dict[str, int] = {}
        recall = 0
        for row, (arm, _, recalls, injected, keys) in enumerate(zip(*columns, strict=True)):
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
    return f"probe: {relevant} relevant" + (f", {len(gold.forbidden)} would mislead" if gold.forbidden else "")


def _facts(row: dict[str, Any], receipt: dict[str, Any], *, itemised: bool) -> list[str]:
    facts = (
        [f"{row['injected']} injected, {row['chars']} characters, about {row['tokens']} tokens"] if row["chars"] else []
    )
    if receipt.get("skipped"):
        facts.append(f"skipped: {receipt.get('skipReason') or receipt['skipped']}")
    if row["evicted"]:
        facts.append(f"{row['evicted']} dropped by the budget")
    if row["superseded"] and not itemised:
        # Only the recording says which items are superseded.
        facts.append(f"{row['superseded']} superseded, {row['stale']} of them stale")
    return facts


def _where(rank: int | None, pinned: bool) -> str:
    if pinned:
        return "in the Working Set"
    return f"ranked {rank}, not injected" if rank else "not in the ranking; see explain"
