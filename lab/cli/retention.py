"""``lab study retention``: say what a retention rule would archive and lose."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table, emit_trial

if TYPE_CHECKING:
    from lab.studies.retention import Loss


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("retention")(retention)


def retention(
    run: options.Run,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P1/P2",
            help="Days without use after which P1 and P2 are archived. Repeat for more. [default: 90/30]",
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--priority",
            help="label: must_remember is P0, nice_to_have P1, all others P2. kind: as the public sidecar, P1 for "
            "preferences, decisions, facts, entities and plans, else P2.",
        ),
    ] = "label",
    signal: Annotated[
        str, typer.Option("--used", help="What counts as a use: included (injected), retrieved (found), or none.")
    ] = "included",
    most_lost: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Search for the rule that loses less than this share.")
    ] = 0.01,
    as_json: Json = False,
) -> None:
    """Say what a retention rule would archive and lose.

    A memory is archived once it was not used for the days of its priority; P0 never is. Relevant memories of a probe
    that were archived by then are lost. Writes retention.parquet into DIR: when each memory was last retrieved and last
    included.
    """
    from lab.runs.directory import open_run
    from lab.runs.notes import trial
    from lab.studies.retention import (
        DEFAULT,
        FILE,
        P1_DAYS,
        P2_DAYS,
        largest,
        lives,
        losses,
        parse_rule,
        span_days,
        write_lives,
    )

    rules = [parse_rule(text) for text in rule or [str(DEFAULT)]]
    opened = open_run(run)
    found = lives(opened, by)
    lost = losses(found, rules, signal)
    best = largest(found, most_lost, signal)
    write_lives(found, run / FILE, rules[0], signal)
    reasons = trial(opened.manifest)
    days = span_days(found)
    if as_json:
        emit_json(
            {
                "run": str(run),
                "trial": list(reasons),
                "days": days,
                "priority": by,
                "used": signal,
                "rules": [_json(one) for one in lost],
                "most_lost": most_lost,
                "best": {arm: None if one is None else _json(one) for arm, one in best.items()},
            }
        )
        return
    emit_trial(reasons)
    for (arm, name), parts in groupby(lost, key=lambda one: (one.arm, one.rule)):
        emit(f"{arm}, rule {name}:")
        emit_table(
            ["priority", "archived", "relevant lost", "pairs lost", "injected lost"],
            [
                [
                    one.priority,
                    _share(one.archived, one.memories),
                    _share(one.lost_memories, one.relevant_memories),
                    _share(one.lost, one.relevant),
                    _share(one.lost_found, one.found),
                ]
                for one in parts
            ],
        )
        emit()
    emit_folded(
        "relevant lost: memories that are relevant to a probe after the rule archived them. pairs: of a probe and a "
        "memory relevant to it; injected: those in which the arm injected the memory. Recalls without the archived "
        f"memories are not replayed: others would take their slots. The longest conversation has {days:.0f} days."
    )
    shortest = min(*P1_DAYS, *P2_DAYS)
    if days < shortest:
        emit_folded(f"Too short to judge a rule, so none is named: the shortest archives after {shortest} days.")
        best = {}
    for arm, one in best.items():
        if one is None:
            emit_folded(f"{arm}: no rule of the grid archives a memory and loses less than {most_lost:.1%}.")
        else:
            emit_folded(
                f"{arm}: of the rules that lose less than {most_lost:.1%}, {one.rule} archives most: "
                f"{_share(one.archived, one.memories)} memories, losing {_share(one.lost, one.relevant)} pairs."
            )
    emit_folded(f"Every memory with its last use: {run / FILE}")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%} of {whole}" if whole else "-"


def _json(loss: Loss) -> dict[str, object]:
    return {
        **loss._asdict(),
        "rule": str(loss.rule),
        "archived_share": loss.archived_share,
        "lost_share": loss.lost_share,
    }
