"""The content words, numbers and dates of answers, in English and Chinese."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.retrieval.answer_words import Content, Date, contents, dates_said

Found = Mapping[str, Content]
# A Friday.
NOW = int(datetime(2023, 6, 9, 13, tzinfo=UTC).timestamp()) * 1000
TODAY = (date(2023, 6, 9), date(2023, 6, 9))


def _days(one: Date) -> object:
    return (one.month, one.day) if one.month else (date.fromordinal(one.first), date.fromordinal(one.last))


def _june(first: int, last: int | None = None) -> tuple[date, date]:
    return date(2023, 6, first), date(2023, 6, last or first)


def _year(year: int) -> tuple[date, date]:
    return date(year, 1, 1), date(year, 12, 31)


WORDS = [
    ("Adoption agencies' colours", "adopt agenc color"),
    ("An adoption agency of COLOR", "adopt agenc color"),
    ("organised, organization", "organiz"),
    ("the theatre; the theater", "theatr"),
    ("Café", "cafe"),
    ("four dogs, 4 dogs", "4 dog"),
    ("one hundred and twenty-five", "125"),
    ("two and three", "2 3"),
    ("1,000 or 1000.0", "1000"),
    ("the 3rd, third", "3"),
    ("250ms", "250 ms"),
    ("12 thousand", "12 1000"),
    ("她吃了芒果冰淇淋", "吃 芒果 果冰 冰淇 淇淋"),
    ("二十五个苹果", "25 个苹 苹果"),
    ("", ""),
    ("of the", ""),
]


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_contents_words_and_numbers_are_normalised(found_in: Found, text: str, words: str) -> None:
    found = found_in[text]
    assert (sorted(found.words), found.dates) == (sorted(words.split()), frozenset())


DATES = [
    ("9 June 2023", _june(9)),
    ("June 9th, 2023", _june(9)),
    ("2023-06-09", _june(9)),
    ("09.06.2023", _june(9)),
    ("6/9/2023", _june(9)),
    ("2023年6月9日", _june(9)),
    ("9-11 June 2023", _june(9, 11)),
    ("The week before 9 June 2023", _june(2, 8)),
    ("the sunday before 9 June 2023", _june(4)),
    ("the weekend before 9 June, 2023", _june(3, 4)),
    ("the weekend after 9 June 2023", _june(10, 11)),
    ("the weekend of 9 June 2023", _june(10, 11)),
    ("the week of 9 June 2023", _june(5, 11)),
    ("two days after 9 June 2023", _june(11)),
    ("June 2023", _june(1, 30)),
    ("六月", (6, 0)),
    ("June 9", (6, 9)),
    ("in May", (5, 0)),
    ("2023", _year(2023)),
    ("2023年", _year(2023)),
    ("February 30", (2, 0)),
    ("It may be.", None),
    ("version 20.23", None),
]


@pytest.mark.parametrize(("text", "expected"), DATES)
def test_contents_dates_are_spans_of_days(found_in: Found, text: str, expected: object) -> None:
    found = found_in[text]
    assert list(map(_days, found.dates)) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday", _june(8)),
        ("last night", _june(8)),
        ("the day before yesterday", _june(7)),
        ("two days ago", _june(7)),
        ("last week", _june(2, 8)),
        ("last Saturday", _june(3)),
        ("next Friday", _june(16)),
        ("this Friday", _june(9)),
        ("last weekend", _june(3, 4)),
        ("this weekend", _june(10, 11)),
        ("in a week", _june(13, 19)),
        ("next month", (date(2023, 7, 1), date(2023, 7, 31))),
        ("six months ago", (date(2022, 12, 1), date(2022, 12, 31))),
        ("last year", _year(2022)),
        ("10 years ago", _year(2013)),
        ("on 31 December", (date(2022, 12, 31), date(2022, 12, 31))),
        ("昨天", _june(8)),
        ("三天前", _june(6)),
        ("上个月", (date(2023, 5, 1), date(2023, 5, 31))),
        ("去年", _year(2022)),
        ("recently", TODAY),
    ],
)
def test_dates_said_count_from_the_time_of_the_text(text: str, expected: object) -> None:
    assert {_days(one) for one in dates_said(text, NOW)} == {expected, TODAY}


COVERED = [
    ("June 2023", "9 June 2023", True),
    ("9 June 2023", "June 2023", False),
    ("2023", "9 June 2023", True),
    ("2023", "9 June", False),
    ("9 June 2023", "June 9", True),
    ("9 June 2023", "8 June", False),
    ("June", "9 June 2023", True),
    ("June", "July 2023", False),
    ("June 9", "9 June 2020", True),
    ("June 9", "June 2023", False),
    ("June 9", "June 9", True),
    ("June 9", "June", False),
    ("29 February 2024", "February 29", True),
    ("The week before 9 June 2023", "2 June 2023", True),
    ("The week before 9 June 2023", "9 June 2023", False),
]


@pytest.mark.parametrize(("gold", "text", "covered"), COVERED)
def test_a_date_is_found_where_the_text_is_as_exact(found_in: Found, gold: str, text: str, covered: bool) -> None:
    assert found_in[gold].share_in(found_in[text]) == float(covered)


@pytest.fixture(scope="module")
def found_in() -> Found:
    """The content of each text above, of all in one call: each call makes a table of LanceDB."""
    texts = [text for case in (*WORDS, *DATES, *COVERED) for text in case if isinstance(text, str)]
    return dict(zip(texts, contents(texts), strict=True))


def test_share_counts_words_numbers_and_dates_alike() -> None:
    gold, said, nothing = contents(["two red boats in June 2023", "A boat, 2 kites, on 5 June 2023", "the"])
    # 2, boat and June, not red.
    assert gold.share_in(said) == pytest.approx(3 / 4)
    assert gold.share_in(gold) == 1.0
    assert gold.share_in(nothing) == 0.0
    assert math.isnan(nothing.share_in(gold))


def test_contents_of_a_text_do_not_depend_on_the_others() -> None:
    texts = ["Two boats", "昨天 in June", "boats"]
    assert contents(texts) == [found for text in texts for found in contents([text])]
    assert contents([]) == []


PIECES = st.sampled_from([*"0123456789-./ 年月日一十,", "may", "june", " of ", " before ", "week", " ago", "last "])


@settings(max_examples=20)
@given(st.lists(st.lists(PIECES, max_size=60).map("".join), max_size=20))
def test_contents_and_dates_take_any_text(texts: list[str]) -> None:
    for text, found in zip(texts, contents(texts), strict=True):
        share = found.share_in(found._replace(dates=found.dates | dates_said(text, NOW)))
        assert share == 1.0 or (math.isnan(share) and found == Content(frozenset(), frozenset()))


@pytest.mark.parametrize("time", [0, 253_402_300_799_999, -1, 10**18])
def test_dates_said_at_the_ends_of_the_calendar_are_no_error(time: int) -> None:
    text = "in 900 years, 999 months ago, last week, yesterday, June 9, 999 days from now"
    assert bool(dates_said(text, time)) == (time == 0)
