"""``lab study league``: compare memory systems on every set at equal tokens."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CannotMeasure
from lab.cli import completion, options
from lab.cli.output import announce
from lab.cli.replay_options import takes_replay_options
from lab.cli.results import Result
from lab.cli.study import conclude
from lab.report.study import Part, Study

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest


@takes_replay_options(
    *("source", "labels", "must_share", "nice_share", "haystack", "haystack_from", "seed", "scope", "recall_turns"),
    *("limit", "store", "profile", "embedder", "answers", "allow_remote"),
    fixed=True,
    has_path=False,
)
def league(
    shared: ReplayRequest,
    *,
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="SETS…",
            help="Sets: shipped:operators, PATH, PATH:FORMAT or NAME=PATH:FORMAT, each with :OPTION=VALUE for options "
            "of this set alone, such as :recall-turns=all.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the runs, the tables and the page.")],
    format: Annotated[  # noqa: A002 - the name of the option
        str | None, typer.Option("--format", help="Format of sets that name none (see lab recordings list).")
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            autocompletion=completion.systems,
            help="A system; NAME=FILE for one with its own configuration; NAME=exec:COMMAND, NAME=http:URL or "
            "NAME=plugin:FOLDER for a live one. Repeat for more. [default: the systems of the lab]",
        ),
    ] = None,
    tokens: Annotated[
        str, typer.Option(metavar="N,N…", help="Token budgets of the injected text, frame included.")
    ] = "128,256,512,768,1200",
    jobs: options.Jobs = 1,
    slides: options.Slides = False,
) -> Result:
    """Compare memory systems on every set at equal tokens.

    The budget counts the whole injected text. Every arm proves first that it does what it is named for; one that cannot
    is refused, and listed. Repeating the command continues. Writes league.html, league.md, league.csv, times.csv,
    league.json and admission.json.
    """
    from lab.base.formatting import counted
    from lab.report.league import headline_columns, headline_rows, statements, write_page
    from lab.studies.league.arms import default_arms, entrants_of, league_command, parse_budgets
    from lab.studies.league.league import run_league, write_outputs
    from lab.studies.league.sets import parse_sets

    options.require_no_run(out)
    budgets = parse_budgets(tokens)
    chosen = parse_sets(sets, format)
    entrants = entrants_of(arm or default_arms(shared.source), shared)
    spelt = league_command(sets, arm or (), budgets, shared, format)
    result = run_league(chosen, entrants, budgets, shared, out, jobs=jobs, announce=announce, command=spelt)
    files = [*write_outputs(result, out), *write_page(result, out, slides=slides)]
    data = result.as_json() | {"league": str(out), "files": [str(file) for file in files]}
    table = Part("", headline_columns(result), headline_rows(result))
    explain = f"lab explain {quote(str(out))}/runs/SET/ARM TURN --arm ARM"
    study = Study("league", {}, [table], data, statements(result), (), result.trial, explain)
    error = None
    if result.refused:
        reasons = "; ".join(f"{standing.arm}: {standing.reason}" for standing in result.refused)
        error = CannotMeasure(f"{counted(len(result.refused), 'arm')} not ranked: {reasons}")
    return Result(data, lambda _: conclude(study, out / "league.html"), error=error)
