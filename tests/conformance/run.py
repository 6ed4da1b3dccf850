"""Check the engine against vector files, which hold recorded calls of the plugin, and collect the results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from tests.conformance.pack import NAME as PACK
from tests.conformance.pack import check_pack
from tests.conformance.real_lancedb import Agreement, agreement
from tests.conformance.record_files import (
    FAILED,
    SKIPPED,
    FileResult,
    Folder,
    Outcome,
    VectorFile,
    describe_error,
    tally,
)
from tests.conformance.registry import check_of

SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Conformance:
    """The results by file, in name order.

    ``lancedb`` is the agreement with LanceDB, or the error that prevented the comparison, or None without one.
    """

    files: tuple[FileResult, ...]
    lancedb: Agreement | str | None

    @property
    def passed(self) -> int:
        """The number of records whose output equals the recorded one."""
        return sum(file.passed for file in self.files)

    @property
    def failed(self) -> int:
        """The number of records that differ and of invalid lines."""
        return sum(file.failed for file in self.files)

    @property
    def skipped(self) -> int:
        """The number of records that were not compared."""
        return sum(file.skipped for file in self.files)

    def as_json(self) -> dict[str, Any]:
        """Return the results as JSON-serializable values."""
        lancedb = self.lancedb._asdict() if isinstance(self.lancedb, Agreement) else self.lancedb
        return {
            "files": {file.name: file.as_json() for file in self.files},
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "lancedb": {"error": lancedb} if isinstance(lancedb, str) else lancedb,
        }


def conformance(path: Path) -> Conformance:
    """Check a folder of vector files or a single file. Raises :class:`UnusableInput` if there is nothing to check."""
    if not path.exists():
        raise UnusableInput(f"{path}: no such file or folder")
    folder = Folder(path if path.is_dir() else path.parent)
    paths = sorted(_files(path)) if path.is_dir() else [path]
    if not paths:
        raise UnusableInput(
            f"{path}: has no vector files; expected NAME{SUFFIX} with one JSON object per line, or {PACK}.json"
        )
    results = tuple(_check(file_path, folder) for file_path in paths)
    return Conformance(results, _lancedb_agreement(folder) if path.is_dir() else None)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, without its setup files, which are read on demand."""
    for path in folder.iterdir():
        if path.is_file() and not path.name.startswith("."):
            yield path


def _check(path: Path, folder: Folder) -> FileResult:
    if path.name == f"{PACK}.json":
        return check_pack(path)
    if path.suffix != SUFFIX:
        return tally(path.name, [Outcome("", 0, SKIPPED, f"not a vector file: neither NAME{SUFFIX} nor {PACK}.json")])
    file = folder.file(path)
    check = check_of(file.name)
    if check is None:
        return tally(file.name, _skip_all(file))
    try:
        return file.result(check(file, folder))
    except Exception as error:
        return file.result([Outcome("", 0, FAILED, describe_error(error))])


def _skip_all(file: VectorFile) -> Iterator[Outcome]:
    why = "unknown file: there is no check for this name"
    for record in file.records:
        yield Outcome(record.id, record.line, SKIPPED, why)
    for line in file.broken:
        yield line._replace(state=SKIPPED, why=why)


def _lancedb_agreement(folder: Folder) -> Agreement | str | None:
    try:
        return agreement(folder)
    except Exception as error:
        return describe_error(error)
