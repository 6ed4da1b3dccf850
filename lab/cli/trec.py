"""``lab measures``, ``lab export`` and ``lab import``: the names of the field, and its files."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer

from lab.cli.output import Json, emit, emit_json, emit_table
from lab.errors import UnusableInput

SHOWN = ("nDCG@10", "R@10", "Success@10", "RR@10", "AP", "Judged@10")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("measures")(measures)
    app.command("export")(export)
    app.command("import")(import_)


def measures(as_json: Json = False) -> None:
    """List every measure. What it says, its range, which way is better, and where it comes from."""
    from lab.measures.catalogue import CATALOGUE

    if as_json:
        emit_json({"measures": [one.as_json() for one in CATALOGUE]})
        return
    emit(f"{'measure':21}{'better':9}{'of each':14}{'range':8}from")
    emit("─" * 80)
    for one in CATALOGUE:
        emit(f"{one.title:21}{one.better:9}{one.unit:14}{one.range:8}{one.source}")
        emit(fill(one.definition, 80, initial_indent="    ", subsequent_indent="    "))


def export(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    out: Annotated[Path, typer.Option(help="Folder to write; new, or an export of the same run.")],
    format: Annotated[  # noqa: A002 - the name of the option
        str, typer.Option("--format", help="trec (qrels.txt and a run file an arm) or beir (qrels/test.tsv).")
    ] = "trec",
    with_text: Annotated[
        bool,
        typer.Option(
            "--with-text", help="beir: corpus.jsonl and queries.jsonl, too; the recording is read again for it."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a run's judgements and rankings for other tools.

    White space in names is percent-escaped. Scores fall from place to place, so that every tool keeps the order.
    """
    from lab.measures.export import export_run
    from lab.runs.directory import open_run

    files = export_run(open_run(run), format, out, with_text=with_text)
    if as_json:
        emit_json({"files": [str(file) for file in files]})
    else:
        for file in files:
            emit(str(file))


def import_(
    qrels: Annotated[Path, typer.Option(help="Judgements: a qrels file of TREC or BEIR, or a BEIR folder.")],
    run: Annotated[list[Path], typer.Option("--run", help="A run file of TREC. Repeat for more.")],
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Show these measures: nDCG@10, AP, P(rel=2)@5. Repeat for more."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score run files of TREC.

    Means over all queries of the qrels; one that a run lacks scores 0, as in trec_eval -c. Ties are broken as
    trec_eval breaks them.
    """
    from lab.measures.batch import evaluate
    from lab.measures.catalogue import canonical
    from lab.measures.trec import read_qrels, read_run

    if len(set(run)) < len(run):
        raise UnusableInput("a run file was given twice")
    asked = [canonical(name) for name in measure or SHOWN]
    judged = read_qrels(qrels)
    found: dict[str, dict[str, Any]] = {}
    for path in run:
        own = read_run(path)
        values = evaluate(own, judged, asked)
        found[str(path)] = {
            "n": len(judged),
            "missing": len(judged.keys() - own.keys()),
            "unjudged": len(own.keys() - judged.keys()),
            "measures": {name: float(one.mean()) for name, one in values.items()},
        }
    if as_json:
        emit_json({"runs": found})
        return
    stems = [path.stem if [one.stem for one in run].count(path.stem) == 1 else str(path) for path in run]
    emit_table(
        ["run", "n", *asked],
        [
            [stem, one["n"], *(one["measures"][name] for name in asked)]
            for stem, one in zip(stems, found.values(), strict=True)
        ],
    )
    for stem, one in zip(stems, found.values(), strict=True):
        if one["missing"] or one["unjudged"]:
            emit(f"{stem}: {one['missing']} queries without a line, {one['unjudged']} that nobody judged (left out)")
