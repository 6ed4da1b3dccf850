"""The scope that a prompt names (E-30)."""

from __future__ import annotations

import pytest

from lab.systems.openclaw.recall.scope import MAX_LINES, find_tag
from tests.conformance.plugin_config import resolve_section


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("[SCOPE: one]\n[SCOPE: two]", "one"),
        ("[SCOPE: one]\n[ISO: two]\n[ISO: three]", "two"),
        ("```\n[SCOPE: one]\n~~~\n[SCOPE: two]", "two"),
        ("<relevant-memories> x </relevant-memories>\n[SCOPE: one]", None),
        ("<relevant-memories>\n[SCOPE: one]\n</relevant-memories>\n[SCOPE: two]", "two"),
        ("say [SCOPE: one]", None),
        ("[SCOPE:  ]\n[SCOPE: two]", "two"),
        ("\n" * (MAX_LINES - 1) + "[SCOPE: one]", "one"),
        ("\n" * MAX_LINES + "[SCOPE: one]", None),
        ("- " * 5 + "[SCOPE: one]", "one"),
        ("- " * 7 + "[SCOPE: one]", None),
    ],
)
def test_find_tag_at_the_start_of_a_line(text: str, scope: str | None) -> None:
    assert find_tag(text) == scope


def test_fallback_scopes_are_at_most_six_distinct_non_default_ones() -> None:
    scopes = ["b", "a", "b", *"cdefghi"]
    section = resolve_section("scopePolicy", {"defaultScope": "a", "fallbackScopes": scopes})
    assert section["fallbackScopes"] == list("bcdefg")
