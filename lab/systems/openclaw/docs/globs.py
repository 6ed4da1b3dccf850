"""Which Markdown files an ingest reads (E-47): globs, the walk, allowed roots, and why nothing may be read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lab.systems.openclaw.config.settings import DocsSettings
from lab.utf16 import WHITESPACE

DEFAULT_GLOB = "**/*.md"
MAX_FILES = 5000
LOCAL = "local"
# Nothing in them was written by the operator.
SKIPPED_FOLDERS = frozenset({".git", "node_modules"})
_PIECES = re.compile(r"(\*\*/|\*\*|\*|\?)")
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class ToolInput(NamedTuple):
    """What a tool call asked for, after what is no name was dropped from it."""

    roots: tuple[str, ...]
    globs: tuple[str, ...]
    overrides: bool
    invalid: bool
    dropped_roots: int
    dropped_globs: int


class SourceFile(NamedTuple):
    """A file to ingest, and where it is to be cited: a repo, and a path inside it with forward slashes."""

    file: Path
    repo: str
    path: str


class IngestPlan(NamedTuple):
    """What an ingest will read.

    ``whole``: the files are all there are, so an index may forget every other document. ``unreadable`` counts folders
    that cannot be listed and names that are no UTF-8, ``shadowed`` files whose citation another file has already.
    """

    files: tuple[SourceFile, ...] = ()
    skip_reason: str | None = None
    invalid_roots: tuple[str, ...] = ()
    missing_roots: tuple[str, ...] = ()
    whole: bool = False
    truncated: bool = False
    unreadable: int = 0
    shadowed: int = 0


def read_tool_input(raw: object) -> ToolInput:
    """The roots and globs of a tool call: strings that are not blank, trimmed, in order.

    A list of roots that holds anything overrides the configured ones, and is invalid where it holds no name.
    """
    given = raw if isinstance(raw, dict) else {}
    roots, dropped_roots = _names(given.get("sourceRoots"))
    globs, dropped_globs = _names(given.get("sourceGlobs"))
    overrides = bool(roots) or dropped_roots > 0
    return ToolInput(roots, globs, overrides, overrides and not roots, dropped_roots, dropped_globs)


def _names(value: object) -> tuple[tuple[str, ...], int]:
    if not isinstance(value, list):
        return (), 0
    names = tuple(bare for one in value if isinstance(one, str) and (bare := one.strip(WHITESPACE)))
    return names, len(value) - len(names)


def glob_matches(glob: str, path: str) -> bool:
    """Whether a path matches a glob as a whole, whatever its case; a blank glob is ``**/*.md``.

    ``**/`` is any number of folders, ``**`` anything, ``*`` anything within a segment, ``?`` one character of it.
    Nothing else is special.
    """
    return _pattern(glob.strip(WHITESPACE) or DEFAULT_GLOB).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    pieces = (_WILD.get(piece) or re.escape(piece) for piece in _PIECES.split(glob) if piece)
    return re.compile("".join(pieces), re.IGNORECASE | re.DOTALL)


def plan_ingest(settings: DocsSettings, asked: ToolInput | None = None) -> IngestPlan:
    """The files to ingest, sorted by where they are cited, or the reason why there are none.

    Reasons: ``source_roots_invalid``, ``source_roots_not_configured``, ``source_roots_not_allowlisted``,
    ``no_source_roots``, ``no_matching_markdown``. A call may ask only for places inside the configured roots; one
    root outside refuses the whole call.
    """
    configured = [root for root in settings.source_roots if root.strip(WHITESPACE)]
    globs = (asked.globs if asked else ()) or settings.source_globs or (DEFAULT_GLOB,)
    if asked is None or not asked.overrides:
        if not configured:
            return IngestPlan(skip_reason="no_source_roots")
        # Other globs than the configured ones leave files out that are still documents.
        return _collect(configured, configured, globs, whole=asked is None or not asked.globs)
    if asked.invalid:
        return IngestPlan(skip_reason="source_roots_invalid")
    if not configured:
        return IngestPlan(skip_reason="source_roots_not_configured")
    allowed = [_resolved(root) for root in configured]
    outside = tuple(root for root in asked.roots if not any(_is_inside(_resolved(root), one) for one in allowed))
    if outside:
        return IngestPlan(skip_reason="source_roots_not_allowlisted", invalid_roots=outside)
    return _collect(asked.roots, configured, globs, whole=False)


def _resolved(root: str) -> Path:
    return Path(os.path.expanduser(root)).resolve()


def _is_inside(path: Path, root: Path) -> bool:
    return path == root if root.suffix.lower() == ".md" else path.is_relative_to(root)


class _Walk:
    """Counts that belong to one walk over all roots."""

    def __init__(self) -> None:
        self.seen = self.unreadable = 0
        self.truncated = False

    def files(self, folder: Path) -> Iterator[Path]:
        """The Markdown files below a folder, names in order; links are not followed, so no loop can be."""
        waiting = [folder]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as listing:
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
            waiting += [Path(entry.path) for entry in reversed(folders) if entry.name not in SKIPPED_FOLDERS]


def _collect(roots: Sequence[str], configured: Sequence[str], globs: Sequence[str], *, whole: bool) -> IngestPlan:
    walk = _Walk()
    cite = _Citations(configured)
    missing: list[str] = []
    found: dict[tuple[str, str], Path] = {}
    shadowed = 0
    # In the order of their places, so that the order in which they were named decides nothing.
    for root, place in sorted(((root, _resolved(root)) for root in roots), key=lambda pair: str(pair[1])):
        if not os.path.exists(place):
            missing.append(root)
            continue
        base = _folder(place)
        for file in [place] if place != base else walk.files(place):
            relative = file.relative_to(base).as_posix()
            if file.suffix.lower() != ".md" or not any(glob_matches(glob, relative) for glob in globs):
                continue
            if not _is_utf8(str(file)):
                walk.unreadable += 1
            elif found.setdefault(cite.of(file), file) != file:
                shadowed += 1
    files = tuple(SourceFile(file, *citation) for citation, file in sorted(found.items()))
    reason = None if files else "no_matching_markdown"
    return IngestPlan(
        files, reason, (), tuple(sorted(missing)), whole, walk.truncated, walk.unreadable, shadowed=shadowed
    )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _folder(place: Path) -> Path:
    return place.parent if place.is_file() else place


class _Citations:
    """The repo and the path under which a file is cited, the same for whichever root it was found."""

    def __init__(self, configured: Sequence[str]) -> None:
        # An outer folder comes before those in it.
        self._bases = sorted({_folder(_resolved(root)) for root in configured})
        self._git_roots: dict[Path, Path | None] = {}

    def of(self, file: Path) -> tuple[str, str]:
        """Inside a git root its name and the path below it, else ``local`` and a path from the root's name on."""
        git_root = self._git_root(file.parent)
        if git_root is not None and git_root.name:
            return git_root.name, file.relative_to(git_root).as_posix()
        base = next(one for one in self._bases if file.is_relative_to(one))
        return LOCAL, (Path(base.name) / file.relative_to(base)).as_posix()

    def _git_root(self, folder: Path) -> Path | None:
        if folder not in self._git_roots:
            parents = (folder, *folder.parents)
            self._git_roots[folder] = next((one for one in parents if os.path.exists(one / ".git")), None)
        return self._git_roots[folder]
