"""Select the Markdown files of an ingest (E-47): globs, directory walk, allowed roots, and skip reasons."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.config.settings import DocsSettings

DEFAULT_GLOB = "**/*.md"
MAX_FILES = 5000
LOCAL = "local"
# The operator wrote nothing in these.
SKIPPED_FOLDERS = frozenset({".git", "node_modules"})
_PIECES = re.compile(r"(\*\*/|\*\*|\*|\?)")
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
    """A file to ingest with its citation: a repo, and a path inside it with forward slashes."""

    file: Path
    repo: str
    path: str


class IngestPlan(NamedTuple):
    """What an ingest will read.

    ``complete``: these are all files, so an index may delete every other document. ``unreadable`` counts folders that
    cannot be listed and names that are not UTF-8, ``shadowed`` files whose citation another file already has.
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
    """Return the files to ingest, sorted by citation, or the reason why there are none.

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
        return _collect(configured, configured, globs, complete=tool_input is None or not tool_input.globs)
    if tool_input.invalid:
        return IngestPlan(skip_reason="source_roots_invalid")
    if not configured:
        return IngestPlan(skip_reason="source_roots_not_configured")
    allowed = [_resolved(root) for root in configured]
    outside = tuple(root for root in tool_input.roots if not any(_is_inside(_resolved(root), top) for top in allowed))
    if outside:
        return IngestPlan(skip_reason="source_roots_not_allowlisted", invalid_roots=outside)
    return _collect(tool_input.roots, configured, globs, complete=False)


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
            pending += [Path(entry.path) for entry in reversed(folders) if entry.name not in SKIPPED_FOLDERS]


def _collect(roots: Sequence[str], configured: Sequence[str], globs: Sequence[str], *, complete: bool) -> IngestPlan:
    walk = _Walk()
    cite = _Citations(configured)
    missing: list[str] = []
    files_by_citation: dict[tuple[str, str], Path] = {}
    shadowed = 0
    # Sorted by path, so that the order in which roots were named does not matter.
    for root, path in sorted(((root, _resolved(root)) for root in roots), key=lambda pair: str(pair[1])):
        if not os.path.exists(path):
            missing.append(root)
            continue
        base = _folder(path)
        for file in [path] if path != base else walk.files(path):
            relative = file.relative_to(base).as_posix()
            if file.suffix.lower() != ".md" or not any(glob_matches(glob, relative) for glob in globs):
                continue
            if not _is_utf8(str(file)):
                walk.unreadable += 1
            elif files_by_citation.setdefault(cite.of(file), file) != file:
                shadowed += 1
    files = tuple(SourceFile(file, *citation) for citation, file in sorted(files_by_citation.items()))
    reason = None if files else "no_matching_markdown"
    return IngestPlan(
        files, reason, (), tuple(sorted(missing)), complete, walk.truncated, walk.unreadable, shadowed=shadowed
    )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _folder(path: Path) -> Path:
    return path.parent if path.is_file() else path


class _Citations:
    """The repo and path by which a file is cited, independent of the root that it was found under."""

    def __init__(self, configured: Sequence[str]) -> None:
        # Sorted, so outer folders come before inner ones.
        self._bases = sorted({_folder(_resolved(root)) for root in configured})
        self._git_roots: dict[Path, Path | None] = {}

    def of(self, file: Path) -> tuple[str, str]:
        """Return the git root's name and the path below it, else ``local`` and a path starting with the root's name."""
        git_root = self._git_root(file.parent)
        if git_root is not None and git_root.name:
            return git_root.name, file.relative_to(git_root).as_posix()
        base = next(folder for folder in self._bases if file.is_relative_to(folder))
        return LOCAL, (Path(base.name) / file.relative_to(base)).as_posix()

    def _git_root(self, folder: Path) -> Path | None:
        if folder not in self._git_roots:
            parents = (folder, *folder.parents)
            self._git_roots[folder] = next((parent for parent in parents if os.path.exists(parent / ".git")), None)
        return self._git_roots[folder]
