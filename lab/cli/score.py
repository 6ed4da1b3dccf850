"""``lab score``: print the means of the measures of a run, or list the measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import LabError, UnusableInput
from lab.base.formatting import counted, number
from lab.cli import options
from lab.cli.errata import scores_beside
from lab.cli.output import announce, emit, emit_folded, emit_notes, emit_table, emit_trial
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.measures.latency import Stage
    from lab.runs.directory import RunDirectory


def notes_json(run: RunDirectory) -> dict[str, Any]:
    """Return what a run says of its embedder and of the origins of its conversations, if anything."""
    from lab.base.shape import to_json
    from lab.runs.notes import config_notes

    notes, origins = config_notes(run.manifest.resolved), run.manifest.origins
    return ({"embedder": list(notes)} if notes else {}) | ({"origins": to_json(origins)} if origins else {})


def show_notes(found: dict[str, Any], run: RunDirectory) -> None:
    """Print whether a run is a trial, and its notes."""
    emit_trial(found["trial"])
    emit_notes((*run.manifest.notes, *found.get("embedder", ())))


def score(
    run: Annotated[Path | None, typer.Argument(metavar="DIR", help="A run directory, unless --list is given.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Show this measure. Repeat for more. [default: the main ones]"),
    ] = None,
    slices: Annotated[bool, typer.Option("--slices", help="Also show the means of every slice.")] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List every measure with its definition, range and source; score nothing.")
    ] = False,
    errata: options.Errata = None,
    allow_failed: options.AllowFailed = False,
) -> Result:
    """Score a run: means of the headline measures by arm.

    -m and --json show the other measures.
    """
    if listed:
        return _list_measures()
    if run is None:
        raise UnusableInput("give the run directory to score, or --list to list the measures")
    from lab.measures.catalogue import canonical
    from lab.measures.score import more_measures, score_and_write, score_run, summarise, unequal_counts
    from lab.report.comparison import sliced_over
    from lab.runs.directory import open_run
    from lab.runs.notes import trial
    from lab.runs.scores import read_gold

    opened = open_run(run, allow_failed=allow_failed)
    also = more_measures(map(canonical, measure or ()), opened.max_items.values())
    scores = score_and_write(opened)
    summary = summarise(score_run(opened, also) if also else scores, read_gold(opened), opened.arms)
    times = stages_of(opened)
    corrected = scores_beside(opened, errata)

    def show(found: dict[str, Any]) -> None:
        shown = measures_shown(found, opened, measure or ())
        show_notes(found, opened)
        show_means(found, opened, shown, None if measure else times)
        for name, counts in unequal_counts(scores, shown).items():
            listed = ", ".join(f"{arm} {n}" for arm, n in counts.items())
            emit_folded(f"{name} is over other turns in each arm: {listed}")
        if slices:
            for name, values in found["slices"].items():
                for value, arms in values.items():
                    emit(f"{name} = {value}")
                    _emit_means("arm", arms, shown)
            for note in sliced_over(shown):
                emit_folded(note)
        corrected.show()

    value = {"trial": list(trial(opened.manifest))} | summary | {"latency": latency_json(times)} | notes_json(opened)
    return Result(value | corrected.value, show)


def _list_measures() -> Result:
    from lab.measures.catalogue import CATALOGUE
    from lab.report.tables import folded

    rows: list[list[str]] = []
    for measure in CATALOGUE:
        rows.append([measure.title, measure.better, measure.unit, str(measure.range), measure.source])
        rows.append([folded(measure.definition, "    ")])
    heads = ["measure", "better", "per", "range", "source"]
    return Result({"measures": [measure.as_json() for measure in CATALOGUE]}, lambda _: emit_table(heads, rows, left=5))


def measures_shown(summary: dict[str, Any], run: RunDirectory, selected: Sequence[str]) -> list[str]:
    """Return the measures selected by the user, or the main ones. Raises :class:`UnusableInput` for an absent one."""
    from lab.measures.catalogue import canonical, require_measure
    from lab.measures.score import headlines, with_judged

    known = _measured(summary)
    names = [canonical(name) for name in selected]
    for name in names:
        if name not in known:
            require_measure(name, "--measure")
            raise UnusableInput(f"--measure {name}: has no values in this run; --json lists the measures that have")
    return names or [name for name in with_judged(headlines(run.cutoff)) if name in known]


def _measured(summary: dict[str, Any]) -> set[str]:
    return {name for arm in summary["arms"].values() for name in arm["measures"]}


def show_means(summary: dict[str, Any], run: RunDirectory, shown: Sequence[str], times: Sequence[Stage] | None) -> None:
    """Print what was replayed and the means; unless the user selected the measures, also what ``times`` adds."""
    from lab.report.comparison import drawn

    emit_folded(f"{counted(len(run.conversations), 'conversation')}, labels {run.labels}")
    emit_folded(run.haystack)
    _emit_means("arm", summary["arms"], shown)
    _emit_wrong_scope_bound(summary["arms"])
    if run.labels_are_sampled:
        emit_folded(drawn(run.labels))
    if times is not None:
        emit_card(summary["arms"], times, run.cutoff)
        emit(f"{len(_measured(summary)) - len(shown)} more measures: lab score -m NAME, or --json for all")


def stages_of(run: RunDirectory) -> list[Stage]:
    """Return the times of a run by arm and stage; announce why there are none if its timings cannot be read."""
    from lab.measures.latency import stages

    try:
        return stages(run)
    except LabError as error:
        # Scores do not depend on timings.
        announce(f"{error}; no times are shown")
        return []


def latency_json(times: Sequence[Stage]) -> dict[str, Any]:
    """Return the times by arm and stage as plain values, in milliseconds."""
    found: dict[str, Any] = {}
    for one in times:
        found.setdefault(one.arm, {})[one.stage] = one.spent.as_json()
    return found


def emit_card(arms: dict[str, Any], times: Sequence[Stage], cutoff: int) -> None:
    """Print hits, repeat dominance and latency by stage, in two tables of 80 columns."""
    from lab.report.sections import card_note, card_table

    card = card_table(arms, times, cutoff, lambda _, value: number(value))
    emit(f"{card.name}:")
    for columns in (slice(1, 5), slice(5, None)):
        if card.headers[columns]:
            emit_table(["arm", *card.headers[columns]], [[row[0], *row[columns]] for row in card.rows])
    emit_folded(card_note(cutoff, times))


def _emit_wrong_scope_bound(arms: dict[str, Any]) -> None:
    """Print the upper bound on the rate of scope leaks for arms in which none was observed."""
    clean: dict[int, list[str]] = {}
    for arm, scores in arms.items():
        if "AnyWrongScope" in scores["unseen"]:
            clean.setdefault(scores["unseen"]["AnyWrongScope"]["n"], []).append(arm)
    for n, names in clean.items():
        bound = arms[names[0]]["unseen"]["AnyWrongScope"]["at_most"]
        emit_folded(
            f"AnyWrongScope: 0 of {counted(n, 'turn')} of {', '.join(names)}; upper 95 % confidence bound "
            f"{bound:.2%} of turns, if turns are independent"
        )


def _emit_means(title: str, arms: dict[str, Any], shown: Sequence[str]) -> None:
    emit_table(
        [title, "n", *shown],
        [[name, scores["n"], *(scores["measures"].get(measure) for measure in shown)] for name, scores in arms.items()],
    )
