"""The files that an ingest reads: directory walk, allowed roots, citations, and skip reasons."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs import globs
from lab.systems.openclaw.docs.globs import IngestPlan, glob_matches, plan_ingest, read_tool_input

Write = Callable[[Mapping[str, str]], Path]


def plan(*roots: Path | str, patterns: tuple[str, ...] = ("**/*.md",), tool_input: object = None) -> IngestPlan:
    settings = DocsSettings(source_roots=tuple(map(str, roots)), source_globs=patterns, by_path=False)
    return plan_ingest(settings, None if tool_input is None else read_tool_input(tool_input))


def cited(result: IngestPlan) -> list[str]:
    return [f"{source.repo}:{source.path}" for source in result.files]


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "mydocs/a.md", False),
        ("**/a.md", "a.md", True),
        ("**/a.md", "ba.md", False),
        ("a**z.md", "a/b/z.md", True),
        ("*/a.md", "x/y/a.md", False),
        ("?.md", "記.md", True),
        ("{a,b}.md", "a.md", False),
        ("a.md", "a.md\n", False),
        ("a.md", "axmd", False),
    ],
)
def test_glob_matches_the_full_path(glob: str, path: str, expected: bool) -> None:
    assert glob_matches(glob, path) is expected


def test_plan_ingest_returns_only_markdown_in_order(written: Write) -> None:
    folder = written({"b.md": "", "a/z.MD": "", "a/x.txt": "", "a.md": "", "node_modules/p/readme.md": ""})
    result = plan(folder)
    assert cited(result) == [f"local:{name}" for name in ("a.md", "z.MD", "b.md", "readme.md")]
    assert result == plan(folder)
    assert result.complete
    assert cited(plan(folder, patterns=("a/**", "b.md"))) == ["local:z.MD", "local:b.md"]


def test_plan_ingest_cites_files_of_a_repository_by_its_name(written: Write) -> None:
    folder = written({"app/.git/HEAD": "", "app/docs/a.md": "", "app/.git/b.md": "", "loose.md": ""})
    assert cited(plan(folder)) == ["app:.git/b.md", "app:docs/a.md", "local:loose.md"]
    assert cited(plan(folder / "app" / "docs")) == ["app:docs/a.md"]


def test_plan_ingest_ignores_root_order_and_reads_a_file_once(written: Write) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    roots = (folder / "b", folder, folder / "a" / "x.md")
    assert plan(*roots) == plan(*reversed(roots))
    assert len({source.file for source in plan(folder, folder).files}) == 2


def test_plan_ingest_of_a_part_cites_files_as_for_the_full_roots(written: Write) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    for root in (folder / "a", folder / "a" / "x.md"):
        assert cited(plan(folder, tool_input={"sourceRoots": [str(root)]})) == ["local:x.md"]
    assert cited(plan(folder / "a", folder)) == ["local:x.md", "local:y.md"]


def test_plan_ingest_counts_files_with_equal_citations(written: Write) -> None:
    folder = written({"one/docs/a.md": "", "two/docs/a.md": "", "two/docs/b.md": ""})
    result = plan(folder / "one" / "docs", folder / "two" / "docs")
    assert (cited(result), result.shadowed) == (["local:a.md", "local:a.md", "local:b.md"], 1)
    assert result.files[0].file == folder / "one" / "docs" / "a.md"
    # Profile seed loses no document of a folder for its name.
    for profile, expected in (
        ("seed", ["local:one/docs/a.md", "local:two/docs/a.md"]),
        ("upstream", ["local:a.md"] * 2),
    ):
        settings = resolve({"docsColdLane": {"sourceRoots": [str(folder)], "sourceGlobs": ["**/a.md"]}}, profile).docs
        assert cited(plan_ingest(settings)) == expected


def test_plan_ingest_does_not_follow_links(written: Write) -> None:
    folder = written({"a/x.md": ""})
    (folder / "a" / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "a" / "again.md").symlink_to(folder / "a" / "x.md")
    (folder / "a" / "gone.md").symlink_to(folder / "nowhere.md")
    assert cited(plan(folder)) == ["local:x.md"]


def test_plan_ingest_accepts_a_link_as_root(written: Write, tmp_path: Path) -> None:
    folder = written({"a.md": ""})
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    assert plan(tmp_path / "link") == plan(folder)


def test_plan_ingest_counts_file_names_that_are_not_utf8(written: Write) -> None:
    folder = written({"a.md": ""})
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md"))).write_text("x", encoding="utf-8")
    result = plan(folder)
    assert (cited(result), result.unreadable) == (["local:a.md"], 1)


def test_plan_ingest_limits_the_walk_and_sorts_by_name(written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:02d}.md" for number in range(40)]
    folder = written(dict.fromkeys(reversed(names), ""))
    monkeypatch.setattr(globs, "MAX_FILES", 3)
    result = plan(folder)
    assert (cited(result), result.truncated) == ([f"local:{name}" for name in names[:3]], True)
    monkeypatch.setattr(globs, "MAX_FILES", 40)
    assert not plan(folder).truncated


def test_plan_ingest_names_a_missing_root_and_reads_the_others(written: Write) -> None:
    folder = written({"a.md": ""})
    result = plan(folder / "nowhere", folder)
    assert (cited(result), result.missing_roots, result.skip_reason) == (
        ["local:a.md"],
        (str(folder / "nowhere"),),
        None,
    )


@pytest.mark.parametrize(
    ("roots", "tool_input", "reason"),
    [
        ((), None, "no_source_roots"),
        (("  ",), None, "no_source_roots"),
        ((), {"sourceRoots": []}, "no_source_roots"),
        (("handbook",), {"sourceRoots": [None, " "]}, "source_roots_invalid"),
        ((), {"sourceRoots": [5]}, "source_roots_invalid"),
        ((), {"sourceRoots": ["handbook"]}, "source_roots_not_configured"),
        (("handbook/a",), {"sourceRoots": ["handbook/a", "handbook"]}, "source_roots_not_allowlisted"),
        (("handbook/a",), {"sourceRoots": ["handbook/a/../b"]}, "source_roots_not_allowlisted"),
        (("handbook/a/x.md",), {"sourceRoots": ["handbook/a"]}, "source_roots_not_allowlisted"),
        (("handbook",), {"sourceGlobs": ["nothing/*.md"]}, "no_matching_markdown"),
        (("nowhere",), None, "no_matching_markdown"),
        (("handbook",), {"sourceRoots": ["handbook/a"], "sourceGlobs": [None]}, None),
        (("handbook/a/x.md",), {"sourceRoots": [" handbook/a/x.md "]}, None),
    ],
)
def test_plan_ingest_without_files_gives_the_reason(
    written: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    roots: tuple[str, ...],
    tool_input: object,
    reason: str | None,
) -> None:
    written({"a/x.md": "", "b/y.md": ""})
    monkeypatch.chdir(tmp_path)
    result = plan(*roots, tool_input=tool_input)
    assert result.skip_reason == reason
    assert bool(result.files) is (reason is None)


def test_plan_ingest_names_roots_outside_even_behind_a_link(written: Write, tmp_path: Path) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    (folder / "a" / "out").symlink_to(folder / "b", target_is_directory=True)
    tool_input = {"sourceRoots": [str(folder / "a" / "out"), str(folder / "a")]}
    assert plan(folder / "a", tool_input=tool_input) == IngestPlan(
        skip_reason="source_roots_not_allowlisted", invalid_roots=(str(folder / "a" / "out"),)
    )


def test_plan_ingest_is_complete_only_for_the_configured_roots(written: Write) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    assert plan(folder, tool_input={}).complete
    assert not plan(folder, tool_input={"sourceRoots": [str(folder / "a")]}).complete
    assert not plan(folder, tool_input={"sourceGlobs": ["a/*.md"]}).complete
