"""A run in the files of others: TREC's qrels and run files, or a BEIR folder.

Probes that want nothing are left out, as they are of every mean. A memory judged misleading has grade 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from lab.errors import UnusableInput
from lab.files import atomic_file, dump_json, only_writer, remove_leftovers
from lab.measures.trec import BEIR_HEADINGS, qrels_lines, run_lines, safe
from lab.replay.plan import Plan, plan_of
from lab.runs.directory import RunDirectory, file_name
from lab.runs.gold import Gold, read_gold
from lab.runs.receipts import read_receipts

FORMATS = ("trec", "beir")
Lines = Callable[[], Iterable[str]]


def export_run(run: RunDirectory, format_: str, out: Path, *, with_text: bool = False) -> list[Path]:
    """Write a finished run into the folder ``out`` and return the files, each of them whole or absent.

    ``trec``: ``qrels.txt`` and one ``ARM.run`` per arm. ``beir``: ``qrels/test.tsv`` and, ``with_text``,
    ``corpus.jsonl`` and ``queries.jsonl``, for which the recording is read again. Written anew, a folder is the same.

    Raises :class:`UnusableInput` for a folder that holds anything else, and for a recording that has changed.
    """
    if format_ not in FORMATS:
        raise UnusableInput(f"unknown format {format_!r}; known: {', '.join(FORMATS)}")
    if with_text and format_ != "beir":
        raise UnusableInput("--with-text goes with --format beir: the files of TREC hold no text")
    run.require_done()
    gold = {probe: one for probe, one in read_gold(run).items() if one.grades}
    files = _beir(run, gold, with_text) if format_ == "beir" else _trec(run, gold)
    with only_writer(out):
        folders = sorted({(out / name).parent for name in files} | {out})
        for folder in folders:
            remove_leftovers(folder)
        known = {out / name for name in files} | set(folders)
        strangers = [
            one
            for folder in folders
            if folder.is_dir()
            for one in folder.iterdir()
            if one not in known and one.name[0] != "."
        ]
        if strangers:
            raise UnusableInput(f"{out}: holds something else ({min(strangers).name}); choose another --out")
        for name, lines in files.items():
            with atomic_file(out / name) as part, part.open("w", encoding="utf-8", newline="\n") as opened:
                opened.writelines(lines())
    return [out / name for name in files]


def _trec(run: RunDirectory, gold: dict[str, Gold]) -> dict[str, Lines]:
    def qrels() -> Iterator[str]:
        return (qrels_lines(probe, one.judged) for probe, one in gold.items())

    files: dict[str, Lines] = {"qrels.txt": qrels}
    return files | {f"{file_name(arm)}.run": partial(_rankings, run, gold, arm) for arm in run.arms}


def _rankings(run: RunDirectory, gold: dict[str, Gold], arm: str) -> Iterator[str]:
    """A probe for which nothing came back has no line."""
    import numpy as np

    for conversation in run.conversations:
        receipts = read_receipts(run, conversation)
        rows = [row for row in receipts.rows_of(arm).tolist() if receipts.probe[row] in gold]
        for row, ranking in zip(rows, receipts.keys_of(np.array(rows, np.int64)), strict=True):
            yield run_lines(receipts.probe[row], ranking, arm)


def _beir(run: RunDirectory, gold: dict[str, Gold], with_text: bool) -> dict[str, Lines]:
    def qrels() -> Iterator[str]:
        yield "\t".join(BEIR_HEADINGS) + "\n"
        for probe, one in gold.items():
            for memory, grade in one.judged.items():
                yield f"{safe(probe)}\t{safe(memory)}\t{grade}\n"

    files: dict[str, Lines] = {"qrels/test.tsv": qrels}
    if with_text:
        plan = plan_of(run)
        files |= {"corpus.jsonl": lambda: _corpus(plan), "queries.jsonl": lambda: _queries(plan, gold)}
    return files


def _corpus(plan: Plan) -> Iterator[str]:
    """Every memory once; two conversations may share one store."""
    texts = {memory.key: memory.text for recording in plan.recordings for memory in recording.memories}
    return (_line({"_id": safe(key), "title": "", "text": text}) for key, text in texts.items())


def _queries(plan: Plan, gold: dict[str, Gold]) -> Iterator[str]:
    for recording in plan.recordings:
        for point in plan.recall_points_of(recording):
            if point.probe is not None and point.probe.id in gold:
                yield _line({"_id": safe(point.probe.id), "text": point.text})


def _line(value: dict[str, str]) -> str:
    return dump_json(value, indent=None).decode()
