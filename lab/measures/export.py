"""Export a run as TREC qrels and run files, or as a BEIR folder.

Probes without relevant memories are left out, as in every mean. A memory judged misleading has grade 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from lab.base.errors import UnusableInput
from lab.base.file_names import file_name
from lab.base.files import atomic_file, dump_json, only_writer, remove_leftovers
from lab.measures.trec import BEIR_HEADINGS, qrels_lines, run_lines, safe
from lab.replay.plan import Plan, plan_of
from lab.runs.directory import RunDirectory
from lab.runs.gold import Gold, read_gold
from lab.runs.receipts import read_receipts

FORMATS = ("trec", "beir")
Lines = Callable[[], Iterable[str]]


def export_run(run: RunDirectory, format_: str, out: Path, *, with_text: bool = False) -> list[Path]:
    """Write a finished run into the folder ``out``, file by file atomically, and return the files.

    ``trec``: ``qrels.txt`` and one ``ARM.run`` per arm. ``beir``: ``qrels/test.tsv`` and, ``with_text``,
    ``corpus.jsonl`` and ``queries.jsonl``, for which the recording is read again. Repeated exports are equal.

    Raises :class:`UnusableInput` for a folder that holds other files, and for a recording that has changed.
    """
    if format_ not in FORMATS:
        raise UnusableInput(f"unknown format {format_!r}; known: {', '.join(FORMATS)}")
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
