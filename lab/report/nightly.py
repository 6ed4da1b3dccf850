"""The pages of a nightly run: one model, rendered as a self-contained HTML page and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

from lab.base.files import write_atomically
from lab.base.formatting import counted
from lab.compare.changes import cause
from lab.gate.line import AGAIN, ERROR, FAIL, INCONCLUSIVE, PASS, Line, deciding
from lab.gate.outputs import deciding_first, reason
from lab.gate.verdict import on_what
from lab.nightly.nightly_folder import PAGE, action_after
from lab.nightly.nightly_run import NightlyRun, SetResult
from lab.nightly.trend import Past, PastRun, Series, past_of
from lab.report import charts
from lab.report.build import page_script, render
from lab.report.opening import WORDS
from lab.report.units import is_share, mean_of
from lab.runs.notes import trial_line

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


SUMMARIES = {
    PASS: "No change that the policy forbids, and no measure is shown to be worse.",
    INCONCLUSIVE: "At least one rule is inconclusive.",
    ERROR: "At least one rule could not be measured.",
}
# The summary of a failure by the kind of the failed rule; all other kinds are limits.
FAILURES = {
    "exact": "Receipts changed.",
    "guard": "A measure is shown to be worse.",
    "improve": "A measure is shown not to be better.",
}
BEYOND = "A limit is violated."
MEANS = {
    PASS: "as approved",
    FAIL: "not as approved",
    INCONCLUSIVE: "nothing to compare with",
    ERROR: "something was not measured",
}
# Reasons that the first screen gives.
MOST_REASONS = 2
FIRST = "nothing: first nightly run with it"
# Conversations that a table shows.
MOST_ROWS = 50


def write_pages(nightly_run: NightlyRun, store: Path | None = None) -> list[Path]:
    """Write ``nightly.html`` and ``nightly.md``; return their paths, HTML first.

    ``store`` is the folder of the history, which the HTML page shows together with the nightly runs beside this one.
    """
    trial = trial_line(nightly_run.trial)
    past = past_of(store, nightly_run.plan, nightly_run.folder, nightly_run.as_json())
    history = history_model(past, nightly_run.date)
    model = {
        "title": f"Nightly run of {nightly_run.date}: {nightly_run.status}" + (f" ({trial})" if trial else ""),
        "sentence": _summary(nightly_run),
        "plan": nightly_run.plan,
        "opening": _opening(nightly_run),
        "trial": nightly_run.trial,
        "facts": {
            "plan": nightly_run.plan,
            "the plan requires": nightly_run.about,
            "commit": nightly_run.commit or "no repository",
        },
        "approve": nightly_run.approve_all,
        "sets": [_set(result) for result in nightly_run.sets],
        "contents": _contents(nightly_run, history),
        "script": page_script(),
        **history,
    }
    files = {
        nightly_run.folder / PAGE: render("nightly.html.j2", model),
        nightly_run.folder / "nightly.md": render("nightly.md.j2", model),
    }
    for path, data in files.items():
        write_atomically(path, data)
    return list(files)


def _contents(nightly_run: NightlyRun, history: dict[str, Any]) -> list[tuple[str, str]]:
    sets = [(f"set-{number}", result.name) for number, result in enumerate(nightly_run.sets, 1)]
    parts = [("history", "past_runs", "History"), ("steps", "steps", "Steps"), ("levels", "levels", "Levels")]
    return [*sets, *((name, heading) for name, key, heading in parts if history[key]), ("run", "Nightly run")]


def _deciding(nightly_run: NightlyRun) -> list[tuple[str, Line]]:
    """Return the critical lines that give the nightly run its status, each with the name of its set."""
    return [
        (result.name, line)
        for result in nightly_run.sets
        for line in deciding(result.verdict.lines, nightly_run.status)
    ]


def _opening(nightly_run: NightlyRun) -> dict[str, Any]:
    status, own = nightly_run.status, _deciding(nightly_run)
    turns = sum(result.again.turns for result in nightly_run.sets if result.again)
    passing = sum(result.verdict.status == PASS for result in nightly_run.sets)
    why = _summary(nightly_run)
    if status != PASS:
        many = len(nightly_run.sets) > 1
        parts = [f"{f'{name}: ' if many else ''}{_short(line)}" for name, line in own[:MOST_REASONS]]
        more = len(own) - MOST_REASONS
        why = "; ".join([*parts, *([f"and {counted(more, 'more rule')}"] if more > 0 else [])])
        if moved := [text for result in nightly_run.sets if result.exact for text in result.exact.moved]:
            why = f"Since the baseline: {cause(list(dict.fromkeys(moved)))}. {why}"
    compared = sum(result.exact.turns for result in nightly_run.sets if result.exact)
    changed = sum(result.exact.changed for result in nightly_run.sets if result.exact)
    sure = (
        f"{compared:,} receipts compared with the baselines bit for bit, {changed:,} differ. No chance is involved."
        if compared
        else f"{turns:,} receipts replayed twice; none was compared with a baseline."
    )
    unstable = sum(result.again.changed for result in nightly_run.sets if result.again)
    if unstable:
        sure = f"{unstable:,} of {turns:,} receipts differ between two replays of the same code."
    return {
        "subject": nightly_run.date,
        "state": status,
        "word": WORDS[status],
        "means": on_what(result.verdict for result in nightly_run.sets).strip() or MEANS[status],
        "why": f"{why.rstrip('.')}.",
        "action": action_after(nightly_run.as_json(), nightly_run.approve_all),
        "sure": sure,
        "beside": nightly_run.notes,
        "basis": [
            ("sets that pass", f"{passing} of {len(nightly_run.sets)}"),
            ("receipts, each made twice", f"{turns:,}"),
            ("arms", f"{len({arm for result in nightly_run.sets for arm in result.means})}"),
            ("commit", (nightly_run.commit or "no repository")[:12]),
        ],
    }


def _short(line: Line) -> str:
    """Return the reason of a line without the cause that the page says before it and its turns, and with its arm."""
    arm = f" of {line.measure.removesuffix(' receipts')}" if line.kind == "exact" else ""
    said = line.reason.partition(" (")[0].partition("; nothing else")[0]
    return said.rpartition(": ")[2].replace(" receipts changed", f" receipts{arm} changed") if arm else said


def _summary(nightly_run: NightlyRun) -> str:
    failed = {FAILURES.get(line.kind, BEYOND) for _, line in _deciding(nightly_run)}
    # In a fixed order, independent of the order of the sets.
    sentences = " ".join(sentence for sentence in (*FAILURES.values(), BEYOND) if sentence in failed)
    return sentences if nightly_run.status == FAIL else SUMMARIES[nightly_run.status]


def _set(result: SetResult) -> dict[str, Any]:
    lines = deciding_first(result.verdict.lines)
    shown = {
        critical: [
            {"status": line.status, "name": _rule(line), "why": reason(line), "settles": None}
            for line in lines
            if line.critical == critical
        ]
        for critical in (True, False)
    }
    return {
        "name": result.name,
        "status": result.verdict.status,
        "again": f"{result.again.changed} of {result.again.turns}" if result.again else "–",
        "changed": f"{result.exact.changed} of {result.exact.turns}" if result.exact else "–",
        "approved": result.approved[:12] if result.approved else "–",
        "lines": shown[True],
        "advisory": shown[False],
        "counted": counted(len(shown[False]), "advisory rule"),
        "moved": list(result.exact.moved) if result.exact and result.exact.changed else [],
        "first": result.exact.first() if result.exact else [],
        "columns": list(result.primary),
        "table": [
            (arm, [(means.get(name), mean_of(name, means.get(name))) for name in result.primary])
            for arm, means in result.means.items()
        ],
        "apart": _apart(result),
    }


def _apart(result: SetResult) -> dict[str, Any] | None:
    """Return the table of the conversations that were compared apart, and their means beside those of the others."""
    apart = result.apart
    if apart is None or not (apart.rows or apart.lines or apart.copied):
        return None
    memories = [f"{count} {what}" for what, count in apart.memories.items() if count]
    return {
        "since": apart.since,
        "counts": apart.counts,
        "memories": f"Memories of the store: {', '.join(memories)}." if memories else "",
        "copy_note": apart.copy_note or "",
        "rows": [
            {
                "conversation": row["conversation"],
                "what": row["what"],
                "turns": row.get("turns", "–"),
                "recalls": row.get("recalls", "–"),
                "since": row.get("since") or (FIRST if "recalls" in row else "–"),
                "changed": ", ".join(f"{arm} {count}" for arm, count in row.get("changed", {}).items() if count)
                or ("none" if "changed" in row else "–"),
            }
            for row in apart.rows[:MOST_ROWS]
        ],
        "more": max(0, len(apart.rows) - MOST_ROWS),
        "table": [
            (arm, [mean_of(name, means.get(name)) for means in both for name in result.primary])
            for arm in apart.means
            for both in ((result.means.get(arm, {}), apart.means[arm]),)
        ],
        "no_value": _no_value(result.primary, apart.means),
    }


def _no_value(primary: Sequence[str], by_arm: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return why measures have no mean in the conversations apart, as sentences; empty if all have one."""
    missing = [name for name in primary if any(means.get(name) is None for means in by_arm.values())]
    repeats = [name for name in missing if name.startswith("RepeatRate")]
    judged = [name for name in missing if name not in repeats]
    texts = []
    if repeats:
        texts.append(
            f"{', '.join(repeats)}, apart: where there is no value, there were too few recalls that inject something; "
            "a repeat needs a second one in its conversation."
        )
    if judged:
        texts.append(f"{', '.join(judged)}, apart: where there is no value, no recall could be measured or judged.")
    return " ".join(texts)


def _rule(line: Line) -> str:
    """Return the name of a rule, in words for the comparison of the two replays."""
    return "two replays" if line.kind == AGAIN else line.name
