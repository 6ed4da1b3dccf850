"""What a watch says: the reason of an alarm, and the line on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.canary.audit.status import EMPTY, SKIPPED
from lab.canary.rollout.evidence import WINDOW, Evidence
from lab.canary.rollout.live_figures import CALLS, ERRORS, FIGURES, LATENCY, LATER, REPEAT, TEXT, TURNS

# More evidence says nothing new, and its digits are not read.
MOST_TIMES = 1_000_000
OVER = "more than a million times the threshold"
_NAMES = {
    ERRORS: "the error rate",
    CALLS: "the error rate of memory_recall",
    LATENCY: "the latency",
    REPEAT: "the repeat rate",
    TEXT: "the share of recalls without a text hit",
    TURNS: "the share of turns without a recall",
}
_SHOWN = {ERRORS: ("errors", "{:.1%}"), LATENCY: ("p95", "{:,.0f} ms"), REPEAT: ("repeat", "{:.2f}")}
# Causes that are named in one line.
_NAMED = 3


def why(evidence: Evidence, figure: str) -> str:
    """Return the reason of an alarm: what the last recalls show, and what is allowed."""
    recalls, values, _ = _recent(evidence.windows, {"recalls": evidence.now.recalls, **evidence.now.figures()})
    value, limits = values[figure], evidence.limits
    one = evidence.tested()[figure]
    last = evidence.last
    strength = f"evidence {one.evidence:,.0f}, threshold {one.threshold:,.0f}"
    if one.evidence > MOST_TIMES * one.threshold:
        strength = f"evidence {OVER}"
    if evidence.control and not evidence.by_limit:
        return f"{_NAMES[figure]} of the canary is worse than that of the control ({strength})"
    if figure == TURNS:
        return (
            f"the log got no recall after {evidence.missed + LATER} turns of users in a row: the plugin is dead, or "
            f"its receipts are not logged ({strength})"
        )
    if figure == CALLS:
        return f"calls of memory_recall fail; allowed: {limits.errors:.1%} ({strength})"
    if value is None:
        return f"{_NAMES[figure]} is above what is allowed ({strength})"
    if figure == ERRORS:
        named = causes_of(last.causes)
        said = f"the engine did not work in {value:.1%} of the last {recalls} recalls"
        said += f": {named}" if named else ""
        said += f"; allowed: {limits.errors:.1%}"
    elif figure == TEXT:
        said = f"the text lane found nothing in {value:.1%} of the last recalls; allowed: {limits.text or 0:.1%}"
    elif figure == LATENCY:
        said = f"the last p95 of memory_recall is {value:,.0f} ms; allowed: {limits.latency or 0:,.0f} ms"
    else:
        said = f"the last mean repeat rate is {value:.2f}; allowed: {limits.repeat or 0:.2f}"
    return f"{said} ({strength})"


def causes_of(causes: Mapping[str, int]) -> str:
    """Return what did not work, the most frequent first, such as ``provider_unavailable 113, failed 2``."""
    faults = {name: count for name, count in causes.items() if name not in (*SKIPPED, EMPTY)}
    ordered = sorted(faults.items(), key=lambda pair: (-pair[1], pair[0]))
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(f"{name} {count}" for name, count in ordered[:_NAMED]) + more


def _recent(
    windows: Iterable[Mapping[str, Any]], now: Mapping[str, Any], *, least: float = 0
) -> tuple[int, dict[str, float | None], set[str]]:
    """Return the number of the last recalls, the last value of each figure, and the figures with an older one.

    The last recalls are those of the last window and of the one that goes on, over which errors are counted. Other
    figures are taken from the window that goes on only if it has ``least`` recalls, or if there is no other.
    """
    closed = list(windows)
    last = [window for window in (*closed[-1:], now) if window["recalls"]]
    recalls = sum(window["recalls"] for window in last)
    ordered = [*closed, now] if now["recalls"] >= least else [now, *closed]
    values: dict[str, float | None] = {}
    older = set()
    for figure in FIGURES:
        window = next((window for window in reversed(ordered) if window[figure] is not None), None)
        values[figure] = window[figure] if window else None
        if window is not None and not any(window is one for one in (*closed[-1:], now)):
            older.add(figure)
    if last:
        values[ERRORS] = sum(window[ERRORS] * window["recalls"] for window in last) / recalls
    return recalls, values, older


def status_line(receipt: Mapping[str, Any]) -> str:
    """Return a line for the terminal: recalls so far, and each figure of the last ones, with its evidence."""
    least = 0 if receipt["alarm"] else WINDOW / 2
    recalls, values, older = _recent(receipt["windows"], receipt["now"], least=least)
    parts = []
    for figure, (name, form) in _SHOWN.items():
        value = values[figure]
        text = f"{name} {form.format(value) if value is not None else 'none yet'}"
        text += " earlier" if figure in older else ""
        if figure in receipt["figures"]:
            named = causes_of(receipt["recent_causes"]) if figure == ERRORS else ""
            text += f" ({_share(receipt['figures'][figure])}{'; ' if named else ''}{named})"
        elif figure in receipt["learning"]:
            text += " (learning)"
        parts.append(text)
    if (tested := receipt["figures"].get(TURNS)) and tested["evidence"] >= 1:
        parts.append(f"turns without a recall {receipt['turns_missed']} ({_share(tested)})")
    last = f"; of the last {recalls}" if recalls < receipt["seen"] else ""
    return f"{receipt['seen']:,} recalls{last}: {'; '.join(parts)}"


def _share(tested: Mapping[str, Any]) -> str:
    """Return the evidence of a figure as a share of its threshold, or as a multiple."""
    times = tested["evidence"] / tested["threshold"]
    if times > MOST_TIMES:
        return f"evidence {OVER}"
    return f"evidence {times:,.0f} times the threshold" if times >= 10 else f"evidence {times:.0%}"
