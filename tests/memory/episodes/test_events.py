"""Events: guards, bounds, search text and ids (EP-2 to EP-4)."""

from __future__ import annotations

import json

import pytest

from lab.memory.episodes.events import (
    SEARCH_TEXT,
    Event,
    Source,
    clean,
    event_id,
    make_event,
    search_text,
)

KEY = "sk-" + "a1B2" * 8


def event(summary: str = "s", *, type: str = "conversation.user", **options: object) -> Event:  # noqa: A002 - the field's name
    return make_event(Source("e1", 1, "Fin Life", "s1", "main", type), summary, **options)  # type: ignore[arg-type] - options are checked by the function


def test_event_with_secrets_replaces_them_everywhere() -> None:
    made = event(f"key {KEY}", payload={"text": f"it is {KEY}", "to": ["bob@example.com"]}, refs={"path": KEY})
    assert KEY not in "".join(map(str, made))
    assert "bob@example.com" not in "".join(map(str, made))
    assert "[REDACTED_EMAIL]" in made.search_text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "hunter2secretvalue"),
        ("password", "the old mill"),
        ("api_key", "abcdef1234567890abcdef1234567890"),
        ("client_secret", "s3cr3tS3cr3tS3cr3tS3cr3t"),
        ("Authorization", "digest abcdefgh12345678"),
        ("密碼", "kettle99"),
        ("pin", 482913),
    ],
)
def test_value_that_is_a_secret_by_its_key_is_replaced(key: str, value: str | int) -> None:
    made = event(payload={key: value, "in": [{key: [value]}]}, refs={key: value})
    assert str(value) not in "".join(map(str, made))
    assert json.loads(made.payload_json or "") == {key: "[REDACTED]", "in": [{key: ["[REDACTED]"]}]}


def test_value_whose_key_names_no_secret_stays() -> None:
    payload = {"max_tokens": 4096, "password": None, "has_password": True, "secretary": "ann2 smith", "token": "tea"}
    assert json.loads(event(payload=payload).payload_json or "") == payload


def test_keys_are_cleaned_and_keep_their_values() -> None:
    keys = ("alice@example.com", "bob@example.com", "+1 555 123 4567", "ghp_abcdefghijklmnopqrstuvwxyz0123456789")
    made = event(payload=dict.fromkeys(keys, "x"), refs={"carol@example.com": 1})
    assert not any(key in "".join(map(str, made)) for key in (*keys, "carol"))
    assert list(json.loads(made.payload_json or "")) == [
        "[REDACTED]",
        "[REDACTED_EMAIL]",
        "[REDACTED_EMAIL] 2",
        "[REDACTED_PHONE]",
    ]


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("call 415-555-2671 now", True),
        ("call (415) 555-2671 now", True),
        ("+44 20 7946 0958", True),
        ("+4915112345678", True),
        ("on 2026-11-23 19:02:11", False),
        ("order 1234567890", False),
        ("version 1.22.333.4444", False),
        ("2 + 3 = 5", False),
    ],
)
def test_clean_replaces_telephone_numbers_not_dates(text: str, replaced: bool) -> None:
    assert ("[REDACTED_PHONE]" in clean(text)) == replaced


def test_event_normalizes_its_scope() -> None:
    assert (event().scope, make_event(Source("e", 1, None, "s", "a", "ops.alert"), "x").scope) == ("fin-life", "global")


def test_payload_loses_keys_of_output() -> None:
    made = event(
        type="tool.result",
        payload={"stdout": "a", "raw_log": "b", "code": 0, "in": {"stderr": "c", "k": "v"}}
        | {"command_output": "d", "tool_output": {"e": "f"}},
    )
    assert json.loads(made.payload_json or "") == {
        "_redacted_output_fields": 4,
        "code": 0,
        "in": {"_redacted_output_fields": 1, "k": "v"},
    }


def test_payload_that_looks_like_tool_output_is_dropped() -> None:
    made = event("seen", payload={"text": "Traceback (most recent call last)"})
    assert (made.payload_json, made.redacted, made.search_text) == (None, 1, "seen")


@pytest.mark.parametrize(
    ("kind", "limit"), [("conversation.user", 4096), ("conversation.assistant", 4096), ("tool.call", 8192)]
)
def test_payload_over_its_cap_keeps_a_preview(kind: str, limit: int) -> None:
    text = "x" * (limit - len('{"text":""}'))
    assert json.loads(event(type=kind, payload={"text": text}).payload_json or "") == {"text": text}
    cut = json.loads(event(type=kind, payload={"text": text + "y"}).payload_json or "")
    assert (cut["_truncated"], cut["original_bytes"], len(cut["preview"])) == (True, limit + 1, 256)


def test_refs_over_their_cap_keep_a_preview() -> None:
    assert json.loads(event(refs={"path": "x" * 5000}).refs_json or "")["reason"] == "refs_cap"


def test_search_text_has_each_fragment_once() -> None:
    made = event("a  b", payload={"z": "last", "text": "a b", "n": [3, True, None]}, refs={"path": "p"})
    assert made.search_text == "a b\n3\nlast\np"


def test_search_text_splits_long_fragments_between_words() -> None:
    made = search_text([" ".join(f"w{number}" for number in range(2000))])
    lines = made.split("\n")
    assert len(made) <= SEARCH_TEXT
    assert max(map(len, lines)) <= 400
    assert " ".join(lines).startswith("w0 w1 w2")


def test_event_takes_what_sqlite_cannot_hold() -> None:
    made = event("a\ud800b\0c", payload={"text": "\ud800"})
    assert made.summary == "a\ufffdb\ufffdc"
    assert "".join(map(str, made)).encode()


def test_event_id_depends_on_each_part() -> None:
    assert event_id("a", "b") == event_id("a", "b")
    assert len({event_id("a", "b"), event_id("ab", ""), event_id("b", "a")}) == 3
    assert len(event_id("a")) == len("ep-") + 32
