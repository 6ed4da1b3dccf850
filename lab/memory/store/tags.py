"""Tag the table of a LanceDB folder, list its tags, and delete them (IX-7 to IX-10).

The manifest of a tag says what it holds, with the digests that a checkout compares (IX-8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.file_digests import Copied, FileDigest, as_json, difference, digests_of, set_read_only, total_digest
from lab.base.files import (
    atomic_folder,
    cannot_write,
    digest,
    dump_json,
    flush_folder,
    only_writer,
    private_folder,
    read_json,
    remove_folder,
    remove_leftover_folders,
    write_atomically,
)
from lab.base.regex import regex
from lab.base.shape import expect, field
from lab.memory.table.lance_lock import holder
from lab.memory.table.lance_table import LanceTable, TableSettings
from lab.systems.openclaw.table.admin import iso_time
from lab.systems.openclaw.table.contents import Contents, contents_of, copy_version
from lab.systems.openclaw.table.schema import TABLE

# The kind of the plugin's own snapshots, which have the same fields but for the digest of the manifest.
KIND = "openclaw-mem-engine.dataset-snapshot.v0"
NAME, DATA, BACKUPS = "manifest.json", "data", "_checkout-backups"
FOLDER, VERSION = "folder", "version"
_TAG = regex(r"[A-Za-z0-9._-]{1,64}")
_SELF = "manifestSha256"


class Manifest(NamedTuple):
    """A tag: ``files`` of its copy, or, for a version that stays in its table, none and the number of the version.

    ``created`` is an ISO time, ``source`` the LanceDB folder, ``content`` the digest of the rows; the last two and
    ``rows`` are blank or None if the manifest does not say. ``sealed`` is whether it has a digest of itself.
    """

    tag: str
    created: str
    source: str
    files: tuple[FileDigest, ...]
    version: int | None
    rows: int | None
    content: str
    sealed: bool
    lance_tag: bool = False


def require_tag(tag: str) -> str:
    """Return a tag; raise :class:`UnusableInput` unless it is 1 to 64 letters, digits, ``.``, ``_`` and ``-``.

    ``.`` and ``..`` are no tags, a tag starts with no dot, and the folder of backups is none.
    """
    if not _TAG.fullmatch(tag) or tag.startswith(".") or tag == BACKUPS:
        # The name is repeated as Python shows it: it may hold what controls a terminal.
        raise UnusableInput(
            f"tag {tag[:80]!r}: expected 1 to 64 letters, digits, '.', '_' and '-', the first no dot"
            + (f"; {BACKUPS} is the folder of backups" if tag == BACKUPS else "")
        )
    return tag


def write_manifest(folder: Path, value: dict[str, Any]) -> None:
    """Write a manifest into the folder of a tag, with a digest of itself."""
    sealed = {"kind": KIND, **value}
    write_atomically(folder / NAME, dump_json({**sealed, _SELF: digest(sealed)}), private=True)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a tag. Raises :class:`UnusableInput` if it is damaged, edited, or of another kind."""
    return manifest_of(expect(read_json(folder / NAME, once=True), dict, str(folder / NAME)), folder)


def manifest_of(value: dict[str, Any], folder: Path) -> Manifest:
    """Return the manifest of the tag in ``folder`` from its JSON. Raises what :func:`read_manifest` raises."""
    path = folder / NAME
    if value.get("kind") != KIND:
        raise UnusableInput(f"{path}: kind is {value.get('kind')!r}, expected {KIND!r}")
    seal = value.get(_SELF)
    if seal is not None and seal != digest({key: part for key, part in value.items() if key != _SELF}):
        raise UnusableInput(f"{path}: was edited or damaged: it does not match its own digest; use another tag")
    source = value.get("source")
    about = source if isinstance(source, dict) else {"dbPath": source}
    artifact = value.get("artifact")
    lance_tag = isinstance(artifact, dict) and artifact.get("kind") == VERSION
    stats = field(value, "stats", dict, str(path))
    files = []
    for number, entry in enumerate(field(stats, "files", list, f"{path}: stats")):
        at = f"{path}: stats.files[{number}]"
        names = expect(entry, dict, at)
        files.append(
            FileDigest(field(names, "path", str, at), field(names, "bytes", int, at), field(names, "sha256", str, at))
        )
    tag = field(value, "tag", str, str(path))
    if tag != folder.name:
        raise UnusableInput(f"{path}: is the manifest of tag {tag[:80]!r}, but lies in the folder of {folder.name!r}")
    return Manifest(
        tag,
        _time(value.get("createdAt")),
        str(about.get("dbPath") or ""),
        tuple(sorted(files)),
        about["version"] if type(about.get("version")) is int else None,
        about["rowCount"] if type(about.get("rowCount")) is int else None,
        str(about.get("contentSha256") or ""),
        seal is not None,
        lance_tag,
    )


def _time(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return iso_time(value)
    return value if isinstance(value, str) else ""


class Listed(NamedTuple):
    """A tag of a list: its manifest, or None and what is wrong with it."""

    tag: str
    manifest: Manifest | None
    problem: str = ""


def root_of(folder: Path, given: Path | None = None) -> Path:
    """Return the folder of the tags of a LanceDB folder: the one given, or the folder beside it named ``…-snapshots``.

    Raises :class:`UnusableInput` if it is inside the LanceDB folder.
    """
    root = given or folder.resolve().with_name(f"{folder.resolve().name}-snapshots")
    if root.resolve().is_relative_to(folder.resolve()):
        raise UnusableInput(f"{root}: is inside the LanceDB folder; choose a folder outside {folder}")
    return root


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Lock the folder of the tags; a new one can be read by its owner only, because tags hold texts."""
    if not root.exists():
        try:
            private_folder(root)
        except OSError as error:
            raise cannot_write(root, error) from error
    with only_writer(root):
        try:
            remove_leftover_folders(root)
        except OSError as error:
            raise cannot_write(root, error) from error
        yield


def place_of(root: Path, tag: str, *, backup: bool = False) -> Path:
    """Return the folder of a tag, or of a backup. Raises :class:`UnusableInput` if there is none."""
    require_tag(tag)
    place = root / BACKUPS / tag if backup else root / tag
    if place not in _places(place.parent):
        names = [listed.tag for listed in list_tags(root, backups=backup)]
        known = f"; there {'are' if len(names) > 1 else 'is'} {', '.join(names[:5])}" if names else "; there is none"
        raise UnusableInput(f"{root}: has no {'backup' if backup else 'tag'} {tag}{known}")
    return place


def stamp(now: datetime) -> str:
    """Return a time as part of a name: ``20261123T140501Z``."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def create_tag(folder: Path, tag: str, root: Path, *, now: datetime) -> Manifest:
    """Copy the table of a folder to ``ROOT/TAG/data`` with a manifest, and check the copy (IX-7, IX-8).

    The table is only read, so a gateway may use it. Raises :class:`UnusableInput` if the tag exists, and
    :class:`CannotMeasure` if the table changes too often to be copied or the disk is full.
    """
    require_table(folder)
    require_new(root, tag)
    if by := holder(folder):
        raise CannotMeasure(f"{folder}: {by} is writing it; tag it when that is done")
    with writing(root):
        require_new(root, tag)
        copy_table(folder, root / tag, now=now)
    return read_manifest(root / tag)


def create_version_tag(
    folder: Path, tag: str, root: Path, *, now: datetime, table: LanceTable, write: bool = True
) -> Manifest:
    """Tag the newest version inside the table, without a copy, and keep the digest of its rows (IX-10).

    Without ``write``, everything is checked and nothing is kept. Raises :class:`UnusableInput` if the tag exists there
    or here.
    """
    require_new(root, tag)
    if not write:
        table.require_changeable()
    if tag in table.ask(lambda opened: opened.tags.list()):
        raise UnusableInput(f"{folder}: table {TABLE!r} has a tag {tag} already; choose another name")
    if not write:
        about = _about(folder, tag, now, table.ask(contents_of), Copied((), 0), VERSION)
        return manifest_of({"kind": KIND, **about}, root / tag)
    with writing(root):
        contents = table.ask(contents_of)
        # The manifest comes first: a version that is tagged without one could not be checked.
        with atomic_folder(root / tag) as part:
            write_manifest(part, _about(folder, tag, now, contents, Copied((), 0), VERSION))
        table.change(
            lambda opened: opened.tags.create(tag, contents.version),
            lambda: tag in table.ask(lambda opened: opened.tags.list()),
        )
    return read_manifest(root / tag)


def copy_table(folder: Path, place: Path, *, now: datetime, damaged: bool = False) -> Manifest:
    """Copy a table into the new folder of a tag; with ``damaged``, also one that cannot be read."""
    with atomic_folder(place) as part:
        contents, copied = copy_version(folder, part / DATA, damaged=damaged)
        write_manifest(part, _about(folder, place.name, now, contents, copied, FOLDER))
    set_read_only(place / DATA)
    return read_manifest(place)


def check_tag(place: Path) -> Manifest:
    """Return the manifest of a tag after comparing every file with its digest; raise :class:`UnusableInput`."""
    manifest = read_manifest(place)
    if not manifest.lance_tag and (problem := difference(digests_of(place / DATA).files, manifest.files)):
        raise UnusableInput(f"{place / DATA}: {problem}; the tag is damaged or was edited, so it cannot be restored")
    return manifest


def list_tags(root: Path, *, backups: bool = False, check: bool = False) -> list[Listed]:
    """Return the tags of a folder, newest first, then by name in reverse; with ``check``, every file is compared."""
    found = []
    for place in _places(root / BACKUPS if backups else root):
        try:
            found.append(Listed(place.name, check_tag(place) if check else read_manifest(place)))
        except UnusableInput as error:
            found.append(Listed(place.name, None, str(error)))
    return sorted(found, key=lambda listed: (listed.manifest.created if listed.manifest else "", listed.tag))[::-1]


def delete_tag(place: Path, table: LanceTable | None) -> None:
    """Delete a tag: its folder at once, and its name in the table if it is a version there."""
    with writing(place.parent):
        tag = place.name
        if table is not None and tag in table.ask(lambda opened: opened.tags.list()):
            table.change(
                lambda opened: opened.tags.delete(tag),
                lambda: tag not in table.ask(lambda opened: opened.tags.list()),
            )
        gone = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            place.rename(gone)
            flush_folder(place.parent)
            remove_folder(gone)
        except OSError as error:
            raise cannot_write(place, error) from error


def open_for_tags(folder: Path, what: str, *, despite_gateway: bool, wait: float, write: bool) -> LanceTable:
    """Open a table to tag one of its versions; no commit of this process compacts it."""
    settings = TableSettings(compact_on_close=1 << 30, wait_seconds=wait)
    return LanceTable(folder, read_only=not write, despite_gateway=despite_gateway, settings=settings, what=what)


def require_table(folder: Path) -> None:
    """Raise :class:`UnusableInput` unless a folder has a table that can be copied."""
    table = folder / f"{TABLE}.lance"
    require_no_link(folder)
    if not table.is_dir():
        inside = folder.name == table.name
        hint = f"; give the folder that contains it, {folder.parent}" if inside else ""
        raise UnusableInput(f"{folder}: is not a LanceDB folder with a table {TABLE!r}{hint}")


def require_no_link(folder: Path) -> None:
    """Raise :class:`UnusableInput` if the table is a symbolic link, in whose place a checkout would put a folder."""
    table = folder / f"{TABLE}.lance"
    if table.is_symlink():
        raise UnusableInput(f"{table}: is a symbolic link; give the folder that it points into")


def require_new(root: Path, tag: str) -> None:
    """Raise :class:`UnusableInput` if a tag is no tag or exists."""
    if (root / require_tag(tag)).exists():
        raise UnusableInput(f"{root / tag}: the tag exists; choose another name, or delete it first")


def receipt_of(manifest: Manifest) -> dict[str, Any]:
    """Return a manifest as receipts show it, without the files."""
    return {
        "tag": manifest.tag,
        "createdAt": manifest.created,
        "kind": VERSION if manifest.lance_tag else FOLDER,
        "version": manifest.version,
        "rowCount": manifest.rows,
        "fileCount": len(manifest.files),
        "bytes": sum(file.bytes for file in manifest.files),
        "sha256": total_digest(manifest.files) if manifest.files else None,
        "contentSha256": manifest.content or None,
        "sealed": manifest.sealed,
        "source": manifest.source,
    }


def _places(root: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (
            path
            for path in sorted(root.iterdir())
            if path.name[0] != "." and path.name != BACKUPS and not path.is_symlink() and (path / NAME).exists()
        )


def _about(
    folder: Path, tag: str, now: datetime, contents: Contents | None, copied: Copied, kind: str
) -> dict[str, Any]:
    source: dict[str, Any] = {"dbPath": str(folder.resolve()), "tableName": TABLE}
    if contents is not None:
        source |= {
            "version": contents.version,
            "rowCount": contents.rows,
            "oldestCreatedAt": contents.oldest or None,
            "newestCreatedAt": contents.newest or None,
            "contentSha256": contents.sha256,
        }
    return {
        "tag": tag,
        "createdAt": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z",
        "source": source,
        "artifact": {"kind": kind, "path": DATA if kind == FOLDER else None},
        "stats": {
            "fileCount": len(copied.files),
            "bytes": sum(file.bytes for file in copied.files),
            "sha256": total_digest(copied.files),
            "leftOut": copied.left_out,
            "files": as_json(copied.files),
        },
    }
