"""A full or read-only disk: a one-line message, exit code 4, old files kept, and the command works again later."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cli.main import main
from tests.small_disk import Disk

# Those of the run that is there.
ARMS = tuple(word for arm in ("tier_first_v1", "tier_quota_v1", "hybrid", "none") for word in ("--arm", arm))
REPLAY = ("replay", "datasets/tiny", "--format", "lab", "--embedder", "hashing")
# Every command that writes; DISK is a folder on the disk in question, with the run that it may write into.
VERBS: dict[str, tuple[str, ...]] = {
    "replay": (*REPLAY, "--arm", "recency", "--out", "DISK/new"),
    "replay in two processes": (*REPLAY, "--arm", "recency", "--jobs", "2", "--out", "DISK/new"),
    "replay, to the end": (*REPLAY, *ARMS, "--out", "DISK/half"),
    "replay of a shard": (*REPLAY, "--arm", "recency", "--shard", "1/2", "--out", "DISK/new"),
    "merge": ("runs", "merge", "DISK/new", "shard1", "shard2"),
    "score": ("score", "DISK/run"),
    "report": ("report", "DISK/run"),
    "ablate": ("study", "ablate", "datasets/tiny", "--format", "lab", "--out", "DISK/ladder"),
    "saturation": (
        "study",
        "saturation",
        "datasets/tiny",
        "--format",
        "lab",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--out",
        "DISK/new",
    ),
    "demo": ("demo", "--out", "DISK/demo"),
}
# Of these the read-only disk, and the full one, is that of the cache.
CACHED: dict[str, tuple[str, ...]] = {
    "replay": (*REPLAY, "--arm", "recency", "--out", "new"),
    "explain": ("explain", "run", "den/s02/t01"),
    "doctor": ("doctor",),
}


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process, in a folder with ``datasets/tiny`` and a finished ``run`` of it."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def run(*words: str, disk: Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lab", *(word.replace("DISK", str(disk)) for word in words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(str(ended.value.code)), said.out, said.err

    return run


@pytest.fixture(scope="module")
def prepared(place: Path, lab: Callable[..., subprocess.CompletedProcess[str]]) -> Path:
    """The same folder with a scored run, its shards, and all that ``ablate`` and ``demo`` need in the cache."""
    for number in ("1", "2"):
        words = (*REPLAY, "--arm", "recency", "--shard", f"{number}/2", "--out", f"shard{number}")
        assert lab(*words, cwd=place).returncode == 0
    assert lab("score", "run", cwd=place).returncode == 0
    return place


def lay_out(disk: Disk, place: Path) -> None:
    """A finished run that nobody has scored, and one that lacks a conversation."""
    shutil.copytree(place / "run", disk.path / "run")
    (disk.path / "run" / "scores.parquet").unlink()
    shutil.copytree(place / "run", disk.path / "half")
    for kind in ("receipts", "latency"):
        (disk.path / "half" / kind / "den.parquet").unlink()


def files(disk: Disk) -> dict[str, bytes]:
    return {
        str(path.relative_to(disk.path)): path.read_bytes()
        for path in sorted(disk.path.rglob("*"))
        if path.is_file() and path.name != "filler"
    }


def refused(ended: tuple[int, str, str], reason: str) -> None:
    code, _, said = ended
    assert code == 4, said
    last = said.splitlines()[-1]
    assert last.startswith("error: cannot write "), said
    assert reason in last
    assert "Traceback" not in said


def assert_kept(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """What was there is as it was; nothing new is half there."""
    assert {name: after.get(name) for name in before} == before
    assert [name for name in after if name.endswith(".part")] == []
    # A conversation that fitted in before the end may have been kept, and its manifest.
    assert all(Path(name).suffix in (".parquet", ".json", ".jsonl", ".svg", ".png") for name in after.keys() - before)


@pytest.mark.parametrize("name", VERBS)
def test_command_on_full_disk_fails_clearly_and_later_continues(
    prepared: Path, disk: Disk, command: Run, name: str
) -> None:
    lay_out(disk, prepared)
    disk.fill()
    before = files(disk)
    refused(command(*VERBS[name], disk=disk.path), "No space left on device")
    assert_kept(before, files(disk))
    disk.free()
    # The demo goes on as a replay does, and takes longer.
    assert name == "demo" or command(*VERBS[name], disk=disk.path)[0] == 0


@pytest.mark.parametrize("pages", range(1, 10))
def test_disk_that_fills_up_keeps_finished_work(prepared: Path, disk: Disk, command: Run, pages: int) -> None:
    disk.fill(pages)
    words = (*REPLAY, *ARMS, "--out", "DISK/new")
    code, _, said = command(*words, disk=disk.path)
    assert (code, "Traceback" in said) == (0 if code == 0 else 4, False), said
    done = set(files(disk))
    disk.free()
    assert command(*words, disk=disk.path)[0] == 0
    whole = {path.name: path.read_bytes() for path in (prepared / "run" / "receipts").iterdir()}
    # The manifest takes in the digests of conversations once all are done.
    passing = {name for name in done if name.startswith("new/digests/")}
    assert done - passing <= set(files(disk))
    assert not (disk.path / "new" / "digests").exists()
    assert {path.name: path.read_bytes() for path in (disk.path / "new" / "receipts").iterdir()} == whole


@pytest.mark.parametrize("name", VERBS)
def test_command_on_read_only_disk_fails_and_later_continues(
    prepared: Path, disk: Disk, command: Run, name: str
) -> None:
    lay_out(disk, prepared)
    before = files(disk)
    disk.close()
    refused(command(*VERBS[name], disk=disk.path), "Read-only file system")
    disk.open()
    assert files(disk) == before


@pytest.mark.parametrize("name", CACHED)
@pytest.mark.parametrize("what", ["full", "read-only"])
def test_cache_on_full_disk_names_the_remedy(
    prepared: Path, disk: Disk, command: Run, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(disk.path))
    disk.fill() if what == "full" else disk.close()
    code, out, said = command(*CACHED[name], disk=disk.path)
    reason = "No space left on device" if what == "full" else "Read-only file system"
    assert "Traceback" not in said
    if name == "doctor":
        assert (code, reason in " ".join(out.split())) == (1, True)
        return
    assert code == 4, said
    assert said.splitlines()[-1].startswith(f"error: cannot write {disk.path}"), said
    assert said.splitlines()[-1].endswith("set LAB_CACHE_DIR to another folder for the cache")
    assert reason in said
    shutil.rmtree(prepared / "new", ignore_errors=True)


def test_warm_cache_and_finished_run_may_be_read_only(
    prepared: Path, disk: Disk, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(disk.path))
    words = (*REPLAY, "--arm", "recency", "--arm", "none", "--out")
    assert command(*words, "DISK/run", disk=disk.path)[0] == 0
    compare = ("compare", "DISK/run", "--baseline", "recency", "--candidate", "none")
    disk.close()
    unscored = command(*compare, disk=disk.path)
    disk.open()
    assert command("score", "DISK/run", disk=disk.path)[0] == 0
    disk.close()
    assert command("score", "DISK/run", disk=disk.path)[0] == 0
    assert command(*compare, disk=disk.path)[:2] == unscored[:2]
    assert unscored[0] == 0
    code, out, _ = command(*words, "DISK/run", disk=disk.path)
    assert (code, "0 done, 2 skipped, 0 failed" in " ".join(out.split())) == (0, True)
    assert command("explain", str(disk.path / "run"), "den/s02/t01", disk=disk.path)[0] == 0
    assert command(*words, "elsewhere", disk=disk.path)[0] == 0
    code, _, said = command("runs", "rm", "DISK/run", "--write", disk=disk.path)
    assert (code, "Read-only file system" in said, "Traceback" in said) == (4, True, False)
    disk.open()
    assert command("runs", "rm", "DISK/run", "--write", disk=disk.path)[0] == 0
    shutil.rmtree(prepared / "elsewhere")


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_stdout_on_full_disk_is_an_error(place: Path, lab: Callable[..., object]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [Path(sys.executable).with_name("lab"), "runs", "list", "."],
            cwd=place,
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ,
            check=False,
        )
    assert ended.returncode == 4
    assert ended.stderr == (
        b"error: stdout: cannot write any more: No space left on device; what was printed is incomplete\n"
    )
