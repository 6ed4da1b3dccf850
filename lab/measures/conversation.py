"""What measures are computed from: the columns of one arm in one conversation."""

from __future__ import annotations

from dataclasses import dataclass

from lab.measures.columns import Floats, Ints
from lab.measures.ranking import Judged
from lab.measures.repetition import Selections, numbered_selections
from lab.runs.receipts import Receipts


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """The judged turns, in order: one row of every :class:`Judged`, and one value of every column, a probe.

    ``ranked`` is the whole ranking beside every judgement, ``injected`` and ``pinned`` what was injected and what the
    Working Set held beside the relevant memories, ``nice`` and ``misleading`` what was injected beside the visible
    relevant memories labelled nice_to_have and beside those judged misleading. ``items`` counts the injected memories;
    ``chars`` is the length of the injected block in UTF-16 units.
    """

    ranked: Judged
    injected: Judged
    pinned: Judged
    nice: Judged
    misleading: Judged
    items: Floats
    chars: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The recall turns, in order: one value of every column a turn.

    * ``chosen``: which memories were injected; ``injected``, ``nice``, ``foreign``: how many there were, how many of
      them were labelled nice_to_have, and how many were of another scope. ``visible_nice``: how many memories labelled
      nice_to_have could have been injected.
    * ``pinned``: memories that the Working Set held; ``duplicates``: injected ones that say what it says, NaN without a
      Working Set. ``hard_rules``, ``hard_kept``: hard rules in reach, and those whose text stands in the block.
    * ``chars``, ``tokens``: length of the block, in UTF-16 units and in estimated tokens; ``evicted``: items that the
      budget dropped, NaN where no receipt says.
    * ``future``, ``duplicate_items``, ``unescaped``, ``stale``: memories that the turn could not know yet, that repeat
      the text of one before them, whose markup stands unescaped, that stand before or without what supersedes them;
      ``superseded``: how many are superseded by now.
    """

    chosen: Selections
    injected: Ints
    nice: Ints
    foreign: Ints
    visible_nice: Floats
    pinned: Ints
    duplicates: Floats
    hard_rules: Floats
    hard_kept: Floats
    chars: Floats
    tokens: Floats
    evicted: Floats
    future: Floats
    duplicate_items: Floats
    unescaped: Floats
    stale: Floats
    superseded: Floats


def turns_of(receipts: Receipts, rows: Ints) -> Turns:
    """Return the columns of some rows of receipts, which are recall turns of one arm."""
    injected = receipts.injected_of(rows)
    block = {name: column[rows] for name, column in receipts.block.items()}
    return Turns(
        chosen=numbered_selections(injected.memory, injected.sizes),
        injected=injected.sizes,
        nice=injected.by_row(injected.nice),
        foreign=injected.by_row(injected.foreign),
        visible_nice=receipts.visible_nice[rows],
        pinned=receipts.pinned_of(rows),
        duplicates=receipts.duplicates[rows],
        hard_rules=receipts.hard_rules[rows],
        hard_kept=receipts.hard_kept[rows],
        chars=receipts.chars[rows],
        tokens=block["tokens"],
        evicted=block["evicted"],
        future=block["future"],
        duplicate_items=block["twins"],
        unescaped=block["raw"],
        stale=block["stale"],
        superseded=block["outdated"],
    )
