"""The two selection policies: worked examples, and properties for any buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Candidate
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount, TierPlan, by_rank, recall_plans
from lab.systems.openclaw.select.policies import tier_first_v1, tier_quota_v1

Buckets = dict[str, list[Candidate]]
PLANS = recall_plans()


def bucket(*hits: tuple[str, float] | tuple[str, float, int]) -> list[Candidate]:
    return [Candidate(*hit) for hit in hits]


def by_quota(buckets: Buckets, limit: int, quota: tuple[int, int, int], *, strict: bool) -> Selection:
    """Select with the three tiers of automatic recall; tiers that are not named are empty."""
    return tier_quota_v1(PLANS, limit, Quota(*quota), lambda plan: buckets.get(plan.tier, []), strict_caps=strict)


def ids(selection: Selection) -> list[str]:
    return [pick.candidate.id for pick in selection.picked]


# --- the tiers


def test_recall_plans_of_automatic_recall() -> None:
    must = TierPlan("must", ("must_remember",), "no_results_must")
    nice = TierPlan("nice", ("nice_to_have",), "no_results_nice")
    assert recall_plans() == (must, nice, TierPlan("unknown", ("unknown",)))
    assert recall_plans(unknown_fallback=False) == (must, nice)


# --- tier_quota_v1, by hand

RANKED = {"m1": 1 / 61, "m2": 1 / 62, "m3": 1 / 63, "n1": 1 / 61, "u1": 1 / 61, "u2": 1 / 62}


@pytest.mark.parametrize("strict", [False, True])
def test_quota_that_fills_every_slot_leaves_no_wildcard(strict: bool) -> None:
    buckets = {
        "must": bucket(("m1", 0.99), ("m2", 0.98), ("m3", 0.97)),
        "nice": bucket(("n1", 0.70), ("n2", 0.69)),
        "unknown": bucket(("u1", 0.40)),
    }
    selection = by_quota(buckets, 4, (2, 2, 1), strict=strict)
    must, nice = buckets["must"], buckets["nice"]
    assert selection == Selection(
        [
            Picked(must[0], "must", "must_quota"),
            Picked(must[1], "must", "must_quota"),
            Picked(nice[0], "nice", "nice_quota"),
            Picked(nice[1], "nice", "nice_quota"),
        ],
        [
            TierCount("must", ("must_remember",), 3, 2),
            TierCount("nice", ("nice_to_have",), 2, 2),
            TierCount("unknown", ("unknown",), 1, 0),
        ],
        ["budget_cap"],
        Quota(2, 2, 1, 0),
    )


def test_wildcard_goes_by_score_then_newest() -> None:
    buckets = {
        "must": bucket(("m-old", 0.9, 10), ("m-new", 0.8, 30)),
        "unknown": bucket(("u-new", 0.8, 40), ("u-old", 0.8, 5)),
    }
    selection = by_quota(buckets, 4, (1, 0, 0), strict=False)
    assert ids(selection) == ["m-old", "u-new", "m-new", "u-old"]
    assert [pick.decision for pick in selection.picked] == ["must_quota", "wildcard", "wildcard", "wildcard"]
    assert selection.quota == Quota(1, 0, 0, 3)


@pytest.mark.parametrize("strict", [False, True])
def test_short_tier_leaves_its_slots_to_wildcards(strict: bool) -> None:
    """u2 ranks above m3; both would exceed their maximum, so the caps change nothing."""
    named = {tier: bucket(*[(one, RANKED[one]) for one in RANKED if one[0] == tier[0]]) for tier in ("must", "nice")}
    named["unknown"] = bucket(("u1", RANKED["u1"]), ("u2", RANKED["u2"]))
    selection = by_quota(named, 5, (2, 2, 1), strict=strict)
    assert ids(selection) == ["m1", "m2", "n1", "u1", "u2"]
    assert selection.quota == Quota(2, 2, 1, 1)


def test_wildcard_among_equal_scores_is_the_newest_of_any_rank() -> None:
    buckets = {"nice": bucket(("a", 0.5, 1), ("b", 0.5, 2), ("c", 0.5, 9), ("d", 0.4, 99))}
    assert ids(by_quota(buckets, 1, (0, 0, 0), strict=True)) == ["c"]
    assert ids(by_quota(buckets, 2, (0, 1, 0), strict=True)) == ["a", "c"]


def test_wildcard_with_equal_score_and_time_goes_by_id() -> None:
    buckets = {"must": bucket(("c", 0.5, 7)), "nice": bucket(("b", 0.5, 7)), "unknown": bucket(("a", 0.5, 7))}
    assert ids(by_quota(buckets, 3, (0, 0, 0), strict=False)) == ["a", "b", "c"]


def test_nice_is_reserved_before_must_if_slots_are_few() -> None:
    buckets = {"must": bucket(("m1", 0.9), ("m2", 0.8)), "nice": bucket(("n1", 0.2), ("n2", 0.1))}
    assert ids(by_quota(buckets, 2, (2, 2, 1), strict=True)) == ["n1", "n2"]
    assert ids(by_quota(buckets, 3, (2, 2, 1), strict=True)) == ["m1", "n1", "n2"]


def test_blocks_are_not_sorted_again() -> None:
    buckets = {"must": bucket(("m1", 0.1)), "nice": bucket(("n1", 0.9)), "unknown": bucket(("u1", 0.95), ("u2", 0.94))}
    assert ids(by_quota(buckets, 4, (1, 1, 1), strict=False)) == ["m1", "n1", "u1", "u2"]


def test_id_in_two_tiers_is_selected_once() -> None:
    buckets = {"must": bucket(("both", 0.9)), "nice": bucket(("both", 0.9), ("n", 0.1)), "unknown": bucket(("u", 0.5))}
    selection = by_quota(buckets, 5, (1, 1, 1), strict=False)
    assert ids(selection) == ["both", "n", "u"]
    assert [count.selected for count in selection.tier_counts] == [1, 1, 1]


def test_reasons_of_an_empty_and_of_a_full_selection() -> None:
    assert by_quota({}, 3, (2, 2, 1), strict=True).rejected == ["no_results_must", "no_results_nice"]
    only_unknown = by_quota({"unknown": bucket(("u", 0.1))}, 1, (2, 2, 1), strict=True)
    assert only_unknown.rejected == ["no_results_must", "no_results_nice", "budget_cap"]


# --- strict caps, by hand


def test_strict_caps_prefer_a_worse_nice_to_a_third_must() -> None:
    buckets = {
        "must": bucket(("m1", 0.9), ("m2", 0.8), ("m3", 0.7)),
        "nice": bucket(("n1", 0.3), ("n2", 0.2), ("n3", 0.1)),
    }
    assert ids(by_quota(buckets, 5, (2, 2, 1), strict=False)) == ["m1", "m2", "n1", "n2", "m3"]
    assert ids(by_quota(buckets, 5, (2, 2, 1), strict=True)) == ["m1", "m2", "n1", "n2", "n3"]


def test_strict_caps_let_must_fill_what_nothing_else_can() -> None:
    buckets = {
        "must": bucket(("m1", 0.9), ("m2", 0.8), ("m3", 0.7), ("m4", 0.6)),
        "unknown": bucket(("u1", 0.5), ("u2", 0.65)),
    }
    assert ids(by_quota(buckets, 5, (2, 2, 1), strict=True)) == ["m1", "m2", "u1", "m3", "u2"]


def test_strict_caps_share_one_maximum_between_quota_and_wildcard() -> None:
    """A nice beyond the quota competes as a wildcard; so does a must within its maximum."""
    buckets = {"must": bucket(("m1", 0.9), ("m2", 0.8)), "nice": bucket(("n1", 0.3), ("n2", 0.2))}
    assert ids(by_quota(buckets, 2, (1, 0, 0), strict=True)) == ["m1", "n1"]
    assert ids(by_quota(buckets, 2, (0, 1, 0), strict=True)) == ["n1", "n2"]


# --- tier_quota_v1, for any buckets


def _ranked(hits: Sequence[tuple[str, float, int]]) -> list[Candidate]:
    """A bucket as fusion returns it: score descending, then by id."""
    return sorted((Candidate(*hit) for hit in hits), key=lambda one: (-one.score, one.id))


SCORES = st.sampled_from([1 / 61, 1 / 62, 1 / 63, 2 / 61])
TIMES = st.sampled_from([0, 5, 5, 9])


@st.composite
def disjoint_buckets(draw: st.DrawFn) -> Buckets:
    """Buckets of one store: a row has one label, so it is in one tier. Ids of the tiers interleave."""
    tiers = draw(st.lists(st.sampled_from(["must", "nice", "unknown"]), max_size=24))
    hits: dict[str, list[tuple[str, float, int]]] = {"must": [], "nice": [], "unknown": []}
    for number, tier in enumerate(tiers):
        hits[tier].append((f"{number * 7 % 24:02d}", draw(SCORES), draw(TIMES)))
    return {tier: _ranked(one) for tier, one in hits.items()}


LIMITS = st.integers(1, 8)
QUOTAS = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@settings(max_examples=100)
@given(disjoint_buckets(), LIMITS, QUOTAS)
def test_strict_caps_bind_while_other_candidates_are_left(
    buckets: Buckets, limit: int, quota: tuple[int, int, int]
) -> None:
    must_max, nice_min, unknown_max = quota
    selection = by_quota(buckets, limit, quota, strict=True)
    chosen = ids(selection)
    taken = Counter(pick.tier for pick in selection.picked)
    left = Counter(tier for tier, hits in buckets.items() for hit in hits if hit.id not in chosen)

    assert len(chosen) == len(set(chosen)) == min(limit, sum(map(len, buckets.values())))
    assert taken["nice"] >= min(nice_min, limit, len(buckets["nice"]))
    room = {"must": must_max - taken["must"], "unknown": unknown_max - taken["unknown"], "nice": limit}
    for capped in ("must", "unknown"):
        if room[capped] < 0:
            assert not [tier for tier in left if tier != capped and left[tier] and room[tier] > 0]


def _by_the_book(buckets: Buckets, limit: int, quota: tuple[int, int, int], *, strict: bool) -> list[str]:
    """The steps of the specification with a full sort of the pool and no shortcut."""
    must_max, nice_min, unknown_max = quota
    nice = min(nice_min, limit, len(buckets["nice"]))
    must = min(must_max, max(0, limit - nice), len(buckets["must"]))
    unknown = min(unknown_max, max(0, limit - nice - must), len(buckets["unknown"]))
    first = {"must": must, "nice": nice, "unknown": unknown}
    chosen = [hit.id for tier, count in first.items() for hit in buckets[tier][:count]]
    pool = sorted(
        (-hit.score, -hit.created_at, hit.id, tier)
        for tier, hits in buckets.items()
        for hit in hits
        if hit.id not in chosen
    )
    room = {"must": must_max - must, "nice": len(pool), "unknown": unknown_max - unknown}
    in_turn: tuple[list[str], list[str]] = ([], [])
    for _, _, identity, tier in pool:
        in_turn[strict and room[tier] <= 0].append(identity)
        room[tier] -= 1
    return (chosen + in_turn[0] + in_turn[1])[:limit]


@settings(max_examples=100)
@given(disjoint_buckets(), LIMITS, QUOTAS, st.booleans())
def test_selection_equals_that_of_a_full_sort(
    buckets: Buckets, limit: int, quota: tuple[int, int, int], strict: bool
) -> None:
    assert ids(by_quota(buckets, limit, quota, strict=strict)) == _by_the_book(buckets, limit, quota, strict=strict)


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcdefgh"), SCORES, TIMES), unique_by=lambda hit: hit[0]), min_size=3
    ).map(lambda hits: {tier: _ranked(one) for tier, one in zip(("must", "nice", "unknown"), hits, strict=False)}),
    LIMITS,
    QUOTAS,
    st.booleans(),
)
def test_ids_in_several_tiers_are_selected_once_and_none_is_lost(
    buckets: Buckets, limit: int, quota: tuple[int, int, int], strict: bool
) -> None:
    selection = by_quota(buckets, limit, quota, strict=strict)
    distinct = {hit.id for hits in buckets.values() for hit in hits}
    assert len(ids(selection)) == len(set(ids(selection))) == min(limit, len(distinct))
    assert sum(count.selected for count in selection.tier_counts) == len(selection.picked)


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.builds(Candidate, st.sampled_from("abcdef"), SCORES, TIMES), max_size=9), min_size=3),
    LIMITS,
    QUOTAS,
)
def test_wildcard_equals_that_of_a_full_sort_for_any_buckets(
    hits: list[list[Candidate]], limit: int, quota: tuple[int, int, int]
) -> None:
    """Ids in several tiers or twice in one, unsorted: no store returns such buckets, but the rule covers them."""
    buckets = dict(zip(("must", "nice", "unknown"), hits, strict=False))
    selection = by_quota(buckets, limit, quota, strict=False)
    quotas = [pick for pick in selection.picked if pick.decision != "wildcard"]
    pool = sorted((by_rank(one), tier) for tier, bucket in buckets.items() for one in bucket)
    seen = {pick.candidate.id for pick in quotas}
    expected_order = list(dict.fromkeys((rank[2], tier) for rank, tier in pool if rank[2] not in map(id_order, seen)))
    first = dict(reversed(expected_order))
    chosen = [(id_order(pick.candidate.id), pick.tier) for pick in selection.picked[len(quotas) :]]
    assert chosen == list(dict.fromkeys((rank, first[rank]) for rank, _ in expected_order))[: limit - len(quotas)]


def test_unnamed_tier_is_ignored_and_equal_names_use_the_last() -> None:
    found = iter([bucket(("x", 0.9)), bucket(("m1", 0.8)), bucket(("m2", 0.7))])
    plans = [TierPlan("must", ()), TierPlan("must", ()), TierPlan("", ())]
    buckets = {id(plan): next(found) for plan in (plans[2], plans[0], plans[1])}
    selection = tier_quota_v1(plans, 3, Quota(1, 0, 0), lambda plan: buckets[id(plan)], strict_caps=False)
    assert [(pick.candidate.id, pick.decision) for pick in selection.picked] == [
        ("m2", "must_quota"),
        ("m1", "wildcard"),
    ]


# --- tier_first_v1, by hand


def test_tier_first_must_fills_the_slots_without_later_searches() -> None:
    searched: list[str] = []
    buckets = {"must": bucket(("m1", 0.2), ("m2", 0.1)), "nice": bucket(("n1", 0.9))}

    def search(plan: TierPlan) -> list[Candidate]:
        searched.append(plan.tier)
        return buckets.get(plan.tier, [])

    selection = tier_first_v1(PLANS, 2, search)
    assert searched == ["must"]
    assert selection == Selection(
        [Picked(buckets["must"][0], "must", "must_first"), Picked(buckets["must"][1], "must", "must_first")],
        [TierCount("must", ("must_remember",), 2, 2)],
        ["budget_cap"],
    )


@pytest.mark.parametrize(
    ("buckets", "limit", "chosen", "rejected"),
    [
        ({}, 3, [], ["no_results_must", "no_results_nice"]),
        ({"nice": bucket(("n", 0.1))}, 3, ["n"], ["no_results_must"]),
        ({"must": bucket(("m", 0.1)), "unknown": bucket(("u", 0.9))}, 2, ["m", "u"], ["no_results_nice", "budget_cap"]),
        ({"must": bucket(("m", 0.1)), "nice": bucket(("m", 0.9), ("n", 0.2))}, 4, ["m", "n"], []),
    ],
)
def test_tier_first_later_tiers_fill_the_remaining_slots(
    buckets: Buckets, limit: int, chosen: list[str], rejected: list[str]
) -> None:
    selection = tier_first_v1(PLANS, limit, lambda plan: buckets.get(plan.tier, []))
    assert (ids(selection), selection.rejected) == (chosen, rejected)
