"""Read and write judgements and rankings in the formats of TREC, export a run to them, and score plain rankings.

    qrels    QUERY 0 DOCUMENT GRADE               (BEIR: QUERY DOCUMENT GRADE, under a line of headings)
    run      QUERY Q0 DOCUMENT RANK SCORE TAG

Fields are separated by white space, so names are escaped: white space, per cent signs and unprintable characters are
percent-encoded as UTF-8, as in a URL. ``urllib.parse.unquote`` restores the name.

A run is exported as qrels and run files, or as a BEIR folder. Probes without relevant memories are left out, as in
every mean. A memory judged misleading has grade 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from lab.base.errors import UnusableInput
from lab.base.files import atomic_file, dump_json, file_name, only_writer, read_text, remove_leftovers
from lab.base.formatting import choices
from lab.base.regex import regex
from lab.measures.catalogue import parse
from lab.measures.inputs import Floats, Ints, Judged, judge, padded
from lab.replay.plan import Plan, plan_of
from lab.runs.directory import RunDirectory
from lab.runs.receipts import read_receipts
from lab.runs.scores import Gold, read_gold

BEIR_HEADINGS = ("query-id", "corpus-id", "score")
# White space as in trec_eval; a no-break space does not separate fields.
FIELD = regex(r"[^ \t\r\v\f]+")

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


FORMATS = ("trec", "beir")
Lines = Callable[[], Iterable[str]]


def export_run(run: RunDirectory, format_: str, out: Path, *, with_text: bool = False) -> list[Path]:
    """Write a finished run into the folder ``out``, file by file atomically, and return the files.

    ``trec``: ``qrels.txt`` and one ``ARM.run`` per arm. ``beir``: ``qrels/test.tsv`` and, ``with_text``,
    ``corpus.jsonl`` and ``queries.jsonl``, for which the recording is read again. Repeated exports are equal.

    Raises :class:`UnusableInput` for a folder that holds other files, and for a recording that has changed.
    """
    if format_ not in FORMATS:
        raise UnusableInput(f"unknown format {format_!r}; {choices(format_, FORMATS)}")
    if with_text and format_ != "beir":
        raise UnusableInput("--with-text needs --format beir: TREC files hold no text")
    run.require_done()
    gold = {probe: judgements for probe, judgements in read_gold(run).items() if judgements.grades}
    files = _beir(run, gold, with_text) if format_ == "beir" else _trec(run, gold)
    with only_writer(out):
        folders = sorted({(out / name).parent for name in files} | {out})
        for folder in folders:
            remove_leftovers(folder)
        known = {out / name for name in files} | set(folders)
        others = [
            path
            for folder in folders
            if folder.is_dir()
            for path in folder.iterdir()
            if path not in known and path.name[0] != "."
        ]
        if others:
            raise UnusableInput(f"{out}: holds other files ({min(others).name}); choose another --out")
        for name, lines in files.items():
            with atomic_file(out / name) as part, part.open("w", encoding="utf-8", newline="\n") as opened:
                opened.writelines(lines())
    return [out / name for name in files]


def _trec(run: RunDirectory, gold: dict[str, Gold]) -> dict[str, Lines]:
    def qrels() -> Iterator[str]:
        return (qrels_lines(probe, judgements.judged) for probe, judgements in gold.items())

    files: dict[str, Lines] = {"qrels.txt": qrels}
    return files | {f"{file_name(arm)}.run": partial(_rankings, run, gold, arm) for arm in run.arms}


def _rankings(run: RunDirectory, gold: dict[str, Gold], arm: str) -> Iterator[str]:
    """Yield the lines of one arm. A probe with an empty ranking has no line."""
    import numpy as np

    for conversation in run.conversations:
        receipts = read_receipts(run, conversation)
        rows = [row for row in receipts.rows_of(arm).tolist() if receipts.probe[row] in gold]
        for row, ranking in zip(rows, receipts.keys_of(np.array(rows, np.int64)), strict=True):
            yield run_lines(receipts.probe[row], ranking, arm)


def _beir(run: RunDirectory, gold: dict[str, Gold], with_text: bool) -> dict[str, Lines]:
    def qrels() -> Iterator[str]:
        yield "\t".join(BEIR_HEADINGS) + "\n"
        for probe, judgements in gold.items():
            for memory, grade in judgements.judged.items():
                yield f"{safe(probe)}\t{safe(memory)}\t{grade}\n"

    files: dict[str, Lines] = {"qrels/test.tsv": qrels}
    if with_text:
        plan = plan_of(run)
        files |= {"corpus.jsonl": lambda: _corpus(plan), "queries.jsonl": lambda: _queries(plan, gold)}
    return files


def _corpus(plan: Plan) -> Iterator[str]:
    """Yield every memory once, because conversations may share a store."""
    texts = {memory.key: memory.text for recording in plan.recordings for memory in recording.memories}
    return (_line({"_id": safe(key), "title": "", "text": text}) for key, text in texts.items())


def _queries(plan: Plan, gold: dict[str, Gold]) -> Iterator[str]:
    for recording in plan.recordings:
        for point in plan.recall_points_of(recording):
            if point.probe is not None and point.probe.id in gold:
                yield _line({"_id": safe(point.probe.id), "text": point.text})


def _line(value: dict[str, str]) -> str:
    return dump_json(value, indent=None).decode()


Ranking = Mapping[str, float] | Sequence[str]


def evaluate(
    runs: Mapping[str, Ranking], golds: Mapping[str, Mapping[str, int]], measures: Iterable[str]
) -> dict[str, Floats]:
    """Score rankings against gold; return values by measure, one for each probe, in the order of ``golds``.

    A ranking is a list of keys, best first, or a mapping of keys to scores, which is sorted as trec_eval sorts: scores
    in single precision, descending, and among equal scores the last key first.

    A probe without a ranking counts as an empty one; a probe without gold scores 0, as in trec_eval. Measures are named
    ``nDCG@10``, ``Success@5``, ``AP`` (over the complete ranking), or ``P(rel=2)@10`` (grades below 2 are not
    relevant). Raises :class:`UnusableInput` for any other name.
    """
    parsed = {name: parse(name) for name in measures}
    rankings = [runs.get(probe, ()) for probe in golds]
    unordered = judge(rankings, list(golds.values()))
    grades = _in_order(rankings, unordered.grades)
    judged = {
        level: Judged(grades, unordered.ideal, unordered.sizes, level)
        for level in {measure.level for measure in parsed.values()}
    }
    return {name: request.measure.values(judged[request.level], request.k) for name, request in parsed.items()}


def _in_order(rankings: Sequence[Ranking], grades: Floats) -> Floats:
    """Return the grades of rankings, ordered by their scores."""
    import numpy as np

    # A list counts as scores that decrease with rank.
    scores = [ranking.values() if isinstance(ranking, Mapping) else range(0, -len(ranking), -1) for ranking in rankings]
    sizes: Ints = np.fromiter(map(len, scores), np.int64, len(scores))
    negated = -np.fromiter(chain.from_iterable(scores), np.float32, int(sizes.sum()))
    # Padding with NaN sorts last and ties with nothing.
    grid = padded(negated, sizes, np.nan)
    order = np.argsort(grid, axis=1, kind="stable")
    ranked = np.take_along_axis(grid, order, axis=1)
    for row in np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1)).tolist():
        last_first = sorted(enumerate(rankings[row]), key=itemgetter(1), reverse=True)
        order[row, : sizes[row]] = sorted((position for position, _ in last_first), key=grid[row].__getitem__)
    return np.take_along_axis(grades, order, axis=1)
