"""Vector files as they are read, and what became of each of their records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from lab.conformance.values import Difference, decode, difference
from lab.errors import UnusableInput

FAILED, PASSED, SKIPPED = "failed", "passed", "skipped"


class Record(NamedTuple):
    """One line of a file, with everything that JSON cannot hold decoded."""

    line: int
    id: str
    value: dict[str, Any]


class Outcome(NamedTuple):
    """What became of a record: ``why`` says why it was skipped, or what went wrong other than a difference."""

    id: str
    line: int
    state: str
    why: str | None = None
    difference: Difference | None = None

    def as_json(self) -> dict[str, Any]:
        """A failure as plain values."""
        about: dict[str, Any] = {"id": self.id, "line": self.line}
        return about | (self.difference.as_json() if self.difference else {"error": self.why})


class Skip(Exception):
    """The record asks for something that this engine does not have, or does differently on purpose."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """The counts of one file, why records were skipped and how often, and its first failure."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    first_failure: Outcome | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "skipped": self.skipped,
            "reasons": self.reasons,
            "first_failure": self.first_failure.as_json() if self.first_failure else None,
        }


class VectorFile:
    """The records of a file in JSON Lines. A line that is no record is a failure, and no reason to stop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        self.records: list[Record] = []
        self.broken: list[Outcome] = []
        try:
            # Half a surrogate pair may stand in a line as an escape, and in a file written carelessly as it is.
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
                    raise TypeError("not an object")  # noqa: TRY301 - one way for every line that is no record
            except (ValueError, TypeError, RecursionError) as error:
                self.broken.append(Outcome("", number, FAILED, f"{path.name}:{number}: not a record in JSON: {error}"))
            else:
                self.records.append(Record(number, str(value.get("id", f"line {number}")), value))

    def result(self, outcomes: Iterable[Outcome]) -> FileResult:
        """Count what became of the records."""
        return tally(self.name, [*self.broken, *outcomes])


class Folder:
    """The folder that vectors lie in, and the set-up that belongs to it: in its own ``setup/``, or beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[Path, VectorFile] = {}

    def file(self, path: Path) -> VectorFile:
        """A vector file, read once."""
        if path not in self._files:
            self._files[path] = VectorFile(path)
        return self._files[path]

    def setup(self, name: str) -> VectorFile:
        """A file of the set-up."""
        for place in (self.path / "setup", self.path.parent / "setup", self.path):
            if (place / name).is_file():
                return self.file(place / name)
        raise UnusableInput(
            f"{self.path}: needs setup/{name}, in the folder or beside it: the rows that its answers were given over"
        )

    def beside(self, name: str) -> VectorFile | None:
        """Another vector file of the folder."""
        path = self.path / name
        return self.file(path) if path.is_file() else None

    @cached_property
    def prompts(self) -> dict[str, str]:
        """Prompt by its short name, from every file of the folder that has both."""
        found: dict[str, str] = {}
        for path in sorted(self.path.glob("e2e_*.jsonl")):
            for record in self.file(path).records:
                given = record.value.get("input")
                if not isinstance(given, dict) or not isinstance(given.get("pid"), str):
                    continue
                params = given.get("params")
                prompt = given.get("prompt", params.get("query") if isinstance(params, dict) else None)
                if isinstance(prompt, str):
                    found.setdefault(given["pid"], prompt)
        return found


Check = Callable[[VectorFile, Folder], Iterator[Outcome]]


def each(answer: Callable[[dict[str, Any]], Any]) -> Check:
    """The check of a file whose records stand for themselves: ``answer(record)`` is compared with its output."""

    def check(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
        del folder
        for record in file.records:
            yield judge(record, partial(_compare, answer, record))

    return check


def _compare(answer: Callable[[dict[str, Any]], Any], record: Record) -> Difference | None:
    return difference(expected(record), answer(record.value))


def expected(record: Record) -> Any:
    """The recorded output."""
    if "output" not in record.value:
        raise ValueError("the record has no field 'output'")
    return record.value["output"]


def judge(record: Record, compare: Callable[[], Difference | None]) -> Outcome:
    """One record's outcome. Whatever goes wrong in the engine is a failure of the record, and the next one is run."""
    try:
        found = compare()
    except Skip as reason:
        return Outcome(record.id, record.line, SKIPPED, str(reason))
    except Exception as error:
        return Outcome(record.id, record.line, FAILED, said(error))
    return Outcome(record.id, record.line, FAILED if found else PASSED, None, found)


def said(error: Exception) -> str:
    """What an exception says, with its type; a missing key is a field that the record lacks."""
    if isinstance(error, KeyError):
        return f"KeyError: no field {error}"
    return f"{type(error).__name__}: {error}"


def tally(name: str, outcomes: Iterable[Outcome]) -> FileResult:
    """Count outcomes."""
    states: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    first: Outcome | None = None
    for one in outcomes:
        states[one.state] += 1
        if one.state == SKIPPED:
            reasons[one.why or ""] += 1
        if one.state == FAILED and first is None:
            first = one
    return FileResult(name, states[PASSED], states[FAILED], states[SKIPPED], dict(reasons), first)
