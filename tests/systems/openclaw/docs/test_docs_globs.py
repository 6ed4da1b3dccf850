"""Files that an ingest reads: the walk, allowed roots, citations, and reasons to read nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs import globs
from lab.systems.openclaw.docs.globs import IngestPlan, glob_matches, plan_ingest, read_tool_input

Write = Callable[[Mapping[str, str]], Path]


def plan(*roots: Path | str, patterns: tuple[str, ...] = ("**/*.md",), asked: object = None) -> IngestPlan:
    settings = DocsSettings(source_roots=tuple(map(str, roots)), source_globs=patterns)
    return plan_ingest(settings, None if asked is None else read_tool_input(asked))


def cited(found: IngestPlan) -> list[str]:
    return [f"{source.repo}:{source.path}" for source in found.files]


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
def test_a_glob_speaks_of_the_whole_path(glob: str, path: str, expected: bool) -> None:
    assert glob_matches(glob, path) is expected


def test_markdown_is_found_in_order_and_nothing_else(written: Write) -> None:
    folder = written(
        {"b.md": "", "a/z.MD": "", "a/x.txt": "", "a.md": "", "node_modules/p/readme.md": "", ".git2/c.md": ""}
    )
    found = plan(folder)
    assert cited(found) == [f"local:handbook/{name}" for name in (".git2/c.md", "a.md", "a/z.MD", "b.md")]
    assert found == plan(folder)
    assert found.whole
    assert cited(plan(folder, patterns=("a/**", "b.md"))) == ["local:handbook/a/z.MD", "local:handbook/b.md"]


def test_inside_a_repository_files_are_cited_by_it(written: Write) -> None:
    folder = written({"app/.git/HEAD": "", "app/docs/a.md": "", "app/.git/b.md": "", "loose.md": ""})
    assert cited(plan(folder)) == ["app:docs/a.md", "local:handbook/loose.md"]
    assert cited(plan(folder / "app" / "docs")) == ["app:docs/a.md"]


def test_the_order_of_roots_decides_nothing_and_a_file_is_read_once(written: Write) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    roots = (folder / "b", folder, folder / "a" / "x.md")
    assert plan(*roots) == plan(*reversed(roots))
    assert len({source.file for source in plan(folder, folder).files}) == 2


def test_a_part_that_a_tool_call_names_is_cited_as_the_whole_is(written: Write) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    for root in (folder / "a", folder / "a" / "x.md"):
        assert cited(plan(folder, asked={"sourceRoots": [str(root)]})) == ["local:handbook/a/x.md"]
    assert cited(plan(folder / "a", folder)) == ["local:handbook/a/x.md", "local:handbook/b/y.md"]


def test_files_that_would_be_cited_alike_are_counted(written: Write) -> None:
    folder = written({"one/docs/a.md": "", "two/docs/a.md": "", "two/docs/b.md": ""})
    found = plan(folder / "one" / "docs", folder / "two" / "docs")
    assert (cited(found), found.shadowed) == (["local:docs/a.md", "local:docs/b.md"], 1)
    assert found.files[0].file == folder / "one" / "docs" / "a.md"


def test_links_are_not_followed(written: Write) -> None:
    folder = written({"a/x.md": ""})
    (folder / "a" / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "a" / "again.md").symlink_to(folder / "a" / "x.md")
    (folder / "a" / "gone.md").symlink_to(folder / "nowhere.md")
    assert cited(plan(folder)) == ["local:handbook/a/x.md"]


def test_a_root_may_itself_be_a_link(written: Write, tmp_path: Path) -> None:
    folder = written({"a.md": ""})
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    assert plan(tmp_path / "link") == plan(folder)


def test_a_file_name_that_is_no_utf8_is_counted(written: Write) -> None:
    folder = written({"a.md": ""})
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md"))).write_text("x", encoding="utf-8")
    found = plan(folder)
    assert (cited(found), found.unreadable) == (["local:handbook/a.md"], 1)


def test_the_walk_is_bounded_and_its_order_is_that_of_names(written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number:02d}.md" for number in range(40)]
    folder = written(dict.fromkeys(reversed(names), ""))
    monkeypatch.setattr(globs, "MAX_FILES", 3)
    found = plan(folder)
    assert (cited(found), found.truncated) == ([f"local:handbook/{name}" for name in names[:3]], True)
    monkeypatch.setattr(globs, "MAX_FILES", 40)
    assert not plan(folder).truncated


def test_a_missing_root_is_named_and_the_rest_is_read(written: Write) -> None:
    folder = written({"a.md": ""})
    found = plan(folder / "nowhere", folder)
    assert (cited(found), found.missing_roots, found.skip_reason) == (
        ["local:handbook/a.md"],
        (str(folder / "nowhere"),),
        None,
    )


@pytest.mark.parametrize(
    ("roots", "asked", "reason"),
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
def test_a_reason_says_why_nothing_is_read(
    written: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    roots: tuple[str, ...],
    asked: object,
    reason: str | None,
) -> None:
    written({"a/x.md": "", "b/y.md": ""})
    monkeypatch.chdir(tmp_path)
    found = plan(*roots, asked=asked)
    assert found.skip_reason == reason
    assert bool(found.files) is (reason is None)


def test_roots_outside_are_named_even_behind_a_link(written: Write, tmp_path: Path) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    (folder / "a" / "out").symlink_to(folder / "b", target_is_directory=True)
    asked = {"sourceRoots": [str(folder / "a" / "out"), str(folder / "a")]}
    assert plan(folder / "a", asked=asked) == IngestPlan(
        skip_reason="source_roots_not_allowlisted", invalid_roots=(str(folder / "a" / "out"),)
    )


def test_only_the_configured_whole_may_forget_other_documents(written: Write) -> None:
    folder = written({"a/x.md": "", "b/y.md": ""})
    assert plan(folder, asked={}).whole
    assert not plan(folder, asked={"sourceRoots": [str(folder / "a")]}).whole
    assert not plan(folder, asked={"sourceGlobs": ["a/*.md"]}).whole
