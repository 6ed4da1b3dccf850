"""Read and write judgements and rankings in the formats of TREC.

    qrels    QUERY 0 DOCUMENT GRADE               (BEIR: QUERY DOCUMENT GRADE, under a line of headings)
    run      QUERY Q0 DOCUMENT RANK SCORE TAG

Fields are separated by white space, so names are escaped: white space, per cent signs and unprintable characters are
percent-encoded as UTF-8, as in a URL. ``urllib.parse.unquote`` restores the name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from lab.base.errors import UnusableInput
from lab.base.files import read_text

BEIR_HEADINGS = ("query-id", "corpus-id", "score")
# White space as in trec_eval; a no-break space does not separate fields.
FIELD = re.compile(r"[^ \t\r\v\f]+")

Number = TypeVar("Number", int, float)
Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]


def safe(name: str) -> str:
    """Return a name escaped as a field."""
    return "".join(
        character
        if character.isprintable() and not character.isspace() and character != "%"
        else quote(character.encode("utf-8", "surrogatepass"), safe="")
        for character in name
    )


def qrels_lines(query: str, grades: Mapping[str, int]) -> str:
    """Return the judgements of one query as lines of a qrels file."""
    return "".join(f"{safe(query)} 0 {safe(document)} {grade}\n" for document, grade in grades.items())


def run_lines(query: str, ranking: Sequence[str], tag: str) -> str:
    """Return one ranking as lines of a run file.

    Scores count down to 1, so that every tool keeps the order: most sort by score, some in single precision.
    """
    size, query, tag = len(ranking), safe(query), safe(tag)
    return "".join(
        f"{query} Q0 {safe(document)} {rank} {size + 1 - rank} {tag}\n" for rank, document in enumerate(ranking, 1)
    )


def read_qrels(path: Path) -> Qrels:
    """Read the grades of a qrels file or BEIR folder, by query. Raises :class:`UnusableInput` for a bad line."""
    if path.is_dir():
        path = path / "qrels" / "test.tsv"
    rows = list(_fields(path))
    beir = bool(rows) and tuple(rows[0][1]) == BEIR_HEADINGS
    names = BEIR_HEADINGS if beir else ("query", "iteration", "document", "grade")
    qrels: Qrels = {}
    for at, fields in rows[beir:]:
        _require(fields, names, at)
        query, document, grade = fields[0], fields[-2], fields[-1]
        if not re.fullmatch(r"[+-]?[0-9]+", grade):
            raise UnusableInput(f"{at}: the grade {grade!r} is not a whole number")
        _add(qrels, query, document, int(grade), at)
    if not qrels:
        raise UnusableInput(f"{path}: holds no judgement")
    return qrels


def read_run(path: Path) -> Run:
    """Read the scores of a run file, by query; ranks are ignored, as in trec_eval.

    Raises :class:`UnusableInput` for a bad line.
    """
    run: Run = {}
    for at, fields in _fields(path):
        _require(fields, ("query", "Q0", "document", "rank", "score", "tag"), at)
        try:
            score = float(fields[4])
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise UnusableInput(f"{at}: the score {fields[4]!r} is not a number")
        _add(run, fields[0], fields[2], score, at)
    return run


def _fields(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the position and the fields of each line that is not blank."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if fields := FIELD.findall(line):
            yield f"{path}:{number}", fields


def _require(fields: Sequence[str], names: Sequence[str], at: str) -> None:
    if len(fields) != len(names):
        raise UnusableInput(f"{at}: expected {len(names)} fields ({' '.join(names)}), found {len(fields)}")


def _add(by_query: dict[str, dict[str, Number]], query: str, document: str, value: Number, at: str) -> None:
    documents = by_query.setdefault(query, {})
    if document in documents:
        raise UnusableInput(f"{at}: document {document!r} occurs twice for query {query!r}")
    documents[document] = value
