"""``lab missed``: count the relevant memories that each arm missed, by cause."""

from __future__ import annotations

from shlex import join

from lab.cli import options
from lab.cli.output import announce
from lab.cli.results import Result
from lab.cli.study import finish
from lab.report.study import Part, Study


def missed(
    run: options.Run,
    jobs: options.Jobs = 1,
    slides: options.Slides = False,
) -> Result:
    """Count the relevant memories that each arm missed, by cause.

    Names the first turn of each cause. Every recall at a probe is repeated and explained, as lab explain explains one.
    The causes of an arm sum to all that it missed. Writes missed.parquet, with one row per missed memory, and
    missed.html, with a waterfall chart, into DIR.
    """
    from lab.replay.explain import CAUSES, FILE, write_missed
    from lab.replay.explain import missed as explain_all
    from lab.report.figures_arms import missed_chart
    from lab.report.material import source_of
    from lab.runs.directory import open_run
    from lab.runs.notes import trial

    opened = open_run(run)
    rows, counts = explain_all(opened, jobs=jobs, announce=announce)
    write_missed(rows, counts, run / FILE)
    known = [cause for cause in CAUSES if any(cause in count.causes for count in counts.values())]
    lines = {
        "all": [count.relevant for count in counts.values()],
        "injected": [count.injected for count in counts.values()],
        "in the Working Set": [count.pinned for count in counts.values()],
        "missed": [count.missed for count in counts.values()],
        **{f"  {cause}": [count.causes.get(cause, 0) for count in counts.values()] for cause in known},
    }
    reasons = trial(opened.manifest)
    first = {cause: next(row for row in rows if row.cause == cause) for cause in known}
    seen = first[max(known, key=lambda cause: sum(lines[f"  {cause}"]))] if known else None
    study = Study(
        "missed",
        {"missed": missed_chart(counts).of(source_of(opened))},
        [Part("", ("relevant memories", *counts), [[name, *values] for name, values in lines.items()])],
        {
            "run": str(run),
            "trial": list(reasons),
            "first": {cause: row._asdict() for cause, row in first.items()},
            "arms": {arm: {**count._asdict(), "missed": count.missed} for arm, count in counts.items()},
        },
        (),
        [
            *(f"{cause}: {CAUSES[cause]}. First at {row.probe}, arm {row.arm}." for cause, row in first.items()),
            f"Every missed memory: {FILE}, beside the page",
        ],
        reasons,
        join(["lab", "explain", str(run), seen.probe, "--arm", seen.arm]) if seen else join(["lab", "score", str(run)]),
        "lab missed",
    )
    return finish(study, run, slides=slides)
