"""When a memory is due: by its field, by explicit words of its text, and when that is past."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.times import LAST_MS
from lab.memory.ledger.ledger import Observation
from lab.memory.pack.sources import due_of_observation
from lab.recordings.model import Memory
from lab.systems.plans import due_at_of, due_in, is_past, read_due

END = "T23:59:59.999+00:00"


def ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("Renew the certificate by 2026-11-20.", f"2026-11-20{END}"),
        ("Remind me on 2026-11-20 to call Mira", f"2026-11-20{END}"),
        ("remind us to water the basil at 2026-11-20T09:30Z", "2026-11-20T09:30+00:00"),
        ("On 2026-11-20 remind me of the keys", f"2026-11-20{END}"),
        ("The report is due 2026-11-20 09:30", "2026-11-20T09:30+00:00"),
        ("deadline: 2026-11-20T09:30:00+08:00", "2026-11-20T01:30+00:00"),
        ("no later than 2026-12-24", f"2026-12-24{END}"),
        ("by 2026-11-20T09:30:15.250+0800", "2026-11-20T01:30:15.250+00:00"),
        ("Deadline: 2026-11-20: the report. Or not.", f"2026-11-20{END}"),
        ("2026-11-20前交報告", f"2026-11-20{END}"),
        ("提醒我在2026-11-20打電話", f"2026-11-20{END}"),
        # Of several, the first to come.
        ("by 2026-12-01, the draft by 2026-11-20", f"2026-11-20{END}"),
    ],
)
def test_due_in_explicit_words_return_the_time(text: str, due: str) -> None:
    assert due_in(text, ms("2026-11-01T00:00+00:00")) == ms(due)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The fair is on 2026-11-20",
        "Call Mira tomorrow",
        "by 2026-13-45",
        "by 2026-11-200",
        "by 2026-11-20-3",
        "standby 2026-11-20",
        # Times that cannot be read are not read as others.
        "by 2026-11-20T9:30Z",
        "due 2026-11-20 9:30",
        "by 2026-11-20T09:30+8",
        "by 2026-11-20T09:30:15.25+8",
        "by 2026-11-20T0930Z",
        # It was written later, so it reports the past.
        "The report was finished by 2026-10-20",
    ],
)
def test_due_in_other_text_is_none(text: str) -> None:
    assert due_in(text, ms("2026-11-01T00:00+00:00")) is None


@given(st.text(max_size=80), st.integers(0, LAST_MS))
def test_due_in_any_text_is_after_it_was_written(text: str, written: int) -> None:
    for words in (text, f"by 2026-11-20 {text}", f"by {text} 9999-12-31"):
        due = due_in(words, written)
        assert due is None or written < due <= LAST_MS


def test_is_past_only_after_the_due_time() -> None:
    due = read_due("2026-11-20")
    assert not is_past(due, ms(f"2026-11-20{END}"))
    assert is_past(due, ms("2026-11-21T00:00+00:00"))
    assert not is_past(None, LAST_MS)


@pytest.mark.parametrize("value", [True, -1, None, [], "soon", "2026-02-30", "0001-01-01", LAST_MS + 1])
def test_read_due_of_an_unusable_value_is_none(value: object) -> None:
    assert read_due(value) is None


def test_due_at_of_a_memory_prefers_its_field() -> None:
    plan = Memory("c/s/t#0", "Water the basil by 2026-11-20", "x", 0, 0)
    assert due_at_of(plan) == ms(f"2026-11-20{END}")
    assert due_at_of(Memory("c/s/t#0", plan.text, "x", 0, 0, due_at=5)) == 5
    assert due_at_of(Memory("c/s/t#0", "Basil needs water", "x", 0, 0)) is None


@pytest.mark.parametrize(
    ("kind", "summary", "detail", "due"),
    [
        ("plan", "Water the basil", {"due_at": "2026-11-20"}, f"2026-11-20{END}"),
        ("plan", "Water the basil by 2026-11-20", {}, f"2026-11-20{END}"),
        ("plan", "Water the basil by 2026-11-20", {"due_at": "soon"}, f"2026-11-20{END}"),
        ("Plan ", "Water the basil", {"due_at": "20261120"}, f"2026-11-20{END}"),
        ("plan", "Water the basil", {"due_at": "2026-W47-5"}, f"2026-11-20{END}"),
        ("plan", "Water the basil", {}, None),
        ("plan", "The basil was watered by 2026-10-20", {}, None),
        ("decision", "Water the basil by 2026-11-20", {"due_at": "2026-11-20"}, None),
    ],
)
def test_due_of_observation_is_that_of_plans(kind: str, summary: str, detail: dict[str, str], due: str | None) -> None:
    row = Observation(1, "2026-11-01T10:00:00Z", kind, summary, None, "en", None, json.dumps(detail))
    assert due_of_observation(row) == (None if due is None else ms(due))
