"""``oracle``: the relevant memories of the golden set that exist at the time, an upper bound for every system."""

from __future__ import annotations

from lab.systems.baselines.arm import Baseline, Question, Ranking, by_score, factory


def rank(question: Question) -> Ranking:
    """Rank by grade."""
    grades = question.ask.grades
    return by_score([(float(grades[row.key]), row) for row in question.pool if row.key in grades], question.depth)


make = factory(Baseline("oracle", rank, needs_gold=True, claims=("gold",)))
