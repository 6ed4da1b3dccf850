"""``lab compare`` and ``lab explain``."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table

SHOWN_FLIPS = 3


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    app.command("compare")(compare)
    app.command("explain")(explain)


def compare(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    baseline: Annotated[str, typer.Option(help="An arm of DIR, or DIR2:ARM.")],
    candidate: Annotated[str, typer.Option(help="An arm of DIR, or DIR2:ARM.")],
    every: Annotated[bool, typer.Option("--all", help="Show every measure, not only the primary ones.")] = False,
    as_json: Json = False,
) -> None:
    """Compare two arms over the same turns.

    Differences with clustered intervals and exact sign-flips: the conversation is the unit of inference.
    """
    from lab.compare.paired import compare_arms, locate
    from lab.compare.statistics import smallest_p
    from lab.replay.run_directory import open_run

    opened = open_run(run)
    found = compare_arms(opened, baseline, candidate)
    if as_json:
        emit_json(found.as_json())
        return
    emit(f"{candidate} minus {baseline}")
    rows = []
    for one in found.differences:
        if every or one.measure in found.primary:
            low, high = one.estimate.low, one.estimate.high
            interval = f"{low:+.3f} … {high:+.3f}" if low is not None and high is not None else "–"
            p = f"({one.p:.3f})" if one.p_holm is None else f"{one.p_holm:.3f}"
            rows.append(
                [
                    one.measure,
                    one.baseline,
                    one.candidate,
                    f"{one.estimate.mean:+.3f}",
                    interval,
                    p,
                    f"{one.wins}/{one.ties}/{one.losses}",
                ]
            )
    emit_table(["measure", "base", "cand", "diff", "95 % interval", "p", "up/same/down"], rows)
    conversations = max((one.conversations for one in found.differences), default=0)
    emit_folded(
        f"{conversations} conversations. p: sign-flips of whole conversations, Holm-adjusted over the "
        f"{len(found.primary)} primary measures; in brackets: not adjusted, exploratory."
    )
    least = smallest_p(conversations, len(found.primary))
    if least > 0.05:
        emit_folded(f"So few conversations cannot give an adjusted p below {least:.3f}: read the intervals.")
    where, arm = locate(opened, candidate)
    for title, flips in (("gained", found.gained), ("lost", found.lost)):
        emit(f"{title} a hit at {found.cutoff}: {len(flips)} probes")
        for turn in flips[:SHOWN_FLIPS]:
            emit(f"  {join(['lab', 'explain', str(where.path), turn, '--arm', arm])}")


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
    from lab.replay.run_directory import open_run
    from lab.report.explanation import explanation_json, explanation_text

    opened = open_run(run)
    found = explain_turn(opened, turn, arm or opened.arms[0])
    if as_json:
        emit_json(explanation_json(found, with_text=with_text))
    else:
        emit(explanation_text(found, with_text=with_text, full=full))
