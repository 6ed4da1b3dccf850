"""Remove a run directory: the files that the lab writes into one, and nothing that somebody else put there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from lab.files import cannot_write, leftovers
from lab.runs.directory import DIGESTS, MANIFEST, RunDirectory, file_name

FILES = (
    *("golden.jsonl", "failures.jsonl", "scores.parquet", "saturation.parquet"),
    *("verdict.json", "verdict.xml", "verdict.prom", "report.html", "report.md", "report.json"),
)
# Folders with a file a conversation.
TABLES = ("receipts", "latency", "writes")


def remove_run(run: RunDirectory, figures: Collection[str]) -> list[Path]:
    """Remove a run; return the files and folders in it that are not of the lab, which stay where they are.

    ``figures`` are the names of the figures that the lab draws; of those in the run, all numbered ones are removed.
    The manifest goes last: what is left of a removal that was killed is still a run, and can be removed. Raises
    :class:`lab.errors.CannotMeasure` where the system refuses.
    """
    folders = [run.path / name for name in (*TABLES, DIGESTS, "figures")]
    try:
        for file in _known(run, figures):
            file.unlink(missing_ok=True)
        for folder in folders:
            _remove_empty(folder)
        (run.path / MANIFEST).unlink()
        _remove_empty(run.path)
    except OSError as error:
        raise cannot_write(run.path, error) from error
    if not run.path.is_dir():
        return []
    return sorted(
        path for path in run.path.rglob("*") if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    )


def _known(run: RunDirectory, figures: Collection[str]) -> Iterator[Path]:
    """The files of a run that are there, without its manifest; a link is removed, and never what it leads to."""
    drawn = re.compile(rf"(?:{'|'.join(map(re.escape, figures))})(?:-\d+)?\.(?:svg|png)")
    for name in FILES:
        yield run.path / name
    yield from leftovers(run.path)
    for folder in (run.path / name for name in (*TABLES, DIGESTS, "figures")):
        if folder.is_symlink() or not folder.is_dir():
            continue
        yield from leftovers(folder)
        if folder.name == DIGESTS:
            yield from map(run.recorded, run.conversations)
        elif folder.name == "figures":
            yield from (path for path in folder.iterdir() if drawn.fullmatch(path.name))
        else:
            yield from (folder / f"{file_name(name)}.parquet" for name in run.conversations)


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
