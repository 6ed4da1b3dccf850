"""Read claims from JSON Lines in the form of the schema, such as reviewed proposals (TF-12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json_lines
from lab.base.shape import expect, field
from lab.memory.facts.asserting import Claim
from lab.memory.facts.model import TIERS, Reference, Source, text_or_none
from lab.memory.facts.predicates import JSON, LITERAL


def claims_in(path: Path) -> list[Claim]:
    """Return the claims of a file, one a line: facts without an id, with a start and an assertion.

    Sources and assertion may be texts, ``obs:12``, or objects with ``kind`` and ``ref``. Raises :class:`UnusableInput`
    with file and line for a wrong shape.
    """
    return [_claim(row, f"{path}:{number}") for number, row in read_json_lines(path)]


def _claim(row: dict[str, Any], at: str) -> Claim:
    subject, value = row.get("subject"), row.get("object")
    label = subject.get("label") if isinstance(subject, dict) else None
    kind = field(value, "type", str, f"{at}: object") if isinstance(value, dict) else LITERAL
    given = value.get("value") if isinstance(value, dict) else value
    supersedes = row.get("supersedes")
    return Claim(
        field(subject, "ref", str, f"{at}: subject") if isinstance(subject, dict) else field(row, "subject", str, at),
        field(row, "predicate", str, at),
        _json(given, at) if kind == JSON else expect(given, str, f"{at}: object"),
        field(row, "valid_from", str, at),
        tuple(_source(one, at) for one in field(row, "source_refs", list, at)),
        _reference(row.get("assertion_ref"), at),
        kind,
        text_or_none(row, "valid_to", at),
        text_or_none(row, "confidence_tier", at) or TIERS[1],
        () if supersedes is None else _texts(supersedes, f"{at}: supersedes"),
        None if label is None else expect(label, str, f"{at}: subject: label"),
        at,
    )


def _json(given: Any, at: str) -> str:
    try:
        return json.dumps(given, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise UnusableInput(f"{at}: object: has a number that is too large, or none; give a finite one") from None
    except RecursionError:
        raise UnusableInput(f"{at}: object: is nested too deeply; give a flatter one") from None


def _texts(raw: Any, at: str) -> tuple[str, ...]:
    return tuple(expect(one, str, at) for one in expect(raw, list, at))


def _source(raw: Any, at: str) -> str:
    if isinstance(raw, dict):
        kind, ref = field(raw, "kind", str, at), field(raw, "ref", str, at)
        return ref if ref.startswith(("obs:", "ep:")) else Source(kind, ref, text_or_none(raw, "locator", at)).token
    return str(expect(raw, str, f"{at}: source_refs"))


def _reference(raw: Any, at: str) -> str:
    if isinstance(raw, dict):
        return Reference(field(raw, "kind", str, at), field(raw, "ref", str, at)).token
    if raw is None:
        raise UnusableInput(f"{at}: has no assertion_ref; name the receipt or note that records the review")
    return str(expect(raw, str, f"{at}: assertion_ref"))
