"""How sets, arms and budgets of a league are written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.runs.request import ReplayRequest
from lab.studies.league.arms import (
    DEFAULT,
    DEFAULT_CAPTURED,
    VARIANTS,
    default_arms,
    entrants_of,
    league_command,
    parse_budgets,
)
from lab.studies.league.sets import parse_sets
from lab.systems.registry import make_arm, systems
from tests.playing import OPERATORS

PLAIN = ReplayRequest("", "", ())


def test_set_is_named_after_its_folder_or_as_given() -> None:
    one, two, three = parse_sets(["shipped:operators", f"mine={OPERATORS}", f"x=y={OPERATORS}:lab"[2:]], None)
    assert (one.name, one.path, one.format, one.options) == ("operators", OPERATORS, "lab", {})
    assert (two.name, two.path) == ("mine", OPERATORS)
    assert three.name == "y"


def test_options_of_a_set_change_its_replay_alone() -> None:
    text = f"a b={OPERATORS}:lab:recall-turns=all:must-share=0.2:conversation=x:conversation=y:limit=3"
    (one,) = parse_sets([text], "realmem")
    request = one.request(ReplayRequest("", "", (), seed=7), ["hybrid"])
    assert (request.recall_turns, request.must_share, request.limit, request.seed) == ("all", 0.2, 3, 7)
    assert (request.conversation, request.arms, request.format) == (("x", "y"), ("hybrid",), "lab")


def test_format_is_the_default_where_a_set_names_none(tmp_path: Path) -> None:
    (one,) = parse_sets([str(tmp_path)], "locomo")
    assert one.format == "locomo"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no set given"),
        (["/nowhere/at/all"], "no such file or folder; write NAME=PATH:FORMAT"),
        ([str(OPERATORS.parent)], "no format; write .*:FORMAT, or --format"),
        ([f"{OPERATORS}:locmo"], r"unknown format 'locmo'; did you mean 'locomo'\? known: "),
        ([f"={OPERATORS}"], "no name before the equals sign"),
        (["shipped:operators", "shipped:operators"], "set 'operators' is given twice; write NAME=PATH:FORMAT"),
        (["shipped:opera"], "no such shipped set; known: .*shipped:operators"),
        ([f"{OPERATORS}:lab:colour=red"], "unknown option 'colour'; known: golden, memories"),
        ([f"{OPERATORS}:lab:limit=many"], "limit: expected a whole number, found 'many'"),
        ([f"{OPERATORS}:lab:must-share=x"], "must-share: expected a number, found 'x'"),
        ([f"{OPERATORS}:lab:limit=1:limit=2"], "limit is given twice"),
        ([f"{OPERATORS}:lab:limit"], "'limit': expected OPTION=VALUE"),
    ],
)
def test_unusable_set_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        parse_sets(texts, None)


def test_entrant_is_one_arm_for_each_budget(tmp_path: Path) -> None:
    config = tmp_path / "mine.json"
    config.write_text('{"autoRecall": {"maxItems": 3}}')
    plain, own = entrants_of(["bm25", f"hybrid={config}"], PLAIN)
    assert plain.texts((64, 256)) == ("bm25", "bm25@64", "bm25@256")
    assert own.texts((64,)) == (f"hybrid={config}", f"hybrid@64={config}")
    assert own.at(64) == "hybrid@64"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["hybrid@256"], "arm 'hybrid@256': the league sets the budgets itself; give them with --tokens"),
        (["hybird"], "unknown arm 'hybird'"),
        (["bm25", "bm25"], "arm 'bm25' is given twice"),
    ],
)
def test_unusable_arm_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        entrants_of(texts, PLAIN)


@pytest.mark.parametrize("text", ["", "a", "12", "128,", "128;256", "99999999", "1.5"])
def test_unusable_budgets_are_named(text: str) -> None:
    with pytest.raises(UnusableInput, match=r"--tokens .*: expected whole numbers"):
        parse_budgets(text)


def test_budgets_are_sorted_and_distinct() -> None:
    assert parse_budgets("512,128,512") == (128, 512)


@pytest.mark.parametrize("source", ["given", "captured"])
def test_default_arms_exist_and_can_be_made(source: str) -> None:
    arms = default_arms(source)
    assert set(arms) == set(DEFAULT_CAPTURED if source == "captured" else DEFAULT) & {*systems(), *VARIANTS}
    for entrant in entrants_of(arms, PLAIN):
        make_arm(entrant.spec)


def test_command_has_no_options_at_their_defaults() -> None:
    shared = ReplayRequest("", "", (), limit=3, haystack_from=("a:locomo", "b:locomo"))
    command = league_command(["shipped:operators", "a b=x:lab"], ["bm25"], (64, 128), shared, "locomo")
    assert command == (
        "lab study league shipped:operators 'a b=x:lab' --format locomo --arm bm25 --tokens 64,128 --limit 3 "
        "--haystack-from a:locomo --haystack-from b:locomo --out DIR"
    )
