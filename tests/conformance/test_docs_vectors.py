"""The pure steps of the docs cold lane, held against what the public engine answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.engine.docs.globs import glob_matches, read_tool_input
from lab.engine.docs.scope import matches_scope, pushdown_repos, scope_token

Record = dict[str, Any]


def tool_input(given: Record) -> Any:
    # What JSON cannot hold stands as {"$js": …}, which is no list and no string either.
    asked = read_tool_input(given)
    return {
        "overrideRootsProvided": asked.overrides,
        "requestedSourceRoots": list(asked.roots),
        "requestedSourceGlobs": list(asked.globs),
        "sourceRootsInvalid": asked.invalid,
        "droppedSourceRoots": asked.dropped_roots,
        "droppedSourceGlobs": asked.dropped_globs,
    }


def scope_match(given: Record) -> bool:
    row = given["row"]
    scope, strategy, mapped = given["scope"], given["strategy"], given["scopeMap"]
    return matches_scope(row.get("repo", ""), row.get("path", ""), scope, strategy, mapped)


ANSWERS: dict[str, Callable[[Record], Any]] = {
    "normalizeDocsColdLaneToolInput": tool_input,
    "globMatches": lambda given: [glob_matches(given["glob"], path) for path in given["paths"]],
    "normalizeScopeToken(docs)": lambda given: scope_token(given["scope"]),
    "computeScopePushdownRepos": lambda given: pushdown_repos(given["scope"], given["strategy"], given["scopeMap"]),
    "matchesScope": scope_match,
}


def test_every_recorded_answer_is_given(vectors: Path) -> None:
    lines = (vectors / "docs_input.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 114
    assert {record["fn"] for record in records} == set(ANSWERS)
    for record in records:
        assert ANSWERS[record["fn"]](record["input"]) == record["output"], record["id"]


@pytest.fixture(scope="module")
def tables(shared: Callable[..., Path]) -> Record:
    """The tables of the second pack; its map gives one scope two repos and a folder."""
    pack = json.loads(shared("parity", "engine_vectors.json").read_text(encoding="utf-8"))
    tables: Record = pack["docs_cold_lane"]
    return tables


# The pack leaves its scope map out; these entries are the ones that its answers name.
MAPPED = {"proj-a": ["RepoA", "docs/a"], "proj-a/x": ["repox"]}


def test_the_table_of_globs_holds(tables: Record) -> None:
    assert len(tables["glob"]) == 9
    for one in tables["glob"]:
        assert glob_matches(one["glob"], one["path"]) is one["match"], one


def test_the_table_of_scopes_holds(tables: Record) -> None:
    assert len(tables["scope"]) == 80
    for one in tables["scope"]:
        assert scope_match({**one, "scopeMap": MAPPED}) is one["match"], one


def test_the_table_of_pushed_down_repos_holds(tables: Record) -> None:
    assert len(tables["push"]) == 20
    for one in tables["push"]:
        assert pushdown_repos(one["scope"], one["strategy"], MAPPED) == one["repos"], one
