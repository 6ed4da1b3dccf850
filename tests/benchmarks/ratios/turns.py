"""Ratios of turns: the exact store to a bare matrix product and to LanceDB, both policies to one."""

from __future__ import annotations

from functools import partial

from ground import (
    LIVE_TURNS,
    TURNS,
    alone,
    each_alone,
    expected,
    filled,
    matrix,
    policies,
    questions,
    shipped,
    together,
    whole_flow,
)
from harness import Bench, Side, Sides, ratio

from lab.recordings.model import LABELS
from lab.retrieval.exact import BLOCK

# Store sizes, and how many matrix products of that size a turn, and its whole flow, may take.
SIZES = {1_000: (None, None), 10_000: (5.0, 8.0), 100_000: (3.0, 3.0)}
MIDDLE = 10_000
# Of each tier, as both policies search them.
HITS = 12
PRODUCT = "float32 product of 64 turns and all vectors"
LIVE = "both policies, LanceDB, each over its own view"
BOTH = "tier_first_v1 and tier_quota_v1 over one view, exact"


def name_of(size: int) -> str:
    """Return 10000 as ``10k``."""
    return f"{size // 1_000}k"


def product(bench: Bench, size: int, *, ranked: bool = False) -> Side:
    """The blocked product alone, or with ``ranked`` the best rows of each label as well."""
    import numpy as np

    vectors = bench.keep("matrix", size, lambda: matrix(shipped(bench).pool, size))
    queries = expected(questions(bench, TURNS))
    labels = np.asarray([row.importance_label for row in filled(bench, "exact", size).store.rows])
    places = [some for label in LABELS if len(some := (labels == label).nonzero()[0]) > HITS]

    def work() -> None:
        for first in range(0, TURNS, BLOCK):
            products = queries[first : first + BLOCK] @ vectors.T
            if ranked:
                for one in products:
                    for some in places:
                        np.argpartition(one[some], -HITS)

    return Side(f"{PRODUCT}, and top-{HITS} of each label" if ranked else PRODUCT, work, TURNS)


def turn(bench: Bench, size: int, *, ranked: bool = False) -> Sides:
    """Selection only, relative to the product."""
    over = together(BOTH, filled(bench, "exact", size), policies(bench), questions(bench, TURNS))
    return Sides(over, product(bench, size, ranked=ranked))


def flow(bench: Bench, size: int) -> Sides:
    """The whole flow, relative to the product."""
    what = "both policies in the whole flow over one view, exact"
    over = together(what, filled(bench, "exact", size), whole_flow(bench), questions(bench, TURNS))
    return Sides(over, product(bench, size))


for size, (most, most_of_flow) in SIZES.items():
    at = name_of(size)
    ratio(f"turn-{at}", at_most=most, about=f"A turn of both policies over {size} memories, over the bare product.")(
        partial(turn, size=size)
    )
    ratio(
        f"topk-{at}",
        at_most=most,
        about=f"The same turn of {size} memories, over the product and the masked top-k of each label.",
    )(partial(turn, size=size, ranked=True))
    ratio(
        f"flow-{at}", at_most=most_of_flow, about=f"The whole flow of both over {size} memories, over the bare product."
    )(partial(flow, size=size))  # fmt: skip


@ratio("live-10k", at_least=50, about="A live turn of both policies, each with its own searches, over an exact one.")
def live(bench: Bench) -> Sides:
    """LanceDB as used by a gateway, relative to the exact store as used by a replay."""
    over = each_alone(LIVE, filled(bench, "lancedb", MIDDLE), policies(bench), questions(bench, LIVE_TURNS))
    under = together(BOTH, filled(bench, "exact", MIDDLE), policies(bench), questions(bench, TURNS))
    return Sides(over, under)


@ratio("live-alike-10k", about="The same where each policy makes its own searches in the exact store, too.")
def live_alike(bench: Bench) -> Sides:
    """The stores alone, without shared views on either side."""
    over = each_alone(LIVE, filled(bench, "lancedb", MIDDLE), policies(bench), questions(bench, LIVE_TURNS))
    under = each_alone("the same, exact", filled(bench, "exact", MIDDLE), policies(bench), questions(bench, TURNS))
    return Sides(over, under)


@ratio("both-10k", at_most=1.25, about="Both policies over tier_quota_v1 alone, exact, 10000 memories.")
def both_exact(bench: Bench) -> Sides:
    """What the other policy adds to a turn of the exact store."""
    return both(bench, "exact", TURNS)


@ratio("both-live-10k", at_most=1.05, about="The same on LanceDB, over one view.")
def both_live(bench: Bench) -> Sides:
    """What the other policy adds to a turn of LanceDB."""
    return both(bench, "lancedb", LIVE_TURNS)


def both(bench: Bench, kind: str, turns: int) -> Sides:
    """Two arms relative to one, each on one view."""
    loaded, queries = filled(bench, kind, MIDDLE), questions(bench, turns)
    return Sides(
        together(f"both policies over one view, {kind}", loaded, policies(bench), queries),
        together("tier_quota_v1 alone", loaded, policies(bench, "tier_quota_v1"), queries),
    )


def beside_quota(bench: Bench, arm: str) -> Sides:
    """A configuration of the whole flow relative to the policy that it runs."""
    loaded, queries = filled(bench, "exact", MIDDLE), questions(bench, TURNS)
    return Sides(
        together(arm, loaded, alone(arm), queries),
        together("tier_quota_v1 alone", loaded, policies(bench, "tier_quota_v1"), queries),
    )


for name in ("recommended", "seed_full"):
    ratio(f"{name}-10k", at_most=2, about=f"A turn of {name} over one of tier_quota_v1, exact, 10000 memories.")(
        partial(beside_quota, arm=name)
    )
