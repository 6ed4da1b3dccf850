"""Recorded answers: how well the share of the gold answer's words in an answer agrees with a judge's votes.

It reads the answers of the audit of LoCoMo (dial481/locomo-audit) as published: for each conversation a list of
questions, each with its gold answer, a generated answer, and votes of a judge. What most votes say counts as right.
The words are those of ``AnswerRecall@block`` (:mod:`lab.retrieval.answer_words`); an answer has no time, so that
"yesterday" is no date in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_json, reading
from lab.base.shape import expect, field, text_in
from lab.recordings.locomo import CATEGORIES
from lab.retrieval.answer_words import contents
from lab.studies.silence import EVERY, auroc

# An answer with so much of the gold answer is accepted. Fixed before any answer was read: half of what is to be said.
THRESHOLD = 0.5
# The largest complete file of the audit has 1 MB. JSON in memory takes about ten times its size.
MOST_BYTES = 32_000_000


class Recorded(NamedTuple):
    """An answer with the ``share`` of its gold answer, NaN if that has no content; ``right`` by most votes."""

    category: str
    share: float
    right: bool


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the share agrees with the votes, in one file and category (:data:`EVERY`: all).

    ``n`` answers have a share, ``empty`` ones have none. ``right`` is the share of the ``n`` that the votes accept,
    ``accepted`` that of those with :data:`THRESHOLD` or more. ``precision`` and ``recall`` are of the accepted ones,
    ``auroc`` needs no threshold; None where there is nothing to divide by.
    """

    file: str
    category: str
    n: int
    empty: int
    right: float | None
    accepted: float | None
    precision: float | None
    recall: float | None
    auroc: float | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def agreements(path: Path) -> list[Agreement]:
    """Return the agreement of the answers in a file with their votes: of all, then by category.

    Raises :class:`UnusableInput`, naming the answer, for a file of another form.
    """
    answers = read_answers(path)
    categories = sorted({one.category for one in answers})
    groups = [answers, *([one for one in answers if one.category == name] for name in categories)]
    return [_agreement(path.stem, name, group) for name, group in zip((EVERY, *categories), groups, strict=True)]


def _agreement(file: str, category: str, answers: Sequence[Recorded]) -> Agreement:
    import numpy as np

    known = [one for one in answers if not math.isnan(one.share)]
    shares, right = np.array([one.share for one in known]), np.array([one.right for one in known], bool)
    accepted = shares >= THRESHOLD
    both = int((accepted & right).sum())
    return Agreement(
        file,
        category,
        len(known),
        len(answers) - len(known),
        _ratio(int(right.sum()), len(known)),
        _ratio(int(accepted.sum()), len(known)),
        _ratio(both, int(accepted.sum())),
        _ratio(both, int(right.sum())),
        auroc(shares[right], shares[~right]) if 0 < right.sum() < len(known) else None,
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def read_answers(path: Path) -> list[Recorded]:
    """Read the answers of a file in order; raises what :func:`agreements` raises."""
    with reading(path):
        size = path.stat().st_size
    if size > MOST_BYTES:
        raise UnusableInput(
            f"{path}: has {size / 1e6:,.0f} MB, and answers are read up to {MOST_BYTES / 1e6:.0f} MB at once; split it "
            "by conversation"
        )
    entries = [
        (f"{path}: {name}[{number}]", entry)
        for name, listed in field(read_json(path), "detailed_results", dict, str(path)).items()
        for number, entry in enumerate(expect(listed, list, f"{path}: {name}"))
    ]
    if not entries:
        raise UnusableInput(f"{path}: has no answers")
    golds, said, right, categories = zip(*(_answer(entry, at) for at, entry in entries), strict=True)
    found = contents([*golds, *said])
    shares = [gold.share_in(one) for gold, one in zip(found[: len(golds)], found[len(golds) :], strict=True)]
    return [Recorded(*one) for one in zip(categories, shares, right, strict=True)]


def _answer(entry: Any, at: str) -> tuple[str, str, bool, str]:
    """Return the gold answer, the answer, whether most votes accept it, and its category."""
    text_in(expect(entry, dict, at), "question", at)
    gold = str(expect(entry.get("golden_answer"), str | int | float, f"{at}: golden_answer", "a string or a number"))
    votes = field(entry, "llm_judgments", dict, at)
    if not votes:
        raise UnusableInput(f"{at}: llm_judgments: has no votes; an answer needs at least one")
    accepted = [expect(vote, bool, f"{at}: llm_judgments: {name}") for name, vote in votes.items()]
    category = str(expect(entry.get("category"), str | int, f"{at}: category", "a string or a number"))
    named = CATEGORIES.get(int(category), category) if category.isdecimal() else category
    return gold, field(entry, "generated_answer", str, at), sum(accepted) * 2 > len(accepted), named
