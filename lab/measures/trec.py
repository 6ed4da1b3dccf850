"""Judgements and rankings in the files of TREC, in and out.

    qrels    QUERY 0 DOCUMENT GRADE               (BEIR: QUERY DOCUMENT GRADE, under a line of headings)
    run      QUERY Q0 DOCUMENT RANK SCORE TAG

Fields stand between blanks or tabs, so a name that is written has none: white space, per cent signs and what cannot be
printed are percent-escaped as in a URL, byte by byte of their UTF-8. ``urllib.parse.unquote`` gives the name back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from lab.errors import UnusableInput
from lab.files import read_text

BEIR_HEADINGS = ("query-id", "corpus-id", "score")
# White space as trec_eval knows it: a no-break space is a character like any other.
FIELD = re.compile(r"[^ \t\r\v\f]+")

Number = TypeVar("Number", int, float)
Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]


def safe(name: str) -> str:
    """A name as a field."""
    return "".join(
        character
        if character.isprintable() and not character.isspace() and character != "%"
        else quote(character.encode("utf-8", "surrogatepass"), safe="")
        for character in name
    )


def qrels_lines(query: str, grades: Mapping[str, int]) -> str:
    """The judgements of one query."""
    return "".join(f"{safe(query)} 0 {safe(document)} {grade}\n" for document, grade in grades.items())


def run_lines(query: str, ranking: Sequence[str], tag: str) -> str:
    """One ranking.

    The score counts down to 1 from place to place, so that every tool keeps the order: most sort by score, and some
    know it in single precision.
    """
    most, query, tag = len(ranking), safe(query), safe(tag)
    return "".join(
        f"{query} Q0 {safe(document)} {place + 1} {most - place} {tag}\n" for place, document in enumerate(ranking)
    )


def read_qrels(path: Path) -> Qrels:
    """The grades of a file, by query; a folder is one of BEIR's. A bad line is :class:`UnusableInput`."""
    if path.is_dir():
        path = path / "qrels" / "test.tsv"
    rows = list(_fields(path))
    beir = bool(rows) and tuple(rows[0][1]) == BEIR_HEADINGS
    wanted = BEIR_HEADINGS if beir else ("query", "iteration", "document", "grade")
    found: Qrels = {}
    for at, fields in rows[beir:]:
        _require(fields, wanted, at)
        query, document, grade = fields[0], fields[-2], fields[-1]
        if not re.fullmatch(r"[+-]?[0-9]+", grade):
            raise UnusableInput(f"{at}: the grade {grade!r} is not a whole number")
        _add(found, query, document, int(grade), at)
    if not found:
        raise UnusableInput(f"{path}: holds no judgement")
    return found


def read_run(path: Path) -> Run:
    """The scores of a file, by query. A bad line is :class:`UnusableInput`; the rank is not read, as by trec_eval."""
    found: Run = {}
    for at, fields in _fields(path):
        _require(fields, ("query", "Q0", "document", "rank", "score", "tag"), at)
        try:
            score = float(fields[4])
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise UnusableInput(f"{at}: the score {fields[4]!r} is not a number")
        _add(found, fields[0], fields[2], score, at)
    return found


def _fields(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Where each line that is not blank stands, and its fields."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if fields := FIELD.findall(line):
            yield f"{path}:{number}", fields


def _require(fields: Sequence[str], wanted: Iterable[str], at: str) -> None:
    names = tuple(wanted)
    if len(fields) != len(names):
        raise UnusableInput(f"{at}: expected {len(names)} fields ({' '.join(names)}), found {len(fields)}")


def _add(found: dict[str, dict[str, Number]], query: str, document: str, value: Number, at: str) -> None:
    own = found.setdefault(query, {})
    if document in own:
        raise UnusableInput(f"{at}: document {document!r} stands twice for query {query!r}")
    own[document] = value
