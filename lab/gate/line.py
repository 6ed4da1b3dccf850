"""The result of one rule: its status, the reason, and what would settle it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.gate.policy import Rule

PASS, FAIL, INCONCLUSIVE, ERROR = "pass", "fail", "inconclusive", "error"
# The status of a rule that was not evaluated; it does not affect the verdict.
SKIPPED = "skipped"
# The statuses that decide a verdict, most severe first.
GRAVITY = (ERROR, FAIL, INCONCLUSIVE, PASS)

# What a measure is of which the data has no label and no opportunity.
NOT_HERE = "not measurable here"

# The kinds of the lines that a nightly run adds to those of a policy's rules.
AGAIN, BASELINE_LINE, SET, ADDED = OF_NIGHTLY = ("a/a", "baseline", "set", "added")


@dataclass(frozen=True, slots=True)
class Line:
    """The result of one rule.

    In a comparison, ``low`` and ``high`` bound the interval of the difference, candidate minus baseline, clustered over
    ``conversations``. In a receipts or latency rule they bound ``candidate``, the value itself. ``confidence`` is the
    two-sided level of the interval, in shares. ``n`` counts the evidence: probes, receipts or turns. ``settles`` says
    what would decide an inconclusive rule, ``more_recalls`` the same as a number of answered recalls, for live
    receipts. ``slice`` names the subgroup (``type=decision``) of a slice rule or an exploratory line; ``against`` the
    policy's control, if the rule compares with it instead of the baseline. ``threshold`` is the margin of a guard or
    slice, or the difference that an improve or worth rule requires. ``unmeasured`` says that the data has no label or
    opportunity of the measure's kind: the line is inconclusive, or skipped if the policy accepts that. ``sequence``
    says when a rule on sessions was decided, and what would decide it otherwise (:mod:`lab.gate.sessions`).
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
    against: str | None = None
    threshold: float | None = None
    unmeasured: bool = False
    sequence: Mapping[str, Any] | None = None

    @property
    def label(self) -> str:
        """Return the measure with its slice and the control it is compared with: how a reason begins."""
        suffix = f" [{self.slice}]" if self.slice else ""
        return f"{self.measure}{suffix}{f' (against {self.against})' if self.against else ''}"

    @property
    def word(self) -> str:
        """Return the status in a word; in brackets, that of an advisory rule."""
        word = "unmeasurable" if self.unmeasured else self.status
        return word if self.critical else f"({word})"

    @property
    def name(self) -> str:
        """Return the rule's name in other tools: unique within a policy, and the same in every nightly run."""
        against = f" against {self.against}" if self.against else ""
        # Whether a slice or a worth rule decides depends on its result, so it is not part of the name.
        is_advisory = not self.critical and self.kind not in ("slice", "worth")
        suffix = f" [{self.slice}]" if self.slice else " (advisory)" if is_advisory else ""
        return f"{self.kind} {self.measure}{against}{suffix}"


def deciding(lines: Iterable[Line], status: str | None = None) -> list[Line]:
    """Return the critical lines that were evaluated, or those of one status.

    Every number of rules in a sentence is the length of such a list.
    """
    return [line for line in lines if line.critical and line.status in ((status,) if status else GRAVITY)]


def line(rule: Rule, status: str, reason: str, settles: str | None = None, **numbers: Any) -> Line:
    """Return the line of a rule; ``numbers`` are further fields of :class:`Line`."""
    return Line(rule.kind, rule.measure, status, rule.critical, f"{rule.measure}: {reason}", settles, **numbers)


def lacking(rule: Rule, why: str, remedy: str | None = None) -> Line:
    """Return the line of a rule without data: the cause, and what gives it some.

    The rule's ``without_data`` says what the status is.
    """
    if rule.without_data == INCONCLUSIVE:
        return line(rule, INCONCLUSIVE, f"there is nothing to measure: {why}", remedy)
    return line(rule, ERROR if rule.without_data == ERROR else SKIPPED, f"{why}; {remedy}" if remedy else why)


def unmeasurable(rule: Rule, why: str, remedy: str | None, *, accepted: bool) -> Line:
    """Return the line of a rule whose measure the data cannot have: the cause, and what it would take."""
    if accepted:
        return line(rule, SKIPPED, f"{NOT_HERE}: {why}" + (f"; {remedy}" if remedy else ""), unmeasured=True)
    return line(rule, INCONCLUSIVE, f"{NOT_HERE}: {why}", remedy, unmeasured=True)


def bounds(rule: Rule) -> str:
    """Return the bounds of a rule in words."""
    limits = (("at most", rule.at_most), ("at least", rule.at_least))
    return " and ".join(f"{words} {bound:g}" for words, bound in limits if bound is not None)
