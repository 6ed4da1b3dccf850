"""A killed, failed or parallel replay ends with the same bytes as an undisturbed one."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure
from lab.replay.run import run_replay
from lab.retrieval.exact import ExactStore
from tests.commands import run_here, without_charts

pytestmark = pytest.mark.slow

Files = Callable[[Path], dict[str, bytes]]
LAB = Path(sys.executable).with_name("lab")
LIMIT = 4
ARMS = ("tier_first_v1", "tier_quota_v1")
# Files that must be equal: all but timings, the page and the manifest, which contain them, and the times in report.md.
RESULTS = ("receipts/*.parquet", "golden.jsonl", "scores.parquet", "report.md", "report.json")


def replay_words(operators: Path, out: Path) -> list[str]:
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    words = ["replay", str(operators), "--format", "lab", *arms, "--embedder", "hashing", "--limit", str(LIMIT)]
    return [*words, "--out", str(out)]


def finish(operators: Path, out: Path) -> None:
    for words in (replay_words(operators, out), ["score", str(out)], ["report", str(out)]):
        with without_charts():
            ended = run_here(*words)
        assert ended.returncode == 0, ended.stderr


TIMES = re.compile(rb"(?<=\| )[\d.,]+/[^ ]+(?= \|)")


def results(files: dict[str, bytes]) -> dict[str, bytes]:
    return {
        name: TIMES.sub(b"ms", data)
        for name, data in files.items()
        if any(fnmatch(name, pattern) for pattern in RESULTS)
    }


@pytest.fixture(scope="module")
def unbroken(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run of the shipped conversations, which also fills the cache of vectors."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    finish(operators, out)
    assert TIMES.search((out / "report.md").read_bytes())
    return out


def kill_when(words: Sequence[str], reached: Callable[[], bool]) -> int:
    """Start the command, kill it as soon as ``reached`` is true, and return its exit status."""
    with subprocess.Popen(
        [str(LAB), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    ) as process:
        while process.poll() is None:
            if reached():
                process.send_signal(signal.SIGKILL)
                break
        return process.wait()


def names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def receipts_there(out: Path, count: int) -> bool:
    return sum(not name.startswith(".") for name in names_in(out / "receipts")) >= count


KILL_POINTS: dict[str, Callable[[Path], bool]] = {
    "the manifest is there": lambda out: (out / "manifest.json").exists(),
    "the first receipts are there": lambda out: receipts_there(out, 1),
    "the third receipts are there": lambda out: receipts_there(out, 3),
}


def test_replay_killed_is_finished_by_the_same_command(
    operators: Path, unbroken: Path, tmp_path: Path, files_of: Files
) -> None:
    kill_and_finish(operators, unbroken, tmp_path, files_of, "the first receipts are there")


@pytest.mark.full
@pytest.mark.parametrize("point", ["the manifest is there", "the third receipts are there"])
def test_replay_killed_sooner_or_later_is_finished_by_the_same_command(
    operators: Path, unbroken: Path, tmp_path: Path, files_of: Files, point: str
) -> None:
    kill_and_finish(operators, unbroken, tmp_path, files_of, point)


def kill_and_finish(operators: Path, unbroken: Path, tmp_path: Path, files_of: Files, point: str) -> None:
    # On a busy machine the command may end first.
    for attempt in range(9):
        out = tmp_path / f"run{attempt}"
        ended = kill_when(replay_words(operators, out), lambda out=out: KILL_POINTS[point](out))
        if ended == -signal.SIGKILL:
            break
    assert ended == -signal.SIGKILL
    # As a kill leaves them that comes while they are written.
    last = max((unbroken / "receipts").iterdir())
    (out / "receipts").mkdir(exist_ok=True)
    part = out / "receipts" / f".{last.name}.9999999999.x.part"
    part.write_bytes(last.read_bytes()[:100])
    expected = files_of(unbroken)
    left = {name: data for name, data in files_of(out).items() if not name.endswith(".part")}
    assert json.loads(left["manifest.json"])["status"] == "started"
    assert results(left).items() < expected.items()
    there = [out / name for name in results(left)]
    stamps = [path.stat().st_mtime_ns for path in there]
    finish(operators, out)
    assert not part.exists()
    assert [path.stat().st_mtime_ns for path in there] == stamps
    assert results(files_of(out)) == results(expected)
    assert len(results(expected)) == LIMIT + len(RESULTS) - 1
    manifest, other = (json.loads((run / "manifest.json").read_bytes()) for run in (out, unbroken))
    assert (manifest["status"], manifest["resolved"], manifest["run_key"]) == (
        "complete",
        other["resolved"],
        other["run_key"],
    )


def test_score_killed_is_repeated(operators: Path, unbroken: Path, tmp_path: Path, files_of: Files) -> None:
    out = tmp_path / "run"
    assert run_here(*replay_words(operators, out)).returncode == 0
    ended = 0
    # The file is incomplete only briefly, so a busy machine may miss it.
    for _ in range(20):
        ended = kill_when(["score", str(out)], lambda: any(name.startswith(".scores") for name in names_in(out)))
        if ended == -signal.SIGKILL:
            break
        (out / "scores.parquet").unlink()
    assert ended == -signal.SIGKILL
    assert results(files_of(out)).items() <= files_of(unbroken).items()
    finish(operators, out)
    assert results(files_of(out)) == results(files_of(unbroken))


def test_replay_two_processes_give_equal_bytes(desk: Any, files_of: Files) -> None:
    talk(desk, 3)
    one = desk.run("vector", "hybrid", "oracle", out="one", jobs=1)
    two = desk.run("vector", "hybrid", "oracle", out="two", jobs=2)
    assert one.done == two.done == ("talk0", "talk1", "talk2")
    assert results(files_of(one.run.path)) == results(files_of(two.run.path))
    assert len(results(files_of(two.run.path))) == 3 + 1


def talk(desk: Any, count: int, *, turns: int = 3) -> None:
    """Write conversations talk0, talk1 … with a new memory at each turn; the last turn is judged."""
    for number in range(count):
        said = [("user", f"pears, plums and crate {turn}", f"crate {turn} holds pears") for turn in range(turns)]
        desk.say(f"talk{number}", ("global", said))
        desk.judge(f"talk{number}/s1/t1#0", turn=f"talk{number}/s1/t{turns}")


@pytest.fixture
def broken_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the store of the conversation talk1 unusable; other errors would only fail recalls."""
    real = ExactStore.add

    def add(self: ExactStore, rows: Sequence[Any], *others: Any) -> None:
        if any(row.key.startswith("talk1/") for row in rows):
            raise CannotMeasure("the disk is on fire")
        real(self, rows, *others)

    monkeypatch.setattr(ExactStore, "add", add)


@pytest.mark.usefixtures("broken_store")
def test_replay_failing_conversation_is_listed_others_are_done(
    desk: Any, files_of: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(desk, 3)
    messages: list[str] = []
    outcome = run_replay(desk.request(*ARMS), desk.home / "run", announce=messages.append)
    failure = {"conversation": "talk1", "phase": "replay", "reason": "the disk is on fire"}
    assert (outcome.done, outcome.failures) == (("talk0", "talk2"), (failure,))
    failures = outcome.run.path / "failures.jsonl"
    assert [json.loads(line) for line in failures.read_text().splitlines()] == [failure]
    assert outcome.run.manifest.status == "incomplete"
    assert "talk1: failed: the disk is on fire" in messages
    assert sorted(names_in(outcome.run.path / "receipts")) == ["talk0.parquet", "talk2.parquet"]

    again = desk.run(*ARMS)
    assert (again.done, again.skipped, again.failures) == ((), ("talk0", "talk2"), (failure,))

    monkeypatch.undo()
    monkeypatch.setenv("LAB_CACHE_DIR", str(desk.home / "cache"))
    mended = desk.run(*ARMS)
    assert (mended.done, mended.skipped, mended.failures) == (("talk1",), ("talk0", "talk2"), ())
    assert not failures.exists()
    assert json.loads((mended.run.path / "manifest.json").read_text())["status"] == "complete"
    whole = desk.run(*ARMS, out="whole")
    assert results(files_of(mended.run.path)) == results(files_of(whole.run.path))


def test_replay_unexpected_exception_message_is_not_written(
    desk: Any, files_of: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages may contain texts of the recording; the position of the error is enough."""
    talk(desk, 1)

    def table(*_: object) -> None:
        raise ValueError("cannot take the words of a memory")

    monkeypatch.setattr("lab.replay.executors.receipts_table", table)
    messages: list[str] = []
    outcome = run_replay(desk.request(*ARMS), desk.home / "run", announce=messages.append)
    (failure,) = outcome.failures
    assert re.fullmatch(r"ValueError in test_resume\.py, line \d+", failure["reason"])
    assert not [data for data in files_of(outcome.run.path).values() if b"cannot take" in data]
    assert not [line for line in messages if "cannot take" in line]


@pytest.mark.usefixtures("broken_store")
def test_replay_failing_conversation_exits_with_4(
    desk: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.cli.main import main

    talk(desk, 2)
    words = ["lab", "replay", str(desk.folder), "--format", "lab", "--arm", "hybrid", "--embedder", "hashing"]
    monkeypatch.setattr(sys, "argv", [*words, "--out", str(desk.home / "run"), "--json"])
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == CannotMeasure.exit_code == 4
    assert json.loads(said.out)["conversations"] == {"done": 1, "skipped": 0, "failed": 1}
    assert said.err.splitlines()[-1].startswith("error: 1 conversation failed; see ")
    assert "Traceback" not in said.err


def test_replay_unwritable_receipts_exit_with_4_and_can_resume(desk: Any, files_of: Files) -> None:
    talk(desk, 2)
    out = desk.home / "run"
    (desk.home / "whole").mkdir()
    words = ["replay", desk.folder, "--format", "lab", "--arm", "recency", "--embedder", "hashing", "--out"]
    assert run_here(*words, desk.home / "whole").returncode == 0
    assert run_here(*words, out).returncode == 0
    (out / "receipts" / "talk1.parquet").unlink()
    (out / "receipts" / "talk1.parquet").mkdir()
    failed = run_here(*words, out)
    assert failed.returncode == 4
    assert "Traceback" not in failed.stderr
    reason = json.loads((out / "failures.jsonl").read_text())
    assert (reason["conversation"], reason["phase"]) == ("talk1", "replay")
    assert "talk1.parquet" in reason["reason"]
    (out / "receipts" / "talk1.parquet").rmdir()
    assert run_here(*words, out).returncode == 0
    assert not (out / "failures.jsonl").exists()
    assert results(files_of(out)) == results(files_of(desk.home / "whole"))


def test_replay_killed_worker_fails_its_conversations_and_can_resume(desk: Any, files_of: Files) -> None:
    """This happens if the machine runs out of memory and the system kills a process."""
    talk(desk, 5, turns=6)
    killed: list[int] = []

    def announce(text: str) -> None:
        if text.startswith("talk0: done"):
            for child in multiprocessing.active_children():
                child.kill()
                killed.append(child.pid or 0)

    outcome = run_replay(desk.request("recency", store="lancedb"), desk.home / "run", jobs=2, announce=announce)
    assert len(killed) == 2
    assert "talk0" in outcome.done
    assert {failure["conversation"] for failure in outcome.failures} == {f"talk{n}" for n in range(5)} - set(
        outcome.done
    )
    assert len(outcome.failures) > 0
    assert desk.run("recency", store="lancedb").failures == ()
    whole = desk.run("recency", store="lancedb", out="whole")
    assert results(files_of(desk.home / "run")) == results(files_of(whole.run.path))
