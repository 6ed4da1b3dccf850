"""Copies of folders with a digest of every file, so that a copy can be checked before it is used (IX-8)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import cannot_write, digest, flush_folder, sha256_file

_CHUNK = 1 << 20


class FileDigest(NamedTuple):
    """A file of a folder: its path below the folder with ``/``, its length in bytes, and its sha256 (hex)."""

    path: str
    bytes: int
    sha256: str


class Copied(NamedTuple):
    """The files of a folder in the order of their paths, and how many other entries were left out.

    Left out are symbolic links, which may point anywhere, and whatever is neither a file nor a folder.
    """

    files: tuple[FileDigest, ...]
    left_out: int


def digests_of(folder: Path) -> Copied:
    """Return the digests of all files of a folder. Raises :class:`UnusableInput` if one cannot be read."""
    try:
        paths, left_out = _entries(folder)
        files = tuple(FileDigest(name, path.stat().st_size, sha256_file(path)) for name, path in sorted(paths.items()))
    except OSError as error:
        raise _unreadable(error) from error
    return Copied(files, left_out)


def copy_folder(source: Path, target: Path, *, first: str = "") -> Copied:
    """Copy a folder to a new private one, flush it to disk, and return the digests of what was read.

    Files below the folder ``first`` are listed and copied before the others are listed: a database that writes its
    data before its index is complete then, even if it grows meanwhile. Raises :class:`FileNotFoundError` if a file
    goes away meanwhile, :class:`UnusableInput` if one cannot be read, and :class:`lab.base.errors.CannotMeasure` if the
    copy cannot be written.
    """
    copied: dict[str, FileDigest] = {}
    try:
        target.mkdir(mode=0o700)
        for start in (source / first, source) if first else (source,):
            paths, left_out = _entries(source, start)
            for name, path in sorted(paths.items()):
                if name not in copied:
                    copied[name] = _copy(path, target / name, name)
        for folder in sorted(path for path in target.rglob("*") if path.is_dir()):
            flush_folder(folder)
        flush_folder(target)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.filename is not None and not Path(error.filename).is_relative_to(target):
            raise _unreadable(error) from error
        raise cannot_write(target, error) from error
    return Copied(tuple(copied[name] for name in sorted(copied)), left_out)


def total_digest(files: Sequence[FileDigest]) -> str:
    """Return one sha256 (hex) of the paths, lengths and digests of files."""
    return digest([list(file) for file in sorted(files)])


def difference(found: Sequence[FileDigest], expected: Sequence[FileDigest]) -> str:
    """Return the first thing in which files differ from what is expected, in words; blank if they do not."""
    ours, theirs = ({file.path: file for file in files} for files in (found, expected))
    for name in sorted({*ours, *theirs}):
        if name not in ours:
            return f"{name} is missing"
        if name not in theirs:
            return f"{name} does not belong to it"
        if ours[name].bytes != theirs[name].bytes:
            return f"{name} has {ours[name].bytes} bytes instead of {theirs[name].bytes}"
        if ours[name].sha256 != theirs[name].sha256:
            return f"{name} has another sha256"
    return ""


def set_read_only(folder: Path) -> None:
    """Take away the right to write from a folder and everything in it, also as a sign to root."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)


def as_json(files: Sequence[FileDigest]) -> list[dict[str, Any]]:
    """Return digests as they are written in manifests."""
    return [file._asdict() for file in files]


def _entries(source: Path, start: Path | None = None) -> tuple[dict[str, Path], int]:
    """Return the files below ``start`` by their path below ``source``, and how many other entries there are.

    Raises :class:`OSError` for a folder that cannot be read, which :meth:`pathlib.Path.rglob` would leave out.
    """
    files: dict[str, Path] = {}
    left_out, top = 0, start or source
    if not top.is_dir():
        return files, left_out
    for folder, folders, names in os.walk(top, onerror=_refused):
        for path in (Path(folder, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                files[path.relative_to(source).as_posix()] = path
            elif not stat.S_ISDIR(mode):
                left_out += 1
    return files, left_out


def _refused(error: OSError) -> None:
    raise error


def _unreadable(error: OSError) -> UnusableInput:
    return UnusableInput(f"{error.filename}: cannot be read: {error.strerror}")


def _copy(path: Path, target: Path, name: str) -> FileDigest:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sha256, size = hashlib.sha256(), 0
    with path.open("rb") as reading, target.open("xb") as writing:
        os.fchmod(writing.fileno(), 0o600)
        while chunk := reading.read(_CHUNK):
            sha256.update(chunk)
            size += len(chunk)
            writing.write(chunk)
        writing.flush()
        os.fsync(writing.fileno())
    return FileDigest(name, size, sha256.hexdigest())
