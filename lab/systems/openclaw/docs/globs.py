"""Select the Markdown files of an ingest (E-47): globs, directory walk, allowed roots, and skip reasons."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.config.settings import DocsSettings

DEFAULT_GLOB = "**/*.md"
MAX_FILES = 5000
LOCAL = "local"
_PIECES = regex(r"(\*\*/|\*\*|\*|\?)")
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class ToolInput(NamedTuple):
    """The valid roots and globs of a tool call, and how many invalid ones were dropped."""

    roots: tuple[str, ...]
    globs: tuple[str, ...]
    overrides: bool
    invalid: bool
    dropped_roots: int
    dropped_globs: int


class SourceFile(NamedTuple):
    """A file to ingest with its citation: a repo, and a path inside it with forward slashes.

    The repo is the name of the git root; outside a repository it is ``local``, and the path is below
    the root that was named, or the file's name (:class:`DocsSettings`).
    """

    file: Path
    repo: str
    path: str


class IngestPlan(NamedTuple):
    """What an ingest will read, sorted by path.

    ``complete``: these are all files, so an index may delete every other document. ``unreadable`` counts folders that
    cannot be listed and names that are not UTF-8, ``shadowed`` files that a later one with the same citation replaces.
    """

    files: tuple[SourceFile, ...] = ()
    skip_reason: str | None = None
    invalid_roots: tuple[str, ...] = ()
    missing_roots: tuple[str, ...] = ()
    complete: bool = False
    truncated: bool = False
    unreadable: int = 0
    shadowed: int = 0


def read_tool_input(raw: object) -> ToolInput:
    """Return the roots and globs of a tool call: non-blank strings, trimmed, in order.

    A non-empty list of roots overrides the configured ones; it is invalid if it contains no name.
    """
    given = raw if isinstance(raw, dict) else {}
    roots, dropped_roots = _names(given.get("sourceRoots"))
    globs, dropped_globs = _names(given.get("sourceGlobs"))
    overrides = bool(roots) or dropped_roots > 0
    return ToolInput(roots, globs, overrides, overrides and not roots, dropped_roots, dropped_globs)


def _names(value: object) -> tuple[tuple[str, ...], int]:
    if not isinstance(value, list):
        return (), 0
    names = tuple(name for item in value if isinstance(item, str) and (name := item.strip(WHITESPACE)))
    return names, len(value) - len(names)


def glob_matches(glob: str, path: str) -> bool:
    """Whether a glob matches the full path, ignoring case; a blank glob is ``**/*.md``.

    ``**/`` matches any number of folders, ``**`` anything, ``*`` anything within a segment, ``?`` one character of it.
    Nothing else is special.
    """
    return _pattern(glob.strip(WHITESPACE) or DEFAULT_GLOB).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    pieces = (_WILD.get(piece) or re.escape(piece) for piece in _PIECES.split(glob) if piece)
    return re.compile("".join(pieces), re.IGNORECASE | re.DOTALL)


def plan_ingest(settings: DocsSettings, tool_input: ToolInput | None = None) -> IngestPlan:
    """Return the files to ingest, or the reason why there are none.

    Reasons: ``source_roots_invalid``, ``source_roots_not_configured``, ``source_roots_not_allowlisted``,
    ``no_source_roots``, ``no_matching_markdown``. Roots of a call must be inside the configured roots; one root
    outside rejects the call.
    """
    configured = [root for root in settings.source_roots if root.strip(WHITESPACE)]
    globs = (tool_input.globs if tool_input else ()) or settings.source_globs or (DEFAULT_GLOB,)
    if tool_input is None or not tool_input.overrides:
        if not configured:
            return IngestPlan(skip_reason="no_source_roots")
        # With globs other than the configured ones, the files left out are still documents.
        is_all = tool_input is None or not tool_input.globs
        return _collect(configured, globs, complete=is_all, by_path=settings.by_path)
    if tool_input.invalid:
        return IngestPlan(skip_reason="source_roots_invalid")
    if not configured:
        return IngestPlan(skip_reason="source_roots_not_configured")
    allowed = [_resolved(root) for root in configured]
    outside = tuple(root for root in tool_input.roots if not any(_is_inside(_resolved(root), top) for top in allowed))
    if outside:
        return IngestPlan(skip_reason="source_roots_not_allowlisted", invalid_roots=outside)
    return _collect(tool_input.roots, globs, complete=False, by_path=settings.by_path)


def _resolved(root: str) -> Path:
    return Path(os.path.expanduser(root)).resolve()


def _is_inside(path: Path, root: Path) -> bool:
    return path == root if root.suffix.lower() == ".md" else path.is_relative_to(root)


class _Walk:
    """One walk over all roots, with its counts."""

    def __init__(self) -> None:
        self.seen = self.unreadable = 0
        self.truncated = False

    def files(self, folder: Path) -> Iterator[Path]:
        """Yield the Markdown files below a folder, sorted by name. Links are not followed, which excludes loops."""
        pending = [folder]
        while pending:
            try:
                with os.scandir(pending.pop()) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError:
                self.unreadable += 1
                continue
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(".md"):
                    if self.seen == MAX_FILES:
                        self.truncated = True
                        return
                    self.seen += 1
                    yield Path(entry.path)
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
            pending += [Path(entry.path) for entry in reversed(folders)]


def _collect(roots: Sequence[str], globs: Sequence[str], *, complete: bool, by_path: bool) -> IngestPlan:
    walk = _Walk()
    git_roots: dict[Path, Path | None] = {}
    missing: list[str] = []
    files: dict[Path, SourceFile] = {}
    # Sorted by path, so that the order in which roots were named does not matter.
    for root, path in sorted(((root, _resolved(root)) for root in roots), key=lambda pair: str(pair[1])):
        if not os.path.exists(path):
            missing.append(root)
            continue
        base = path.parent if path.is_file() else path
        for file in [path] if path != base else walk.files(path):
            relative = file.relative_to(base).as_posix()
            if file.suffix.lower() != ".md" or not any(glob_matches(glob, relative) for glob in globs):
                continue
            if not _is_utf8(str(file)):
                walk.unreadable += 1
            elif file not in files:
                files[file] = _cited(file, relative if by_path else file.name, git_roots)
    # As JavaScript sorts texts.
    ordered = tuple(sorted(files.values(), key=lambda source: str(source.file).encode("utf-16-be")))
    return IngestPlan(
        ordered,
        None if ordered else "no_matching_markdown",
        (),
        tuple(sorted(missing)),
        complete,
        walk.truncated,
        walk.unreadable,
        shadowed=len(ordered) - len({source[1:] for source in ordered}),
    )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cited(file: Path, name: str, git_roots: dict[Path, Path | None]) -> SourceFile:
    folder = file.parent
    if folder not in git_roots:
        parents = (folder, *folder.parents)
        git_roots[folder] = next((parent for parent in parents if os.path.exists(parent / ".git")), None)
    root = git_roots[folder]
    if root is None or not root.name:
        return SourceFile(file, LOCAL, name)
    return SourceFile(file, root.name, file.relative_to(root).as_posix())
