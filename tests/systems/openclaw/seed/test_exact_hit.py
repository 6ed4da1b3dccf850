"""Exact and very strong lexical hits (E-57): the evidence of a query, and matching it with a memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.systems.openclaw.seed.exact_hit import evidence_of, exact_hit

UUID = "36a59560-885a-55c9-98c4-a404b1ac6ea0"


@pytest.mark.parametrize(
    ("query", "identifiers"),
    [
        ("what is in src/lab/flow.py?", {"src/lab/flow.py"}),
        ("see /etc/hosts and ~/.config/app", {"/etc/hosts", "/.config/app"}),
        (f"row {UUID}.", {UUID}),
        ("since 1a2b3c4d it fails", {"1a2b3c4d"}),
        ("E1042 or ERR_TIMEOUT, or ora00942", {"e1042", "err_timeout", "ora00942"}),
        ("bump to v1.2.3 of lib-foo2 and my_table", {"v1.2.3", "lib-foo2", "my_table"}),
        ("10.0.0.5, 1.2.3, 555-0134 and 18080", {"10.0.0.5", "1.2.3", "555-0134", "18080"}),
        # A year, a date, a time and a short number are no names of one thing.
        ("8443, 2026, 2026-05-04, 2026/05, 04.05.2026, 20260504, 10:30, 24/7 and 3.14", set()),
        ("a 10-minute talk, e.g. this one", set()),
        ("設定檔 config.yaml 在 /opt/應用", {"config.yaml", "/opt"}),
        ("a follow-up on the well-known mother-in-law's cafe", set()),
        ("deadbeef is a word, decade too, and 1234567 a number", {"1234567"}),
        ("plain words only", set()),
    ],
)
def test_evidence_identifiers_of_a_query(query: str, identifiers: set[str]) -> None:
    assert evidence_of(query).identifiers == identifiers


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ('say "Keep Tabs" or “two words” now', {"keep tabs", "two words"}),
        ("「退款」與『流程圖』還有 `git push`", {"退款", "流程圖", "git push"}),
        ("退款流程改了嗎？不知道", {"退款流程改了嗎"}),
        # The text between two quotations is not a phrase.
        ('a "" and "x" and "b", and an "open one', set()),
    ],
)
def test_evidence_phrases_of_a_query(query: str, phrases: set[str]) -> None:
    assert evidence_of(query).phrases == phrases


@pytest.mark.parametrize(
    ("query", "text", "rank", "rule"),
    [
        ("why is 18080 busy", "The gateway listens on 18080.", None, "identifier"),
        ("why is 18080 busy", "The gateway listens on 118080.", None, None),
        ("why is 18080 busy", "the file is port_18080_old", None, None),
        # A number of four digits counts with the word before it, unless it may be a year.
        ("why is 8443 busy", "The gateway listens on 8443.", None, None),
        ("why is port 8443 busy", "The gateway listens on port 8443.", None, "identifier"),
        ("why is port 8443 busy", "The gateway listens on port 18443.", None, None),
        ("why is port 8443 busy", "The gateway listens on port 8443-9.", None, None),
        ("連接埠 8443 怎麼了", "測試機的連接埠 8443", None, "identifier"),
        ("the budget 2026, is it done", "Budget 2026 was approved", None, None),
        ("anything from 2026-05-04", "2026-05-04: the deploy failed", None, None),
        # Quoted words match as a whole, and function words never.
        ('is "ok" enough', "rotate the token", None, None),
        ('is "the" enough', "rotate the token", None, None),
        ("edit SRC/Main.rs", "src/main.rs is generated", 7, "identifier"),
        ("is main.rs old", "src/main.rs is generated", None, "identifier"),
        ('the rule "keep tabs"', "We KEEP TABS in all files", None, "phrase"),
        ("週五不要部署 對嗎", "團隊規定：週五不要部署。", None, "phrase"),
        ("週五部署", "週五不要部署", None, None),
        ("rotate the signing token", "rotate signing token every month", 1, "terms"),
        # Must rank first of its tier, with at least two and four fifths of the words.
        ("rotate the signing token", "rotate signing token every month", 2, None),
        ("rotate the signing token", "rotate signing token every month", None, None),
        ("token", "token", 1, None),
        ("the token", "the token", 1, None),
        ("rotate signing token monthly please", "rotate signing token monthly", 1, "terms"),
        ("rotate signing token monthly today please", "rotate signing token monthly", 1, None),
        ("", "anything", 1, None),
        ("what about 8443", "", 1, None),
    ],
)
def test_exact_hit_returns_the_rule(query: str, text: str, rank: int | None, rule: str | None) -> None:
    assert exact_hit(query, text, rank) == rule


@pytest.mark.parametrize("query", ["what of 2026", "on 2026-05-04 it broke", "8443"])
def test_exact_hit_with_numbers_accepts_any_number(query: str) -> None:
    text = "8443 was opened on 2026-05-04, in 2026"
    assert (exact_hit(query, text, None), exact_hit(query, text, None, numbers=True)) == (None, "identifier")


@given(st.text(max_size=60), st.text(max_size=60), st.one_of(st.none(), st.integers(1, 3)))
@settings(max_examples=100)
def test_exact_hit_ignores_case_and_accepts_any_text(query: str, text: str, rank: int | None) -> None:
    rule = exact_hit(query, text, rank)
    assert rule in (None, "identifier", "phrase", "terms")
    if query.isascii() and text.isascii():
        assert exact_hit(query.upper(), text.lower(), rank) == exact_hit(query.lower(), text.upper(), rank)


@pytest.mark.parametrize("filler", [*'aA0-._/:<“「`"刪', "a.", "0a", "a/", "a-", "<a", "A1", "e1f2-"])
def test_exact_hit_of_a_long_query_is_not_quadratic(filler: str) -> None:
    """Pasted keys, rows of dashes, broken pages: quadratic time is minutes, where the guard of hangs ends it."""
    query = filler * (100_000 // len(filler)) + "?"
    exact_hit(query, query[::-1], 1)
