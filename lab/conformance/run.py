"""Run vector files against the engine: which ones are found, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.conformance.pack import NAME as PACK
from lab.conformance.pack import check_pack
from lab.conformance.real_lancedb import Agreement, agreement
from lab.conformance.records import FAILED, SKIPPED, FileResult, Folder, Outcome, VectorFile, said, tally
from lab.conformance.registry import LATER, check_of
from lab.errors import UnusableInput

SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Conformance:
    """The results by file, in order of name, and what LanceDB itself answers (or why that could not be asked)."""

    files: tuple[FileResult, ...]
    lancedb: Agreement | str | None

    @property
    def passed(self) -> int:
        """Records that agree."""
        return sum(one.passed for one in self.files)

    @property
    def failed(self) -> int:
        """Records that differ, and lines that are no record."""
        return sum(one.failed for one in self.files)

    @property
    def skipped(self) -> int:
        """Records that were not compared."""
        return sum(one.skipped for one in self.files)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        lancedb = self.lancedb._asdict() if isinstance(self.lancedb, Agreement) else self.lancedb
        return {
            "files": {one.name: one.as_json() for one in self.files},
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "lancedb": {"error": lancedb} if isinstance(lancedb, str) else lancedb,
        }


def conformance(path: Path) -> Conformance:
    """Check a folder of vector files, or a single one.

    Raises :class:`UnusableInput` where there is nothing to check.
    """
    if not path.exists():
        raise UnusableInput(f"{path}: no such file or folder")
    folder = Folder(path if path.is_dir() else path.parent)
    found = sorted(_files(path)) if path.is_dir() else [path]
    if not found:
        raise UnusableInput(
            f"{path}: no vector files in it; expected NAME{SUFFIX}, one JSON object a line, or {PACK}.json"
        )
    results = tuple(_check(one, folder) for one in found)
    return Conformance(results, _ask_lancedb(folder) if path.is_dir() else None)


def _files(folder: Path) -> Iterator[Path]:
    """The files of a folder. Those of its set-up are read where they are needed."""
    for path in folder.iterdir():
        if path.is_file() and not path.name.startswith("."):
            yield path


def _check(path: Path, folder: Folder) -> FileResult:
    if path.name == f"{PACK}.json":
        return check_pack(path)
    if path.suffix != SUFFIX:
        return tally(path.name, [Outcome("", 0, SKIPPED, f"no file of vectors: neither NAME{SUFFIX} nor {PACK}.json")])
    file = folder.file(path)
    check = check_of(file.name)
    if check is None:
        return tally(file.name, _passed_over(file))
    try:
        return file.result(check(file, folder))
    except Exception as error:
        return file.result([Outcome("", 0, FAILED, said(error))])


def _passed_over(file: VectorFile) -> Iterator[Outcome]:
    why = LATER.get(file.name, "unknown file: nothing here is checked by that name")
    for record in file.records:
        yield Outcome(record.id, record.line, SKIPPED, why)
    for line in file.broken:
        yield line._replace(state=SKIPPED, why=why)


def _ask_lancedb(folder: Folder) -> Agreement | str | None:
    try:
        return agreement(folder)
    except Exception as error:
        return said(error)
