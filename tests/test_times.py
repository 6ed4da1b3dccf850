"""Tests of reading times from outside: every unit, text and type, and the counts of odd ones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.times import (
    LAST_MS,
    MICROSECONDS,
    NANOSECONDS,
    SECONDS,
    Times,
    as_datetime,
    epoch_ms,
    read_time,
    without_arrow_times,
)

AT = 1777886970123  # 2026-05-04T09:29:30.123Z
WHOLE = 1777886970000
# 2000-01-01 to 2100-01-01.
MOMENTS = st.integers(946_684_800_000, 4_102_444_800_000)
EAST = timezone(timedelta(hours=8))


@given(MOMENTS, st.integers(0, 999_999))
def test_number_of_any_unit_gives_the_same_milliseconds(ms: int, rest: int) -> None:
    values: list[object] = [
        *(ms, float(ms), ms / 1000, ms * 1000 + rest // 1000, ms * 1_000_000 + rest, Decimal(ms) / 1000),
        *(as_datetime(ms), as_datetime(ms).astimezone(EAST), as_datetime(ms).replace(tzinfo=None)),
    ]
    texts = [str(value) for value in values if not isinstance(value, datetime)]
    texts += [as_datetime(ms).isoformat(), as_datetime(ms).astimezone(EAST).isoformat()]
    assert [epoch_ms(value) for value in (*values, *texts)] == [ms] * len([*values, *texts])


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-04T09:29:30Z",
        "2026-05-04T09:29:30",
        "2026-05-04t09:29:30z",
        "2026-05-04 09:29:30",
        "2026-05-04 09:29:30 UTC",
        "2026-05-04 09:29:30.000 +0000",
        "2026-05-04T09:29:30,000499Z",
        "2026-05-04T09:29:30.000499999Z",
        "2026-05-04T17:29:30+08:00",
        "2026-05-04T17:29:30+0800",
        "2026-05-04T17:29:30+08",
        "2026-05-04T17:29:30+08:00[Asia/Shanghai]",
        "20260504T092930Z",
        "20260504092930",
        "2026-W19-1T09:29:30Z",
        "Mon, 04 May 2026 09:29:30 +0000",
        "Mon, 4 May 2026 17:29:30 +0800",
        "Mon May  4 09:29:30 2026",
        "Mon May 04 2026 17:29:30 GMT+0800 (China Standard Time)",
        "1777886970",
        " 1777886970000 ",
        "1777886970000000",
        "1.777886970e9",
    ],
)
def test_text_of_any_form_gives_the_same_milliseconds(text: str) -> None:
    assert epoch_ms(text) == WHOLE


def test_date_is_its_midnight_in_utc() -> None:
    midnight = 1777852800000
    assert [epoch_ms(value) for value in (date(2026, 5, 4), "2026-05-04", "20260504")] == [midnight] * 3


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "soon",
        "2026-13-01",
        "25:61",
        float("nan"),
        float("inf"),
        10**400,
        "9" * 5000,
        2.6e14,
        [],
        {},
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59.9996Z",
    ],
)
def test_value_that_is_no_time_gives_none(value: object) -> None:
    assert epoch_ms(value) is None


def test_number_that_no_unit_explains_has_the_declared_one() -> None:
    assert [epoch_ms(5), epoch_ms(5, SECONDS), epoch_ms("-5"), epoch_ms(0.5)] == [5, 5000, -5, 0]
    assert epoch_ms(AT, SECONDS) == AT
    assert [epoch_ms(LAST_MS), epoch_ms(LAST_MS + 1)] == [LAST_MS, None]


def test_zone_and_unit_are_named() -> None:
    zones = [read_time(text) for text in ("2026-05-04T09:29:30", "2026-05-04T09:29:30Z", "1777886970")]
    assert [time and (time.unit, time.zoned) for time in zones] == [(None, False), (None, True), (SECONDS, True)]


@given(st.lists(st.tuples(MOMENTS, st.sampled_from([SECONDS, 1000, MICROSECONDS, NANOSECONDS]))))
def test_mixed_units_of_a_source_are_counted(times: list[tuple[int, int]]) -> None:
    source = Times(now=4_102_444_800_000)
    for ms, unit in times:
        assert source.read(ms // 1000 * unit) == ms // 1000 * 1000
    named = {SECONDS: "seconds", MICROSECONDS: "microseconds", NANOSECONDS: "nanoseconds"}
    expected = {
        f"times in {name} instead of milliseconds, read by their size": count
        for unit, name in named.items()
        if (count := sum(given == unit for _, given in times))
    }
    assert source.counts() == expected


def test_times_before_2000_and_after_tomorrow_are_counted() -> None:
    source = Times(now=AT)
    day = 24 * 3600 * 1000
    for value in (0, "1999-12-31T23:59:59Z", "2000-01-01", AT + day, AT + day + 1, "2999-01-01", None, "soon"):
        source.read(value)
    assert source.counts() == {"times before 2000": 2, "times after tomorrow": 2}


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Shanghai", "+05:30"])
@pytest.mark.parametrize(("unit", "size"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_arrow_timestamp_of_any_unit_and_zone_is_read(unit: str, size: int, zone: str | None) -> None:
    import pyarrow as pa

    values = pa.array([WHOLE // 1000 * size + min(size - 1, 7), None], pa.timestamp(unit, zone))
    batch = without_arrow_times(pa.RecordBatch.from_arrays([values, pa.array(["a", "b"])], ["t", "x"]))
    rows = batch.to_pylist()
    assert [(epoch_ms(row["t"]), row["x"]) for row in rows] == [(WHOLE + (7 if unit == "ms" else 0), "a"), (None, "b")]
    assert rows[0]["t"].astimezone(UTC).year == 2026


def test_arrow_year_that_python_lacks_is_no_time() -> None:
    import pyarrow as pa

    far = pa.array([10**12, -(10**12), 0], pa.timestamp("s"))
    rows = without_arrow_times(pa.RecordBatch.from_arrays([far], ["t"])).to_pylist()
    assert [epoch_ms(row["t"]) for row in rows] == [None, None, 0]
