"""Keys that are too long for a line are shortened, and stay distinct."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.base.formatting import is_short_for, short_keys

ONE = "8110468b-df0b-468f-99d3-9f6f0026017c"
PARTS = st.text("ab", min_size=1, max_size=12)
KEYS = st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), min_size=1, max_size=8)


def test_key_that_fits_is_whole() -> None:
    assert short_keys(["attic/s01/t03"], 20) == {"attic/s01/t03": "attic/s01/t03"}


def test_longest_part_is_cut_first() -> None:
    key = "haystack:trail-marathon/s01/t07#0"
    assert short_keys([key], 30) == {key: "haystack:trail-mara…/s01/t07#0"}
    key = f"{ONE}/{ONE}/t01"
    assert short_keys([key], 30) == {key: "8110468b-df…/8110468b-df0…/t01"}


def test_keys_with_the_same_beginning_keep_their_ends() -> None:
    keys = ["the-same-beginning-one/s01", "the-same-beginning-two/s01"]
    assert list(short_keys(keys, 14).values()) == ["…nning-one/s01", "…nning-two/s01"]


def test_keys_that_differ_in_the_middle_alone_stay_whole() -> None:
    keys = ["aaaaaaaaaa1bbbbbbbbbb", "aaaaaaaaaa2bbbbbbbbbb"]
    assert list(short_keys(keys, 8).values()) == keys


@given(KEYS, st.integers(3, 30))
def test_shortened_keys_are_distinct(keys: list[str], room: int) -> None:
    shown = short_keys(keys, room)
    assert len(set(shown.values())) == len(set(keys))
    for key, text in shown.items():
        assert text == key or (len(text) <= room and is_short_for(text, key))


def test_short_form_stands_for_its_key() -> None:
    assert is_short_for("choir…/s08/t03", "choir-tour/s08/t03")
    assert not is_short_for("choir…/s08/t03", "choir-tour/s08/t04")
    assert is_short_for("s08/t03", "choir-tour/s08/t03")
    assert not is_short_for("8/t03", "choir-tour/s08/t03")
