"""Remove the files of a run directory that the lab wrote, and no others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from lab.base.file_names import file_name
from lab.base.files import cannot_write, leftovers
from lab.runs.directory import DIGESTS, MANIFEST, REPORT, REPORT_DATA, VERDICT, RunDirectory

FILES = (
    *("golden.jsonl", "failures.jsonl", "scores.parquet", "saturation.parquet", "scale.parquet", "missed.parquet"),
    "admission.json",
    *(VERDICT, "verdict.xml", "verdict.prom", REPORT, "report.md", REPORT_DATA),
    *(f"acceptance/{VERDICT}", "acceptance/verdict.xml", "acceptance/acceptance.html"),
)
# Folders with one file for each conversation.
TABLES = ("receipts", "latency", "writes")


def files_of_run(run: RunDirectory, figures: Collection[str]) -> list[Path]:
    """Return the files of a run that :func:`remove_run` would remove."""
    return sorted({path for path in (*_known(run, figures), run.path / MANIFEST) if path.is_symlink() or path.exists()})


def remove_run(run: RunDirectory, figures: Collection[str]) -> list[Path]:
    """Remove a run; return the files and folders that the lab did not write, which are left in place.

    ``figures`` are the names of the figures that the lab draws, without number and suffix. The manifest is removed
    last, so that the removal can be repeated after a kill. Raises :class:`lab.base.errors.CannotMeasure` if the
    operating system refuses.
    """
    folders = [run.path / name for name in (*TABLES, DIGESTS, "figures", "acceptance")]
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
    """Yield the files of a run except its manifest. Links are removed, never their targets."""
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
