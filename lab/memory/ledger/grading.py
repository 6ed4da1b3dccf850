"""Grade the observations of a ledger, and measure the grader on judged cases (LD-5).

Only missing grades of importance are filled: a grade that is there is never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_json_lines, sha256_file
from lab.memory.ledger import ledger
from lab.memory.ledger.ledger import stamp
from lab.recordings.model import IGNORE, LABELS, MUST, UNKNOWN
from lab.systems.sidecar import Grade, grade_observation, graded_label, is_importance, parse_importance, sidecar_label

METHOD = "heuristic-v1"
VERSION = 1
Scorer = Callable[[Mapping[str, Any]], Grade]
RECEIPT = "recall-lab.ledger.grade.v1"
BENCHMARK = "openclaw-mem.importance-benchmark.v1"
BATCH = 2000


@dataclass(slots=True)
class Grades:
    """Counts of a run: grades filled, grades kept, rows left without one, errors of the scorer, and labels."""

    filled: int = 0
    kept: int = 0
    without: int = 0
    errors: int = 0
    labels: Counter[str] = field(default_factory=Counter)

    def counts(self) -> dict[str, Any]:
        """Return the counts under the names of the sidecar's receipt."""
        return {
            "graded_filled": self.filled,
            "skipped_existing": self.kept,
            "skipped_disabled": self.without,
            "scorer_errors": self.errors,
            "label_counts": {label: self.labels[label] for label in LABELS},
        }


def label_of(detail: Mapping[str, Any]) -> str:
    """Return the label of an observation: the one that it names, or that of its score; unknown without either."""
    value = detail.get("importance")
    label = sidecar_label(value.get("label") if isinstance(value, dict) else value)
    if label is None and is_importance(value):
        label = graded_label(parse_importance(value))
    return label or UNKNOWN


def fill(
    observation: Mapping[str, Any],
    detail: dict[str, Any],
    grades: Grades,
    graded_at: str,
    scorer: Scorer | None = grade_observation,
) -> bool:
    """Grade an observation whose detail has no importance; return whether ``detail`` was changed.

    ``observation`` holds ``kind``, ``tool_name`` and ``summary``. Without a scorer, labels are only counted. An
    importance that is there but cannot be read belongs to its writer, and stays. If the scorer raises, the
    observation stays ungraded: a broken scorer must not stop ingest (seed 003).
    """
    filled = False
    if detail.get("importance") is not None:
        grades.kept += 1
    elif scorer is None:
        grades.without += 1
    else:
        try:
            grade = scorer(observation)
        except Exception:
            grades.errors += 1
        else:
            detail["importance"] = importance(grade, graded_at)
            grades.filled += 1
            filled = True
    grades.labels[label_of(detail)] += 1
    return filled


def importance(grade: Grade, graded_at: str) -> dict[str, Any]:
    """Return a grade as it is stored in ``detail_json.importance``."""
    return {
        "score": grade.score,
        "label": grade.label,
        "rationale": grade.rationale,
        "method": METHOD,
        "version": VERSION,
        "graded_at": graded_at,
    }


class Graded(NamedTuple):
    """The counts of a run, and rows that were left alone: their detail is no JSON object, or changed meanwhile."""

    grades: Grades
    unreadable: int
    changed_meanwhile: int
    write: bool

    def receipt(self) -> dict[str, Any]:
        """Return the counts; no text of an observation is in it."""
        return {
            "kind": RECEIPT,
            "written": self.write,
            **self.grades.counts(),
            "unreadable": self.unreadable,
            "changed_meanwhile": self.changed_meanwhile,
        }


def grade(
    path: Path,
    *,
    write: bool = False,
    scorer: Scorer = grade_observation,
    now: datetime | None = None,
    announce: Callable[[int], None] | None = None,
) -> Graded:
    """Grade every observation without an importance, in batches; without ``write``, only count what would be graded.

    A run that was killed is continued by the same command: rows that have a grade are kept. ``announce`` gets the
    number of rows read. Raises as :func:`ledger.open_ledger`.
    """
    at = stamp(now or datetime.now(UTC))
    grades, unreadable, changed, seen = Grades(), 0, 0, 0
    with ledger.open_ledger(path, write=write) as connection:
        observations = ledger.observations(connection)
        while rows := list(islice(observations, BATCH)):
            changes = []
            for row in rows:
                detail = ledger.parse_detail(row.detail_json)
                if detail is None:
                    unreadable += 1
                elif fill(row._asdict(), detail, grades, at, scorer):
                    changes.append(ledger.Change(row.id, row.detail_json, detail))
            if write and changes:
                changed += len(changes) - len(ledger.change_details(connection, changes))
            seen += len(rows)
            if announce:
                announce(seen)
    grades.filled -= changed
    return Graded(grades, unreadable, changed, write)


class Case(NamedTuple):
    """A judged observation: the expected label (None: not judged) and bounds of the score, and its grade."""

    id: str
    label: str | None
    least: float
    most: float
    grade: Grade

    @property
    def failed(self) -> bool:
        """Whether the label or the score is not as expected."""
        score = self.grade.score
        return (self.label is not None and self.label != self.grade.label) or not self.least <= score <= self.most


def benchmark(path: Path) -> dict[str, Any]:
    """Grade the cases of a JSON Lines file, ``{"id", "obs", "expect": {"label", "score_min", "score_max"}}``.

    Return the receipt: agreement of labels, confusion matrix (expected, then graded), precision of must_remember and of
    ignore (None if nothing got the label), and the ids of the cases that failed. Raises :class:`UnusableInput` for a
    case that cannot be read.
    """
    cases = list(_cases(path))
    if not cases:
        raise UnusableInput(f'{path}: has no cases; write one a line: {{"id": …, "obs": {{…}}, "expect": {{…}}}}')
    judged = [(case.label, case.grade.label) for case in cases if case.label is not None]
    pairs = Counter(judged)
    graded = Counter(label for _, label in judged)
    agreed = sum(expected == label for expected, label in judged)
    metrics: dict[str, Any] = {}
    for label in (MUST, IGNORE):
        right = pairs[label, label]
        metrics |= {
            f"{label}_precision": round(right / graded[label], 4) if graded[label] else None,
            f"{label}_predicted": graded[label],
            f"{label}_true_positive": right,
        }
    return {
        "kind": BENCHMARK,
        "benchmark": {
            "fixture_sha256": sha256_file(path),
            "total_cases": len(cases),
            "before_operator_labels": {label: sum(case.label == label for case in cases) for label in LABELS},
            "after_heuristic_v1": {label: sum(case.grade.label == label for case in cases) for label in LABELS},
            "label_agreement": round(agreed / len(judged), 4) if judged else None,
            "mismatch_count": len(judged) - agreed,
            "out_of_bounds": sum(not case.least <= case.grade.score <= case.most for case in cases),
            "confusion_matrix": {label: {inner: pairs[label, inner] for inner in LABELS} for label in LABELS},
        },
        "metrics": metrics,
        "failed": [
            {"id": case.id, "expected": case.label, "graded": case.grade.label, "score": round(case.grade.score, 4)}
            for case in cases
            if case.failed
        ],
    }


def _cases(path: Path) -> Iterator[Case]:
    for number, value in read_json_lines(path):
        observation, expect = value.get("obs"), value.get("expect")
        if not isinstance(observation, Mapping) or not isinstance(expect, Mapping):
            raise UnusableInput(f"{path}:{number}: a case needs the objects obs and expect")
        label = expect.get("label")
        if label is not None and label not in LABELS:
            raise UnusableInput(f"{path}:{number}: unknown label {label!r}; the labels are {', '.join(LABELS)}")
        least, most = expect.get("score_min", 0.0), expect.get("score_max", 1.0)
        for name, bound in (("score_min", least), ("score_max", most)):
            if isinstance(bound, bool) or not isinstance(bound, int | float):
                raise UnusableInput(f"{path}:{number}: {name} {bound!r} is no number")
        yield Case(str(value.get("id") or f"line {number}"), label, least, most, grade_observation(observation))
