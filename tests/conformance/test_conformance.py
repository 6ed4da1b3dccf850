"""Tests of the engine against all recordings of the public plugin, file by file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.embedding import embed, fnv1a, tokens_of
from tests.conformance.record_files import FileResult, Folder
from tests.conformance.registry import FUNCTIONS, SEQUENCES, check_of
from tests.conformance.run import conformance

# Numbers of records that agree, and of those that are skipped on purpose.
EXPECTED = {
    "admin_units": (172, 0),
    "budget": (154, 0),
    "capture_pipeline": (30, 0),
    "capture_units": (669, 0),
    "compare_hits": (175, 0),
    "config": (540, 0),
    "docs_input": (114, 0),
    "e2e_admin": (54, 0),
    "e2e_hook_dedupe": (15, 0),
    "e2e_recall_tool": (91, 0),
    "e2e_searches": (753, 0),
    "embedding_clamp": (264, 0),
    "escape_format": (135, 0),
    "fuse_recall": (268, 0),
    "heuristic_v1": (178, 0),
    "importance": (147, 0),
    "locale_compare": (469, 0),
    "receipts": (142, 0),
    "scope_extract": (310, 0),
    "scope_normalize": (391, 0),
    "scope_plan": (74, 0),
    "scope_resolve": (180, 0),
    "scope_token": (53, 0),
    "scoped_recall": (120, 0),
    "sidecar_importance": (110, 0),
    "skip_prompt": (542, 0),
    "tier_first": (160, 0),
    "tier_quota": (290, 0),
    "todo_guardrails": (166, 0),
    "working_set": (315, 0),
}
TURNS = {
    **{
        f"e2e_{mode}_ws{ws}_fb{fb}_{size}": turns
        for mode in ("first", "quota")
        for ws in "01"
        for fb in "01"
        for size, turns in (("large", 32), ("small", 58))
    },
    **dict.fromkeys(
        (
            *("e2e_x_invalid_fallback_on", "e2e_x_noembed_quota", "e2e_x_normalize_ws_tiny", "e2e_x_nounknown_tail"),
            *("e2e_x_quota_wide", "e2e_x_receipts_off_ws", "e2e_x_scopeoff_budgetoff"),
        ),
        32,
    ),
    "e2e_x_default": 58,
    "e2e_x_embed_failures": 38,
    "e2e_x_ws_persist_first": 41,
    "e2e_x_ws_persist_quota": 41,
}


@pytest.fixture(scope="module")
def folder(vectors: Path) -> Folder:
    """Return the recorded files, each of which is read once."""
    return Folder(vectors)


def run(folder: Folder, name: str) -> FileResult:
    check = check_of(name)
    assert check is not None
    file = folder.file(folder.path / f"{name}.jsonl")
    return file.result(check(file, folder))


@pytest.mark.parametrize("name", [*EXPECTED, *TURNS])
def test_recorded_answers_agree(folder: Folder, name: str) -> None:
    result = run(folder, name)
    failure = result.first_failure
    assert failure is None, f"{failure.id}: {failure.why or failure.difference}"
    assert (result.passed, result.skipped) == (EXPECTED[name] if name in EXPECTED else (TURNS[name], 0))


def test_recorded_files_are_all_known(vectors: Path) -> None:
    assert {path.stem for path in vectors.glob("*.jsonl")} == {*EXPECTED, *TURNS}
    assert {*FUNCTIONS, *SEQUENCES} == {*EXPECTED}


def test_turns_without_recorded_searches_agree(vectors: Path, shared: Callable[..., Path], tmp_path: Path) -> None:
    """Check that the exact store's lanes, which are used then, give the plugin's results."""
    shutil.copytree(shared("parity", "setup"), tmp_path / "setup")
    for name in ("e2e_quota_ws1_fb1_small", "e2e_x_noembed_quota"):
        shutil.copy(vectors / f"{name}.jsonl", tmp_path)
        result = run(Folder(tmp_path), name)
        assert (result.passed, result.failed) == (TURNS[name], 0)


def test_engine_vectors_agree(shared: Callable[..., Path]) -> None:
    (result,) = conformance(shared("parity", "engine_vectors.json")).files
    assert (result.passed, result.failed, result.skipped) == (473, 0, 0), result.first_failure


def test_embed_matches_the_recorded_embedding(shared: Callable[..., Path]) -> None:
    lines = shared("parity", "setup", "embedding_check.jsonl").read_text("utf-8").splitlines()
    for record in map(json.loads, lines):
        assert (tokens_of(record["text"]), fnv1a(record["text"])) == (record["tokens"], record["textHash"])
        vector = embed(record["text"])
        assert [[int(dimension), float(vector[dimension])] for dimension in vector.nonzero()[0]] == record["nonzero"]
    assert len(lines) == 13
