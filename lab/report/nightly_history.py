"""The history on the page of a nightly run: nightly runs, steps, levels, and their charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from typing import Any

from lab.base.formatting import counted
from lab.gate.line import PASS
from lab.nightly.past_runs import Past, PastRun
from lab.nightly.trend import Series
from lab.report import charts
from lab.report.units import is_share, mean_of

# Colours of arms without one, marks that tell arms apart without colour, and panels of one page.
SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777")
MARKS = ("o", "s", "D", "^", "v", "P", "X")
MOST_PANELS, MOST_DATES = 12, 4


def history_model(past: Past, date: str) -> dict[str, Any]:
    """Return what the template shows of the history; ``date`` is that of the page's own nightly run."""
    return {
        "past_runs": [_past_run(run, date) for run in past.shown],
        "left_out": past.left_out,
        "steps": [_step(number, step, past.series) for number, step in enumerate(past.steps)],
        "levels": [_level(line) for line in past.series if line.points],
        "charts": _charts(past),
    }


def _past_run(run: PastRun, date: str) -> dict[str, Any]:
    about = [
        *([f"{counted(len(run.failing), 'rule')} did not pass"] if run.status != PASS and run.failing else []),
        *([f"{counted(len(run.steps), 'level')} changed"] if run.steps else []),
        *([f"commit {run.commit[:12]}"] if run.commit else []),
    ]
    return run._asdict() | {"is_this": run.date == date, "about": ", ".join(about)}


def _what(record: Mapping[str, Any]) -> str:
    return f"{record['measure']} of {record['arm']} in {record['set']}"


def _step(number: int, step: Mapping[str, Any], series: Sequence[Series]) -> dict[str, Any]:
    measure = step["measure"]
    (line,) = [one for one in series if (one.set, one.arm, one.measure) == (step["set"], step["arm"], step["measure"])]
    return {
        "number": number,
        "date": step["first"],
        "last": step["last"],
        "what": _what(step),
        "before": mean_of(measure, step["before"]),
        "after": mean_of(measure, step["after"]),
        "moved": step["moved"],
        "levels": _levels(line),
    }


def _levels(line: Series) -> list[str]:
    """Return every level of a series, with its first and its last nightly run."""
    begins = [0, *(step.at for step in line.steps)]
    values = [line.steps[0].before, *(step.after for step in line.steps)]
    ends = [*begins[1:], len(line.points)]
    return [
        f"{mean_of(line.measure, value)} from {line.points[begin].date} to {line.points[end - 1].date}"
        for begin, end, value in zip(begins, ends, values, strict=True)
    ]


def _level(line: Series) -> dict[str, Any]:
    begin = line.steps[-1].at if line.steps else 0
    value = line.steps[-1].after if line.steps else line.points[-1].mean
    return {
        "what": _what(line._asdict()),
        "value": value,
        "level": mean_of(line.measure, value),
        "since": line.points[begin].date,
        "order": int(line.points[begin].date.replace("-", "")),
        "runs": len(line.points),
        "steps": len(line.steps),
    }


def _charts(past: Past) -> str:
    """Return the chart of the history; nothing for a single nightly run."""
    chart = trend_chart(past.series)
    more = f'<p class="note">{escape(chart.words.subtitle)}</p>' if chart.words.subtitle else ""
    return f"<figure>{charts.html(chart)}</figure>{more}" if chart.panels else ""


def trend_chart(series: Sequence[Series]) -> charts.Chart:
    """Return a panel for each set and measure, those with steps first; dotted lines: steps."""
    groups: dict[tuple[str, str], list[Series]] = {}
    for line in series:
        if len(line.points) > 1:
            groups.setdefault((line.set, line.measure), []).append(line)
    order = sorted(groups, key=lambda group: -sum(len(line.steps) for line in groups[group]))
    arms = list(dict.fromkeys(line.arm for line in series))
    free = cycle(SHADES)
    looks = {arm: (charts.COLOURS.get(arm) or next(free), MARKS[at % len(MARKS)]) for at, arm in enumerate(arms)}
    panels = [_panel(f"{measure} in {name}", groups[name, measure], looks) for name, measure in order[:MOST_PANELS]]
    drawn = {line.arm for group in order[:MOST_PANELS] for line in groups[group]}
    more = len(order) - MOST_PANELS
    words = charts.Words("History of nightly runs; dotted lines: steps", f"and {more} more in the table" * (more > 0))
    return charts.Chart(words, panels, [charts.Key(arm, *looks[arm], "-") for arm in arms if arm in drawn])


def _panel(title: str, lines: Sequence[Series], looks: Mapping[str, tuple[str, str]]) -> charts.Plot:
    """Return one panel: a mark for each nightly run and arm, joined by its levels. Runs are equally spaced."""
    dates = sorted({point.date for line in lines for point in line.points})
    columns = {date: float(at) for at, date in enumerate(dates)}
    every = max(1, -(-(len(dates) - 1) // MOST_DATES))
    ticks = [(columns[date], date[5:]) for date in dates[::every]]
    means = [point.mean for line in lines for point in line.points]
    y = charts.nice_axis(min(means), max(means), share=is_share(lines[0].measure))
    drawn = [
        charts.Series(
            line.arm,
            [(columns[point.date], point.mean) for point in line.points],
            looks[line.arm][0],
            looks[line.arm][1],
            step=True,
            every=max(1, len(line.points) // 10),
        )
        for line in lines
    ]
    for line in lines:
        for step in line.steps:
            at = columns[line.points[step.at].date] - 0.5
            drawn.append(charts.Series("step", [(at, y.low), (at, y.high)], looks[line.arm][0], dash=":"))
    return charts.Plot(drawn, charts.Axis(0.0, max(1.0, float(len(dates) - 1)), ticks, "nightly run"), y, title)
