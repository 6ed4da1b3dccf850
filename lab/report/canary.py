"""The page of a canary: the verdict on an audit of live receipts, and each figure beside that of a control window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import write_atomically
from lab.base.formatting import counted, number, sentence
from lab.gate.action import action_of, why
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line, deciding
from lab.gate.outputs import deciding_first, gravest_first, reason
from lab.gate.policy import OF_AUDITS
from lab.gate.receipts import ANSWERED, figure
from lab.gate.sessions import course, decided_by, decision
from lab.gate.verdict import Verdict
from lab.report.build import page_script, render
from lab.report.charts import COLOURS, Chart, Key, Plot, Series, Words, html, nice_axis
from lab.report.units import percent

FILE = "canary.html"
WORDS = {PASS: "GO", FAIL: "NO-GO", INCONCLUSIVE: "NO-GO YET", ERROR: "NO-GO"}
MEANS = {
    PASS: "every critical rule is shown to hold",
    FAIL: "fail: a critical rule is shown to be broken",
    INCONCLUSIVE: "inconclusive: too little evidence to decide",
    ERROR: "error: something was not measured",
}


def write_page(verdict: Verdict, audit: Mapping[str, Any], folder: Path, control: Mapping[str, Any] | None) -> Path:
    """Write ``canary.html``; return its path.

    ``audit`` is what the verdict judges. ``control`` is the audit of another window, such as the one before the switch
    or that of a gateway that was not switched: shown beside it.
    """
    lines = [line for line in deciding_first(verdict.lines) if line.kind in OF_AUDITS and line.status != SKIPPED]
    shown = [_row(line, control) for line in lines if line.difference is None]
    model = {
        "title": f"Canary: {WORDS[verdict.status]} ({verdict.policy})",
        "policy": verdict.policy,
        "opening": _opening(verdict, audit, control),
        "trial": verdict.trial,
        "groups": [
            ("decide", "Rules that decide", [row for row in shown if row["critical"]]),
            ("advisory", "Advisory rules", [row for row in shown if not row["critical"]]),
            ("drawn", "Blocks in drawn order", [_drawn(line) for line in lines if line.difference is not None]),
        ],
        "notes": verdict.embedder,
        "reasons": _reasons(verdict.lines),
        "course": _course(verdict, audit),
        "skipped": [f"{line.label}: {line.reason}" for line in verdict.lines if line.status == SKIPPED],
        "has_control": control is not None,
        "windows": [_window("canary", audit), *([_window("control", control)] if control else [])],
        "script": page_script(),
    }
    path = folder / FILE
    if path.exists() and b"<!-- canary page of lab gate -->" not in path.read_bytes():
        raise UnusableInput(f"{path}: exists and is not a page of `lab gate`; choose another --out")
    write_atomically(path, render("canary.html.j2", model))
    return path


def _reasons(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return why rules did not pass, those with the same reason together, and advisory ones in brackets."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in gravest_first(lines):
        said = reason(line).removeprefix(f"{line.label}: ").removeprefix(f"{line.measure}: ")
        groups.setdefault((line.status, said), []).append(line)
    return [
        {
            "name": ", ".join(line.label if line.critical else f"({line.label})" for line in group),
            "status": status,
            "why": said,
            "settles": None,
        }
        for (status, said), group in groups.items()
    ]


def _opening(verdict: Verdict, audit: Mapping[str, Any], control: Mapping[str, Any] | None) -> dict[str, Any]:
    answered = int(audit["recalls"]["answered"])
    critical = deciding(verdict.lines)
    bounded = [line for line in critical if line.low is not None]
    sure = f"{counted(answered, 'answered recall')}; {len(bounded)} of {counted(len(critical), 'critical rule')} "
    sure += f"{'has' if len(bounded) == 1 else 'have'} bounds. {decision(verdict.lines, verdict.status) or ''}".rstrip()
    first, last = audit.get("first_time"), audit.get("last_time")
    return {
        "subject": "Live receipts",
        "state": verdict.status,
        "word": WORDS[verdict.status],
        "means": MEANS[verdict.status],
        "why": sentence(why(verdict, _finding)),
        "action": action_of(verdict),
        "sure": sure,
        "beside": _differs(verdict.lines, control),
        "basis": [
            ("receipts", f"{audit['recalls']['receipts']:,}"),
            ("answered", f"{answered:,}"),
            ("from", str(first or "not stated")),
            ("to", str(last or "not stated")),
            ("control", f"{control['recalls']['answered']:,} answered" if control else "none given"),
        ],
    }


def _course(verdict: Verdict, audit: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the figure of the rule that decided, or that the verdict waits for; None without one."""
    line = decided_by(verdict.lines, verdict.status)
    found = course(line, audit) if line else None
    if line is None or line.sequence is None or found is None:
        return None
    chart = course_chart(line, found)
    return {"name": "course", "chart": html(chart), "words": chart.words, "caption": chart.words.source}


def course_chart(line: Line, found: tuple[list[int], list[float], list[float], list[float]]) -> Chart:
    """Return the mean of a rule's figure over sessions with its bounds at every look, against its limits.

    ``found`` is what :func:`lab.gate.sessions.course` returns.
    """
    numbers, means, low, high = found
    sequence = line.sequence or {}
    limit = next(value for value in _limits(line)[::-1] if value is not None)
    wider = sequence["pass_limit"]
    decided = sequence["decided"]
    state = {PASS: "is shown to be within its limit", FAIL: "is shown to be beyond its limit"}
    title = f"{line.measure} {state.get(line.status, 'is not decided')}"
    title += f" at session {decided}" if decided else f" after {counted(numbers[-1], 'session')}"
    about = "Line: mean over sessions so far. Band: bounds that hold at every look."
    edges = [(limit, COLOURS["tier_first_v1"], "--")]
    key = [Key(f"a failure {'above' if sequence['worst'] else 'below'} {limit:g}", COLOURS["tier_first_v1"], "", "--")]
    if wider != limit:
        edges.append((wider, COLOURS["hybrid"], ":"))
        key.append(Key(f"a pass shows {wider:g}", COLOURS["hybrid"], "", ":"))
    band = list(zip(numbers, low, high, strict=True))
    series = Series(line.measure, list(zip(numbers, means, strict=True)), COLOURS["tier_quota_v1"], band=band)
    shade = (decided, max(numbers[-1], decided)) if decided and decided < numbers[-1] else None
    most = max(*means, limit, wider, *low) if line.status == FAIL else max(*means, limit, wider, high[-1])
    y = nice_axis(0, min(1.0, 1.5 * most), line.measure, share=_is_share(line))
    kept = series._replace(band=[(at, min(one, y.high), min(two, y.high)) for at, one, two in band])
    plot = Plot([kept], nice_axis(0, numbers[-1], "session"), y, lines=edges, shade=shade)
    source = "Shaded: sessions after the decision." if shade else "The unit is the session."
    return Chart(Words(title, about, source), [plot], key)


def _differs(lines: Sequence[Line], control: Mapping[str, Any] | None) -> list[str]:
    """Say which failing rules the control breaks as well, because the switch is then not their cause."""
    if control is None:
        return []
    alike = [line.measure for line in deciding(lines, FAIL) if line.kind == "receipts" and _breaks(line, control)]
    return [f"The control breaks these limits as well: {', '.join(alike)}."] if alike else []


def _breaks(line: Line, control: Mapping[str, Any]) -> bool:
    """Return whether the control's value lies beyond the limit that the canary's value breaks."""
    mine, other = line.candidate, _figure(control, line)
    low, high = _limits(line)
    if mine is None or other is None:
        return False
    return (high is not None and mine > high and other > high) or (low is not None and mine < low and other < low)


def _limits(line: Line) -> tuple[float | None, float | None]:
    """Return the least and the most that the policy allows, read from the words of the rule's limit."""
    least = most = None
    for part in (line.limit or "").split(" and "):
        words = part.rpartition(" ")
        if words[0] == "at least":
            least = float(words[2])
        elif words[0] == "at most":
            most = float(words[2])
    return least, most


def _figure(audit: Mapping[str, Any], line: Line) -> float | None:
    """Return a window's value of the figure of a rule; of what recalls took, the upper bound."""
    path = f"latency.{line.measure.partition(' ')[0]}.high.value" if line.kind == "wait" else line.measure
    try:
        return figure(audit, path, "audit")
    except UnusableInput:
        return None


def _is_share(line: Line) -> bool:
    return line.measure.rpartition(".")[2].endswith(("rate", "share", "met", "reached", "exceeded")) or (
        line.candidate is not None and "window" in line.measure
    )


def _in_unit(line: Line, value: float | None) -> str:
    """Return a value of a rule's figure: a share in percent."""
    if _is_share(line):
        return percent(value)
    return number(value) if value is None or value % 1 else f"{value:,.0f}"


def _limit(line: Line) -> str:
    low, high = _limits(line)
    edges = (("at least", low), ("at most", high))
    return " and ".join(f"{words} {_in_unit(line, edge)}" for words, edge in edges if edge is not None)


def _finding(line: Line) -> str:
    """Return what a rule found, in the units of the table."""
    limit = _limit(line)
    found = f"{line.label} {_in_unit(line, line.candidate)}" if line.candidate is not None else line.label
    return f"{found}, where the policy requires {limit}" if limit and line.candidate is not None else found


def _row(line: Line, control: Mapping[str, Any] | None) -> dict[str, Any]:
    return _shown(line, _figure(control, line) if control else None)


def _drawn(line: Line) -> dict[str, Any]:
    """Return the row of a rule on drawn blocks: the means of both kinds, and what their order shows."""
    about = line.reason.removeprefix(f"{line.measure}: ")
    row = _shown(replace(line, low=None, high=None, n=None), line.baseline)
    return row | {"bounds": about, "limit": "not shown to be worse"}


def _shown(line: Line, other: float | None) -> dict[str, Any]:
    value = line.candidate
    bounds = f"{_in_unit(line, line.low)} to {_in_unit(line, line.high)}" if line.low is not None else ""
    return {
        "critical": line.critical,
        "name": line.measure,
        "status": line.status,
        "value": _in_unit(line, value),
        "order": value,
        "bounds": bounds,
        "n": f"{line.n:,}" if line.n else "",
        "control": _in_unit(line, other),
        "control_order": other,
        "limit": _limit(line) or line.limit or "–",
        "chart": _bar(line, other, is_share=_is_share(line)),
    }


def _bar(line: Line, other: float | None, *, is_share: bool) -> str:
    """Return the value with its bounds, the control as a ring, and the limits as dashed lines, from 0 on."""
    low, high = _limits(line)
    known = [one for one in (line.candidate, other, low, high, line.high) if one is not None]
    if line.candidate is None or not known:
        return ""
    most = 1.0 if is_share and max(known) > 0.5 else max(known) * 1.15 or 1.0

    def at(value: float) -> str:
        return f"{100 * min(max(value / most, 0.0), 1.0):.2f}%"

    parts = ['<line class="track" x1="0" x2="100%" y1="11" y2="11"/>']
    parts += [
        f'<line class="edge" x1="{at(edge)}" x2="{at(edge)}" y1="2" y2="20"/>'
        for edge in (low, high)
        if edge is not None
    ]
    if line.low is not None and line.high is not None:
        parts.append(f'<line class="bound" x1="{at(line.low)}" x2="{at(line.high)}" y1="11" y2="11"/>')
    if other is not None:
        parts.append(f'<circle class="ring" cx="{at(other)}" cy="11" r="7"/>')
    parts.append(f'<circle class="dot" cx="{at(line.candidate)}" cy="11" r="4"/>')
    said = escape(f"canary {line.candidate:.4g}" + (f", control {other:.4g}" if other is not None else ""))
    return f'<svg role="img" aria-label="{said}">{"".join(parts)}</svg>'


def _window(name: str, audit: Mapping[str, Any]) -> dict[str, Any]:
    modes = audit.get("selection_mode") or {}
    policies = [
        f"{mode} {part['count']}" for mode, part in modes.items() if isinstance(part, Mapping) and part.get("count")
    ]
    return {
        "name": name,
        "facts": {
            "files": ", ".join(Path(str(entry["file"])).name for entry in audit["files"]) or "none",
            "from": audit.get("first_time") or "not stated",
            "to": audit.get("last_time") or "not stated",
            "receipts": f"{audit['recalls']['receipts']:,}",
            ANSWERED.rpartition(".")[2]: f"{audit['recalls']['answered']:,}",
            "damaged lines": f"{audit['damage']['lines']:,}",
            "selection": ", ".join(policies) or "none",
        },
    }
