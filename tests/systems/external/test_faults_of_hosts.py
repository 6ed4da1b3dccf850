"""Faults of a host in a real process: each has a status and a reason, and none of them quotes a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from tests.systems.external.hosting import TEXTS, answers_of, arm_of, faulty, reasons

pytestmark = [pytest.mark.process, pytest.mark.slow]

# Fault -> why the second recall fails. After these the host is dead: all later recalls fail for the same reason.
FINAL = {
    "rubbish": "not_json in recall",
    "blank": "not_json in recall",
    "half": "not_json in recall",
    "half_and_dies": "died in recall at exit 3; half a line",
    "silent": "timed_out in recall at 0.5 s",
    "late": "timed_out in recall at 0.5 s",
    "dies": "died in recall at exit 3",
    "killed": "died in recall at signal 9",
    "closes": "died in recall at stdout closed",
    "other_id": "unknown_id in recall",
    "text_id": "unknown_id in recall",
    "earlier_id": "answered_twice in recall",
    "endless": "line_too_long in recall at 16000000 bytes",
    "huge": "line_too_long in recall at 16000000 bytes",
    "latin": "not_utf8 in recall",
    "null": "no_answer_object in recall",
    "nan": "not_json in recall",
    "deep": "not_json in recall",
    "field": "unknown_field in recall at itmes",
    "type": "bad_result in recall at items",
    "status": "bad_result in recall at status",
    "envelope": "bad_answer in recall",
}
# Fault -> why the second recall fails, and only that.
ONCE = {
    "error": "host_error in recall at WrongDimension",
    "error_with_text": "host_error in recall",
    "unsupported": "host_error in recall at unsupported",
    "unknown": "unknown_item in recall",
    "item_twice": "item_twice in recall",
    "unlisted": "unlisted_memory in recall",
    "unwritten": "unwritten_item in recall",
    "too_many_injected": "injected_out_of_range in recall",
    "no_context": "nothing_injected in recall",
    "writes": "captured_what_was_given in recall",
}
LONG = ("endless", "huge")


@pytest.mark.parametrize("fault", FINAL)
def test_breach_fails_this_and_all_later_recalls(fault: str) -> None:
    answers = answers_of(faulty(fault, seconds=10.0 if fault in LONG else 0.5))
    assert reasons(answers) == [None, *[FINAL[fault]] * 3]
    assert [answer.recall.status for answer in answers] == ["ok", "failed", "failed", "failed"]


@pytest.mark.parametrize("fault", ONCE)
def test_refused_answer_fails_one_recall(fault: str) -> None:
    assert reasons(answers_of(faulty(fault))) == [None, ONCE[fault], None, None]


def test_second_answer_fails_the_next_recall() -> None:
    # Between the recalls a memory is given, and its answer is where the second one is found.
    answers = answers_of(faulty("twice"))
    assert reasons(answers) == [None, None, *["answered_twice in remember"] * 2]
    assert reasons(answers_of(faulty("twice"), turns=2)) == [None, None]


def test_memory_that_is_not_born_yet_fails_its_recall() -> None:
    assert reasons(answers_of(faulty("unborn", "c/s/2#0"))) == [None, "item_not_there in recall", None, None]


def test_survived_fault_is_degraded_with_its_reason() -> None:
    answers = answers_of(faulty("degraded"))
    assert [answer.recall.status for answer in answers] == ["ok", "degraded", "ok", "ok"]
    assert answers[1].recall.receipt["reason"] == "embedder_down"
    assert len(answers[1].recall.items) == 2


def test_full_stderr_blocks_nobody() -> None:
    assert reasons(answers_of(faulty("stderr"))) == [None] * 4


def test_lone_surrogate_of_a_cut_text_is_replaced() -> None:
    answers = answers_of(faulty("surrogate"))
    assert answers[1].recall.context == "cut �"
    assert reasons(answers) == [None] * 4


def test_receipts_quote_no_text() -> None:
    answers = answers_of(faulty())
    assert {answer.recall.receipt["why"] for answer in answers} == {"sha256:70a25c71750dc519"}
    assert [answer.recall.receipt["kept"] for answer in answers] == [1, 2, 3, 3]
    assert [len(answer.recall.items) for answer in answers] == [1, 2, 3, 3]
    assert answers[3].recall.items[0].text == TEXTS[0]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dies_at_start", "died in hello at exit 1; its stderr ends: ModuleNotFoundError: No module named 'bread'"),
        ("rubbish_at_start", "not_json in hello; only answers may be on stdout, everything else belongs on stderr"),
    ],
)
def test_host_that_cannot_say_hello_is_reported_before_the_run(fault: str, message: str) -> None:
    with pytest.raises(CannotMeasure) as caught:
        faulty(fault)
    assert str(caught.value) == f"live.json: the host does not answer hello: {message} (docs/external.md)"


def test_silent_host_is_given_up_in_time() -> None:
    with pytest.raises(CannotMeasure, match=r"timed_out in hello at 0\.3 s; start it, or raise timeouts\.hello"):
        arm_of({"exec": ["sleep", "60"], "timeouts": {"hello": 0.3, "close": 0.1}})


def test_command_that_does_not_exist_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as caught:
        arm_of({"exec": ["no-such-host"]})
    assert str(caught.value) == (
        "live.json: command 'no-such-host' not found; install it, or give the path of an executable file"
    )
    script = tmp_path / "host"
    script.write_text("#!/no/such/interpreter\n", "utf-8")
    script.chmod(0o700)
    with pytest.raises(UnusableInput, match="cannot be started; give an executable file"):
        arm_of({"exec": [str(script)]})


@pytest.mark.parametrize("changed", ['{"version": "2.0"}', '{"cutoff": 0}', '{"protocol": 2}', '{"name": null}'])
def test_host_that_says_hello_differently_is_refused(changed: str) -> None:
    if "version" in changed:
        arm = faulty("hello", changed)
        other = faulty()
        answers = answers_of(type(arm)(arm.name, other.settings, arm.identity))
        assert reasons(answers) == ["other_identity in hello"] * 4
    else:
        with pytest.raises(CannotMeasure, match="bad_result in hello at"):
            faulty("hello", changed)
