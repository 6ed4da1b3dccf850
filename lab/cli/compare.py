"""``lab compare`` and ``lab explain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, emit, emit_json
from lab.errors import UnusableInput

if TYPE_CHECKING:
    from lab.compare.paired import Comparison, Difference

FORMATS = ("text", "markdown", "latex", "json")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("compare")(compare)
    app.command("explain")(explain)


def compare(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    baseline: Annotated[
        str | None, typer.Option(help="An arm of DIR, or DIR2:ARM. [default: the first arm of DIR]")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option(help="An arm of DIR, or DIR2:ARM. [default: the second arm of DIR]")
    ] = None,
    primary: Annotated[
        list[str] | None,
        typer.Option("--primary", help="A measure that decides, declared before looking. Repeat: five at most."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every measure, not only the primary ones.")] = False,
    slices: Annotated[bool, typer.Option("--slices", help="Show the primary measures by subgroup, too.")] = False,
    flips: Annotated[
        int, typer.Option(min=0, help="How many probes that gained a hit to name, and that lost one.")
    ] = 3,
    format: Annotated[  # noqa: A002 - the name of the option
        str, typer.Option("--format", help="text, markdown, latex or json.")
    ] = "text",
    allow_failed: options.AllowFailed = False,
    as_json: Json = False,
) -> None:
    """Compare two arms over the same turns.

    Differences with clustered intervals and exact sign-flips: the conversation is the unit of inference. Where no
    difference is shown, what would have been found is.
    """
    from lab.compare.paired import compare_arms, locate
    from lab.report.comparison import shown
    from lab.runs.directory import open_run

    if format not in FORMATS:
        raise UnusableInput(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    opened = open_run(run, allow_failed=allow_failed)
    baseline, candidate = _pair(opened.arms, baseline, candidate)
    found = compare_arms(opened, baseline, candidate, primary=primary or (), slices=slices)
    if as_json or format == "json":
        emit_json(found.as_json())
        return
    where, arm = locate(opened, candidate)
    commands = {
        "gained": [join(["lab", "explain", str(where.path), turn, "--arm", arm]) for turn in found.gained[:flips]],
        "lost": [join(["lab", "explain", str(where.path), turn, "--arm", arm]) for turn in found.lost[:flips]],
    }
    emit_as = {"text": _emit_text, "markdown": _emit_markdown, "latex": _emit_latex}[format]
    emit_as(found, shown(found, every=every), commands)


def _pair(arms: Sequence[str], baseline: str | None, candidate: str | None) -> tuple[str, str]:
    """Return the two arms to compare: those given, else the first and the second that the run lists."""
    baseline = baseline or next((arm for arm in arms if arm != candidate), None)
    candidate = candidate or next((arm for arm in arms if arm != baseline), None)
    if baseline is None or candidate is None:
        raise UnusableInput(
            f"the run has one arm, {', '.join(arms)}; replay it with a second --arm, or name one of another run: "
            "--baseline DIR2:ARM"
        )
    return baseline, candidate


def _emit_text(found: Comparison, differences: list[Difference], commands: dict[str, list[str]]) -> None:
    from lab.report.comparison import comparison_text

    emit(comparison_text(found, differences))
    for title, lines in commands.items():
        if lines:
            emit(f"{title}:")
        for line in lines:
            emit(f"  {line}")


def _emit_markdown(found: Comparison, differences: list[Difference], commands: dict[str, list[str]]) -> None:
    from lab.formatting import markdown
    from lab.report.comparison import SLICED, WIDE, by_measure, gains, notes, sliced, wide
    from lab.report.tables import markdown_table
    from lab.runs.trial import trial_line

    said = trial_line(found.trial)
    emit(f"## {markdown(found.candidate)} minus {markdown(found.baseline)}{f' ({markdown(said)})' if said else ''}\n")
    for note in found.embedder:
        emit(f"{markdown(note)}\n")
    emit(markdown_table(WIDE, [wide(one, found.family) for one in differences], left=2))
    for text in (*notes(found, differences), gains(found)):
        emit(f"\n{markdown(text)}")
    for measure, some in by_measure(found):
        emit(f"\n### {markdown(measure)} by slice, worst first (exploratory, intervals are not adjusted)\n")
        emit(markdown_table(SLICED, [sliced(one) for one in some]))
    for title, lines in commands.items():
        emit(f"\n{title}:\n" if lines else "")
        for line in lines:
            emit(f"    {line}")


def _emit_latex(found: Comparison, differences: list[Difference], _: dict[str, list[str]]) -> None:
    from lab.report.comparison import SLICED, WIDE, by_measure, gains, notes, sliced, wide
    from lab.report.tables import latex, latex_table
    from lab.runs.trial import trial_line

    said = trial_line(found.trial)
    names = f"{' '.join(found.candidate.split())} minus {' '.join(found.baseline.split())}"
    emit(f"% {names}{f' ({said})' if said else ''}; needs booktabs")
    if said:
        emit(f"\\par {latex(said)}\n")
    for note in found.embedder:
        emit(f"\\par {latex(note)}\n")
    emit(latex_table(WIDE, [wide(one, found.family) for one in differences], left=2))
    for measure, some in by_measure(found):
        emit(f"\n\\par {latex(measure)} by slice, worst first (exploratory, intervals are not adjusted)\n")
        emit(latex_table(SLICED, [sliced(one) for one in some]))
    for text in (*notes(found, differences), gains(found)):
        emit(f"\n\\par {latex(text)}")


def explain(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    turn: Annotated[
        str, typer.Argument(metavar="TURN", help="A turn (<conversation>/<session>/<turn>) or a probe of the run.")
    ],
    arm: Annotated[str | None, typer.Option(help="An arm of the run; the first by default.")] = None,
    with_text: Annotated[bool, typer.Option("--with-text", help="Show the texts of the turn and of memories.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Show every candidate, every factor and, with texts, the injected block.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain one turn: why each memory has its place, or lost it."""
    from lab.replay.explain import explain as explain_turn
    from lab.report.explanation import explanation_json, explanation_text
    from lab.runs.directory import open_run
    from lab.systems.contract import Detail

    opened = open_run(run)
    found = explain_turn(opened, turn, arm or opened.arms[0], detail=Detail(with_text, full))
    if as_json:
        emit_json(explanation_json(found, with_text=with_text))
    else:
        emit(explanation_text(found, with_text=with_text, full=full))
