"""Read vector files, and collect the outcome of each record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from tests.conformance.values import Difference, decode, difference

FAILED, PASSED, SKIPPED = "failed", "passed", "skipped"


class Record(NamedTuple):
    """One line of a file, with values that JSON cannot represent decoded."""

    line: int
    id: str
    value: dict[str, Any]


class Outcome(NamedTuple):
    """The outcome of a record. ``why`` is the reason of a skip, or an error other than a difference."""

    id: str
    line: int
    state: str
    why: str | None = None
    difference: Difference | None = None

    def as_json(self) -> dict[str, Any]:
        """Return a failure as JSON-serializable values."""
        about: dict[str, Any] = {"id": self.id, "line": self.line}
        return about | (self.difference.as_json() if self.difference else {"error": self.why})


class Skip(Exception):
    """The record needs a feature that this engine lacks or implements differently on purpose."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """The counts of one file, its skips by reason, and its first failure."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    first_failure: Outcome | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON-serializable values."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "reasons": self.reasons,
            "first_failure": self.first_failure.as_json() if self.first_failure else None,
        }


class VectorFile:
    """The records of a JSON Lines file. An invalid line becomes a failure and does not stop reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        self.records: list[Record] = []
        self.broken: list[Outcome] = []
        try:
            # Lone surrogates are usually escaped, but some writers encode them directly.
            text = path.read_bytes().decode("utf-8-sig", "surrogatepass")
        except (OSError, UnicodeDecodeError) as error:
            self.broken.append(Outcome("", 0, FAILED, f"{path}: cannot be read as UTF-8 text: {error}"))
            return
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                value = decode(json.loads(line))
                if not isinstance(value, dict):
                    raise TypeError("not an object")  # noqa: TRY301 - handled like every other invalid line
            except (ValueError, TypeError, RecursionError) as error:
                self.broken.append(Outcome("", number, FAILED, f"{path.name}:{number}: not a record in JSON: {error}"))
            else:
                self.records.append(Record(number, str(value.get("id", f"line {number}")), value))

    def result(self, outcomes: Iterable[Outcome]) -> FileResult:
        """Count the outcomes of the records."""
        return tally(self.name, [*self.broken, *outcomes])


class Folder:
    """A folder of vector files with its setup files, in ``setup/`` inside the folder or beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[Path, VectorFile] = {}

    def file(self, path: Path) -> VectorFile:
        """Return a vector file, which is read only once."""
        if path not in self._files:
            self._files[path] = VectorFile(path)
        return self._files[path]

    def setup(self, name: str) -> VectorFile:
        """Return a setup file. Raises :class:`UnusableInput` if it is missing."""
        for folder in (self.path / "setup", self.path.parent / "setup", self.path):
            if (folder / name).is_file():
                return self.file(folder / name)
        raise UnusableInput(
            f"{self.path}: needs setup/{name} in the folder or beside it; it has the rows that the answers refer to"
        )

    def beside(self, name: str) -> VectorFile | None:
        """Return another vector file of the folder, or None."""
        path = self.path / name
        return self.file(path) if path.is_file() else None

    @cached_property
    def prompts(self) -> dict[str, str]:
        """The prompts by id, from all files of the folder."""
        prompts: dict[str, str] = {}
        for path in sorted(self.path.glob("e2e_*.jsonl")):
            for record in self.file(path).records:
                given = record.value.get("input")
                if not isinstance(given, dict) or not isinstance(given.get("pid"), str):
                    continue
                params = given.get("params")
                prompt = given.get("prompt", params.get("query") if isinstance(params, dict) else None)
                if isinstance(prompt, str):
                    prompts.setdefault(given["pid"], prompt)
        return prompts


Check = Callable[[VectorFile, Folder], Iterator[Outcome]]


def each(answer: Callable[[dict[str, Any]], Any]) -> Check:
    """Return the check of a file with independent records: ``answer(record)`` is compared with the output."""

    def check(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
        del folder
        for record in file.records:
            yield judge(record, partial(_compare, answer, record))

    return check


def _compare(answer: Callable[[dict[str, Any]], Any], record: Record) -> Difference | None:
    return difference(expected(record), answer(record.value))


def expected(record: Record) -> Any:
    """Return the recorded output. Raises ValueError without one."""
    if "output" not in record.value:
        raise ValueError("the record has no field 'output'")
    return record.value["output"]


def judge(record: Record, compare: Callable[[], Difference | None]) -> Outcome:
    """Return the outcome of a record; any exception of the engine is a failure of this record only."""
    try:
        mismatch = compare()
    except Skip as reason:
        return Outcome(record.id, record.line, SKIPPED, str(reason))
    except Exception as error:
        return Outcome(record.id, record.line, FAILED, describe_error(error))
    return Outcome(record.id, record.line, FAILED if mismatch else PASSED, None, mismatch)


def describe_error(error: Exception) -> str:
    """Return the type and message of an exception; a KeyError means that the record lacks a field."""
    if isinstance(error, KeyError):
        return f"KeyError: no field {error}"
    return f"{type(error).__name__}: {error}"


def tally(name: str, outcomes: Iterable[Outcome]) -> FileResult:
    """Count the outcomes of a file."""
    states: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    first: Outcome | None = None
    for outcome in outcomes:
        states[outcome.state] += 1
        if outcome.state == SKIPPED:
            reasons[outcome.why or ""] += 1
        if outcome.state == FAILED and first is None:
            first = outcome
    return FileResult(name, states[PASSED], states[FAILED], states[SKIPPED], dict(reasons), first)
