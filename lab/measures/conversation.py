"""The columns of one arm in one conversation, which measures are computed from."""

from __future__ import annotations

from dataclasses import dataclass

from lab.measures.columns import Floats, Ints
from lab.measures.ranking import Judged
from lab.measures.repetition import Selections, numbered_selections
from lab.runs.receipts import Receipts
from lab.runs.shapes import READINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Columns of the probes, in order: one row of every :class:`Judged` and one value of every array for each probe.

    ``ranked`` compares the ranking with all judgements; ``injected`` and ``pinned`` compare injected memories and those
    of the Working Set with the relevant memories; ``nice`` and ``misleading`` compare injected memories with the
    visible relevant memories labelled nice_to_have, and with those judged misleading. ``items`` counts injected
    memories; ``chars`` is the length of the injected block in UTF-16 units.
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
    """Columns of the recall turns, in order: one value for each turn.

    * ``chosen``: the injected memories. ``injected``: how many there are. ``nice``: how many of them are labelled
      nice_to_have. ``foreign``: how many are of another scope. ``visible_nice``: how many memories labelled
      nice_to_have the turn could have recalled.
    * ``must``: the injected must_remember memories that are neither exempt from repeat suppression nor pinned.
    * ``pinned``: memories that the Working Set held; ``duplicates``: injected memories that repeat it, NaN without a
      Working Set. ``hard_rules``, ``hard_kept``: hard rules in reach, and those whose text is in the block.
    * ``chars``, ``tokens``: length of the block, in UTF-16 units and in estimated tokens; ``evicted``: items that the
      budget dropped, NaN where the receipt does not say.
    * ``future``, ``duplicate_items``, ``unescaped``, ``stale``: injected memories that do not exist yet, that repeat an
      earlier one, whose markup is not escaped, that are superseded with no superseding memory before them;
      ``superseded``: all memories superseded by then.
    * ``prefix_tokens``, ``body_chars``, ``stable_chars``, ``receipt_bytes``, ``receipt_lines``, ``to_explain``,
      ``explained``: the columns of receipts of these names, NaN where there is no value.
    """

    chosen: Selections
    must: Selections
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
    prefix_tokens: Floats
    body_chars: Floats
    stable_chars: Floats
    receipt_bytes: Floats
    receipt_lines: Floats
    to_explain: Floats
    explained: Floats


def turns_of(receipts: Receipts, rows: Ints) -> Turns:
    """Return the columns of ``rows`` of receipts, which must be recall turns of one arm."""
    injected = receipts.injected_of(rows)
    block = {name: column[rows] for name, column in receipts.block.items()}
    return Turns(
        chosen=numbered_selections(injected.memory, injected.sizes),
        must=numbered_selections(injected.memory[injected.must], injected.by_row(injected.must)),
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
        duplicate_items=block["duplicate_items"],
        unescaped=block["unescaped"],
        stale=block["stale"],
        superseded=block["outdated"],
        **{name: block[name] for name in READINGS},
    )
