"""What a drawn order of blocks shows: the randomisation test over every order that could have been drawn (CN-22).

Half of the blocks of time were switched, and which half was drawn. If switching changed nothing, every other order
would have given the same values, so the observed difference is compared with those of all orders. Nothing is assumed of
the values: neither independence, nor a distribution, nor that time changes nothing (Fisher, *The design of
experiments*, 1935; Ernst, Statistical Science 19, 2004). The interval has every constant difference that the test does
not reject.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.base.columns import Flags, Floats

# With fewer blocks no two-sided test can reject at 5 %; with more, the orders are too many to list.
LEAST, MOST = 8, 16
LEVEL = 0.05
# Sums of the same values in another order differ in their last bits.
_TIE = 1e-12


class Effect(NamedTuple):
    """The mean of the switched blocks minus that of the others, its interval, and p-values.

    ``p`` is two-sided, ``p_higher`` that of a test whether the switched blocks have higher values.
    """

    difference: float
    low: float
    high: float
    p: float
    p_higher: float


def orders(blocks: int) -> Flags:
    """Return every order of an even number of blocks of which half are switched: bool, shape (orders, blocks)."""
    import numpy as np

    chosen = list(combinations(range(blocks), blocks // 2))
    table = np.zeros((len(chosen), blocks), bool)
    table[np.arange(len(chosen))[:, None], chosen] = True
    return table


def drawn(blocks: int, seed: int) -> tuple[bool, ...]:
    """Return the order that a seed draws; each of :func:`orders` has the same probability."""
    table = orders(blocks)
    # A hash gives the same order under every version of Python.
    at = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()) % len(table)
    return tuple(map(bool, table[at]))


def effect(values: Sequence[float], order: Sequence[bool], among: Flags | None = None) -> Effect:
    """Return what switching did to the values of blocks, by the orders ``among`` which ``order`` was drawn.

    Without ``among`` these are all of :func:`orders`. Shapes: ``values`` and ``order`` (blocks,), ``among`` (orders,
    blocks), of which ``order`` is one. Every order must have a block of each kind.
    """
    import numpy as np

    drawable = orders(len(values)) if among is None else among
    weights = drawable / drawable.sum(1, keepdims=True) - ~drawable / (~drawable).sum(1, keepdims=True)
    mine = np.asarray(order, bool)
    found = weights @ np.asarray(values, float)
    # How much of a constant effect of the real order each other order would show as its own.
    overlap = weights @ mine.astype(float)
    at = int(np.flatnonzero((drawable == mine).all(1))[0])
    own = float(found[at])
    tie = _TIE * max(1.0, float(np.abs(found).max()))

    def p_of(shift: float) -> float:
        return float((np.abs(found - shift * overlap) >= abs(own - shift) - tie).mean())

    with np.errstate(divide="ignore", invalid="ignore"):
        # The shifts at which an order begins, or ends, to be as far from zero as the real one.
        turns = np.concatenate(((own - found) / (1 - overlap), (own + found) / (1 + overlap)))
    turns = np.unique(turns[np.isfinite(turns)])
    ends = [_last(turns[turns > own], own, p_of), _last(turns[turns < own][::-1], own, p_of)]
    return Effect(own, ends[1], ends[0], p_of(0.0), float((found >= own - tie).mean()))


def _last(shifts: Floats, own: float, p_of: Callable[[float], float]) -> float:
    """Return the farthest shift that the test accepts; ``shifts`` begin near the estimate."""
    low, high = 0, len(shifts)
    while low < high:
        middle = (low + high) // 2
        # Between two turning points nothing changes, and at one an order still counts.
        if p_of(shifts[middle]) > LEVEL:
            low = middle + 1
        else:
            high = middle
    return float(shifts[low - 1]) if low else own


def carry_over(values: Sequence[float], order: Sequence[bool]) -> Effect:
    """Return what a switched block leaves to the next one, once the difference of :func:`effect` is taken away.

    That difference counts as known here, so the interval is too narrow by its error.
    """
    own = effect(values, order).difference
    rest = [value - own * switched for value, switched in zip(values, order, strict=True)]
    return effect(rest[1:], order[:-1], orders(len(values))[:, :-1])
