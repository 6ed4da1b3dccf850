"""The log, the observer, the reflector, and the window that they make together."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.base.errors import UnusableInput
from lab.base.times import LAST_MS
from lab.base.token_estimate import tokens
from lab.recordings.model import LABELS, MUST, NICE, UNKNOWN
from lab.systems.observations.log import MINUTE_MS, Observation, folded, parse_line
from lab.systems.observations.observer import LONGEST, Entry, observe, observer_of
from lab.systems.observations.window import KEPT, Sizes, Window, block_of, reflect, size_of_buffer, size_of_log

AT = 1_793_615_460_000  # 2026-11-02T10:31Z
SIZES = Sizes(160, 40)


def entry(number: int, text: str) -> Entry:
    return Entry(f"c/s/t{number}#0", text, AT + number * MINUTE_MS, (f"c/s/t{number}",))


def observation(number: int, label: str = UNKNOWN, text: str = "Basil grows", due_ms: int | None = None) -> Observation:
    return Observation(f"c/s/t{number}", AT + number * MINUTE_MS, label, text, (f"c/s/t{number}",), due_ms)


def test_line_of_the_log_has_time_importance_text_and_source() -> None:
    assert observation(0, MUST, "Never prune basil").line == "2026-11-02T10:31Z [must] Never prune basil (c/s/t0)"
    plan = observation(0, NICE, "Prune", AT + MINUTE_MS)
    assert plan.line == "2026-11-02T10:31Z [nice, due 2026-11-02T10:32Z] Prune (c/s/t0)"


@given(
    st.integers(0, LAST_MS // MINUTE_MS),
    st.sampled_from(LABELS),
    st.text(min_size=1).map(folded).filter(bool),
    st.lists(st.text(st.characters(codec=None), min_size=1), min_size=1, max_size=3),
    st.none() | st.integers(0, LAST_MS // MINUTE_MS),
)
@example(0, NICE, "Prune", ["a"], 0)
def test_parse_line_returns_what_was_written(
    at: int, label: str, text: str, sources: list[str], due: int | None
) -> None:
    written = Observation(
        sources[0], at * MINUTE_MS, label, text, tuple(sources), None if due is None else due * MINUTE_MS
    )
    assert len(written.line.splitlines()) == 1
    assert written.line.encode()
    assert parse_line(written.line) == written


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# observed",
        "2026-11-02T10:31Z [must] no source",
        "2026-11-02 [must] x (a)",
        "2026-11-02T10:31Z [vital] x (a)",
        "2026-13-02T10:31Z [must] x (a)",
        "2026-11-02T10:31Z [must, due 2026-02-30T10:31Z] x (a)",
    ],
)
def test_parse_line_of_another_line_is_none(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("We decided  to\nkeep basil.", (NICE, "We decided to keep basil.")),
        ("Basil must never be pruned: we decided.", (MUST, "Basil must never be pruned: we decided.")),
        # A question beside a statement stays, one alone does not.
        ("I grow basil. And you?", ("ignore", "I grow basil. And you?")),
        ("And you, what do you grow?", None),
        ("要用哪一個網關？", None),
        ("thanks, got it", None),
        ("The token is ghp_abcdefghijklmnopqrstuvwxyz0123456789", None),
        # Its grade alone would keep it.
        ("We decided: never change the gate's password: hunter2", None),
        ("  \n ", None),
        ("", None),
    ],
)
def test_observe_keeps_statements_with_their_importance(text: str, kept: tuple[str, str] | None) -> None:
    made = observe(entry(0, text))
    assert (made and (made.label, made.text)) == kept


def test_observe_long_text_is_an_extract_of_the_most_important_sentences() -> None:
    text = " ".join([*(f"Sentence number {n} is about basil." for n in range(20)), "We decided to never prune it."])
    made = observe(entry(0, text))
    assert made is not None
    assert len(made.text) <= LONGEST
    assert made.text.startswith("Sentence number 0")
    assert made.text.endswith("We decided to never prune it.")
    endless = observe(entry(0, "basil" * 200_000))
    assert endless is not None
    assert len(endless.text) == LONGEST


def test_observe_plan_has_a_due_time() -> None:
    made = observe(entry(0, "Prune the basil by 2026-11-20"))
    assert made is not None
    assert made.line == "2026-11-02T10:31Z [ignore, due 2026-11-20T23:59Z] Prune the basil by 2026-11-20 (c/s/t0)"


def test_reflect_prunes_past_plans_then_the_least_important_longest_and_oldest() -> None:
    log = [observation(1, MUST, due_ms=AT), observation(2), observation(3, NICE, "x" * 99), observation(4)]
    log += [observation(5, text="x" * 50), observation(6), observation(7, MUST)]
    order = ["c/s/t1", "c/s/t5", "c/s/t2", "c/s/t4", "c/s/t6", "c/s/t3", "c/s/t7"]
    for room in range(2, 7):
        kept = [one.key for one in reflect(log, room, AT + 9 * MINUTE_MS, len)]
        assert kept == sorted(order[-int(KEPT * room) :])
    assert reflect(log, 7, AT, len) == log


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.integers(1, 60)), max_size=30), st.integers(0, 200))
def test_reflect_prunes_no_more_than_needed(parts: list[tuple[str, int]], room: int) -> None:
    log = [observation(number, label, "x" * length) for number, (label, length) in enumerate(parts)]
    kept = reflect(log, room, AT, size_of_log)
    assert [one for one in log if one in kept] == kept
    assert size_of_log(kept) <= room
    if len(kept) < len(log):
        assert size_of_log(kept) <= KEPT * room


@given(
    st.lists(st.text(st.sampled_from("ab .?\n<決é"), max_size=300), max_size=40), st.sampled_from([16, 64, 160, 900])
)
def test_window_block_is_within_budget_and_loses_no_entry(texts: list[str], budget: int) -> None:
    sizes = Sizes(budget, budget // 4)
    window, observed = Window(sizes, observe), []
    added = [entry(number, text) for number, text in enumerate(texts)]
    for one in added:
        observed += window.add(one).observed
        assert size_of_buffer(window.buffer) <= sizes.buffer or not window.buffer
        assert size_of_log(window.log) <= sizes.log
        assert tokens(block_of([window], sizes, 100, AT).text) <= budget
    # Every entry was observed once or is in the buffer, in order.
    assert [*observed, *window.buffer] == [one for one in added if one.text.strip()]


def test_window_log_is_a_prefix_of_the_next_between_reflections() -> None:
    window, reflections = Window(Sizes(1200, 300), observe), 0
    texts = [window.log[:]]
    for number in range(300):
        change = window.add(entry(number, f"We keep {number:03} pots of basil on the sill."))
        reflections += bool(change.pruned)
        if not change.pruned:
            assert window.log[: len(texts[-1])] == texts[-1]
        texts.append(window.log[:])
    assert 0 < reflections < sum(before != after for before, after in pairwise(texts))


def test_window_huge_entry_becomes_an_extract_at_once() -> None:
    window = Window(Sizes(1200, 300), observe)
    window.add(entry(0, "small"))
    change = window.add(entry(1, "Basil is green. " * 65_536))
    assert [one.key for one in change.observed] == ["c/s/t0#0", "c/s/t1#0"]
    assert window.buffer == []
    assert max(len(one.text) for one in window.log) <= LONGEST


def test_block_leaves_out_past_plans() -> None:
    window = Window(SIZES, observe, [observation(0, MUST, "Prune", AT), observation(1, MUST, "Water")])
    assert "Prune" in block_of([window], SIZES, 100, AT).text
    assert "Prune" not in block_of([window], SIZES, 100, AT + 1).text


def test_block_leaves_past_plans_out_of_the_buffer() -> None:
    window = Window(SIZES, observe)
    window.add(entry(0, "Prune")._replace(due_ms=AT))
    assert "Prune" in block_of([window], SIZES, 100, AT).text
    assert "Prune" not in block_of([window], SIZES, 100, AT + 1).text


def test_block_of_several_windows_is_ordered_by_time() -> None:
    windows = [
        Window(SIZES, observe, [observation(at, text=f"Number {at}") for at in (first, first + 2)]) for first in (0, 1)
    ]
    assert [one.text for one in block_of(windows, SIZES, 100, AT).log] == [f"Number {at}" for at in range(4)]


def write(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def test_recorded_output_replaces_the_rules(tmp_path: Path) -> None:
    recorded = observer_of(
        write(
            tmp_path,
            '{"entry": "c/s/t0", "text": "Ann\\nkeeps basil", "importance": 0.9, "sources": ["c/s/t0", "c/s/t1"]}',
            '{"entry": "c/s/t1", "text": ""}',
            '{"entry": "c/s/t2", "text": "Ann prunes", "importance": "unknown"}',
        )
    )
    made = [recorded(entry(number, "anything")) for number in range(3)]
    assert [one and one.line for one in made] == [
        "2026-11-02T10:31Z [must] Ann keeps basil (c/s/t0 c/s/t1)",
        None,
        "2026-11-02T10:33Z [unknown] Ann prunes (c/s/t2)",
    ]
    with pytest.raises(UnusableInput, match=r"outputs\.jsonl: has no line for c/s/t3; record the observer's outputs"):
        recorded(entry(3, "of another recording"))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not valid JSON|JSON"),
        ("[]", "expected an object|object"),
        ('{"text": "x"}', "'entry'"),
        ('{"entry": "a", "text": 5}', "'text'"),
        ('{"entry": "a", "text": "x", "importance": 2}', "'importance': expected a number from 0 to 1"),
        ('{"entry": "a", "text": "x", "importance": "vital"}', "'importance'"),
        ('{"entry": "a", "text": "x", "importance": true}', "'importance'"),
        ('{"entry": "a", "text": "x", "sources": [5]}', "'sources'"),
        ('{"entry": "a", "text": "x", "sources": [""]}', "'sources': a key is blank"),
        ('{"entry": "a", "text": "x", "level": 1}', "'level'"),
        ('{"entry": "a", "text": "' + "x" * 2001 + '"}', "2001 characters; at most 2000"),
        ('{"entry": "a", "text": "x"}\n{"entry": "a", "text": "y"}', ":2: entry 'a' occurs twice"),
    ],
)
def test_recorded_output_that_is_not_valid_is_refused(tmp_path: Path, line: str, what: Any) -> None:
    with pytest.raises(UnusableInput, match=what):
        observer_of(write(tmp_path, line))


def test_block_with_more_lines_than_it_may_have_keeps_the_buffer() -> None:
    window = Window(Sizes(8000, 1000), observe)
    for at in range(300):
        window.add(entry(at, f"We decided that service {at} must run on port {8000 + at} from now on."))
    block = block_of([window], Sizes(8000, 1000), 100, AT)
    assert len(window.log) > 100
    assert block.buffer == window.buffer
    assert 0 < len(block.buffer) < 100
    assert block.log == window.log[len(block.buffer) - 100 :]
