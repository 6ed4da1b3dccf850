"""Recorded extractions: what a language model extracted from each turn, read from a JSONL file (RS-16)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json_lines
from lab.base.shape import expect, field, only_keys, optional
from lab.systems.rsclaw.document import KINDS
from lab.systems.rsclaw.extract import Candidate

Extractions = Mapping[str, tuple[Candidate, ...]]


def read_extractions(path: Path) -> Extractions:
    """Return the candidates of a file by turn.

    A line is ``{"turn": KEY, "candidates": [{"kind": …, "text": …, "confidence": …}]}``; a candidate may also have an
    ``importance``. Raises :class:`UnusableInput`, naming the line.
    """
    if not path.is_file():
        raise UnusableInput(f"lab.extractions: {path}: no such file")
    extractions: dict[str, tuple[Candidate, ...]] = {}
    for number, record in read_json_lines(path):
        at = f"{path}:{number}"
        only_keys(record, ("turn", "candidates"), at)
        turn = field(record, "turn", str, at)
        if turn in extractions:
            raise UnusableInput(f"{at}: turn {turn!r} occurs twice")
        listed = field(record, "candidates", list, at)
        extractions[turn] = tuple(
            _candidate(item, f"{at}: candidate {position}") for position, item in enumerate(listed, 1)
        )
    return extractions


def _candidate(record: Any, at: str) -> Candidate:
    only_keys(expect(record, dict, at), Candidate._fields, at)
    kind, text = field(record, "kind", str, at), field(record, "text", str, at)
    if kind not in KINDS:
        raise UnusableInput(f"{at}: unknown kind {kind!r}; known: {', '.join(KINDS)}")
    if not text.strip():
        raise UnusableInput(f"{at}: field 'text' is blank")
    return Candidate(kind, text, _share(record, "confidence", at) or 0.0, _share(record, "importance", at))


def _share(record: dict[str, Any], name: str, at: str) -> float | None:
    value = optional(record, name, object, None, at) if name == "importance" else field(record, name, object, at)
    if value is None and name == "importance":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UnusableInput(f"{at}: field {name!r}: expected a number from 0 to 1, found {value!r:.40}")
    return float(value)
