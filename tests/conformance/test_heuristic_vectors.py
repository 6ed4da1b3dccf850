"""The sidecar's grading, held against what the public one answered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.engine.heuristic import grade_observation
from lab.engine.importance import graded_label, is_importance, parse_importance, sidecar_label
from lab.engine.task_markers import has_task_marker, strip_task_prefix

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "label_from_score": graded_label,
    "normalize_label": sidecar_label,
    "parse_importance_score": parse_importance,
    "is_parseable_importance": is_importance,
    "summary_has_task_marker": has_task_marker,
    "strip_markdown_task_prefix": strip_task_prefix,
}
UNWRITABLE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "undefined": None}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def value(given: Any) -> Any:
    """An input; ``{"$js": …}`` stands for what JSON cannot hold."""
    return UNWRITABLE[given["$js"]] if isinstance(given, dict) and "$js" in given else given


def test_every_observation_is_graded_alike(vectors: Path) -> None:
    found = records(vectors / "heuristic_v1.jsonl")
    assert len(found) == 178
    for record in found:
        grade = grade_observation(record["input"])._asdict()
        assert grade | {"reasons": [*grade["reasons"]], "penalties": [*grade["penalties"]]} == record["output"], record[
            "id"
        ]


def test_importance_and_task_markers_are_read_alike(vectors: Path) -> None:
    found = records(vectors / "sidecar_importance.jsonl")
    assert len(found) == 110
    for record in found:
        assert FUNCTIONS[record["fn"]](value(record["input"])) == record["output"], record["id"]
