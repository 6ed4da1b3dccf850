"""``lab compare`` and ``lab explain``: two arms over the same turns, and one turn in detail."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UnusableInput
from lab.base.formatting import choices, markdown
from lab.cli import completion, options
from lab.cli.errata import comparison_beside
from lab.cli.output import emit, emit_folded, emit_json
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.compare.judgements import Turns
    from lab.compare.paired import Comparison, Difference
    from lab.runs.directory import RunDirectory

FORMATS = ("text", "markdown", "latex", "json")


def compare(
    run: options.Run,
    baseline: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.arms, help="An arm of DIR, or DIR2:ARM. [default: the first arm of DIR]"
        ),
    ] = None,
    candidate: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.arms, help="An arm of DIR, or DIR2:ARM. [default: the second arm of DIR]"
        ),
    ] = None,
    primary: Annotated[
        list[str] | None,
        typer.Option("--primary", help="A measure to test, chosen before seeing the results. Repeat, up to five."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every measure, not only the primary ones.")] = False,
    slices: Annotated[bool, typer.Option("--slices", help="Also show the primary measures by subgroup.")] = False,
    flips: Annotated[int, typer.Option(min=0, help="How many gained and how many lost probes to list.")] = 3,
    format: Annotated[  # noqa: A002 - the name of the option
        str, typer.Option("--format", help="text, markdown, latex or json.")
    ] = "text",
    errata: options.Errata = None,
    allow_failed: options.AllowFailed = False,
) -> Result:
    """Compare two arms over the same turns.

    Prints each difference with a confidence interval clustered by conversation and a sign-flip test. If no difference
    is shown, prints the minimum detectable effect.
    """
    from lab.compare.paired import compare_arms, locate
    from lab.report.comparison import shown
    from lab.runs.directory import open_run

    if format not in FORMATS:
        raise UnusableInput(f"unknown format {format!r}; {choices(format, FORMATS)}")
    opened = open_run(run, allow_failed=allow_failed)
    baseline, candidate = _pair(opened.arms, baseline, candidate)
    comparison = compare_arms(opened, baseline, candidate, primary=primary or (), slices=slices)
    beside = comparison_beside(opened, comparison, errata)
    turning = _turning(opened, comparison)
    more = {"turns": {name: turns.as_json() for name, turns in turning.items()}} | beside.value
    if format == "json":
        return Result(comparison, lambda found: emit_json(found.as_json() | more))
    candidate_run, arm = locate(opened, candidate)
    flipped = {"gained": comparison.gained[:flips], "lost": comparison.lost[:flips]}
    commands = {
        title: [join(["lab", "explain", str(candidate_run.path), turn, "--arm", arm]) for turn in turns]
        for title, turns in flipped.items()
    }
    emit_as = {"text": _emit_text, "markdown": _emit_markdown, "latex": _emit_latex}[format]

    def show(found: Comparison) -> None:
        emit_as(found, shown(found, every=every), commands)
        for name, turns in turning.items():
            emit_folded(f"{name} {turns.sentence}.")
        beside.show()

    return Result(comparison, show, lambda found: found.as_json() | more)


def _turning(run: RunDirectory, comparison: Comparison) -> dict[str, Turns]:
    """Return what turns each primary difference of two arms of one run that is shown."""
    if any(":" in arm for arm in (comparison.baseline, comparison.candidate)):
        return {}
    from lab.compare.judgements import Reading, of_difference

    reading = Reading()
    pair = comparison.baseline, comparison.candidate
    found = {
        one.measure: of_difference(run, *pair, one, comparison.family, reading)
        for one in comparison.differences
        if one.p_holm is not None
    }
    return {name: turns for name, turns in found.items() if turns is not None}


def _pair(arms: Sequence[str], baseline: str | None, candidate: str | None) -> tuple[str, str]:
    """Return the two arms to compare, by default the first and the second of the run."""
    baseline = baseline or next((arm for arm in arms if arm != candidate), None)
    candidate = candidate or next((arm for arm in arms if arm != baseline), None)
    if baseline is None or candidate is None:
        raise UnusableInput(
            f"the run has one arm, {', '.join(arms)}; replay it with a second --arm, or give an arm of another run: "
            "--baseline DIR2:ARM"
        )
    return baseline, candidate


def _emit_text(comparison: Comparison, differences: list[Difference], commands: dict[str, list[str]]) -> None:
    from lab.report.comparison import comparison_text

    emit(comparison_text(comparison, differences))
    for title, lines in commands.items():
        if lines:
            emit(f"{title}:")
        for line in lines:
            emit(f"  {line}")


def _emit_markdown(comparison: Comparison, differences: list[Difference], commands: dict[str, list[str]]) -> None:
    from lab.report.comparison import SLICED, WIDE, by_measure, gains, judged, notes, sliced, wide
    from lab.report.tables import markdown_table
    from lab.runs.notes import trial_line

    warning = trial_line(comparison.trial)
    title = f"{markdown(comparison.candidate)} minus {markdown(comparison.baseline)}{markdown(judged(comparison))}"
    emit(f"## {title}{f' ({markdown(warning)})' if warning else ''}\n")
    for note in comparison.embedder:
        emit(f"{markdown(note)}\n")
    emit(markdown_table(WIDE, [wide(difference, comparison.family) for difference in differences], left=2))
    for text in (*notes(comparison, differences), gains(comparison)):
        emit(f"\n{markdown(text)}")
    for measure, slices in by_measure(comparison):
        emit(f"\n### {markdown(measure)} by slice, worst first (exploratory: intervals are not adjusted)\n")
        emit(markdown_table(SLICED, [sliced(difference) for difference in slices]))
    for title, lines in commands.items():
        emit(f"\n{title}:\n" if lines else "")
        for line in lines:
            emit(f"    {line}")


def _emit_latex(comparison: Comparison, differences: list[Difference], _: dict[str, list[str]]) -> None:
    from lab.report.comparison import SLICED, WIDE, by_measure, gains, judged, notes, sliced, wide
    from lab.report.tables import latex, latex_table
    from lab.runs.notes import trial_line

    warning = trial_line(comparison.trial)
    names = f"{' '.join(comparison.candidate.split())} minus {' '.join(comparison.baseline.split())}"
    emit(f"% {names}{judged(comparison)}{f' ({warning})' if warning else ''}; needs booktabs")
    if warning:
        emit(f"\\par {latex(warning)}\n")
    for note in comparison.embedder:
        emit(f"\\par {latex(note)}\n")
    emit(latex_table(WIDE, [wide(difference, comparison.family) for difference in differences], left=2))
    for measure, slices in by_measure(comparison):
        emit(f"\n\\par {latex(measure)} by slice, worst first (exploratory: intervals are not adjusted)\n")
        emit(latex_table(SLICED, [sliced(difference) for difference in slices]))
    for text in (*notes(comparison, differences), gains(comparison)):
        emit(f"\n\\par {latex(text)}")


def explain(
    run: options.Run,
    turn: Annotated[
        str, typer.Argument(metavar="TURN", help="A turn (<conversation>/<session>/<turn>) or a probe of the run.")
    ],
    arm: Annotated[
        str | None, typer.Option(autocompletion=completion.arms, help="An arm of the run. [default: the first]")
    ] = None,
    with_text: Annotated[bool, typer.Option("--with-text", help="Show the texts of the turn and of memories.")] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="Show every candidate and factor, and with --with-text the injected block."),
    ] = False,
) -> Result:
    """Explain one turn: why memories were injected or dropped."""
    from lab.replay.explain import explain as explain_turn
    from lab.report.explanation import explanation_json, explanation_text
    from lab.runs.directory import open_run
    from lab.systems.contract import Detail

    opened = open_run(run)
    explanation = explain_turn(opened, turn, arm or opened.arms[0], detail=Detail(with_text, full))
    return Result(
        explanation,
        lambda found: emit(explanation_text(found, with_text=with_text, full=full)),
        lambda found: explanation_json(found, with_text=with_text),
    )
