"""A unified diff as a fault: the output of ``diff -u`` or ``git diff``, applied strictly.

The lines of a hunk must be at the position that it states, or at exactly one other position. There is no fuzz.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_text
from lab.base.regex import regex
from lab.gate.selftest.faults import Edit, Fault

_HUNK = regex(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# Lines of changes that cannot be applied here.
_REFUSED = ("rename from", "copy from", "GIT binary patch", "Binary files", "deleted file mode")
_NO_NEWLINE = "\\ No newline at end of file"


class Hunk(NamedTuple):
    """The old and the new lines, with their endings; ``start`` counts from 1."""

    start: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def read_patch(path: Path, package: Path) -> Fault:
    """Return a patch of the package's files as a fault, named after the patch file.

    Paths may begin with ``a/`` and ``b/`` and with the package's name. Raises :class:`UnusableInput` for a file that is
    not a unified diff, or that does not apply.
    """
    files = list(_files(read_text(path).split("\n"), path))
    if not files:
        raise UnusableInput(f"{path}: holds no unified diff (--- and +++ lines, then @@ hunks)")
    edits: dict[str, Edit] = {}
    for old, new, hunks in files:
        name = _inside(old if new is None else new, path)
        if name in edits:
            raise UnusableInput(f"{path}: names {name} twice")
        edits[name] = _edit(name, package, hunks, path, is_new=old is None)
    return Fault(path.stem, f"The patch {path.name}.", tuple(edits.values()), "patch")


def _edit(name: str, package: Path, hunks: Sequence[Hunk], path: Path, *, is_new: bool) -> Edit:
    if is_new:
        return _rewrite(name, "".join(hunks[0].after))
    source = package / name
    if not source.is_file():
        raise UnusableInput(f"{path}: the package has no file {name}")
    text = source.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    moved = 0
    for number, hunk in enumerate(hunks, 1):
        at = _position(lines, hunk, hunk.start - 1 + moved)
        if at is None:
            raise UnusableInput(
                f"{path}: hunk {number} of {name} does not apply: its lines are not at line {hunk.start}, nor at "
                "exactly one other position; make the patch against this version"
            )
        lines[at : at + len(hunk.before)] = hunk.after
        moved += len(hunk.after) - len(hunk.before)
    changed = "".join(lines)
    if changed == text:
        raise UnusableInput(f"{path}: changes nothing in {name}")
    return _rewrite(name, changed)


def _rewrite(name: str, text: str) -> Edit:
    return Edit(name, lambda _: text)


def _position(lines: Sequence[str], hunk: Hunk, expected: int) -> int | None:
    size = len(hunk.before)
    if not size:
        # A hunk without old lines adds lines after the stated one.
        return expected + 1 if 0 <= expected + 1 <= len(lines) else None
    if tuple(lines[expected : expected + size]) == hunk.before and expected >= 0:
        return expected
    positions = [at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.before]
    return positions[0] if len(positions) == 1 else None


def _files(lines: Sequence[str], path: Path) -> Iterator[tuple[str | None, str | None, list[Hunk]]]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(_REFUSED):
            raise UnusableInput(f"{path}:{at + 1}: {line.strip()}: only changes of text can be applied")
        if not (line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")):
            if line.startswith("@@ "):
                raise UnusableInput(f"{path}:{at + 1}: a hunk without the --- and +++ lines of its file")
            at += 1
            continue
        old, new = _named(line), _named(lines[at + 1])
        if new is None:
            raise UnusableInput(f"{path}:{at + 2}: removes a file; only changes of text can be applied")
        hunks: list[Hunk] = []
        at += 2
        while at < len(lines) and lines[at].startswith("@@"):
            hunk, at = _hunk(lines, at, path)
            hunks.append(hunk)
        if not hunks:
            raise UnusableInput(f"{path}:{at}: no hunk follows (a line @@ -1,2 +1,2 @@)")
        yield old, new, hunks


def _hunk(lines: Sequence[str], at: int, path: Path) -> tuple[Hunk, int]:
    match = _HUNK.match(lines[at])
    if match is None:
        raise UnusableInput(f"{path}:{at + 1}: not the header of a hunk: {lines[at][:40]}")
    start = int(match[1])
    left, right = (int(match[group] or 1) for group in (2, 4))
    before, after = list[str](), list[str]()
    head, at = at, at + 1
    while len(before) < left or len(after) < right:
        if at >= len(lines):
            raise UnusableInput(
                f"{path}:{head + 1}: the hunk has fewer than its {left} old and {right} new lines (cut off?)"
            )
        mark, text = lines[at][:1], lines[at][1:] + "\n"
        if mark in (" ", ""):
            before.append(text)
            after.append(text)
        elif mark == "-":
            before.append(text)
        elif mark == "+":
            after.append(text)
        elif lines[at] != _NO_NEWLINE:
            raise UnusableInput(f"{path}:{at + 1}: a line of a hunk must begin with a space, - or +")
        at += 1
    if at < len(lines) and lines[at] == _NO_NEWLINE:
        at += 1
    if len(before) != left or len(after) != right:
        raise UnusableInput(f"{path}:{head + 1}: the hunk's lines do not match the counts in its header")
    return Hunk(start, tuple(before), tuple(after)), at


def _named(line: str) -> str | None:
    """Return the file of a ``---`` or ``+++`` line, up to the first tab; None for ``/dev/null``."""
    name = line[4:].split("\t")[0].strip()
    return None if name == "/dev/null" else name


def _inside(name: str | None, path: Path) -> str:
    parts = [part for part in (name or "").split("/") if part not in ("", ".")]
    if parts and parts[0] in ("a", "b"):
        parts = parts[1:]
    if "lab" in parts:
        parts = parts[parts.index("lab") + 1 :]
    if not parts or ".." in parts:
        raise UnusableInput(f"{path}: {name}: not a file of the package")
    return "/".join(parts)
