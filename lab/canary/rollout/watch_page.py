"""Write the page of a watch, which the browser reloads by itself: status, figures with evidence, and windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import log1p
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import write_atomically
from lab.base.formatting import counted, milliseconds, sentence
from lab.canary.rollout.evidence import COMPARED, LEARN, TURNS_LIMIT, WINDOW
from lab.canary.rollout.live_figures import CALLS, ERRORS, FIGURES, LATENCY, REPEAT, TEXT, TURNS
from lab.canary.rollout.watching import ALARM, MOST_TIMES, OVER, WATCHING
from lab.gate.action import Action
from lab.report.build import page_script, render
from lab.report.units import percent

FILE = "watch.html"
MARK = b"<!-- page of lab canary watch -->"
# Seconds after which a browser reads the page again.
REFRESH = 30
NAMES = {
    ERRORS: "error rate",
    CALLS: "error rate of memory_recall",
    LATENCY: "latency, 95th percentile",
    REPEAT: "repeat rate",
    TEXT: "recalls without a text hit",
    TURNS: "turns without a recall",
}
_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 120, 4, 8


def write_page(receipt: Mapping[str, Any], folder: Path) -> Path:
    """Write ``watch.html`` from the receipt of a watch; return its path."""
    path = folder / FILE
    if path.exists() and MARK not in path.read_bytes():
        raise UnusableInput(f"{path}: exists and is not a page of `lab canary watch`; choose another --out")
    write_atomically(path, render("watch.html.j2", _model(receipt)), durable=False)
    return path


def _model(receipt: Mapping[str, Any]) -> dict[str, Any]:
    shown = [_figure(receipt, figure) for figure in FIGURES]
    return {
        "title": f"Watch: {_word(receipt)}",
        "opening": _opening(receipt),
        "refresh": REFRESH if receipt["status"] == WATCHING else None,
        "figures": shown,
        "has_control": receipt["control"] is not None,
        "window": WINDOW,
        "warnings": [sentence(warning) for warning in receipt["warnings"]],
        "causes": {name: f"{count:,}" for name, count in receipt["causes"].items()},
        "counts": {name.replace("_", " "): f"{count:,}" for name, count in receipt["counts"].items()},
        "script": page_script(),
    }


def _word(receipt: Mapping[str, Any]) -> str:
    return "ALARM" if receipt["status"] == ALARM else "NO ALARM"


def _opening(receipt: Mapping[str, Any]) -> dict[str, Any]:
    alarm, done = receipt["alarm"], receipt["downgrade"]
    means = {ALARM: "the engine became worse", WATCHING: "watching"}.get(receipt["status"], "the watch has ended")
    if done:
        said = f"Switched back to {done['slot']} at {done['at']}. Find the cause before you switch to the engine again."
        action = Action(said, None)
    elif alarm and receipt["writes"]:
        action = Action("The gateway is being switched back. If this stays, repeat the command.", receipt["command"])
    elif alarm:
        action = Action("Nothing was switched, because --write was not given. To downgrade:", receipt["command"])
    else:
        action = Action("Nothing. An alarm " + ("switches back." if receipt["writes"] else "is only reported."), None)
    return {
        "subject": "Live engine",
        "state": "fail" if alarm else "pass",
        "word": _word(receipt),
        "means": means,
        "why": sentence(alarm["why"]) if alarm else _quiet(receipt),
        "action": action,
        "sure": f"By design at most one false alarm in {receipt['recalls']:,} recalls on average, over all figures.",
        "beside": [],
        "basis": [
            ("recalls", f"{receipt['seen']:,}"),
            ("since", receipt["started"]),
            ("last receipt", _time(receipt["last_time"])),
            ("page of", receipt["written"]),
            ("compared with", _compared(receipt)),
        ],
    }


def _compared(receipt: Mapping[str, Any]) -> str:
    if not receipt["control"]:
        return "limits"
    silent = ", ".join(NAMES[figure] for figure in receipt["silent"])
    return f"a control; WARNING: it gives nothing for {silent}, so limits apply to that" if silent else "a control"


def _quiet(receipt: Mapping[str, Any]) -> str:
    if not receipt["seen"]:
        return "No recall was seen yet."
    learning = [f"{NAMES[figure]} ({count} of {LEARN[figure]})" for figure, count in receipt["learning"].items()]
    more = f" Limits are being learned: {', '.join(learning)}." if learning else ""
    return f"{counted(receipt['seen'], 'recall')} without enough evidence against any figure.{more}"


def _figure(receipt: Mapping[str, Any], figure: str) -> dict[str, Any]:
    tested = receipt["figures"].get(figure)
    limit = _limit(receipt, figure)
    windows = receipt["windows"]
    latest = _latest(receipt, figure)
    alarm = receipt["alarm"]
    state = "fail" if alarm and alarm["figure"] == figure else "pass" if tested else "skipped"
    word = {"fail": "alarm", "pass": "no alarm", "skipped": "learning" if figure in receipt["learning"] else "no data"}
    beside = windows[-1].get("control", {}).get(figure) if windows and figure in COMPARED else None
    return {
        "id": figure,
        "name": NAMES[figure],
        "state": state,
        "word": word[state],
        "value": _unit(figure, latest[figure] if latest else None),
        "control": _unit(figure, beside),
        "limit": _unit(figure, limit),
        "evidence": _evidence(tested),
        "observations": f"{tested['observations']:,}" if tested else "0",
        "bar": _bar(tested),
        "chart": _chart(figure, windows, limit),
        "most": _unit(figure, _most(figure, windows, limit)),
        "windows": len([window for window in windows if window[figure] is not None]),
    }


def _limit(receipt: Mapping[str, Any], figure: str) -> float | None:
    if figure == TURNS:
        return TURNS_LIMIT
    return None if receipt["control"] else receipt["limits"][ERRORS if figure == CALLS else figure]


def _latest(receipt: Mapping[str, Any], figure: str) -> Mapping[str, Any] | None:
    """Return the last window with a value; the one that goes on only if half of it is there, or there is no other."""
    windows, now = receipt["windows"], receipt["now"]
    ordered = [*windows, now] if now["recalls"] >= WINDOW / 2 else [now, *windows]
    return next((window for window in reversed(ordered) if window[figure] is not None), None)


def _unit(figure: str, value: float | None) -> str:
    if value is None:
        return "–"
    if figure in (ERRORS, CALLS, TEXT, TURNS):
        return percent(value)
    return f"{milliseconds(value)} ms" if figure == LATENCY else f"{value:.2f}"


def _evidence(tested: Mapping[str, Any] | None) -> str:
    if tested is None:
        return "–"
    value = tested["evidence"]
    if value > MOST_TIMES * tested["threshold"]:
        return OVER
    return f"{value:,.0f} of {tested['threshold']:,.0f}" if value >= 1 else f"< 1 of {tested['threshold']:,.0f}"


def _bar(tested: Mapping[str, Any] | None) -> str:
    """Return the evidence as a bar on the way to its threshold, by the logarithm."""
    if tested is None:
        return ""
    share = min(log1p(max(tested["evidence"], 0.0)) / log1p(tested["threshold"]), 1.0)
    return (
        f'<svg role="img" aria-label="{share:.0%} of the way to an alarm"><line class="track" x1="0" x2="100%" y1="11" '
        f'y2="11"/><line class="edge" x1="100%" x2="100%" y1="2" y2="20"/><line class="bound" x1="0" '
        f'x2="{100 * share:.1f}%" y1="11" y2="11"/><circle class="dot" cx="{100 * share:.1f}%" cy="11" r="4"/></svg>'
    )


def _chart(figure: str, windows: Sequence[Mapping[str, Any]], limit: float | None) -> str:
    """Return the values of all windows as a line, that of the control as a dashed one, and the limit."""
    mine = [window[figure] for window in windows]
    other = [window.get("control", {}).get(figure) for window in windows]
    most = _most(figure, windows, limit)
    if sum(value is not None for value in mine) < 2 or most is None:
        return ""

    def y(value: float) -> float:
        return _TOP + (1 - value / most) * _HEIGHT

    def line(values: Sequence[float | None], name: str) -> str:
        step = (_WIDTH - 2 * _LEFT) / max(len(values) - 1, 1)
        points = [f"{_LEFT + step * n:.1f},{y(value):.1f}" for n, value in enumerate(values) if value is not None]
        return f'<polyline class="{name}" points="{" ".join(points)}"/>' if len(points) > 1 else ""

    parts = [f'<line class="track" x1="0" x2="{_WIDTH}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>']
    if limit is not None:
        parts.append(f'<line class="edge" x1="0" x2="{_WIDTH}" y1="{y(limit):.1f}" y2="{y(limit):.1f}"/>')
    parts += [line(other, "other"), line(mine, "mine")]
    said = escape(f"{NAMES[figure]} over {len(mine)} windows, from 0 to {_unit(figure, most)}")
    return (
        f'<svg class="windows" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT + 2 * _TOP}" preserveAspectRatio="none" '
        f'aria-label="{said}">{"".join(parts)}</svg>'
    )


def _most(figure: str, windows: Sequence[Mapping[str, Any]], limit: float | None) -> float | None:
    """Return the upper end of a chart's scale."""
    values = [value for window in windows for value in (window[figure], window.get("control", {}).get(figure))]
    known = [value for value in (*values, limit) if value is not None]
    return (max(known) or 1.0) * 1.1 if known else None


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "none"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
