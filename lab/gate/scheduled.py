"""Compare the blocks of a canary whose order was drawn (CN-22): a rule fails if switching is shown to make it worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from lab.base.formatting import counted
from lab.compare.randomised import LEVEL, Effect, carry_over, effect
from lab.compare.statistics import holm
from lab.gate.line import FAIL, PASS, Line, lacking, line
from lab.gate.policy import Rule

# Three, so that each can be shown with eight blocks: the smallest p is 1 of 70 orders, and Holm's triples it.
COMPARED = ("errors.rate", "recalls.empty_rate", "repeat.rate")
CONTROL = "the blocks that were not switched"


def judge_scheduled(rules: Sequence[Rule], audit: Mapping[str, Any]) -> Iterator[Line]:
    """Yield a line for each critical rule on a compared figure; none if the audit is not of a schedule."""
    blocks = audit.get("schedule", {}).get("blocks", ())
    if not blocks:
        return
    order = [block["switched"] for block in blocks]
    found: dict[Rule, tuple[Effect, Effect]] = {}
    means: dict[Rule, dict[str, Any]] = {}
    for rule in rules:
        if rule.measure not in COMPARED or not rule.critical:
            continue
        values = [block["figures"][rule.measure] for block in blocks]
        if None in values:
            empty = ", ".join(str(number) for number, value in enumerate(values, 1) if value is None)
            yield lacking(rule, f"blocks {empty} of the schedule have no value for it", "longer blocks")
            continue
        # A rule on what should be high is worse where it is lower.
        sign = 1.0 if rule.at_most is not None else -1.0
        pairs = list(zip(values, order, strict=True))
        for name, kind in (("candidate", True), ("baseline", False)):
            means.setdefault(rule, {})[name] = fmean(value for value, each in pairs if each is kind)
        found[rule] = (effect([sign * value for value in values], order), carry_over(values, order))
    worse = holm({rule.measure: one.p_higher for rule, (one, _) in found.items()})
    for rule, (one, left) in found.items():
        sign = 1.0 if rule.at_most is not None else -1.0
        low, high = sorted((sign * one.low, sign * one.high))
        is_worse = worse[rule.measure] <= LEVEL
        why = (
            f"{sign * one.difference:+.4g} in the switched blocks ({100 * (1 - LEVEL):g} % interval {low:+.4g} to "
            f"{high:+.4g} over {len(blocks)} blocks in drawn order): {'' if is_worse else 'not '}shown to be worse "
            f"(p {worse[rule.measure]:.3g}, Holm over {len(found)}); a switched block leaves {left.low:+.4g} to "
            f"{left.high:+.4g} to the next"
        )
        numbers = means[rule] | {"difference": sign * one.difference, "low": low, "high": high, "n": len(blocks)}
        shown = line(rule, FAIL if is_worse else PASS, why, **numbers, confidence=1 - LEVEL, against=CONTROL)
        # What is not shown to be worse is no evidence for the switch, so it does not decide.
        yield shown if is_worse else replace(shown, critical=False)


def interference(audit: Mapping[str, Any]) -> str | None:
    """Return a note on captures during a schedule: memories of either policy are recalled by both."""
    blocks = audit.get("schedule", {}).get("blocks", ())
    count = {kind: sum(block["captures"] for block in blocks if block["switched"] is kind) for kind in (True, False)}
    if not any(count.values()):
        return None
    return (
        f"interference: {counted(count[True], 'memory')} captured in switched blocks and {count[False]} in the others "
        "went to the same store, which both policies recall"
    )
