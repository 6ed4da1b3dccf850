"""Fill missing grades of importance (LD-5), and count labels. A grade that is there is never changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.recordings.model import LABELS, UNKNOWN
from lab.systems.sidecar.heuristic import Grade, grade_observation
from lab.systems.sidecar.importance import graded_label, is_importance, parse_importance, sidecar_label

METHOD = "heuristic-v1"
VERSION = 1
Scorer = Callable[[Mapping[str, Any]], Grade]


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
