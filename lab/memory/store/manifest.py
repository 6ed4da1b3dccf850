"""Manifests of tags: what a tag holds and the digests that a checkout compares (IX-8)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.file_digests import FileDigest
from lab.base.files import digest, dump_json, read_json, write_atomically
from lab.base.shape import expect, field
from lab.systems.openclaw.table.admin import iso_time

# The kind of the plugin's own snapshots, which have the same fields but for the digest of the manifest.
KIND = "openclaw-mem-engine.dataset-snapshot.v0"
NAME, DATA, BACKUPS = "manifest.json", "data", "_checkout-backups"
FOLDER, VERSION = "folder", "version"
_TAG = re.compile(r"[A-Za-z0-9._-]{1,64}")
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
