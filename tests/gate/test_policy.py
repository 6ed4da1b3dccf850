"""Policies: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import UnusableInput
from lab.gate.policy import read_policy, shipped_policies

GUARD = '[[guard]]\nmeasure = "Success@6"\nmargin = 0.02\n'
HEAD = 'name = "mine"\nabout = "what it means"\n'


def written(folder: Path, text: str) -> str:
    (folder / "mine.toml").write_text(text)
    return str(folder / "mine.toml")


@pytest.mark.parametrize("name", shipped_policies())
def test_shipped_policies_can_be_read_and_can_fail(name: str) -> None:
    policy = read_policy(name)
    assert policy.name == name
    assert any(rule.critical for rule in policy.rules)


def test_a_rule_takes_the_direction_of_its_measure(tmp_path: Path) -> None:
    more = '[[guard]]\nmeasure = "RepeatRate"\nmargin = 0.1\n'
    more += '[[limit]]\nmeasure = "Jaccard"\nat_most = 0.5\ncritical = false\n'
    first, second, limit = read_policy(written(tmp_path, HEAD + GUARD + more)).rules
    assert (first.direction, second.direction) == ("higher", "lower")
    assert (limit.kind, limit.at_most, limit.at_least, limit.critical) == ("limit", 0.5, None, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "not TOML"),
        (GUARD, "name: expected text, found null"),
        (HEAD, "has no rule"),
        (HEAD + GUARD + "critical = false\n", "no rule is critical"),
        (HEAD + GUARD + "margins = 1\n", "guard 1: unknown key 'margins'"),
        (HEAD + '[[guard]]\nmeasure = "R@6"\n', "guard 1: needs a margin from 0"),
        (HEAD + '[[guard]]\nmeasure = "R@6"\nmargin = -1\n', "guard 1: needs a margin from 0"),
        (HEAD + '[[guard]]\nmeasure = "R@6"\nmargin = "x"\n', "guard 1: margin: expected a number"),
        (HEAD + '[[limit]]\nmeasure = "R@6"\n', "limit 1: needs at_most, at_least or both"),
        (HEAD + GUARD + 'direction = "up"\n', "guard 1: direction: 'up'"),
        (HEAD + GUARD.replace("Success@6", "InjectedChars"), "guard 1: InjectedChars is better neither high nor low"),
        ("minimum_conversations = 1\n" + HEAD + GUARD, "minimum_conversations: expected a whole number from 2"),
        (HEAD + "limit = 3\n" + GUARD, "limit: expected [[limit]] tables"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_policy(written(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "mine.toml"))
    assert said in str(caught.value)


def test_a_policy_that_is_nowhere_is_told_with_those_there_are() -> None:
    with pytest.raises(UnusableInput, match="there are: rollout"):
        read_policy("nowhere")
