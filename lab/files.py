"""Files that are either whole or absent, and readers that name the line they stumble over."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lab.errors import CannotMeasure, CannotWrite, InUse, UnusableInput
from lab.formatting import free_of_credentials
from lab.shape import json_type

Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]
# What ends every further write to the same disk, too.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


# Characters. JSON5 is read slowly, and a file past this is no configuration but something else by mistake.
MAX_JSON5_CHARS = 200_000


@contextmanager
def atomic_file(path: Path, *, durable: bool = True, private: bool = False) -> Iterator[Path]:
    """Hand out a temporary path beside ``path``; at the end flush it to disk and rename it into place.

    A reader, or a process killed at any moment, sees the old file or the new one, never half of it. The price is one
    fsync for the file and one for its folder; without ``lasting`` neither is made, and a file that was written just
    before the machine lost its power may be gone, or empty. Two writers of one path do not mix: the last rename wins.
    A disk that is full or read-only is :class:`CannotWrite`, anything else that the system refuses
    :class:`CannotMeasure`. With ``private``, the file and its folder are for their owner alone.
    """
    try:
        if private:
            private_folder(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.{os.getpid()}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        if durable:
            with part.open("rb") as written:
                os.fsync(written.fileno())
        os.chmod(part, 0o600 if private else 0o644)
        os.replace(part, path)
        if durable:
            _flush(path.parent)
    except OSError as error:
        raise cannot_write(path, error, "; the old state is kept") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def private_folder(folder: Path) -> None:
    """Make a folder for its owner alone, and those above it that are missing.

    One that is there already loses the rights of others, unless it is somebody else's.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        with suppress(PermissionError):
            folder.chmod(0o700)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Hand out a temporary folder beside ``path``; at the end it is renamed into place.

    So the folder is there with all its files or not at all. Nothing may be at ``path`` but an empty folder; what killed
    processes left beside it is removed. The files in it are to be written by :func:`atomic_file`, which flushes them.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            if old.is_dir() and _orphaned(old.name.split(".")[-2]):
                shutil.rmtree(old)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.mkdir()
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        yield part
        os.replace(part, path)
        _flush(path.parent)
    except OSError as error:
        raise cannot_write(path, error, "; nothing is left of it") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Make the names in a folder last, as fsync does its files."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def folder_matches(folder: Path, checksums: dict[str, str]) -> bool:
    """Whether a folder holds just the files of these names and sha256; False where there is none, or an empty one.

    A folder that holds anything else is :class:`UnusableInput`: it is somebody's, and nothing in it is replaced.
    """
    if not folder.exists():
        return False
    if not folder.is_dir():
        raise UnusableInput(f"{folder}: exists and is no folder")
    found = {one.relative_to(folder).as_posix(): one for one in folder.rglob("*") if not one.is_dir()}
    if not found and not any(folder.iterdir()):
        return False
    if set(found) != set(checksums) or any(sha256_file(found[name]) != one for name, one in checksums.items()):
        raise UnusableInput(f"{folder}: holds something else already; name a new folder")
    return True


def cannot_write(path: Path, error: OSError, more: str = "") -> CannotMeasure:
    """What to raise where the system refused to write ``path``."""
    kind = CannotWrite if error.errno in DISK_FULL else CannotMeasure
    return kind(f"cannot write {path}: {error.strerror or error}{more}")


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder, made if need be, so that no second process of ours writes there meanwhile.

    The folder itself is locked, and the system lets go of it when the process ends, however it ends: no lock outlives
    its owner. A folder that is held is :class:`InUse`. Where a file system has no locks two writers are still safe for
    equal arguments, because files are whole.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except (FileExistsError, NotADirectoryError) as error:
        raise UnusableInput(f"{folder}: exists and is no folder, or lies below a file ({error.strerror})") from None
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        if not (_lock(handle) and _is_at(handle, folder)):
            raise InUse(f"{folder}: another process is writing it; wait for it to end, or choose another folder")
        yield
    finally:
        os.close(handle)


def _is_at(handle: int, folder: Path) -> bool:
    """Whether what is open is still what the path names, and has not been removed meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except OSError:
        return False


def _lock(handle: int) -> bool:
    """Whether nobody else holds what is open here. Held until it is closed."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def leftovers(folder: Path) -> list[Path]:
    """The temporary files that killed processes left in a folder; those of living ones are not among them."""
    return [part for part in sorted(folder.glob(".*.part")) if _orphaned(part.name.split(".")[-3])]


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder."""
    for part in leftovers(folder):
        # On a disk that is read-only they stay, and harm nobody.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _orphaned(owner: str) -> bool:
    """Whether a part of a name is the number of a process, and of none that runs."""
    return owner.isdecimal() and not alive(int(owner))


def alive(process: int) -> bool:
    """Whether a process runs. No system numbers processes beyond what it can be asked for."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def write_atomically(path: Path, data: bytes, *, durable: bool = True, private: bool = False) -> None:
    """Write ``data`` through :func:`atomic_file`."""
    with atomic_file(path, durable=durable, private=private) as part:
        part.write_bytes(data)


def dump_json(value: Any, *, indent: int | None = 2) -> bytes:
    """JSON as this project writes it: UTF-8, keys in the order given, a newline at the end."""
    try:
        return (json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode()
    except UnicodeEncodeError:
        # A lone surrogate is no UTF-8, but as an escape it is JSON.
        return (json.dumps(value, indent=indent) + "\n").encode()


def digest(value: Any) -> str:
    """sha256 of a JSON value with sorted keys: the identity of a set of arguments."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256_bytes(data: bytes) -> str:
    """sha256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def require_finite(path: Path, *, pipes: bool = False) -> None:
    """Refuse a device, a socket and a named pipe: reading them may never end. A missing file is left to the reader.

    A pipe that the shell made, ``/dev/stdin`` or ``<(command)``, has a writer, so it is taken; with ``pipes``, any is.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    piped = stat.S_ISFIFO(mode) and (pipes or path.as_posix().startswith(("/dev/", "/proc/")))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or piped):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise UnusableInput(f"{path}: is {kind}, not a file; copy what it gives into a file first")


def read_text(path: Path) -> str:
    """The UTF-8 text of ``path``; a missing file, a folder, a device or other bytes are :class:`UnusableInput`."""
    require_finite(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UnusableInput(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None


def read_json(path: Path, *, once: bool = False) -> Any:
    """The JSON value in ``path``; what is not JSON is :class:`UnusableInput` with line and column.

    With ``once``, an object that names a field twice is refused, as in :func:`read_json_lines`.
    """
    return _parse(read_text(path), path, 1, pairs=_once if once else None)


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON or JSON5 text, without the credentials of the URIs in it.

    What a configuration says comes back in manifests, reports and messages, and no part of the lab has a use for them.
    """
    try:
        return free_of_credentials(_json5(text, where))
    except RecursionError:
        raise UnusableInput(f"{where}: JSON is nested too deeply") from None


def _json5(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if len(text) > MAX_JSON5_CHARS:
            raise UnusableInput(f"{where}: not JSON: {error}") from None
    import json5

    try:
        return json5.loads(text)
    except RecursionError:
        raise UnusableInput(f"{where}: JSON is nested too deeply") from None
    except ValueError as error:
        found = re.match(r"<string>:(\d+) (.*)", str(error), re.DOTALL)
        line, what = found.groups() if found else ("1", str(error))
        cut = " (the file seems cut off)" if "end of input" in what or not text.strip() else ""
        raise UnusableInput(f"{where}:{line}: not JSON, nor JSON5: {what}{cut}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The table in ``path``; what is not TOML is :class:`UnusableInput` with line and column."""
    try:
        return tomllib.loads(read_text(path))
    except ValueError as error:
        # A number of more digits than Python converts is no TOMLDecodeError.
        raise UnusableInput(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise UnusableInput(f"{path}: TOML is nested too deeply") from None


def read_json_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Each non-blank line of a JSON Lines file as ``(line number, value)``, whatever the value is."""
    require_finite(path)
    try:
        with path.open("rb") as file:
            # Line by line, for a file may be long; at newlines alone: JSON allows U+2028 inside a string.
            # Nothing else holds a line that was decoded, nor a text that was parsed: either may be tens of megabytes.
            number = 0
            while line := file.readline():
                number += 1
                text, line = line.decode("utf-8-sig" if number == 1 else "utf-8"), b""
                if text and not text.isspace():
                    value, text = _parse(text, path, number, pairs=_once), ""
                    yield number, value
    except (OSError, UnicodeDecodeError):
        # It says what is wrong, and of bytes that are no text, where they are in the file.
        read_text(path)
        raise


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each non-blank line of a JSON Lines file as ``(line number, object)``."""
    for number, value in read_json_values(path):
        if not isinstance(value, dict):
            raise UnusableInput(f"{path}:{number}: expected one JSON object a line, found {json_type(value)}")
        yield number, value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one that names a field twice has lost what it said first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


def _parse(text: str, path: Path, first_line: int, pairs: Pairs | None = None) -> Any:
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        # What is missing at the end is missing where the text ends, not on the line after it.
        end = len(text.rstrip())
        place = min(error.pos, end)
        line, column = first_line + text.count("\n", 0, place), place - text.rfind("\n", 0, place)
        cut = " (the file seems cut off)" if error.pos >= end or error.msg.startswith("Unterminated") else ""
        what = error.msg.removesuffix(" starting at")
        raise UnusableInput(f"{path}:{line}: not JSON: {what} at column {column}{cut}") from None
    except ValueError as error:
        raise UnusableInput(f"{path}:{first_line}: not JSON that can be read: {error}") from None
    except RecursionError:
        raise UnusableInput(f"{path}:{first_line}: JSON is nested too deeply") from None
