"""Scopes of the docs lane in cases where the plugin behaves unexpectedly."""

from __future__ import annotations

from typing import Any

import pytest

from lab.systems.openclaw.docs.lane import matches_scope, pushdown_repos, scope_token
from lab.systems.openclaw.js import text_or_blank


@pytest.mark.parametrize(
    ("scope", "token"), [(None, ""), (0, ""), (False, ""), (12.0, "12"), ("[Scope: A/b]]", "a/b"), ("//iso:a", "iso:a")]
)
def test_scope_token_of_any_plugin_value_is_a_text(scope: Any, token: str) -> None:
    assert scope_token(text_or_blank(scope)) == token


def test_pushdown_repos_removes_a_second_tag_from_the_segment() -> None:
    assert scope_token("scope:iso:a/b") == "iso:a/b"
    assert pushdown_repos("scope:iso:a/b", "repo_prefix", {}) == ["a"]
    assert pushdown_repos("scope:iso:", "repo_prefix", {}) == []
    assert pushdown_repos("", "repo_prefix", {}) == []


def test_matches_scope_compares_paths_as_written() -> None:
    assert matches_scope("other", "A/x.md", "a", "repo_prefix", {})
    assert not matches_scope(" a", "/a/x.md", "a", "repo_prefix", {})
    assert not matches_scope("", "a/x.md", "a", "map", {"a": ["a/"]})
    assert matches_scope("", "a/x.md", "a", "map", {"a": ["/a"]})
    assert matches_scope("any", "x.md", "", "map", {})
    assert matches_scope("any", "x.md", "scope:iso:", "repo_prefix", {})
