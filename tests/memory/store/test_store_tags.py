"""Tags of a LanceDB folder: copies with digests, versions inside the table, and damage (IX-7 to IX-10)."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import remove_folder
from lab.memory.store import tags
from lab.memory.store.tags import require_tag
from lab.memory.table.lance_lock import WriterLock
from lab.memory.table.lance_table import LanceTable, TableSettings
from lab.retrieval.quiet import quiet_lance
from lab.systems.openclaw.table import contents
from lab.systems.openclaw.table.contents import contents_in, contents_of
from tests.memory.tools.lance_tables import DIMENSION, entry, plugin_table, raw_table

NOW = datetime(2026, 11, 23, 14, 5, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three memories, written as the plugin writes them."""
    path = tmp_path / "lancedb"
    path.mkdir()
    plugin_table(path, 1, 2, 3)
    return path


@pytest.fixture
def root(folder: Path) -> Path:
    """The folder of its tags."""
    return tags.root_of(folder)


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file."""
    value = json.loads(path.read_text("utf-8"))
    change(value)
    path.write_text(json.dumps(value), "utf-8")


def data_file(place: Path) -> Path:
    """Return a file of rows of a tag."""
    return min((place / "data").rglob("memories.lance/data/*"))


def test_tag_copies_table_with_digests(folder: Path, root: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    manifest = tags.create_tag(folder, "day-1.a_B", root, now=NOW)
    assert root == folder.parent / "lancedb-snapshots"
    assert (manifest.rows, manifest.created, manifest.sealed) == (3, "2026-11-23T14:05:01.000Z", True)
    assert contents_in(root / "day-1.a_B" / "data") == contents_in(folder)
    written = json.loads((root / "day-1.a_B" / "manifest.json").read_text("utf-8"))
    assert written["kind"] == "openclaw-mem-engine.dataset-snapshot.v0"
    assert {file["path"] for file in written["stats"]["files"]} == {
        path.relative_to(folder).as_posix() for path in before
    }
    assert written["stats"]["bytes"] == sum(len(data) for data in before.values())
    # The table is as it was: not even a lock file was added.
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not (root / "day-1.a_B").stat().st_mode & 0o077


def test_copy_is_write_protected_for_commands_of_the_lab(folder: Path, root: Path) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)
    table = LanceTable(root / "day1" / "data")
    assert "write-protected" in table.read_only_reason
    table.close()


def test_existing_tag_is_an_error(folder: Path, root: Path) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)
    kept = (root / "day1" / "manifest.json").read_bytes()
    with pytest.raises(UnusableInput, match="day1: the tag exists; choose another name"):
        tags.create_tag(folder, "day1", root, now=NOW)
    assert (root / "day1" / "manifest.json").read_bytes() == kept


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../a", "a b", "x" * 65, "tag\n", "\x1b[31m", "é", "_checkout-backups"]
)
def test_tag_names_outside_the_rule_are_refused(folder: Path, root: Path, name: str) -> None:
    with pytest.raises(UnusableInput, match="expected 1 to 64 letters"):
        tags.create_tag(folder, name, root, now=NOW)
    assert not root.exists()


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 64, "_private", "1"])
def test_tag_names_inside_the_rule_are_kept(name: str) -> None:
    assert require_tag(name) == name


@pytest.mark.parametrize("where", [".", "memories.lance", "tags"])
def test_root_inside_the_table_is_refused(folder: Path, where: str) -> None:
    with pytest.raises(UnusableInput, match="is inside the LanceDB folder"):
        tags.root_of(folder, folder / where)


def test_folder_without_a_table_is_refused(tmp_path: Path, folder: Path, root: Path) -> None:
    with pytest.raises(UnusableInput, match="is not a LanceDB folder"):
        tags.create_tag(tmp_path / "nowhere", "day1", root, now=NOW)
    with pytest.raises(UnusableInput, match=f"give the folder that contains it, {folder}"):
        tags.create_tag(folder / "memories.lance", "day1", root, now=NOW)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "memories.lance").symlink_to(folder / "memories.lance")
    with pytest.raises(UnusableInput, match="is a symbolic link"):
        tags.create_tag(tmp_path / "link", "day1", root, now=NOW)


def test_symbolic_links_are_left_out(folder: Path, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not a memory")
    (folder / "memories.lance" / "data" / "link.lance").symlink_to(tmp_path / "secret")
    tags.create_tag(folder, "day1", root, now=NOW)
    written = json.loads((root / "day1" / "manifest.json").read_text("utf-8"))
    assert written["stats"]["leftOut"] == 1
    assert not any("link" in file["path"] for file in written["stats"]["files"])


def test_folder_that_cannot_be_read_is_never_left_out(
    folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)
    scandir = os.scandir

    def refusing(path: str | Path) -> object:
        if str(path).endswith("memories.lance/data"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(UnusableInput, match=r"memories\.lance/data: cannot be read: Permission denied"):
        tags.create_tag(folder, "day2", root, now=NOW)
    with pytest.raises(UnusableInput, match="cannot be read: Permission denied"):
        tags.check_tag(root / "day1")


def test_damaged_table_is_not_tagged(folder: Path, root: Path) -> None:
    for path in (folder / "memories.lance" / "data").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(UnusableInput, match="cannot be read"):
        tags.create_tag(folder, "day1", root, now=NOW)
    assert list(root.iterdir()) == []


def test_table_written_by_the_lab_is_not_tagged_meanwhile(folder: Path, root: Path) -> None:
    lock = WriterLock(folder)
    lock.acquire("lab memory import")
    with pytest.raises(CannotMeasure, match="lab memory import"):
        tags.create_tag(folder, "day1", root, now=NOW)
    lock.release()
    assert tags.create_tag(folder, "day1", root, now=NOW).rows == 3


def test_table_that_changes_during_the_copy_is_copied_again(
    folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, calls = contents.copy_folder, []

    def interrupted(*given: Any, **more: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            # What another program's compaction does between the list and the copy.
            raise FileNotFoundError(2, "No such file or directory", "x.lance")
        return copy(*given, **more)

    monkeypatch.setattr(contents, "copy_folder", interrupted)
    assert tags.create_tag(folder, "day1", root, now=NOW).rows == 3
    assert len(calls) == 2
    monkeypatch.setattr(contents, "copy_folder", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError()))
    with pytest.raises(CannotMeasure, match="changed the table during each of 3 copies"):
        tags.create_tag(folder, "day2", root, now=NOW)
    assert sorted(path.name for path in root.iterdir()) == ["day1"]


def test_list_is_newest_first_then_by_name(folder: Path, root: Path) -> None:
    assert tags.list_tags(root) == []
    for name, day in (("a", 1), ("b", 3), ("c", 3), ("d", 2)):
        tags.create_tag(folder, name, root, now=NOW + timedelta(days=day))
    (root / ".e.1.part").mkdir()
    (root / "no tag").mkdir()
    assert [one.tag for one in tags.list_tags(root)] == ["c", "b", "d", "a"]


def cut(place: Path) -> None:
    path = data_file(place)
    path.write_bytes(path.read_bytes()[:-1])


def flip(place: Path) -> None:
    path = data_file(place)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (cut, "bytes instead of"),
    "a bit flipped": (flip, "has another sha256"),
    "a file gone": (lambda place: data_file(place).unlink(), "is missing"),
    "a file more": (lambda place: (place / "data" / "more").write_bytes(b""), "more does not belong to it"),
    "no data": (lambda place: remove_folder(place / "data"), "is missing"),
    "manifest edited": (
        lambda place: edit(place / "manifest.json", lambda value: value["stats"]["files"].pop()),
        "does not match its own digest",
    ),
    "rows edited": (
        lambda place: edit(place / "manifest.json", lambda value: value["source"].update(rowCount=9)),
        "does not match its own digest",
    ),
    "manifest cut off": (lambda place: os.truncate(place / "manifest.json", 99), "not JSON"),
    "manifest empty": (lambda place: os.truncate(place / "manifest.json", 0), "not JSON"),
    "manifest a list": (lambda place: (place / "manifest.json").write_text("[]"), "expected an object"),
    "another kind": (lambda place: (place / "manifest.json").write_text('{"kind": "x"}'), "kind is 'x'"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(folder: Path, root: Path, name: str) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)
    for path in (root / "day1").rglob("*"):
        path.chmod(0o700)
    change, message = DAMAGE[name]
    change(root / "day1")
    with pytest.raises(UnusableInput, match=message):
        tags.check_tag(root / "day1")
    (listed,) = tags.list_tags(root, check=True)
    assert listed.manifest is None
    assert message in listed.problem


def test_link_to_a_tag_is_no_tag(folder: Path, root: Path, tmp_path: Path) -> None:
    tags.create_tag(folder, "day1", tmp_path / "other", now=NOW)
    root.mkdir()
    (root / "day1").symlink_to(tmp_path / "other" / "day1")
    assert tags.list_tags(root) == []
    with pytest.raises(UnusableInput, match="has no tag day1"):
        tags.place_of(root, "day1")


def test_renamed_tag_is_refused(folder: Path, root: Path) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)
    (root / "day1").rename(root / "day2")
    with pytest.raises(UnusableInput, match="is the manifest of tag 'day1'"):
        tags.check_tag(root / "day2")


def test_manifest_of_the_plugin_has_no_digest_of_itself(folder: Path, root: Path) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)

    def as_the_plugin(value: dict[str, Any]) -> None:
        del value["manifestSha256"]
        value.update(source=str(folder), createdAt=1_795_442_701_000)

    edit(root / "day1" / "manifest.json", as_the_plugin)
    manifest = tags.check_tag(root / "day1")
    assert (manifest.sealed, manifest.content, manifest.source) == (False, "", str(folder))
    assert manifest.created == "2026-11-23T14:05:01.000Z"


def test_deleted_tag_is_gone_at_once(folder: Path, root: Path) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)
    tags.delete_tag(tags.place_of(root, "day1"), None)
    assert list(root.iterdir()) == []
    with pytest.raises(UnusableInput, match="has no tag day1; there is none"):
        tags.place_of(root, "day1")


@pytest.mark.process
def test_what_killed_commands_left_is_removed_by_the_next(folder: Path, root: Path) -> None:
    tags.create_tag(folder, "day1", root, now=NOW)
    # A deletion that was killed after its first step: the folder is still write-protected.
    ended = subprocess.Popen(["true"])
    ended.wait()
    (root / "day1").rename(root / f".day1.{ended.pid}.part")
    (root / f".day2.{ended.pid}.part").mkdir()
    (root / f".day3.{os.getpid()}.part").mkdir()
    assert tags.list_tags(root) == []
    tags.create_tag(folder, "day4", root, now=NOW)
    assert sorted(path.name for path in root.iterdir()) == [f".day3.{os.getpid()}.part", "day4"]


def test_version_tag_survives_compactions_and_keeps_newer_versions(folder: Path, root: Path) -> None:
    settings = TableSettings(keep_seconds=0)
    with LanceTable(folder, settings=settings) as table:
        manifest = tags.create_version_tag(folder, "day1", root, now=NOW, table=table)
        table.add([entry(4)])
        table.delete([entry(1).row.id])
        # Without the tag, LanceDB deletes the version; with it, LanceDB refuses to delete any.
        table.compact()
        assert table.compactions == 1
    opened = raw_table(folder)
    with quiet_lance():
        opened.checkout("day1")
        assert contents_of(opened).sha256 == manifest.content
        assert opened.count_rows() == 3
    assert not (root / "day1" / "data").exists()
    with LanceTable(folder, settings=settings) as table:
        tags.delete_tag(root / "day1", table)
        table.compact()
    with quiet_lance():
        assert list(raw_table(folder).tags.list()) == []
        assert len(raw_table(folder).list_versions()) == 1


def test_version_tag_that_exists_is_an_error(folder: Path, root: Path) -> None:
    with quiet_lance():
        raw_table(folder).tags.create("theirs", 2)
    with LanceTable(folder) as table:
        with pytest.raises(UnusableInput, match="has a tag theirs already"):
            tags.create_version_tag(folder, "theirs", root, now=NOW, table=table)
        tags.create_version_tag(folder, "ours", root, now=NOW, table=table)
        with pytest.raises(UnusableInput, match="the tag exists"):
            tags.create_version_tag(folder, "ours", root, now=NOW, table=table)


def test_contents_depend_on_rows_only(folder: Path, tmp_path: Path) -> None:
    before = contents_in(folder)
    with LanceTable(folder) as table:
        table.compact()
    assert contents_in(folder) == before._replace(version=contents_in(folder).version)
    other = tmp_path / "other"
    other.mkdir()
    plugin_table(other, 1, 2, 3)
    assert contents_in(other).sha256 == before.sha256
    with quiet_lance():
        raw_table(other).update(where="createdAt = 1760000000002", values={"vector": [0.5] * DIMENSION})
    assert contents_in(other).rows == 3
    assert contents_in(other).sha256 != before.sha256


def test_real_stores_are_tagged(shared: Callable[..., Path], tmp_path: Path) -> None:
    for name, rows in (("engine-2026.9.6", 9), ("memory-lancedb-2026.3.13", 2)):
        folder = tmp_path / name
        shutil.copytree(shared("live", "lancedb", name), folder)
        manifest = tags.create_tag(folder, "day1", tags.root_of(folder), now=NOW)
        assert manifest.rows == rows
        assert tags.check_tag(tags.root_of(folder) / "day1") == manifest
