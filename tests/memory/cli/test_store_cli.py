"""``lab memory index`` and ``lab memory tags``: receipts, exit codes, bad input, full disks, and replays of a tag."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.memory.table.lance_table import LanceTable
from tests.commands import Done, run_here
from tests.memory.tools.lance_tables import entry, plugin_table
from tests.small_disk import Disk, mounted

MARK = "wombat"


def store(*words: str | Path) -> Done:
    """Run ``lab memory index`` and ``lab memory tags``."""
    return run_here("memory", *(words if words[0] == "index" else ("tags", *words)))


def receipt(*words: str | Path) -> dict[str, Any]:
    """Run ``lab memory index`` and ``lab memory tags`` with ``--json`` and return what it prints."""
    done = store(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert MARK not in done.stdout
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def one_line(done: Done, code: int, part: str) -> None:
    """Check that a command failed with one line."""
    assert done.returncode == code, done.stderr
    errors = done.stderr.splitlines()
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("error: ")
    assert part in errors[0]


def bytes_of(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".lab-")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three memories."""
    path = tmp_path / "lancedb"
    path.mkdir()
    plugin_table(path, 1, 2, 3, texts=(f"The {MARK} is called Ada", "We deploy on Fridays", "The fair opens in May"))
    return path


def test_tag_change_checkout_undo(folder: Path) -> None:
    first = bytes_of(folder)
    assert receipt("add", folder, "day1")["rowCount"] == 3
    with LanceTable(folder) as table:
        table.add([entry(4)])
    second = bytes_of(folder)
    dry = receipt("checkout", folder, "day1")
    assert (dry["written"], dry["before"]["rowCount"], dry["after"]["rowCount"], dry["backup"]) == (False, 4, 3, None)
    assert bytes_of(folder) == second
    done = store("checkout", folder, "day1", "--write")
    assert done.returncode == 0, done.stderr
    assert bytes_of(folder) == first
    assert "Start the gateway again" in done.stdout
    undo = done.stdout.splitlines()[-1].split()
    assert undo[:4] == ["lab", "memory", "tags", "checkout"]
    again = receipt(*undo[3:])
    assert bytes_of(folder) == second
    assert again["restartRequired"] is True
    listed = receipt("list", folder, "--check")
    assert [one["tag"] for one in listed["tags"]] == ["day1"]
    assert [one["rowCount"] for one in listed["backups"]] == [3, 4]


def test_delete_needs_write(folder: Path) -> None:
    place = folder.parent / "lancedb-snapshots" / "day1"
    store("add", folder, "day1")
    assert "Nothing was written; add --write" in store("delete", folder, "day1").stdout
    assert place.is_dir()
    assert store("delete", folder, "day1", "--write").returncode == 0
    assert not place.exists()
    one_line(store("delete", folder, "day1", "--write"), 2, "has no tag day1; there is none")


def test_damaged_tag_is_listed_and_can_be_deleted(folder: Path) -> None:
    place = folder.parent / "lancedb-snapshots" / "day1"
    store("add", folder, "day1")
    (place / "manifest.json").write_text("{")
    assert "damaged" in store("list", folder).stdout
    failed = store("list", folder, "--check")
    assert (failed.returncode, "not JSON" in failed.stderr) == (1, True)
    one_line(store("checkout", folder, "day1", "--write"), 2, "manifest.json:1: not JSON")
    assert store("delete", folder, "day1", "--write").returncode == 0


def test_version_tag_from_the_command_line(folder: Path) -> None:
    before = bytes_of(folder.parent)
    dry = receipt("add", folder, "day1", "--in-table")
    assert (dry["written"], dry["rowCount"], bytes_of(folder.parent)) == (False, 3, before)
    first = receipt("add", folder, "day1", "--in-table", "--write")
    assert (first["kind"], first["fileCount"]) == ("version", 0)
    with LanceTable(folder) as table:
        table.add([entry(4)])
    assert "in the table" in store("list", folder).stdout
    done = store("checkout", folder, "day1", "--write")
    assert "restored day1: 3 memories in the place of 4 memories" in done.stdout
    assert run_here(*done.stdout.splitlines()[-1].split()[1:]).returncode == 0
    assert "4" in run_here("memory", "stats", folder).stdout
    for one in receipt("list", folder)["tags"]:
        assert store("delete", folder, one["tag"], "--write").returncode == 0
    assert store("list", folder).stdout == f"{folder}-snapshots: no tags\n"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("add", "nowhere", "day1"), "nowhere: is not a LanceDB folder"),
        (("add", "FOLDER", "a/b"), "expected 1 to 64 letters"),
        (("add", "FOLDER", "day1", "--root", "FOLDER/tags"), "is inside the LanceDB folder"),
        (("list", "nowhere"), "nowhere: is not a LanceDB folder"),
        (("checkout", "FOLDER", "day9"), "has no tag day9; there is none"),
        (("checkout", "FOLDER", "..", "--write"), "expected 1 to 64 letters"),
        (("index", "status", "nowhere"), "nowhere: is not a LanceDB folder"),
        (("index", "build", "FOLDER", "--words", "greek"), "--words greek: expected simple, ngram or icu"),
        (("index", "build", "FOLDER/memories.lance", "--write"), "give the folder that contains it"),
    ],
    ids=str,
)
def test_unusable_input_is_one_line(folder: Path, words: tuple[str, ...], part: str) -> None:
    given = [word.replace("FOLDER", str(folder)) for word in words]
    one_line(store(*given), 2, part)


def test_index_commands(folder: Path) -> None:
    assert store("index", "status", folder, "--check").returncode == 1
    before = bytes_of(folder)
    dry = receipt("index", "build", folder)
    assert (len(dry["changed"]), dry["written"]) == (5, False)
    assert bytes_of(folder) == before
    assert "built: scope_idx" in store("index", "build", folder, "--write").stdout
    assert store("index", "status", folder, "--check").returncode == 0
    assert store("index", "optimize", folder, "--write").stdout == "nothing to do\n"
    forced = receipt("index", "optimize", folder, "--write", "--max-fragments", "2")
    assert (forced["before"]["fragments"], forced["after"]["fragments"]) == (3, 1)
    assert forced["after"]["healthy"]


def test_write_protected_folder_is_only_read(folder: Path) -> None:
    (folder / "memories.lance").chmod(0o500)
    for words in (
        ("index", "build", folder),
        ("index", "build", folder, "--write"),
        ("index", "optimize", folder, "--write", "--max-fragments", "2"),
    ):
        one_line(store(*words), 2, "is write-protected")
    assert store("index", "status", folder).returncode == 0
    assert store("add", folder, "day1").returncode == 0


def receipts_of(run: Path) -> dict[str, bytes]:
    """Return what a replay recalled, and under which key."""
    key = json.loads((run / "manifest.json").read_text("utf-8"))["run_key"]
    return {"run_key": key.encode()} | bytes_of(run / "receipts")


def test_checkout_gives_the_replay_of_that_day(tmp_path: Path, folder: Path, make_set: Callable[..., Path]) -> None:
    recordings = make_set(tmp_path, "den")
    shutil.rmtree(tmp_path / "golden")
    number = iter(range(9))

    def replay(source: Path | str = folder) -> dict[str, bytes]:
        out = tmp_path / f"run{next(number)}"
        words = ("--arm", "tier_quota_v1", "--arm", "recency", "--embedder", "hashing", "--memories-from", source)
        done = run_here("replay", recordings, "--format", "lab", *words, "--out", out)
        assert done.returncode == 0, done.stderr
        return receipts_of(out)

    store("add", folder, "day1")
    day1 = replay()
    with LanceTable(folder) as table:
        table.add([entry(4, "A later memory of the den")])
        table.delete([entry(1).row.id])
    assert replay() != day1
    store("index", "build", folder, "--write")
    store("checkout", folder, "day1", "--write")
    assert replay() == day1
    # The copy itself is a LanceDB folder.
    copy = replay(folder.parent / "lancedb-snapshots" / "day1" / "data")
    assert {name: data for name, data in copy.items() if name != "run_key"} == {
        name: data for name, data in day1.items() if name != "run_key"
    }


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of two megabytes."""
    with mounted(tmp_path / "disk", "2m") as disk:
        yield disk


@pytest.mark.parametrize("pages", [0, 2, 8, 16, 24, 32, 40])
def test_full_disk_keeps_table_and_tags(folder: Path, disk: Disk, pages: int) -> None:
    live = disk.path / "lancedb"
    shutil.copytree(folder, live)
    assert store("add", live, "day1").returncode == 0
    with LanceTable(live) as table:
        table.add([entry(4)])
    before = bytes_of(disk.path)
    disk.fill(pages)
    for words in (("add", live, "day2"), ("checkout", live, "day1", "--write"), ("index", "build", live, "--write")):
        done = store(*words)
        if done.returncode == 0:
            assert pages > 8, words
            return
        one_line(done, 4, "No space left")
        found = bytes_of(disk.path)
        if words[0] == "index":
            # A build keeps the indexes that it had built, and LanceDB a file that names the newest version.
            before = {name: data for name, data in before.items() if "hint" not in name}
        assert {name: found.get(name) for name in before} == before
        assert store("list", live, "--check").returncode == 0
    disk.free()
    assert store("checkout", live, "day1", "--write").returncode == 0
    assert store("add", live, "day2").returncode == 0
