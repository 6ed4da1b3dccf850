"""``lab runs export`` and ``lab runs import``: TREC and BEIR files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import UnusableInput
from lab.cli import options
from lab.cli.output import emit, emit_table
from lab.cli.results import Result

SHOWN = ("nDCG@10", "R@10", "Success@10", "RR@10", "AP", "Judged@10")


def export(
    run: options.Run,
    out: Annotated[Path, typer.Option(help="Folder to write: new, or an export of the same run.")],
    format: Annotated[  # noqa: A002 - the name of the option
        str, typer.Option("--format", help="trec (qrels.txt and one run file per arm) or beir (qrels/test.tsv).")
    ] = "trec",
    with_text: Annotated[
        bool,
        typer.Option("--with-text", help="beir: also write corpus.jsonl and queries.jsonl, read from the recording."),
    ] = False,
) -> Result:
    """Export a run's judgements and rankings to TREC or BEIR files.

    White space in names is percent-encoded. Scores decrease strictly with rank, so that every tool keeps the order.
    """
    from lab.measures.trec import export_run
    from lab.runs.directory import open_run

    files = export_run(open_run(run), format, out, with_text=with_text)
    return Result([str(file) for file in files], lambda files: emit("\n".join(files)), lambda files: {"files": files})


def import_(
    qrels: Annotated[Path, typer.Option(help="Judgements: a qrels file of TREC or BEIR, or a BEIR folder.")],
    run: Annotated[list[Path], typer.Option("--run", help="A TREC run file. Repeat for more.")],
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Show this measure, such as nDCG@10, AP, P(rel=2)@5. Repeat for more."),
    ] = None,
) -> Result:
    """Score TREC run files.

    Means are over all queries of the qrels; a query that a run lacks scores 0, as with trec_eval -c. Ties are broken as
    in trec_eval.
    """
    from lab.measures.catalogue import canonical
    from lab.measures.trec import evaluate, read_qrels, read_run

    if len(set(run)) < len(run):
        raise UnusableInput("a run file was given twice; give each --run once")
    measures = [canonical(name) for name in measure or SHOWN]
    judged = read_qrels(qrels)
    scores: dict[str, dict[str, Any]] = {}
    for path in run:
        ranking = read_run(path)
        values = evaluate(ranking, judged, measures)
        scores[str(path)] = {
            "n": len(judged),
            "missing": len(judged.keys() - ranking.keys()),
            "unjudged": len(ranking.keys() - judged.keys()),
            "measures": {name: float(per_query.mean()) for name, per_query in values.items()},
        }
    return Result(scores, lambda scores: _show_scores(scores, measures), lambda scores: {"runs": scores})


def _show_scores(scores: dict[str, dict[str, Any]], measures: list[str]) -> None:
    stems = [Path(path).stem for path in scores]
    rows = {Path(path).stem if stems.count(Path(path).stem) == 1 else path: row for path, row in scores.items()}
    values = [[stem, row["n"], *(row["measures"][name] for name in measures)] for stem, row in rows.items()]
    emit_table(["run", "n", *measures], values)
    for stem, row in rows.items():
        if row["missing"] or row["unjudged"]:
            emit(f"{stem}: {row['missing']} queries without results, {row['unjudged']} not in the qrels (ignored)")
