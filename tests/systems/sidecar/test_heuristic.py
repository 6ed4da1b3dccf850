"""heuristic-v1: the deltas of the rules, their order, and parsing of importance and task markers."""

from __future__ import annotations

import pytest

from lab.systems.sidecar import (
    CALENDAR,
    CHAT,
    DEADLINE,
    DECISION,
    ERROR,
    IDENTIFIERS,
    MENDED,
    NOTHING,
    POLICY,
    SECRET,
    TASK,
    grade_observation,
    graded_label,
    has_task_marker,
    is_importance,
    parse_importance,
    sidecar_label,
    strip_task_prefix,
)


@pytest.mark.parametrize(
    ("summary", "score", "label"),
    [
        ("We decided to use LanceDB", 0.6, "nice_to_have"),
        ("Never push to main without review", 0.7, "nice_to_have"),
        ("We decided: never expose port 18888, see https://x/y", 1.0, "must_remember"),
        ("收到，謝謝", 0.05, "ignore"),
        ("TODO: renew cert by 2026-11-30", 0.6, "nice_to_have"),
        ("Deploy done", 0.1, "ignore"),
        ("openclaw-mem ingest failed: timeout; root cause was the proxy", 0.75, "nice_to_have"),
        ("the ruler is 3cm", 0.7, "nice_to_have"),
        ("prefer dark mode, thanks", 0.45, "ignore"),
        ("plain words", 0.3, "ignore"),
    ],
)
def test_grade_reproduces_the_examples_of_the_specification(summary: str, score: float, label: str) -> None:
    grade = grade_observation({"summary": summary})
    assert (grade.score, grade.label) == (pytest.approx(score), label)


def test_grade_sum_is_not_rounded() -> None:
    assert grade_observation({"summary": "TODO: must finish by 2026-01-02"}).score == 0.9999999999999999


def test_grade_rationale_has_two_reasons_and_one_penalty() -> None:
    grade = grade_observation({"kind": "task", "summary": "always today, thanks"})
    assert (grade.reasons, grade.penalties) == ((POLICY, TASK, DEADLINE), (CHAT,))
    assert grade.rationale == f"{POLICY} {TASK} {CHAT}"
    two = grade_observation({"summary": "sk-1, thanks"})
    assert (two.penalties, two.rationale) == ((SECRET, CHAT), SECRET)
    assert grade_observation({}).rationale == NOTHING


@pytest.mark.parametrize(
    ("observation", "reasons"),
    [
        ({"summary": "we decided"}, (DECISION,)),
        ({"kind": " Task ", "summary": "we decided"}, (TASK,)),
        ({"tool_name": "TODO", "summary": "we decided"}, (TASK,)),
        ({"tool": "chat", "summary": "- [ ] TODO we decided"}, (TASK,)),
        ({"summary": "created the file"}, ()),
        ({"summary": "created the repo"}, (DECISION,)),
        ({"summary": "fixed by a restart"}, ()),
        ({"summary": "error, fixed by a restart"}, (ERROR, MENDED)),
        ({"summary": "begin rsa private key, see https://"}, ()),
        ({"summary": "set agents.x to 3"}, (IDENTIFIERS,)),
        ({"summary": "ＴＯＤＯ： paint, standby 2026-01-02"}, (TASK,)),
        ({"summary": "TODO paint by  2026-01-02"}, (TASK, DEADLINE)),
        ({"summary": "log：[✅] TODO paint"}, (TASK,)),
    ],
)
def test_grade_rules_that_apply(observation: dict[str, str], reasons: tuple[str, ...]) -> None:
    assert grade_observation(observation).reasons == reasons


@pytest.mark.parametrize(
    ("summary", "lowered"), [("call at 14:30", (CALENDAR,)), ("call", ()), ("TODO call 3pm", ()), ("call 3 pm", ())]
)
def test_grade_meeting_needs_a_time_and_nothing_valuable(summary: str, lowered: tuple[str, ...]) -> None:
    assert grade_observation({"summary": summary}).penalties == lowered


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (0.86, 0.86),
        (86, 0.86),
        (1, 1.0),
        (1.5, 1.0),
        (-3, 0.0),
        ("86 / 100", 0.86),
        ("８６％", 0.86),
        (" 0.5 ", 0.5),
        ({"score": 0.7, "label": "ignore"}, 0.7),
        ({"score": True, "label": "Nice-To-Have"}, 0.5),
        ({"label": "low"}, 0.0),
    ],
)
def test_parse_importance_accepts_every_notation(value: object, score: float) -> None:
    assert (parse_importance(value), is_importance(value)) == (pytest.approx(score), True)


@pytest.mark.parametrize(
    "value",
    [None, True, "", "high", "1/0", "5/", "5/inf", float("nan"), 10**400, [], {"label": "x"}, {"score": {"score": 1}}],
)
def test_parse_importance_of_an_invalid_value_is_0(value: object) -> None:
    assert (parse_importance(value), is_importance(value)) == (0.0, False)


def test_sidecar_label_accepts_aliases() -> None:
    assert [
        sidecar_label(one) for one in ("MUST remember", "medium", "ＬＯＷ", "must  remember", "nice to-have", 3)
    ] == [
        "must_remember",
        "nice_to_have",
        "ignore",
        None,
        None,
        None,
    ]
    assert [graded_label(one) for one in (0.8, 0.7999999999999999, float("inf"))] == [
        "must_remember",
        "nice_to_have",
        "ignore",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("TODO", "> > - [x] 1. task: x", "（ＴＯＤＯ）", "〖reminder〗x", "TODO–x", "iv) TODO x"),
        *("[✅] TODO", "[☒]todo", "1.TODO", "-TODO", "(iv)(a)task", "IV. task", "٣) task", "1.5-TODO"),
    ],
)
def test_has_task_marker_after_prefixes(text: str) -> None:
    assert has_task_marker(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "todos", "TODO,x", "TODO]", "[TODO", "my TODO", "note: TODO", "〖 reminder 〗x"),
        *("1.5 TODO", "[✗] TODO", "ab) TODO", "iiii. task", "-x TODO"),
    ],
)
def test_has_task_marker_ignores_words_elsewhere(text: str) -> None:
    assert not has_task_marker(text)


def test_strip_task_prefix_removes_a_list_number_once() -> None:
    assert strip_task_prefix("2026-01-01 TODO") == "01-01 TODO"
    assert strip_task_prefix("1.5 TODO") == "1.5 TODO"
    assert strip_task_prefix(" > - 1. [ ] a)") == "a)"
