"""The slot for evidence that disagrees with what a pack includes (PK-7)."""

from __future__ import annotations

import pytest

from lab.base.token_estimate import tokens
from lab.memory.pack import order
from lab.memory.pack.candidate import Candidate
from lab.memory.pack.order import MOST_CLAUSES, MOST_OF_ALL
from lab.memory.pack.packer import Pack
from tests.memory.pack.candidates import candidate, packed, reasons

QUERY = "Have I tracked expenses with Excel?"
YES = candidate("yes", "I have been tracking my expenses with Excel since March.")
NO = candidate("no", "I have never tracked expenses with Excel; is it hard?")
FILL = [candidate(f"f{n}", f"The weather on day {n} was fine and dry, and so was the harvest.") for n in range(9)]


def among(other: Candidate, query: str = QUERY, first: Candidate = YES, **values: object) -> Pack:
    """Return a pack of four items with a candidate that is too late for a place of its own."""
    return packed(query, first, *FILL, other, limit=4, **values)


def test_denial_of_an_included_item_takes_the_last_slot() -> None:
    done = among(NO)
    assert done.refs == ("yes", "f0", "f1", "no")
    assert done.bundle_text.endswith("- [no, unlike yes] I have never tracked expenses with Excel; is it hard?")
    assert reasons(done)["no"][-1] == "dissent_slot"
    assert done.dissent is not None
    assert (done.dissent.against, done.dissent.how) == ("yes", "negation")


def test_dissent_can_be_switched_off() -> None:
    assert among(NO, dissent=False).refs == ("yes", "f0", "f1", "f2")


def test_dissent_of_long_texts_compares_so_many_clauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[object] = []
    monkeypatch.setattr(order, "compared", lambda *claims: pairs.append(claims) or ("", 0.0))
    long = [candidate(f"l{n}", f"{YES.text} " * 500 + f"Number {n}.") for n in range(4)]
    packed(QUERY, *long, NO, limit=4)
    assert len(pairs) == 6 * MOST_CLAUSES**2 + 4 * MOST_CLAUSES
    pairs.clear()
    packed(QUERY, *(one._replace(ref=f"m{n}") for n, one in enumerate(long * 20)), limit=80)
    assert len(pairs) <= 1.5 * MOST_OF_ALL**2


def test_dissent_that_is_included_anyway_takes_no_slot() -> None:
    done = packed(QUERY, YES, NO, *FILL, limit=4)
    assert done.refs == ("yes", "no", "f0", "f1")
    assert done.dissent is None
    another = NO._replace(ref="another")
    assert packed(QUERY, YES, NO, *FILL, another, limit=4).dissent is None


@pytest.mark.parametrize(
    ("first", "second", "query"),
    [
        ("The gateway timeout is 30 seconds.", "The gateway timeout is 90 seconds.", "gateway timeout"),
        ("The workshop starts on 3 May.", "The workshop starts on 10 June.", "When does the workshop start?"),
        ("決定採用陶盆種羅勒", "沒有採用陶盆種羅勒", "採用陶盆種羅勒了嗎"),
        ("We use the blue logo.", "We no longer use the blue logo.", "blue logo"),
    ],
)
def test_denials_and_changed_values_are_dissent(first: str, second: str, query: str) -> None:
    assert among(candidate("b", second), query, candidate("a", first)).refs[-1] == "b"


@pytest.mark.parametrize(
    ("first", "second", "query"),
    [
        ("The gateway timeout is 30 seconds.", "The gateway timeout is 30 seconds, as before.", "gateway timeout"),
        ("The gateway timeout is 30 seconds.", "The choir never sings on 3 May.", "gateway timeout"),
        ("We use the blue logo.", "I am not sure whether we use the blue logo.", "blue logo"),
        (
            "The gateway has 2 processes.",
            "A timeout of the gateway took 90 seconds after the update.",
            "gateway update",
        ),
    ],
)
def test_agreement_hedges_and_other_topics_are_no_dissent(first: str, second: str, query: str) -> None:
    assert among(candidate("b", second), query, candidate("a", first)).dissent is None


def test_declared_contradiction_is_dissent_in_any_words() -> None:
    done = among(candidate("b", "Nothing of the kind.", contradicts=("yes",)))
    assert (done.refs[-1], done.dissent.how if done.dissent else "") == ("b", "declared")
    done = among(candidate("b", "Nothing of the kind."), first=YES._replace(contradicts=("b",)))
    assert done.refs[-1] == "b"


def test_excluded_candidate_is_never_dissent() -> None:
    assert among(NO._replace(trust="quarantined")).dissent is None
    assert among(NO._replace(kind="plan", due_ms=-1)).dissent is None


def test_dissent_stands_after_less_relevant_items() -> None:
    done = packed(QUERY, YES, FILL[0], NO, FILL[1]._replace(kind="preference"), limit=3)
    assert done.refs == ("yes", "f1", "no")


def test_text_that_is_included_already_is_no_dissent() -> None:
    done = among(candidate("twin", FILL[0].text, contradicts=("yes",)))
    assert (done.dissent, done.refs) == (None, ("yes", "f0", "f1", "f2"))


def test_dissent_is_an_abstract_unless_its_overview_is_shorter() -> None:
    long = candidate("no", f"{NO.text} {' '.join(one.text for one in FILL[:3])}")
    assert among(long).bundle_text.endswith(f"- [no, unlike yes] {NO.text} …")
    # An abstract of few tokens may have more characters than an overview of many.
    said = "我從來沒有用表格記錄過自己的開支" * 5
    chinese = candidate("no", said, abstract="No expenses. " * 9, contradicts=("yes",))
    assert among(chinese).refs[-1] == "no"


def test_dissent_keeps_the_budget_and_what_it_disagrees_with() -> None:
    done = packed(QUERY, YES, *FILL, NO, budget_tokens=44)
    assert done.refs == ("yes", "no")
    assert tokens(done.bundle_text) <= 44
    assert packed(QUERY, YES, *FILL, NO, budget_tokens=24).refs == ("yes",)
