"""Policies: reading them, and the messages for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.gate.policy import read_policy
from lab.gate.shipped import shipped_heads, shipped_policies

GUARD = '[[guard]]\nmeasure = "Success@6"\nmargin = 0.02\n'
RECEIPTS = '[[receipts]]\nmeasure = "errors.rate"\nof = "errors.attempts"\n'
HEAD = 'name = "mine"\nabout = "what it means"\n'


def written(folder: Path, text: str) -> str:
    (folder / "mine.toml").write_text(text)
    return str(folder / "mine.toml")


@pytest.mark.parametrize("name", shipped_policies())
def test_shipped_policies_can_be_read_and_can_fail(name: str) -> None:
    policy = read_policy(name)
    assert policy.name == name
    assert any(rule.critical for rule in policy.rules)


def test_read_policy_defaults_to_the_direction_of_the_measure(tmp_path: Path) -> None:
    more = '[[guard]]\nmeasure = "RepeatRate"\nmargin = 0.1\n'
    more += '[[limit]]\nmeasure = "Jaccard"\nat_most = 0.5\ncritical = false\n'
    first, second, limit = read_policy(written(tmp_path, HEAD + GUARD + more)).rules
    assert (first.direction, second.direction) == ("higher", "lower")
    assert (limit.kind, limit.at_most, limit.at_least, limit.critical) == ("limit", 0.5, None, False)


@pytest.mark.parametrize(("measure", "direction"), [("Success@6", "higher"), ("RepeatRate", "lower")])
def test_read_policy_accepts_the_direction_of_the_measure(tmp_path: Path, measure: str, direction: str) -> None:
    text = GUARD.replace("Success@6", measure) + f'direction = "{direction}"\n'
    assert read_policy(written(tmp_path, HEAD + text)).rules[0].direction == direction


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_measure_without_a_direction_takes_either(tmp_path: Path, direction: str) -> None:
    text = GUARD.replace("Success@6", "InjectedChars") + f'direction = "{direction}"\n'
    assert read_policy(written(tmp_path, HEAD + text)).rules[0].direction == direction


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GUARD + 'direction = "lower"\n', ":6: guard 1: direction 'lower': Success@6 is better when higher"),
        (
            GUARD.replace("Success@6", "P(rel=2)@6") + 'direction = "lower"\n',
            ":6: guard 1: direction 'lower': P(rel=2)@6 is better when higher",
        ),
        (
            GUARD + '[[improve]]\n# direction\ndirection = "higher"\nmeasure = "RepeatRate"\n',
            ":8: improve 1: direction 'higher': RepeatRate is better when lower; remove the direction",
        ),
        (
            'rollback = """ direction \\\n"""\n' + GUARD + GUARD.replace("s@6", "s@3") + 'direction = "lower"\n',
            ":11: guard 2: direction 'lower': Success@3 is better when higher",
        ),
        (
            'guard = [{ measure = "Success@6", margin = 0.1, direction = "lower" }]\n',
            ":3: guard 1: direction 'lower': Success@6 is better when higher",
        ),
        (
            'guard = [\n{ measure = "Success@6", margin = 0.1, direction = "lower" },\n]\n',
            ": guard 1: direction 'lower': Success@6 is better when higher",
        ),
    ],
)
def test_read_policy_opposite_direction_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_policy(written(tmp_path, HEAD + text))
    assert str(caught.value).startswith(f"{tmp_path / 'mine.toml'}{said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "not TOML"),
        (GUARD, "needs name: The policy's name in outputs."),
        (HEAD, "has no rule"),
        (HEAD + GUARD + "critical = false\n", "no rule is critical"),
        (HEAD + GUARD + "margins = 1\n", "guard 1: unknown key 'margins'"),
        (HEAD + '[[guard]]\nmeasure = "R@6"\n', "guard 1: needs margin: how much worse the candidate may be"),
        (
            HEAD + '[[guard]]\nmeasure = "R@6"\nmargin = -1\n',
            "guard 1: margin: expected a number from 0 to 1000000, found -1",
        ),
        (
            HEAD + '[[guard]]\nmeasure = "R@6"\nmargin = "x"\n',
            "guard 1: margin: expected a number from 0 to 1000000, found 'x'",
        ),
        (HEAD + '[[limit]]\nmeasure = "R@6"\n', "limit 1: needs at_most or at_least, or both"),
        (HEAD + GUARD + 'direction = "up"\n', "guard 1: direction: expected 'higher' or 'lower', found 'up'"),
        (
            HEAD + GUARD.replace("Success@6", "InjectedChars"),
            "guard 1: InjectedChars has no better direction of its own",
        ),
        (
            "minimum_conversations = 1\n" + HEAD + GUARD,
            "minimum_conversations: expected a whole number from 2 to 1000000",
        ),
        (HEAD + "limit = 3\n" + GUARD, "limit: expected [[limit]] tables"),
        (HEAD + GUARD + GUARD, "guard 2: a second rule on Success@6; set critical = false in one of them"),
        (HEAD + GUARD + "margin = nan\n", "key 'margin' is given twice"),
        (HEAD + GUARD.replace("0.02", "inf"), "guard 1: margin: expected a number from 0 to 1000000, found inf"),
        (HEAD + GUARD + "critical = 1\n", "guard 1: critical: expected true or false, found 1"),
        (HEAD + GUARD + 'slices = "type"\n', "guard 1: slices: expected a list of names, found 'type'"),
        (
            HEAD + GUARD + 'slices = ["type", "type"]\n',
            "guard 1: slices: 'type' of Success@6 is given twice",
        ),
        (
            HEAD + GUARD + 'slices = ["type"]\n' + GUARD + 'slices = ["kind", "type"]\ncritical = false\n',
            "guard 2: slices: 'type' of Success@6 is given twice",
        ),
        (
            HEAD + GUARD + "only_where = {}\n",
            "guard 1: only_where: expected a table of plain values, or of lists of them, found an object",
        ),
        (HEAD + "[[improve]]\nby = 1\n", "improve 1: needs measure: a measure of the run"),
        (
            HEAD + '[[limit]]\nmeasure = "R@6"\nat_most = 0.1\nat_least = 0.2\n',
            "limit 1: at_most 0.1 is below at_least",
        ),
        (
            HEAD + GUARD.replace("ccess", "cess"),
            "guard 1: unknown measure 'Sucess@6'; did you mean 'Success@6'?",
        ),
        (HEAD + GUARD.replace("Success@6", "Success") + "must_have_data = false\n", "did you mean 'Success@6'"),
        (HEAD + GUARD.replace("Success@6", "zzz"), "guard 1: unknown measure 'zzz'; see lab score --list"),
        (HEAD + GUARD.replace("Success@6", "hit@3"), "unknown measure 'hit@3'; did you mean 'Success@3'"),
        (HEAD + GUARD.replace("Success@6", "P(rel=x)@6"), "unknown measure 'P(rel=x)@6'; did you mean 'P@6'"),
        (
            HEAD + '[[limit]]\nmeasure = "wrongscope@6"\nat_most = 0\n',
            "limit 1: unknown measure 'wrongscope@6'; did you mean 'WrongScope'",
        ),
        (
            HEAD + '[[improve]]\nmeasure = "repeat_rate"\n',
            "improve 1: unknown measure 'repeat_rate'; did you mean 'RepeatRate'",
        ),
        (HEAD + RECEIPTS, "receipts 1: needs at_most or at_least, or both"),
        (HEAD + RECEIPTS + "at_most = 0\n", "receipts 1: no number of receipts can show that a share is 0 or 1"),
        (HEAD + RECEIPTS + "at_most = 0.1\nmargin = 1\n", "receipts 1: unknown key 'margin'"),
        (HEAD + "[[latency]]\nquantile = 0.5\n", "latency 1: needs at_most_ms or at_most_ratio, or both"),
        (HEAD + "[[latency]]\nat_most_ms = 5\n", "latency 1: needs quantile: the quantile of the warm turns"),
        (
            HEAD + "[[latency]]\nquantile = 95\nat_most_ms = 5\n",
            "latency 1: quantile: expected a number between 0 and 1",
        ),
        (HEAD + "[[exact]]\n", "exact 1: needs changed: fail: a changed receipt fails the verdict"),
        (HEAD + '[[exact]]\nchanged = "maybe"\n', "exact 1: changed: expected 'fail' or 'tell', found 'maybe'"),
        (HEAD + '[[exact]]\nchanged = "tell"\n', "no rule is critical"),
        ("fail_level = 0.7\n" + HEAD + GUARD, "fail_level: expected a number between 0 and 0.5, found 0.7"),
        (
            "minimum_receipts = 0\n" + HEAD + GUARD,
            "minimum_receipts: expected a whole number from 1 to 1000000, found 0",
        ),
        ('rollback = "a\\nb"\n' + HEAD + GUARD, "rollback: has several lines"),
        (HEAD + "guard = 1\n", "guard: expected [[guard]] tables, found a number"),
        (HEAD + "[comparison]\nbase = 'x'\n" + GUARD, "comparison: unknown key 'base'; known: baseline, candidate"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_policy(written(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "mine.toml"))
    assert said in str(caught.value)


def test_read_policy_unknown_name_lists_shipped_policies() -> None:
    with pytest.raises(
        UnusableInput, match="shipped policies: capture, nightly, rollout, rollout-2026-11, stage-b, stage-c"
    ):
        read_policy("nowhere")


def test_read_policy_levels_and_rule_names(tmp_path: Path) -> None:
    rules = GUARD + RECEIPTS + "at_most = 0.1\n[[latency]]\nquantile = 0.95\nat_most_ms = 5\n"
    policy = read_policy(written(tmp_path, "level = 0.01\n" + HEAD + rules + '[[exact]]\nchanged = "tell"\n'))
    assert (policy.level, policy.fail_level, policy.rollback) == (0.01, 0.01, None)
    assert [(rule.kind, rule.measure, rule.critical) for rule in policy.rules] == [
        ("guard", "Success@6", True),
        ("receipts", "errors.rate", True),
        ("latency", "p95 total", True),
        ("exact", "receipts", False),
    ]


def test_shipped_heads_are_those_of_the_policies() -> None:
    read = [read_policy(name) for name in shipped_policies()]
    heads = [{"policy": policy.name, "about": policy.about, "rules": len(policy.rules)} for policy in read]
    assert shipped_heads() == heads
