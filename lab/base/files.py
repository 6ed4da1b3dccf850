"""Atomic writes, locks on folders, file names of ids, and readers of text, JSON and TOML.

The errors of the readers name file, line and column. Ids from outside become file names by one rule, for receipts,
conversions and nightly runs, on every file system.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.base.errors import CannotMeasure, CannotWrite, InUse, UnusableInput
from lab.base.regex import regex
from lab.base.shape import json_type

Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]
# Errors that every further write to the same disk would raise as well.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@contextmanager
def atomic_file(
    path: Path, *, durable: bool = True, private: bool = False, like: os.stat_result | None = None
) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on exit flush it to disk and rename it to ``path``.

    A reader sees the old file or the new one, never a part of it, even if the writer is killed. The cost is one fsync
    of the file and one of its folder. Without ``durable`` there is no fsync, so a file written just before a power
    failure may be lost or empty. Of two writers of one path, the last to rename wins. With ``private``, only the owner
    can read the file and its folder. With ``like``, the file gets this mode, owner and group. Raises
    :class:`CannotWrite` if the disk is full or read-only and :class:`CannotMeasure` for any other error of the
    operating system.
    """
    import tempfile

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
            with part.open("rb") as file:
                os.fsync(file.fileno())
        _give(part, like) if like else os.chmod(part, 0o600 if private else 0o644)
        os.replace(part, path)
        if durable:
            flush_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error, "; the old file is kept") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _give(path: Path, like: os.stat_result) -> None:
    """Give a file the mode, owner and group of another one. The owner comes first: changing it clears bits of the mode.

    Only a privileged process may give a file away; any other has the owner already.
    """
    made = path.stat()
    if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
        os.chown(path, like.st_uid, like.st_gid)
    os.chmod(path, stat.S_IMODE(like.st_mode))


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700.

    An existing folder loses the rights of group and others, unless it belongs to another user.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        with suppress(PermissionError):
            folder.chmod(0o700)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; on exit rename it to ``path``.

    So the folder exists with all its files or not at all. ``path`` must not exist, or be an empty folder. Write the
    files with :func:`atomic_file`, which flushes them. Temporary folders of killed processes are removed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftover_folders(path.parent, path.name)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.mkdir()
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        yield part
        os.replace(part, path)
        flush_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error, "; nothing was written") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def remove_leftover_folders(parent: Path, name: str | None = None) -> None:
    """Remove the temporary folders that killed processes left (:func:`atomic_folder`), of this name or of all."""
    for old in parent.glob(".*.part" if name is None else f".{glob.escape(name)}.*.part"):
        if old.is_dir() and _orphaned(old.name.split(".")[-2]):
            remove_folder(old)


def remove_folder(folder: Path) -> None:
    """Remove a folder with everything in it, also a read-only one, if this user owns it."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder)


def flush_folder(folder: Path) -> None:
    """Flush a folder's entries to disk: fsync of a file does not flush its name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def folder_matches(folder: Path, checksums: dict[str, str]) -> bool:
    """Return whether a folder holds exactly the files ``{name: sha256}``; False if it is missing or empty.

    Raises :class:`UnusableInput` if the folder holds anything else, so that no file of the user is replaced.
    """
    if not folder.exists():
        return False
    if not folder.is_dir():
        raise UnusableInput(f"{folder}: exists and is not a folder")
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    if not files and not any(folder.iterdir()):
        return False
    if set(files) != set(checksums) or any(sha256_file(files[name]) != sha256 for name, sha256 in checksums.items()):
        raise UnusableInput(f"{folder}: already holds other files; choose a new folder")
    return True


def cannot_write(path: Path, error: OSError, more: str = "") -> CannotMeasure:
    """Return the exception to raise when the operating system refused to write ``path``."""
    kind = CannotWrite if error.errno in DISK_FULL else CannotMeasure
    return kind(f"cannot write {path}: {error.strerror or error}{more}")


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock a folder, creating it if needed, so that no second process of the lab writes to it.

    The lock is on the folder itself, and the operating system releases it when the process ends, even if it is killed.
    Raises :class:`InUse` if another process holds it. On a file system without locks, two writers with equal arguments
    are still safe because files are written atomically.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        raise InUse(f"{folder}: another process removed it just now; repeat the command") from None
    except (FileExistsError, NotADirectoryError) as error:
        raise UnusableInput(f"{folder}: exists and is not a folder, or is below a file ({error.strerror})") from None
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        if lock(handle) is False or not _is_at(handle, folder):
            raise InUse(f"{folder}: another process is writing it; wait for it to end, or choose another folder")
        yield
    finally:
        os.close(handle)


def _is_at(handle: int, folder: Path) -> bool:
    """Return whether the path still names the open folder; another process may have removed it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except OSError:
        return False


def lock(handle: int) -> bool | None:
    """Lock an open file or folder until it is closed; return whether, or None where the file system has no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files of killed processes in a folder, not those of running ones."""
    return [part for part in sorted(folder.glob(".*.part")) if _orphaned(part.name.split(".")[-3])]


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed processes from a folder."""
    for part in leftovers(folder):
        # On a read-only disk they stay, which does no harm.
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _orphaned(owner: str) -> bool:
    """Return whether a string is a process id and no process with that id is running."""
    return owner.isdecimal() and not alive(int(owner))


def alive(process: int) -> bool:
    """Return whether a process with this id is running; an id too large for the system means no."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def write_atomically(
    path: Path, data: bytes, *, durable: bool = True, private: bool = False, like: os.stat_result | None = None
) -> None:
    """Write ``data`` through :func:`atomic_file`."""
    with atomic_file(path, durable=durable, private=private, like=like) as part:
        part.write_bytes(data)


def refuse_constant(name: str) -> Any:
    """Raise ValueError for NaN or Infinity, which are not JSON: a ``parse_constant`` for :func:`json.loads`."""
    raise ValueError(f"{name} is not JSON")


def dump_json(value: Any, *, indent: int | None = 2) -> bytes:
    """Return a value as UTF-8 JSON with its keys in the given order and a newline at the end."""
    try:
        return (json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode()
    except UnicodeEncodeError:
        # UTF-8 cannot encode a lone surrogate; JSON can, as an escape.
        return (json.dumps(value, indent=indent) + "\n").encode()


def digest(value: Any) -> str:
    """Return the sha256 (hex) of a JSON value with sorted keys. It identifies a set of arguments."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256_bytes(data: bytes) -> str:
    """Return the sha256 (hex) of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the sha256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_finite(path: Path, *, pipes: bool = False) -> None:
    """Raise :class:`UnusableInput` for a device, a socket or a named pipe, because reading one may never end.

    A pipe made by the shell, ``/dev/stdin`` or ``<(command)``, has a writer and is accepted. With ``pipes``, every pipe
    is. A missing file is left to the reader.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    accepted_pipe = stat.S_ISFIFO(mode) and (pipes or path.as_posix().startswith(("/dev/", "/proc/")))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or accepted_pipe):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise UnusableInput(f"{path}: is {kind}, not a file; save its output to a file first")


@contextmanager
def reading(where: object) -> Iterator[None]:
    """Raise :class:`UnusableInput` for a missing or unreadable file; ``where`` names it, and what needs it."""
    try:
        yield
    except FileNotFoundError:
        raise UnusableInput(f"{where}: no such file") from None
    except OSError as error:
        raise UnusableInput(f"{where}: cannot be read: {error.strerror or error}") from None


def read_text(path: Path, *, errors: str = "strict") -> str:
    """Return the UTF-8 text of a file. Raises :class:`UnusableInput` if it is missing, not a file, or not UTF-8.

    With ``errors="replace"``, U+FFFD stands for what is not UTF-8.
    """
    require_finite(path)
    try:
        with reading(path):
            return path.read_text(encoding="utf-8-sig", errors=errors)
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def read_json(path: Path, *, once: bool = False) -> Any:
    """Return the JSON value in a file. Raises :class:`UnusableInput`, with line and column, if it is not JSON.

    With ``once``, an object with a duplicate key is refused, as in :func:`read_json_lines`.
    """
    return _parse(read_text(path), path, 1, pairs=_unique_keys if once else None)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table in a TOML file. Raises :class:`UnusableInput`, with line and column, if it is not TOML."""
    import tomllib

    try:
        return tomllib.loads(read_text(path))
    except ValueError as error:
        if str(error).startswith("Cannot overwrite a value"):
            raise UnusableInput(_repeated_key(path)) from None
        # A number with too many digits for Python raises a ValueError that is no TOMLDecodeError.
        raise UnusableInput(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise UnusableInput(f"{path}: TOML is nested too deeply") from None


def _repeated_key(path: Path) -> str:
    """Return where a TOML file gives a key again, which tomllib does not name."""
    import tomllib

    lines = read_text(path).split("\n")
    # The longest beginning of the file that is TOML: the statement below it is the repetition.
    for count in range(len(lines) - 1, -1, -1):
        try:
            tomllib.loads("\n".join(lines[:count]))
        except ValueError:
            continue
        key = lines[count].partition("=")[0].strip()
        return f"{path}:{count + 1}: key {key!r} is given twice; remove one"
    return f"{path}: a key is given twice"


def read_json_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each non-blank line of a JSON Lines file as ``(line number, value)``; the value may be of any type."""
    require_finite(path)
    try:
        with path.open("rb") as file:
            # Split only at newlines: JSON allows U+2028 inside a string. A line may be tens of megabytes, so drop the
            # bytes once they are decoded and the text once it is parsed.
            number = 0
            while line := file.readline():
                number += 1
                text, line = line.decode("utf-8-sig" if number == 1 else "utf-8"), b""
                if text and not text.isspace():
                    value, text = _parse(text, path, number, pairs=_unique_keys), ""
                    yield number, value
    except (OSError, UnicodeDecodeError):
        # read_text raises the error with a clear message, and with the position of bytes that are not UTF-8.
        read_text(path)
        raise


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each non-blank line of a JSON Lines file as ``(line number, object)``."""
    for number, value in read_json_values(path):
        if not isinstance(value, dict):
            raise UnusableInput(f"{path}:{number}: expected one JSON object a line, found {json_type(value)}")
        yield number, value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise ValueError for a duplicate key, whose first value the dict would drop."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return record


def _parse(text: str, path: Path, first_line: int, pairs: Pairs | None = None) -> Any:
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        # Report an unexpected end of input at the end of the text, not on the blank line after it.
        end = len(text.rstrip())
        position = min(error.pos, end)
        line, column = first_line + text.count("\n", 0, position), position - text.rfind("\n", 0, position)
        cut = " (the file seems cut off)" if error.pos >= end or error.msg.startswith("Unterminated") else ""
        reason = error.msg.removesuffix(" starting at")
        raise UnusableInput(f"{path}:{line}: not JSON: {reason} at column {column}{cut}") from None
    except ValueError as error:
        raise UnusableInput(f"{path}:{first_line}: not readable JSON: {error}") from None
    except RecursionError:
        raise UnusableInput(f"{path}:{first_line}: JSON is nested too deeply") from None


# Bytes of a file name before its ending; most file systems allow 255 in all.
MAX_NAME = 180
# Names of devices of Windows, with any ending.
_DEVICE = regex(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*", re.IGNORECASE)


def file_name(identity: str) -> str:
    """Return an id, such as that of a conversation, as a file name without ending.

    Letters and digits of any script, blanks, ``-`` and ``_`` stay; all else is percent-escaped, so that two ids never
    share a name, and so is the first letter of a device of Windows. A name too long for a file system is cut and ends
    in a hash of the id.
    """
    name = "".join(
        character
        if character.isalnum() or character in " -_"
        else quote(character.encode("utf-8", "surrogatepass"), safe="")
        for character in identity
    ).replace(".", "%2E")
    if len(name.encode()) > MAX_NAME:
        name = f"{name[:40]}-{digest(identity)[:24]}"
    elif _DEVICE.fullmatch(identity):
        name = f"%{ord(identity[0]):02X}{name[1:]}"
    return name.replace(" ", "%20") if name.strip(" ") != name else name


def file_names(identities: Iterable[str]) -> dict[str, str]:
    """Return a file name for each id, also for file systems that ignore case; ids that share one get a number."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for identity in identities:
        plain = name = file_name(identity)
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.casefold())
        names[identity] = name
    return names
