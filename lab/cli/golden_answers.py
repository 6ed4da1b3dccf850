"""``lab golden answers``: the words of recorded answers beside a judge's votes."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.output import emit, emit_folded, emit_table
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.studies.answers import Agreement

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="Recorded answers with votes, as in the LoCoMo audit.")
]
WrongFiles = Annotated[
    list[Path] | None,
    typer.Option("--wrong", metavar="FILE", help="Answers that are wrong on purpose. Repeat for more."),
]
HEADERS = ("category", "n", "right", "accepted", "precision", "recall", "AUROC")


def answers(files: Files, wrong: WrongFiles = None) -> Result:
    """Compare the words of recorded answers with a judge's votes.

    Shows precision, recall and AUROC by file and category, and which wrong answers are accepted.
    """
    from lab.studies.answers import THRESHOLD, agreements

    recorded = [line for file in files for line in agreements(file)]
    made_wrong = [line for file in wrong or () for line in agreements(file)]

    def show(_: object) -> None:
        emit_folded(
            f"An answer is accepted if it has {THRESHOLD:.0%} or more of the gold answer's content words, numbers and "
            "dates. An answer is right if most of the judge's votes accept it."
        )
        for file, lines in groupby(recorded, lambda line: line.file):
            emit()
            emit(file)
            emit_table(HEADERS, [[getattr(line, name.lower()) for name in HEADERS] for line in lines])
        if made_wrong:
            emit()
            emit("Wrong answers that are accepted:")
            emit_table(("file", "category", "n", "by words", "by the judge"), [_row(line) for line in made_wrong])
        empty = sum(line.empty for line in (*recorded, *made_wrong) if line.category == "all")
        if empty:
            emit_folded(f"Left out, because the gold answer has no content words: {empty}.")
        emit_folded(
            "This is about these answers. Words of a gold answer in a block, AnswerRecall@block, show nothing about "
            "right answers of an arm whose answers nobody recorded."
        )

    value = {"threshold": THRESHOLD}
    lines = {"answers": [line.as_json() for line in recorded], "wrong": [line.as_json() for line in made_wrong]}
    return Result(value | lines, show)


def _row(line: Agreement) -> list[object]:
    return [line.file, line.category, line.n, line.accepted, line.right]
