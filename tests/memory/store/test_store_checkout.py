"""Checkout of a tag: what is restored, its backup, refusals, and faults at every step (IX-11 to IX-13)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, InUse, LabError, UnusableInput
from lab.memory.store import checkout, tags
from lab.memory.store.checkout import Checkout, check_out
from lab.memory.store.tags import BACKUPS
from lab.memory.table.lance_lock import WriterLock
from lab.memory.table.lance_table import LanceTable
from lab.retrieval.quiet import quiet_lance
from lab.systems.openclaw.table.contents import contents_in
from tests.memory.tools.lance_tables import entry, plugin_table, raw_table

NOW = datetime(2026, 11, 23, 14, 5, 1, tzinfo=UTC)
STAMP = "20261123T140501Z"
TRIAL = Path(__file__).parents[2] / "trials" / "store_kills.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a tag ``day1`` of three memories, and two memories on day 2."""
    path = tmp_path / "lancedb"
    path.mkdir()
    plugin_table(path, 1, 2, 3)
    tags.create_tag(path, "day1", tags.root_of(path), now=NOW)
    with LanceTable(path) as table:
        table.add([entry(4)])
        table.delete([entry(1).row.id, entry(2).row.id])
    return path


def restore(folder: Path, tag: str = "day1", *, write: bool = True, backup: bool = False, **more: Any) -> Checkout:
    root = tags.root_of(folder)
    return check_out(folder, tags.place_of(root, tag, backup=backup), root, now=NOW, write=write, wait=0.1, **more)


def state(folder: Path) -> dict[str, bytes]:
    """Return every file but the lock, which is there from the first writer on."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".lab-")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def ids(folder: Path) -> list[str]:
    with LanceTable(folder, read_only=True) as table:
        return [row.id[-1] for row in table.rows()]


def test_dry_run_checks_and_changes_nothing(folder: Path) -> None:
    before, everything = state(folder), state(folder.parent)
    done = restore(folder, write=False)
    assert done.before is not None
    assert done.after is not None
    assert (done.before.rows, done.after.rows, done.backup) == (2, 3, "")
    assert (state(folder), state(folder.parent)) == (before, everything)


def test_checkout_restores_files_byte_for_byte_and_backs_up(folder: Path) -> None:
    before = state(folder)
    done = restore(folder)
    assert ids(folder) == ["1", "2", "3"]
    root = tags.root_of(folder)
    assert state(folder) == state(root / "day1" / "data")
    assert done.backup == STAMP
    assert state(root / BACKUPS / STAMP / "data") == before
    # The backup is restored like a tag, and backed up in turn under another name.
    again = restore(folder, done.backup, backup=True)
    assert state(folder) == before
    assert again.backup == f"{STAMP}-2"
    assert [path.name for path in folder.iterdir() if path.name.startswith(".checkout")] == []


def test_restored_table_can_be_written(folder: Path) -> None:
    restore(folder)
    with LanceTable(folder) as table:
        assert not table.read_only
        table.add([entry(9)])
    assert ids(folder) == ["1", "2", "3", "9"]


def test_restored_files_have_rights_of_the_folder(folder: Path) -> None:
    folder.chmod(0o750)
    restore(folder)
    modes = {path.stat().st_mode & 0o777 for path in (folder / "memories.lance").rglob("*") if path.is_file()}
    assert modes == {0o640}
    assert (folder / "memories.lance").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("lost", ["table", "folder", "rows"])
def test_lost_or_damaged_table_is_restored(folder: Path, lost: str) -> None:
    if lost == "folder":
        shutil.rmtree(folder)
    elif lost == "table":
        shutil.rmtree(folder / "memories.lance")
    else:
        for path in (folder / "memories.lance" / "data").iterdir():
            path.write_bytes(b"")
    done = restore(folder)
    assert done.before is None
    assert done.backup == (STAMP if lost == "rows" else "")
    assert ids(folder) == ["1", "2", "3"]
    # A damaged table is kept as it was: it may be mended by other means.
    if lost == "rows":
        files = list((tags.root_of(folder) / BACKUPS / STAMP / "data").rglob("memories.lance/data/*"))
        assert {path.stat().st_size for path in files} == {0}


def test_damaged_tag_is_not_restored(folder: Path) -> None:
    path = min((tags.root_of(folder) / "day1").rglob("memories.lance/data/*"))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    before = state(folder)
    for write in (False, True):
        with pytest.raises(UnusableInput, match="bytes instead of"):
            restore(folder, write=write)
    assert state(folder) == before
    assert not (tags.root_of(folder) / BACKUPS).exists()


def test_manifest_and_data_replaced_together_are_found_by_the_rows(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    plugin_table(other, 7, 8, 9)
    tags.create_tag(other, "day1", tags.root_of(other), now=NOW)
    ours, theirs = tags.root_of(folder) / "day1", tags.root_of(other) / "day1"
    wanted = json.loads((ours / "manifest.json").read_text("utf-8"))["source"]["contentSha256"]
    value = json.loads((theirs / "manifest.json").read_text("utf-8"))
    # As a forger of files would: the digests of files fit, and the manifest has none of itself.
    del value["manifestSha256"]
    value["source"]["contentSha256"] = wanted
    (theirs / "manifest.json").write_text(json.dumps(value), "utf-8")
    before = state(folder)
    with pytest.raises(UnusableInput, match="its rows are not those that were tagged"):
        check_out(folder, theirs, tags.root_of(folder), now=NOW, write=True)
    assert state(folder) == before


def test_tag_changed_after_the_check_is_not_restored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = min((tags.root_of(folder) / "day1").rglob("memories.lance/data/*"))
    check = checkout.check_tag

    def then_changed(place: Path) -> Any:
        manifest = check(place)
        path.chmod(0o600)
        path.write_bytes(path.read_bytes() + b"x")
        return manifest

    monkeypatch.setattr(checkout, "check_tag", then_changed)
    before = state(folder)
    with pytest.raises(UnusableInput, match="nothing was changed"):
        restore(folder)
    assert state(folder) == before


def test_write_protected_folder_is_refused(folder: Path) -> None:
    (folder / "memories.lance").chmod(0o500)
    for write in (False, True):
        with pytest.raises(UnusableInput, match="is write-protected"):
            restore(folder, write=write)


def test_table_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "memories.lance").rename(tmp_path / "elsewhere.lance")
    (folder / "memories.lance").symlink_to(tmp_path / "elsewhere.lance")
    with pytest.raises(UnusableInput, match="is a symbolic link"):
        restore(folder)
    assert (folder / "memories.lance").is_symlink()


def test_folder_of_a_running_gateway_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkout, "gateway_using", lambda _: "process 7 (node), a running gateway")
    with pytest.raises(UnusableInput, match="a running gateway uses it"):
        restore(folder)
    assert ids(folder) == ["3", "4"]
    restore(folder, despite_gateway=True)
    assert ids(folder) == ["1", "2", "3"]


def test_second_writer_waits_and_then_names_the_first(folder: Path) -> None:
    lock = WriterLock(folder)
    lock.acquire("lab memory import")
    with pytest.raises(InUse, match="lab memory import"):
        restore(folder)
    lock.release()


STEPS = ("copy_folder", "copy_table", "replace_folder")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(5, "Input/output error")], ids=str)
def test_fault_at_any_step_keeps_the_old_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: OSError
) -> None:
    before = state(folder)

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(checkout, step, fail)
    with pytest.raises(CannotMeasure, match=error.strerror):
        restore(folder)
    assert state(folder) == before
    monkeypatch.undo()
    restore(folder)
    assert ids(folder) == ["1", "2", "3"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_unreadable_result_puts_the_old_table_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, exchanges: bool
) -> None:
    before, read = state(folder), checkout.contents_in

    def unreadable(place: Path) -> Any:
        contents = read(place)
        if place == folder and contents.rows == 3:
            raise UnusableInput("cannot be read")
        return contents

    if not exchanges:
        monkeypatch.setattr(checkout, "exchange", lambda *_: False)
    monkeypatch.setattr(checkout, "contents_in", unreadable)
    with pytest.raises(LabError, match="the old table was put back"):
        restore(folder)
    assert state(folder) == before


def test_system_without_an_exchange_recovers_from_a_kill_between_renames(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rename, calls = state(folder), checkout.os.rename, []

    def killed(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(*given)

    monkeypatch.setattr(checkout, "exchange", lambda *_: False)
    monkeypatch.setattr(checkout.os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(folder)
    monkeypatch.undo()
    assert not (folder / "memories.lance").exists()
    done = restore(folder)
    assert any("the old one was put back first" in note for note in done.notes)
    assert ids(folder) == ["1", "2", "3"]
    assert state(tags.root_of(folder) / BACKUPS / done.backup / "data") == before


def test_exchange_leaves_no_moment_without_a_table(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / path.name).write_text("")
    if not checkout.exchange(one, other):
        pytest.skip("this system cannot exchange two folders")
    assert [path.name for path in one.iterdir()] == ["other"]
    assert [path.name for path in other.iterdir()] == ["one"]
    assert not checkout.exchange(one, tmp_path / "nowhere")


def test_version_tag_is_restored_by_one_commit(folder: Path) -> None:
    root = tags.root_of(folder)
    with LanceTable(folder) as table:
        tags.create_version_tag(folder, "day2", root, now=NOW, table=table)
        table.add([entry(5), entry(6)])
    dry = restore(folder, "day2", write=False)
    assert (dry.before and dry.before.rows, dry.after and dry.after.rows) == (4, 2)
    done = restore(folder, "day2")
    assert ids(folder) == ["3", "4"]
    assert done.backup == f"before-day2-{STAMP}"
    assert restore(folder, done.backup).after == done.before
    assert ids(folder) == ["3", "4", "5", "6"]


def test_version_tag_of_a_replaced_table_is_refused(folder: Path) -> None:
    with LanceTable(folder) as table:
        tags.create_version_tag(folder, "day2", tags.root_of(folder), now=NOW, table=table)
    restore(folder)
    with pytest.raises(UnusableInput, match="has no tag day2 any more"):
        restore(folder, "day2")


def test_version_tag_moved_to_another_version_is_refused(folder: Path) -> None:
    with LanceTable(folder) as table:
        tags.create_version_tag(folder, "day2", tags.root_of(folder), now=NOW, table=table)
        table.add([entry(5)])
        with quiet_lance():
            table.ask(lambda opened: opened.tags.update("day2", opened.version))
    with pytest.raises(UnusableInput, match="3 memories instead of 2"):
        restore(folder, "day2")


def test_real_stores_are_restored(shared: Callable[..., Path], tmp_path: Path) -> None:
    for name in ("engine-2026.9.6", "memory-lancedb-2026.3.13"):
        folder = tmp_path / name
        shutil.copytree(shared("live", "lancedb", name), folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
        before, contents = state(folder), contents_in(folder)
        tags.create_tag(folder, "day1", tags.root_of(folder), now=NOW)
        with quiet_lance():
            raw_table(folder).delete("true")
        assert contents_in(folder).rows == 0
        assert restore(folder).after == contents
        assert state(folder) == before


@pytest.mark.process
def test_kills_leave_the_old_table_or_the_new_one() -> None:
    done = subprocess.run([sys.executable, TRIAL, "--kills", "6"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "every table was the old one or the new one" in done.stdout
