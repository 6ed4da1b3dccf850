"""One rule judged: what became of it, why, and what would settle it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.gate.policy import Rule

PASS, FAIL, INCONCLUSIVE, ERROR = "pass", "fail", "inconclusive", "error"
# Of a rule that was not asked: it decides nothing, and is told.
SKIPPED = "skipped"
# The gravest first; what the whole verdict is made of.
GRAVITY = (ERROR, FAIL, INCONCLUSIVE, PASS)


@dataclass(frozen=True, slots=True)
class Line:
    """One rule judged.

    Of a comparison, ``low`` and ``high`` bound the interval of the difference, candidate minus baseline, over so many
    conversations. Of a receipts or latency rule they bound ``candidate``, the value itself. ``confidence`` is that of
    the interval: each of its ends errs with half of the rest. ``n`` is what the rule stands on: places, receipts,
    turns. ``more_recalls`` is what ``settles`` comes to in answered recalls, of a window
    of live receipts. ``slice`` names the subgroup (``type=decision``) of an exploratory line.
    """

    kind: str
    measure: str
    status: str
    critical: bool
    reason: str
    settles: str | None = None
    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    conversations: int | None = None
    n: int | None = None
    limit: str | None = None
    slice: str | None = None
    more_recalls: int | None = None
    confidence: float | None = None

    @property
    def name(self) -> str:
        """How other tools know it: one name a rule of a policy, the same every night."""
        part = f" [{self.slice}]" if self.slice else "" if self.critical else " (told)"
        return f"{self.kind} {self.measure}{part}"


def line(rule: Rule, status: str, reason: str, settles: str | None = None, **numbers: Any) -> Line:
    """A line of a rule; ``numbers`` are further fields of :class:`Line`."""
    return Line(rule.kind, rule.measure, status, rule.critical, f"{rule.measure}: {reason}", settles, **numbers)


def lacking(rule: Rule, why: str) -> Line:
    """The line of a rule that there is nothing to judge by."""
    return line(rule, ERROR if rule.must_have_data else SKIPPED, why)


def bounds(rule: Rule) -> str:
    """The bounds of a rule in words."""
    asked = (("at most", rule.at_most), ("at least", rule.at_least))
    return " and ".join(f"{words} {bound:g}" for words, bound in asked if bound is not None)
