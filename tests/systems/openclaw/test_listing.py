"""Listing rows by scope and category: newest first, whatever the order of storage."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.retrieval.contract import Row
from lab.systems.openclaw.memory import Listing

CATEGORIES = ("decision", "preference", "todo", "fact")
SCOPES = ("global", "work")


def row(
    identity: str, created_at: int = 0, category: str = "decision", scope: str = "global", hard: bool = False
) -> Row:
    return Row(identity, identity, identity, identity, created_at, category, "unknown", scope, hard_rule=hard)


def listed(*rows: Row) -> Listing:
    listing = Listing()
    listing.add(rows)
    return listing


def ids(rows: Sequence[Row]) -> list[str]:
    return [row.id for row in rows]


@st.composite
def stored(draw: st.DrawFn) -> list[Row]:
    times = st.integers(0, 3)
    shapes = st.tuples(times, st.sampled_from(CATEGORIES), st.sampled_from(SCOPES), st.booleans())
    return [row(f"{at * 7 % 19:02d}", *shape) for at, shape in enumerate(draw(st.lists(shapes, max_size=19)))]


@given(stored(), st.sampled_from((*SCOPES, None, "nowhere")), st.sets(st.sampled_from(CATEGORIES)), st.integers(0, 9))
@settings(max_examples=80)
def test_listing_equals_a_full_sort(rows: list[Row], scope: str | None, categories: set[str], limit: int) -> None:
    listing = listed(*rows)
    within = [row for row in rows if scope in (None, row.scope)]
    chosen = [row for row in within if row.category in categories]
    newest = sorted(chosen, key=lambda one: (-one.created_at, one.id))
    assert listing.recent(scope, sorted(categories), limit) == newest[:limit]
    first = sorted(chosen[: 4 * limit], key=lambda one: (-one.created_at, one.id))
    assert listing.recent_of_first(scope, sorted(categories), limit) == first[:limit]
    hard = sorted((row for row in rows if row.hard_rule), key=lambda row: (row.created_at, row.id))
    others = [row for row in hard if row.scope == "global" and scope not in (None, "global")]
    assert listing.hard_rules(scope) == [row for row in hard if scope in (None, row.scope)] + others


@given(stored(), st.data())
@settings(max_examples=60)
def test_listing_by_age_does_not_depend_on_the_order_of_adding(rows: list[Row], data: st.DataObject) -> None:
    listing, other = listed(*rows), Listing()
    for one in data.draw(st.permutations(rows)):
        other.add([one])
    for scope in (*SCOPES, None):
        assert listing.recent(scope, CATEGORIES, 99) == other.recent(scope, CATEGORIES, 99)
        assert listing.hard_rules(scope) == other.hard_rules(scope)


def test_recent_of_first_sees_only_the_rows_stored_first() -> None:
    listing = listed(*(row(f"{at:02d}", at) for at in range(20)))
    assert ids(listing.recent_of_first("global", CATEGORIES, 2)) == ["07", "06"]
    assert ids(listing.recent("global", CATEGORIES, 2)) == ["19", "18"]
    many = listed(*(row(f"{at:04d}", at) for at in range(1100)))
    assert ids(many.recent_of_first("global", CATEGORIES, 300))[0] == "1023"


def test_listing_sorts_equal_ages_by_id() -> None:
    # Digits before letters, lower case before capitals.
    assert ids(listed(row("B"), row("b"), row("a"), row("2")).recent(None, CATEGORIES, 9)) == ["2", "a", "b", "B"]


def test_removed_row_is_in_no_listing() -> None:
    listing = listed(row("a", 1, hard=True), row("b", 2), row("w", 3, scope="work", hard=True))
    listing.remove(row("a", 1, hard=True))
    assert ids(listing.recent(None, CATEGORIES, 9)) == ["w", "b"]
    assert ids(listing.recent_of_first("global", CATEGORIES, 9)) == ["b"]
    assert (ids(listing.hard_rules("global")), ids(listing.hard_rules(None))) == ([], ["w"])
    listing.add([row("a", 9)])
    assert ids(listing.recent("global", CATEGORIES, 9)) == ["a", "b"]


def test_returned_list_is_a_copy() -> None:
    listing = listed(row("a", hard=True))
    listing.hard_rules("global").clear()
    listing.recent("global", CATEGORIES, 9).clear()
    assert (ids(listing.hard_rules("global")), ids(listing.recent("global", CATEGORIES, 9))) == (["a"], ["a"])
