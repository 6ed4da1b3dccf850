"""The tables of kinds and importances, how given memories become documents, and the limits of searches."""

from __future__ import annotations

import pytest

from lab.recordings.model import IGNORE, MUST, NICE, Memory
from lab.systems.rsclaw.document import (
    CORE,
    KINDS,
    PERIPHERAL,
    WORKING,
    Defaults,
    document_id,
    extracted_defaults,
    importance_of,
    kind_of,
    put_defaults,
)
from lab.systems.rsclaw.observe import top_k_of

# Kind -> what is stored by a tool or a command, and what is extracted.
DEFAULTS = {
    "entity": (Defaults(0.95, CORE, pinned=True), Defaults(0.9, CORE, pinned=True)),
    "remember": (Defaults(0.8, WORKING), Defaults(0.8, WORKING)),
    "preference": (Defaults(0.75, WORKING), Defaults(0.72, WORKING)),
    "procedure": (Defaults(0.65, WORKING), Defaults(0.72, WORKING)),
    "fact": (Defaults(0.65, WORKING), Defaults(0.65, WORKING)),
    "project_state": (Defaults(0.65, WORKING), Defaults(0.65, WORKING)),
    "relationship": (Defaults(0.65, WORKING), Defaults(0.65, WORKING)),
    "lesson": (Defaults(0.65, WORKING), Defaults(0.85, CORE)),
    "failure": (Defaults(0.65, WORKING), Defaults(0.6, WORKING)),
    "summary": (Defaults(0.55, WORKING), Defaults(0.55, WORKING)),
    "note": (Defaults(0.3, PERIPHERAL), Defaults(0.3, PERIPHERAL)),
    "session": (Defaults(0.65, WORKING), Defaults(0.65, WORKING)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_of_each_kind(kind: str) -> None:
    assert (put_defaults(kind), extracted_defaults(kind)) == DEFAULTS[kind]


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        *((kind, kind) for kind in KINDS),
        ("decision", "project_state"),
        ("todo", "project_state"),
        ("other", "fact"),
        ("hobby", "fact"),
        ("", "fact"),
    ],
)
def test_kind_of_a_category(category: str, kind: str) -> None:
    assert kind_of(category) == kind


@pytest.mark.parametrize(
    ("label", "by_label", "importance"),
    [(MUST, True, 0.8), (NICE, True, 0.5), (IGNORE, True, 0.3), (None, True, 0.75), (MUST, False, 0.75)],
)
def test_importance_of_a_given_memory(label: str | None, by_label: bool, importance: float) -> None:
    memory = Memory("k", "tea", "tea", 0, 0, "preference", label=label)
    assert importance_of(memory, by_label=by_label) == importance


def test_document_id_ignores_case_and_white_space_only() -> None:
    identity = document_id("shop", "fact", "Green  tea")
    assert document_id("shop", "fact", "green\ntea ") == identity
    others = [("farm", "fact", "green tea"), ("shop", "note", "green tea"), ("shop", "fact", "greentea")]
    assert identity not in {document_id(*parts) for parts in others}


@pytest.mark.parametrize(
    ("limit", "top_k"),
    [(None, 5), (1, 1), (25, 25), (26, 25), (0, 1), (-3, 1), (7.9, 7), (True, 5), ("9", 5), (float("nan"), 5)],
)
def test_searches_of_tools_take_one_to_twenty_five(limit: object, top_k: int) -> None:
    assert top_k_of(limit) == top_k
