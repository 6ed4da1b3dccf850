"""Restore the table of a LanceDB folder from a tag, with a backup of what was there (IX-11, IX-12, IX-13)."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.file_digests import copy_folder, difference
from lab.base.files import cannot_write, flush_folder
from lab.memory.store.tags import (
    BACKUPS,
    DATA,
    Manifest,
    check_tag,
    copy_table,
    create_version_tag,
    open_for_tags,
    require_no_link,
    stamp,
    writing,
)
from lab.memory.table.lance_lock import WriterLock, gateway_using
from lab.memory.table.lance_table import LanceTable, refusal
from lab.systems.openclaw.table.contents import Contents, contents_in, contents_of
from lab.systems.openclaw.table.schema import TABLE

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_PART = ".checkout.{}.part"
_LANCE = f"{TABLE}.lance"
_OLD = "replaced"


def replace_folder(new: Path, target: Path, old: Path) -> None:
    """Put ``new`` in the place of ``target``, and the old target, if there is one, at ``old``, where nothing is.

    All must be on one file system. On Linux they are exchanged in one step, so that ``target`` always exists. Where
    the system cannot do that, it is absent between two renames; :func:`put_back` mends a kill between them. Raises
    :class:`OSError`.
    """
    if not target.exists():
        os.rename(new, target)
    elif exchange(new, target):
        os.rename(new, old)
    else:
        os.rename(target, old)
        os.rename(new, target)
    flush_folder(target.parent)


def put_back(old: Path, target: Path) -> bool:
    """Put the old folder back if a killed :func:`replace_folder` left no successor; return whether it did."""
    if target.exists() or not old.is_dir():
        return False
    os.rename(old, target)
    flush_folder(target.parent)
    return True


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; return False if the system cannot, and then nothing has changed."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


class Checkout(NamedTuple):
    """What a checkout did or, in a dry run, would do.

    ``before`` and ``after`` are None where the table cannot be read or there is none; ``backup`` is the name of the
    backup, blank if there was nothing to back up. ``notes`` are sentences for the operator.
    """

    manifest: Manifest
    before: Contents | None
    after: Contents | None
    backup: str
    notes: tuple[str, ...] = ()


def check_out(
    folder: Path,
    place: Path,
    root: Path,
    *,
    now: datetime,
    write: bool,
    despite_gateway: bool = False,
    wait: float = 10.0,
) -> Checkout:
    """Restore the table from a tag; without ``write`` check everything and change nothing.

    Every file of the tag is compared with its digest while it is copied beside the table, a backup is made of the
    present table, and then the two are exchanged. Until then the present table is as it was, whatever happens. Raises
    :class:`UnusableInput` for a damaged tag or a folder that must not be written.
    """
    if why := refusal(folder, None if despite_gateway else gateway_using(folder)):
        raise UnusableInput(f"{folder}: nothing {'was' if write else 'would be'} written, because {why}")
    require_no_link(folder)
    manifest = check_tag(place)
    if manifest.lance_tag:
        return _restore_version(
            folder, manifest, root, now=now, write=write, despite_gateway=despite_gateway, wait=wait
        )
    if not write:
        return Checkout(manifest, _present(folder), _checked(manifest, contents_in(_dataset(place / DATA))), "")
    with _locked(folder, wait) as notes:
        notes += [
            f"{folder}: an interrupted checkout had left no table; the old one was put back first"
            for part in sorted(folder.glob(_PART.format("*")))
            if put_back(part / DATA / _OLD, folder / _LANCE)
        ]
        _sweep(folder)
        before = _present(folder)
        part = folder / _PART.format(os.getpid())
        try:
            part.mkdir(mode=0o700)
            _stage(place, part, folder, manifest)
            after = _checked(manifest, contents_in(part / DATA))
            backup = _back_up(folder, root, now)
            replace_folder(part / DATA / _LANCE, folder / _LANCE, part / DATA / _OLD)
            try:
                _checked(manifest, contents_in(folder))
            except LabError as error:
                _return(folder, part / DATA)
                raise CannotMeasure(f"{folder}: {error}; the old table was put back") from error
        except OSError as error:
            raise cannot_write(folder, error, "; the old table is kept") from error
        finally:
            _sweep(folder)
    return Checkout(manifest, before, after, backup, tuple(notes))


@contextmanager
def _locked(folder: Path, wait: float) -> Iterator[list[str]]:
    lock = WriterLock(folder)
    lock.make_folder()
    lock.acquire("lab memory tags checkout", wait)
    try:
        taken = f"{folder}: took over the lock of {lock.taken_from}, which ended without releasing it"
        yield [taken] if lock.taken_from else []
    finally:
        lock.release()


def _present(folder: Path) -> Contents | None:
    """Return the contents of the present table; None if there is none or it cannot be read."""
    try:
        return contents_in(folder)
    except UnusableInput:
        return None


def _checked(manifest: Manifest, contents: Contents) -> Contents:
    """Return contents; raise :class:`UnusableInput` if they are not those that the manifest names."""
    if manifest.content and contents.sha256 != manifest.content:
        raise UnusableInput(
            f"tag {manifest.tag}: its rows are not those that were tagged ({contents.rows} memories instead of "
            f"{manifest.rows}); the tag cannot be restored"
        )
    return contents


def _dataset(data: Path) -> Path:
    """Return the LanceDB folder of a tag: the copy, or, where the copy is the table itself, a folder is missing."""
    if (data / _LANCE).is_dir():
        return data
    raise UnusableInput(f"{data}: holds no table {TABLE!r}, so it cannot be restored into a LanceDB folder")


def _stage(place: Path, part: Path, folder: Path, manifest: Manifest) -> None:
    _dataset(place / DATA)
    try:
        copied = copy_folder(place / DATA, part / DATA)
    except FileNotFoundError as error:
        raise UnusableInput(f"{error.filename}: went away while it was copied; nothing was changed") from error
    if problem := difference(copied.files, manifest.files):
        raise UnusableInput(f"{place / DATA}: {problem}; the tag is damaged or was edited; nothing was changed")
    # Who may read and write the folder may read and write what is restored, also if root restores it.
    about = folder.stat()
    for path in (part / DATA).rglob("*"):
        path.chmod(about.st_mode & (0o777 if path.is_dir() else 0o666))
        if getattr(os, "geteuid", lambda: None)() == 0:
            os.chown(path, about.st_uid, about.st_gid)


def _back_up(folder: Path, root: Path, now: datetime) -> str:
    """Copy the present table to the backups, and return the name of the copy; blank if there is no table."""
    if not (folder / _LANCE).is_dir():
        return ""
    backups = root / BACKUPS
    name, number = stamp(now), 1
    with writing(backups):
        while (backups / name).exists():
            number += 1
            name = f"{stamp(now)}-{number}"
        copy_table(folder, backups / name, now=now, damaged=True)
    return name


def _return(folder: Path, data: Path) -> None:
    if (data / _OLD).is_dir():
        replace_folder(data / _OLD, folder / _LANCE, data / "unreadable")
    else:
        (folder / _LANCE).rename(data / "unreadable")


def _sweep(folder: Path) -> None:
    """Remove the temporary folders of checkouts; the lock is held, so no other process uses them."""
    for part in folder.glob(_PART.format("*")):
        # A folder that holds the only table is never removed.
        if (folder / _LANCE).exists() or not (part / DATA / _OLD).exists():
            shutil.rmtree(part, ignore_errors=True)


def _restore_version(
    folder: Path, manifest: Manifest, root: Path, *, now: datetime, write: bool, despite_gateway: bool, wait: float
) -> Checkout:
    """Restore a version that is tagged in the table, by one commit; the version before gets a tag as backup."""
    with open_for_tags(
        folder, "lab memory tags checkout", despite_gateway=despite_gateway, wait=wait, write=write
    ) as table:
        if manifest.tag not in table.ask(lambda opened: opened.tags.list()):
            raise UnusableInput(
                f"{folder}: table {TABLE!r} has no tag {manifest.tag} any more; another checkout replaced the table"
            )
        after = _checked(manifest, _contents_at(table, manifest.tag))
        before = table.ask(contents_of)
        if not write:
            return Checkout(manifest, before, after, "", tuple(table.notes))
        backup = _free_name(table, root, f"before-{manifest.tag}"[:40] + f"-{stamp(now)}")
        create_version_tag(folder, backup, root, now=now, table=table)

        def restore(opened: Any) -> None:
            opened.checkout(manifest.tag)
            opened.restore()

        table.change(restore, lambda: table.ask(contents_of).sha256 == after.sha256)
        return Checkout(manifest, before, after, backup, tuple(table.notes))


def _contents_at(table: LanceTable, tag: str) -> Contents:
    def contents(opened: Any) -> Contents:
        opened.checkout(tag)
        try:
            return contents_of(opened)
        finally:
            opened.checkout_latest()

    return table.ask(contents)


def _free_name(table: LanceTable, root: Path, name: str) -> str:
    taken = table.ask(lambda opened: opened.tags.list())
    number, free = 1, name
    while free in taken or (root / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free
