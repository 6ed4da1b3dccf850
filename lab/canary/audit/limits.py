"""Limits of a policy on receipts for one host, from a window that the host recorded (CN-8).

How much answers vary depends on how many memories a store has, and on what its people ask. So the limits of stage-b on
repeats, must memories and the text lane, which come from other hosts' sets, may refuse a sound engine, above all over a
small store. Here each is derived from the host's own recalls: the window's value, and a margin for the chance by which
the next window differs. A limit is only loosened: a host that repeats less than the shipped limits allow is judged by
those.

The margin of a mean over sessions is the distance to the least limit that this window's sessions show to hold, times
the root of 2, because both windows vary: a next window like it shows the limit in about as many sessions. For another
figure, how much windows differ is measured on logs drawn in blocks of consecutive recalls; the margin is what
:data:`FALSE_ALARMS` of them exceed, times the root of 2.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.canary.audit.audit import last_receipts
from lab.canary.audit.tally import DISTINCT_OVER, Tally
from lab.compare.anytime import bounds
from lab.gate.policy import Policy, Rule
from lab.gate.receipts import DOMINANCE, VARIATION, figure
from lab.gate.sessions import is_judged, observed

# What depends on the store or on the operator's traffic and is judged without bounds of its own.
STREAK = "repeat.longest_streak"
DEPENDENT = (*VARIATION, DOMINANCE, "lanes.without_fts_share", "lanes.worst_window_without_fts")
# Four limits share a rate of 5 %, as in stage-b.
FALSE_ALARMS = 0.05 / len(VARIATION)
DRAWS, SEED, MOST_RECALLS = 200, 20261128, 100_000
# Recalls of a drawn block: a window of the distinct share, so that repeats within it are kept.
BLOCK = DISTINCT_OVER


class Derived(NamedTuple):
    """A limit: what the policy has, what the host's window has, and what it becomes."""

    measure: str
    shipped: float
    window: float
    limit: float


def receipts_of(logs: Sequence[str]) -> list[dict[str, Any]]:
    """Return the answered recalls of logs, in their order; raise :class:`UnusableInput` for fewer than one block."""
    found = [
        one.receipt
        for log in logs
        for one in last_receipts(log, MOST_RECALLS)
        if not one.receipt["skipped"] and "failed" not in one.receipt
    ]
    if len(found) < BLOCK:
        raise UnusableInput(
            f"{', '.join(logs)}: {counted(len(found), 'answered recall')}; limits need at least {BLOCK}, better as "
            "many as the canary will have"
        )
    return found


def derive(policy: Policy, receipts: Sequence[dict[str, Any]], audit: Mapping[str, Any]) -> list[Derived]:
    """Return the limits of a policy on what depends on the host, for the window with these recalls.

    ``receipts`` come from :func:`receipts_of`, ``audit`` is the one of the same logs. A figure that the window lacks is
    left out. A share for which only its whole range would do keeps its limit.
    """
    rules = [rule for rule in policy.rules if rule.measure in DEPENDENT]
    whole = _figures(rules, receipts)
    drawn = [_figures(rules, log) for log in _logs(policy, receipts)]
    of_sessions = {rule.measure: _of_sessions(policy, rule, audit) for rule in rules if is_judged(rule, audit)}
    found = []
    for rule in rules:
        shipped = rule.at_least if rule.at_most is None else rule.at_most
        window = whole[rule.measure]
        if shipped is None or window is None:
            continue
        side = -1 if rule.at_most is None else 1
        values = [value for one in drawn if (value := one[rule.measure]) is not None]
        window, bound = of_sessions.get(rule.measure) or (window, _bound(values, window, side))
        limit = side * max(side * shipped, bound)
        # A share beyond its range would be a rule that nothing breaks.
        whole_range = rule.measure != STREAK and not 0 < limit < 1
        found.append(Derived(rule.measure, shipped, window, shipped if whole_range else limit))
    return found


def _of_sessions(policy: Policy, rule: Rule, audit: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the mean over sessions and a limit for it, rounded away from it; None without a session."""
    shares = observed(rule, audit).shares
    if not shares:
        return None
    mean = fmean(shares)
    found = bounds(shares, policy.level, policy.level)
    side, bound = (1, float(found.high[-1])) if rule.at_least is None else (-1, float(found.low[-1]))
    # Between the bound and the end of the range, a limit can still be broken.
    most = side * (bound + (1 if side > 0 else 0)) / 2
    wide = side * mean + math.sqrt(2) * abs(bound - mean)
    return mean, math.ceil(1000 * min(wide, most) - 1e-9) / 1000


def write_limits(text: str, limits: Sequence[Derived], about: str) -> str:
    """Return the text of a policy (TOML) with other limits, each with its reason in a comment."""
    text = re.sub(r'(?m)^name = "(.*)"$', r'name = "\1-here"', text, count=1)
    for one in limits:
        if one.limit == one.shipped:
            continue
        said = f"# {one.window:.3g} here, over {about}; it was {one.shipped:g}."
        rule = re.compile(
            rf'(\[\[receipts\]\]\nmeasure = "{re.escape(one.measure)}"\nat_(?:most|least) = )\S+(\npass_limit = (\S+))?'
        )
        if found := rule.search(text):
            # The limit of a pass may not be stricter than the rule's own, which it is if there is none.
            wider = found[2] if found[2] and float(found[3]) >= one.limit else ""
            text = f"{text[: found.start()]}{said}\n{found[1]}{one.limit:g}{wider}{text[found.end() :]}"
    return text


def memories_of(receipts: Sequence[dict[str, Any]]) -> int:
    """Return how many different memories the recalls found."""
    return len({hit["id"] for one in receipts for name in ("ftsTop", "vecTop") for hit in one[name]})


def about_window(logs: Sequence[str], receipts: Sequence[dict[str, Any]]) -> str:
    """Return what the limits rest on, in words."""
    names = ", ".join(Path(log).name for log in logs)
    modes = ", ".join(dict.fromkeys(str(one["selectionMode"]) for one in receipts))
    memories = counted(memories_of(receipts), "different memory")
    return f"{counted(len(receipts), 'recall')} of {names} with {memories}, selected by {modes}"


def _logs(policy: Policy, receipts: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield logs of as many recalls as a canary has, from blocks of consecutive ones, drawn with replacement."""
    most = min(policy.maximum_receipts or len(receipts), max(len(receipts), policy.minimum_receipts))
    for number in range(DRAWS):
        draw = random.Random(f"{SEED} {number}")  # noqa: S311 - drawn again the same
        wanted = draw.randint(min(policy.minimum_receipts, most), most)
        log: list[dict[str, Any]] = []
        while len(log) < wanted:
            begin = draw.randrange(len(receipts))
            block = receipts[begin : begin + BLOCK]
            log += [*block, *receipts[: BLOCK - len(block)]]
        yield log[:wanted]


def _figures(rules: Sequence[Rule], receipts: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    tally = Tally()
    for receipt in receipts:
        tally.add(receipt, None)
    audit = tally.as_json(0)
    return {rule.measure: figure(audit, rule.measure, rule.measure) for rule in rules}


def _bound(values: Sequence[float], window: float, side: int) -> float:
    """Return the window's value with its margin, rounded away from it; ``values`` are those of drawn logs."""
    # Where blocks join nothing repeats, so their mean is lower than the window's; only how they differ counts.
    ordered = sorted(side * (value - fmean(values)) for value in values)
    margin = math.sqrt(2) * ordered[math.ceil((1 - FALSE_ALARMS) * len(ordered)) - 1] if ordered else 0.0
    per = 1 if abs(window) > 1 else 100
    return math.ceil((side * window + margin) * per - 1e-9) / per
