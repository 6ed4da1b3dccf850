"""AnswerRecall@block: how much of the gold answer the injected block has."""

from __future__ import annotations

from lab.measures.model import ITSELF, SHARE, ProbeMeasure

MEASURE = ProbeMeasure(
    name="AnswerRecall@block",
    values=lambda probes: probes.answer_share,
    # Whether an answer is right depends on who writes it, so that no difference of this is called better.
    better="neither",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the gold answer's content words, numbers and dates in the injected block; an upper bound of what an "
        "answer copied from it has, and no claim about right answers. Only where the golden set has an answer."
    ),
    probes="with answer",
    missing=None,
    order=178,
)
