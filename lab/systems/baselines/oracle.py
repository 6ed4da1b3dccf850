"""``oracle``: what the golden set wants, as far as it is there: no system can do better."""

from __future__ import annotations

from lab.systems.baselines.arm import Baseline, Question, Ranking, by_score, factory


def rank(question: Question) -> Ranking:
    """By grade."""
    grades = question.ask.grades
    return by_score([(float(grades[row.key]), row) for row in question.pool if row.key in grades], question.depth)


make = factory(Baseline("oracle", rank, needs_gold=True))
