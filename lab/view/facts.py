"""Facts of one conversation: hits, ranks, notable events and misses of every arm at every recall point."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.inputs import judge, numbered_selections
from lab.runs.receipts import Receipts
from lab.runs.scores import Gold

if TYPE_CHECKING:
    from lab.base.columns import Ints

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


def renamed(facts: Facts, names: Mapping[str, str]) -> Facts:
    """Return facts with other names of the arms."""
    return facts._replace(
        first={names[arm]: value for arm, value in facts.first.items()},
        marks={names[arm]: value for arm, value in facts.marks.items()},
        injected={names[arm]: value for arm, value in facts.injected.items()},
        missed={names[arm]: value for arm, value in facts.missed.items()},
    )


def merged(facts: Facts, other: Facts) -> Facts:
    """Return the facts of two runs of the same turns."""
    return facts._replace(
        first=facts.first | other.first,
        marks=facts.marks | other.marks,
        injected=facts.injected | other.injected,
        missed=facts.missed | other.missed,
    )
