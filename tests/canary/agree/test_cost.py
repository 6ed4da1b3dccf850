"""What blocks do to a provider's prompt cache, on made requests with values worked out by hand, and on real usage.

A text of ``n`` ASCII letters has ``n // 4 + 1`` tokens, so ``"a" * 39`` has 10 and ``"b" * 19`` has 5.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lab.base.errors import UnusableInput
from lab.canary.agree.cost import (
    BEFORE,
    END,
    MARKED,
    NO_BLOCK,
    NONE,
    SYSTEM,
    Block,
    Prices,
    PromptCost,
    Row,
    Session,
    cost_of,
    prompt_cost,
    read_prices,
    sent_in,
)
from lab.canary.agree.logged import Logged
from lab.canary.agree.prompt import Usage, calls_of, usage_of
from lab.recordings.openclaw import read_branches
from lab.recordings.openclaw.entries import Entry

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory

FREE = Prices("EUR", 2.0, 0.5, 2.5, 10.0, least=0, step=1)


class Log(list[Entry]):
    """The entries of a session."""

    def put(self, kind: str, **value: Any) -> None:
        """Add an entry; its id is its number."""
        name = str(len(self))
        self.append(Entry(len(self) + 1, name, {"type": kind, "id": name, **value}, name))

    def user(self, text: str, **fields: Any) -> None:
        """Add a user's message."""
        self.put("message", message={"role": "user", "content": text}, **fields)

    def agent(self, text: str, prompt: int | None = None, *, calls: str | None = None, **fields: Any) -> None:
        """Add an answer, which the provider counted as ``prompt`` tokens and 7 of output."""
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        content += [{"type": "toolCall", "id": "c", "name": calls, "arguments": {}}] if calls else []
        usage = {"usage": {"input": prompt, "output": 7, "cacheRead": 0, "cacheWrite": 0}} if prompt else {}
        self.put("message", message={"role": "assistant", "content": content, **usage}, **fields)

    def tool(self, text: str) -> None:
        """Add a tool's result."""
        self.put("message", message={"role": "toolResult", "content": text})


def two_turns(prompt: int | None = None) -> Log:
    """Two turns of 10 tokens, the first answered with 5."""
    log = Log()
    log.user("a" * 39)
    log.agent("b" * 19, prompt and prompt + 30)
    log.user("c" * 39)
    log.agent("d" * 19, prompt and prompt + 45)
    return log


def cost(log: Log, present: dict[str, Block], prices: Prices | None = FREE, trailing: int = 0) -> PromptCost:
    """Return the cost of one session, whose candidate injects nothing."""
    blocks = {"present": {"s": present}, "candidate": {"s": dict.fromkeys(present, NO_BLOCK)}}
    found = cost_of({"s": Session(sent_in(log), trailing)}, blocks, ("present", "candidate"), prices)
    assert found is not None
    return found


def row(found: PromptCost, configuration: str, place: str) -> Row:
    (one,) = (row for row in found.rows if (row.configuration, row.place) == (configuration, place))
    return one


def means(one: Row) -> tuple[float | None, ...]:
    """The means of kept, prompt and cached tokens, the latter two as sums of both turns."""
    assert one.prompt is not None
    assert one.cached is not None
    return (one.kept.mean if one.kept else None), 2 * one.prompt.mean, 2 * one.cached.mean


def total(one: Row) -> float:
    """Return the cached tokens of three turns."""
    assert one.cached is not None
    return round(3 * one.cached.mean, 6)


A, B = Block("a", 20, 0), Block("b", 20, 8)


@pytest.mark.parametrize(
    ("place", "second", "kept", "cached"),
    [
        # The user's first message is sent again without its block, so nothing behind its beginning is equal.
        (BEFORE, B, 0 / 45, 0),
        # All that stood before the block: the first message.
        (END, B, 10 / 45, 10),
        # The first 8 of the tokens of both blocks are equal.
        (SYSTEM, B, 8 / 45, 8),
        # The same block, and the first message behind it.
        (SYSTEM, A, 30 / 45, 30),
    ],
)
def test_prefix_ends_where_the_block_of_the_turn_before_stood(
    place: str, second: Block, kept: float, cached: int
) -> None:
    found = cost(two_turns(), {"0": A, "2": second})
    assert (found.turns, found.calls, found.fixed) == (2, 2, None)
    # 10 + 20 tokens, then 10 + 5 + 10 + 20.
    assert means(row(found, "present", place)) == pytest.approx((kept, 30 + 45, cached))


def test_prefix_without_recall_is_the_whole_prompt_before() -> None:
    found = cost(two_turns(), {"0": A, "2": B})
    assert means(row(found, NONE, NONE)) == pytest.approx((10 / 25, 10 + 25, 10))
    assert means(row(found, "candidate", BEFORE)) == means(row(found, NONE, NONE))
    assert found.change.kept is not None
    assert found.change.kept.mean == pytest.approx(10 / 25 - 0)


def test_message_with_a_time_keeps_it_before_the_block() -> None:
    log = Log()
    log.user("a" * 39, timestamp="2026-11-29T06:56:10Z")
    log.agent("b" * 19)
    log.user("c" * 39)
    log.agent("d" * 19)
    first, _ = calls_of(log)
    assert first.messages[0].text == f"[Sun 2026-11-29 06:56 UTC] {'a' * 39}"
    # 27 characters of 66 have 7 tokens of 17.
    assert [(sent.before, sent.end) for sent in sent_in(log)] == [(7, 17), (22, 32)]
    assert means(row(cost(log, {"0": A, "2": B}), "present", BEFORE))[0] == pytest.approx(7 / 52)


def test_usage_gives_the_length_of_tools_and_system_prompt() -> None:
    found = cost(two_turns(1000), {"0": A, "2": B}, trailing=40)
    # The second prompt is 15 tokens longer, as estimated.
    assert (found.fixed, found.ratio) == (1000, 1.0)
    assert found.reported == Usage(1000 + 30 + 1000 + 45, 0, 0, 14)
    # What stands last in every request is in no prefix.
    assert means(row(found, "present", BEFORE)) == pytest.approx((960 / 1045, 2075, 960))
    assert means(row(found, "present", END)) == pytest.approx((970 / 1045, 2075, 970))
    # A provider with steps of 128 tokens reads 7 of them, and none if it must be 1,024.
    stepped = Prices("EUR", 1, 1, 1, 1, least=128, step=128)
    assert means(row(cost(two_turns(1000), {"0": A, "2": B}, stepped, 40), "present", END))[2] == 896
    assert means(row(cost(two_turns(1000), {"0": A, "2": B}, None, 40), "present", END))[2] == 0


def test_each_session_has_the_length_that_its_usage_gives() -> None:
    logs = {"a": two_turns(1000), "b": two_turns(3000), "c": two_turns(3000), "d": two_turns()}
    blocks = {arm: {name: {"0": A, "2": B} for name in logs} for arm in ("p", "c")}
    found = cost_of({name: Session(sent_in(log)) for name, log in logs.items()}, blocks, ("p", "c"), FREE)
    assert found is not None
    # Where no usage gives it, it is that of most sessions. Sessions of another length do not change the ratio.
    assert (found.fixed, found.ratio, found.without_usage) == (3000, 1.0, 2)
    prompt = row(found, "p", BEFORE).prompt
    assert prompt is not None
    assert 8 * prompt.mean == pytest.approx(2 * (1000 + 3000 + 3000 + 3000) + 4 * (30 + 45))


def test_price_of_a_thousand_turns() -> None:
    found = cost(two_turns(1000), {"0": A, "2": B})
    present, none = row(found, "present", BEFORE).price, row(found, NONE, NONE).price
    assert present is not None
    assert none is not None
    # 2,075 tokens, of which 1,000 are read from the cache, and 14 of output; then 2,035, of which 1,010 are.
    assert present.mean == pytest.approx((1075 * 2.0 + 1000 * 0.5 + 14 * 10.0) / 2 / 1000)
    assert none.mean == pytest.approx((1025 * 2.0 + 1010 * 0.5 + 14 * 10.0) / 2 / 1000)
    assert cost(two_turns(), {"0": A, "2": B}, None).change.price is None


def test_marked_cache_reads_nothing_behind_a_changed_mark() -> None:
    marked = Prices("EUR", 2.0, 0.5, 2.5, 10.0, cache=MARKED, least=0, step=1)
    found = cost(two_turns(1000), {"0": A, "2": B}, marked)
    before, none = row(found, "present", BEFORE), row(found, NONE, NONE)
    assert means(before)[1:] == pytest.approx((2075, 1000))
    assert means(none)[1:] == pytest.approx((2035, 1010))
    # Everything that is not read is written.
    assert before.written is not None
    assert 2 * before.written.mean == pytest.approx(2075 - 1000)
    # The provider read less, so the host's first mark is not at the end of the system prompt.
    log = two_turns(1000)
    log[3].value["message"]["usage"] |= {"input": 245, "cacheRead": 800}
    found = cost(log, {"0": A, "2": B}, marked)
    assert means(row(found, "present", BEFORE))[1:] == pytest.approx((2075, 800))
    assert means(row(found, NONE, NONE))[1:] == pytest.approx((2035, 1010))


def three_turns() -> Log:
    log = two_turns(1000)
    log.user("e" * 39)
    log.agent("f" * 19, 1060)
    return log


def test_earlier_request_than_the_last_is_read_where_it_has_more_in_common() -> None:
    marked = Prices("EUR", 2.0, 0.5, 2.5, 10.0, cache=MARKED, least=0, step=1)
    # The third system prompt is the first one's, which was sent with 10 tokens of messages behind it.
    found = cost(three_turns(), {"0": A, "2": B, "4": A}, marked)
    assert total(row(found, "present", SYSTEM)) == 1000 + (1000 + 20 + 10)
    # The first turn has no block, so its prompt is the longest marked one that does not change.
    found = cost(three_turns(), {"0": NO_BLOCK, "2": A, "4": B}, marked)
    assert total(row(found, "present", BEFORE)) == (1000 + 10) + (1000 + 10)
    # Only what is read after a block tells where the first mark is.
    log = three_turns()
    log[3].value["message"]["usage"] |= {"input": 125, "cacheRead": 900}
    log[5].value["message"]["usage"] |= {"input": 15, "cacheRead": 1025}
    assert total(row(cost(log, {"0": A, "2": NO_BLOCK, "4": NO_BLOCK}, marked), "present", BEFORE)) == 900 + 1025


def test_message_that_stands_last_is_not_written_to_the_cache() -> None:
    marked = Prices("EUR", 2.0, 0.5, 2.5, 10.0, cache=MARKED, least=0, step=1)
    found = row(cost(two_turns(1000), {"0": A, "2": B}, marked, trailing=40), "present", BEFORE)
    assert found.written is not None
    assert 2 * found.written.mean == pytest.approx((1030 - 40) + (1045 - 40 - 960))


def test_answer_that_failed_and_reply_of_the_host_are_not_sent() -> None:
    log = Log()
    log.user("a" * 39)
    log.agent("b" * 19)
    log[1].value["message"]["stopReason"] = "error"
    log.put("message", message={"role": "assistant", "model": "gateway-injected", "content": "x"})
    log.agent("d" * 19)
    assert [sent.end for sent in sent_in(log)] == [10, 10]


def test_message_that_has_its_time_gets_no_other() -> None:
    log = Log()
    log.user("[Sun 2026-11-29 06:56 UTC] hello", timestamp="2026-11-29T06:57:10Z")
    log.agent("b" * 19)
    (call,) = calls_of(log)
    assert call.messages[0].text == "[Sun 2026-11-29 06:56 UTC] hello"


class Run:
    """A run of one conversation, as far as its blocks are read."""

    conversations = ("s",)

    def read_receipts(self, _conversation: str, columns: tuple[str, ...]) -> pa.Table:
        rows = [("p", "s/s/0", "a", 20, None), ("c", "s/s/0", "b", 10, None)]
        return pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True)))


def test_host_that_calls_the_engine_twice_sends_two_blocks(tmp_path: Path) -> None:
    log = two_turns()
    lines = [{"type": "session", "version": 3, "id": "s"}, *(entry.value for entry in log)]
    (tmp_path / "s.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines), "utf-8")
    for blocks, tokens in ((1, 20), (2, 40)):
        live = {"s/s/0": Logged(0, None, "", {}, blocks)}
        found = prompt_cost(tmp_path, cast("RunDirectory", Run()), live, ("p", "c"))
        assert found is not None
        assert (found.turns, found.calls) == (1, 1)
        prompt, other = row(found, "p", BEFORE).prompt, row(found, "c", BEFORE).prompt
        assert prompt is not None
        assert other is not None
        assert (prompt.mean, other.mean) == (10 + tokens, 10 + tokens / 2)


def test_calls_within_a_turn_read_the_block() -> None:
    log = Log()
    log.user("a" * 39)
    log.agent("", calls="now")
    log.tool("e" * 19)
    log.agent("b" * 19)
    found = cost(log, {"0": A})
    assert (found.turns, found.calls) == (1, 2)
    one = row(found, "present", BEFORE)
    # 30 tokens, then 30 + 2 ("now{}") + 5.
    assert (one.prompt and one.prompt.mean, one.cached and one.cached.mean, one.kept) == (67, 30, None)


def test_cache_that_was_not_used_for_its_minutes_is_empty() -> None:
    log = two_turns()
    for at, time in ((1, "2026-11-29T06:00:00Z"), (3, "2026-11-29T06:10:00Z")):
        log[at].value["timestamp"] = time
    for minutes, cached in ((9.9, 0), (10, 10)):
        prices = Prices("EUR", 1, 1, 1, 1, least=0, step=1, minutes=minutes)
        assert means(row(cost(log, {"0": A, "2": B}, prices), NONE, NONE))[2] == cached


def test_compaction_and_reset_begin_the_messages_anew() -> None:
    log = two_turns(1000)
    # What the host writes around a summary has 107 characters.
    log.put("compaction", summary="s" * 12, firstKeptEntryId="2")
    log.user("f" * 39)
    log.agent("g" * 19, 1075)
    log.put("reset")
    log.user("h" * 39)
    log.agent("i" * 19, 1030)
    calls = list(calls_of(log))
    assert [len(call.messages) for call in calls[-1:]] == [1 + 1]
    sent = sent_in(log)
    # The summary, the second turn with its answer, and the new one; then only the new one.
    assert [(one.session, one.part, one.end) for one in sent] == [(0, 0, 10), (0, 0, 25), (0, 1, 55), (1, 2, 10)]
    blocks = dict.fromkeys(("0", "2", "5", "8"), A)
    found = row(cost(log, blocks, FREE), NONE, NONE)
    assert found.kept is not None
    # The last turn is the first of its session.
    assert found.kept.mean == pytest.approx((1010 / 1025 + 1000 / 1055) / 2)


@pytest.mark.parametrize("bad", [None, -1, 3.5, True, "3"])
def test_usage_that_is_no_count_is_left_out(bad: object) -> None:
    good = {"input": 5, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    assert usage_of({"usage": good}) == Usage(5, 0, 0, 1)
    assert usage_of({"usage": good | {"cacheRead": bad}}) is None
    assert usage_of({"usage": {"input": 5, "output": 1}}) is None
    assert usage_of({"usage": good | {"input": 0}}) is None
    assert usage_of({"usage": bad}) is None
    log = two_turns(1000)
    log[3].value["message"]["usage"]["input"] = bad
    found = cost(log, {"0": A, "2": B})
    assert (found.without_usage, found.fixed, found.reported.prompt) == (1, 1000, 1030)


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 0, "output_tokens": 1},
        {"prompt_tokens": 12, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 7}},
        {"input_tokens": 12, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 7}},
        {"input": 5, "cacheRead": 7, "output": 1},
    ],
)
def test_usage_is_read_under_the_names_of_providers(usage: dict[str, Any]) -> None:
    assert usage_of({"usage": usage}) == Usage(5, 7, 0, 1)


def test_usage_with_more_cached_tokens_than_the_prompt_is_left_out() -> None:
    usage = {"prompt_tokens": 6, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 7}}
    assert usage_of({"usage": usage}) is None


def test_session_without_a_call_has_no_cost() -> None:
    log = Log()
    log.user("a" * 39)
    blocks: dict[str, dict[str, dict[str, Block]]] = {arm: {"s": {"0": A}} for arm in ("p", "c")}
    assert cost_of({"s": Session(sent_in(log))}, blocks, ("p", "c"), None) is None


GOOD = {"currency": "EUR", "input": 2, "cached": 0.5, "write": 2.5, "output": 10}


def test_prices_are_read_from_json_and_toml(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(GOOD), "utf-8")
    (tmp_path / "p.toml").write_text(
        'currency = "EUR"\ninput = 2\ncached = 0.5\nwrite = 2.5\noutput = 10\ncache = "marked"\nminutes = 5\n', "utf-8"
    )
    assert read_prices(tmp_path / "p.json") == Prices("EUR", 2, 0.5, 2.5, 10, least=1024, step=128)
    assert read_prices(tmp_path / "p.toml") == Prices("EUR", 2, 0.5, 2.5, 10, MARKED, 1024, 1, 5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"input": "2"}, "input: expected a number, found a string"),
        ({"cached": -0.1}, "cached: expected 0 to 1,000,000,000, found -0.1"),
        ({"output": True}, "output: expected a number"),
        ({"write": float("nan")}, "write: expected 0 to 1,000,000,000, found nan"),
        ({"minutes": 10**400}, "minutes: expected 0 to 1,000,000,000, found 1000"),
        ({"currency": " "}, "currency: expected text"),
        ({"currency": "E\nU"}, "currency: has a line break"),
        ({"cache": "lru"}, "cache: expected 'prefix' or 'marked', found 'lru'"),
        ({"step": 0}, "step: expected 1 to 1,000,000,000, found 0"),
        ({"least": 1.5}, "least: expected a whole number"),
        ({"inputs": 1}, "unknown key 'inputs'"),
    ],
)
def test_bad_prices_are_refused_with_file_and_key(tmp_path: Path, change: dict[str, object], says: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(GOOD | change), "utf-8")
    with pytest.raises(UnusableInput) as raised:
        read_prices(file)
    assert str(raised.value).startswith(f"{file}: {says}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", list(GOOD))
def test_prices_without_a_key_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({key: value for key, value in GOOD.items() if key != name}), "utf-8")
    with pytest.raises(UnusableInput, match=f"has no {name}; it needs currency, input"):
        read_prices(file)


@pytest.mark.parametrize("text", ["[]", "3", "{", "null"])
def test_prices_that_are_no_object_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text, "utf-8")
    with pytest.raises(UnusableInput, match=r"prices\.json"):
        read_prices(file)


@pytest.mark.parametrize("release", ["2026.9.6", "2026.6.11"])
def test_usage_fields_of_a_host_are_read(shared: Callable[..., Path], release: str) -> None:
    home = shared("live", f"sessions-{release}")
    calls = [call for branch in read_branches(home) for call in calls_of(branch.entries)]
    counted = [call.usage for call in calls if call.usage is not None]
    assert len(counted) > 10
    # The stub counted each prompt as 100 tokens and each answer as 20, and had no cache.
    assert set(counted) == {Usage(100, 0, 0, 20)}
