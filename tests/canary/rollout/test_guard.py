"""The guard: it waits for the lock of what it guards, is replaced if it is killed, and says what it could not do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import InUse
from lab.base.files import only_writer
from lab.canary.cli import canary as command
from lab.canary.rollout import guard as guard_module
from lab.canary.rollout import journal as journal_module
from lab.canary.rollout.change import slot_change
from lab.canary.rollout.commands import await_orphan, identity, is_running, run_command
from lab.canary.rollout.guard import Record, Task, _recover, guard_command
from lab.canary.rollout.journal import WINDOW, Journal, State, begin
from lab.canary.rollout.recover import receipt_of, recover
from lab.canary.rollout.run import Outcome, Plan
from lab.gate.policy import read_policy
from tests.canary.rollout.conftest import CONFIG, ENTRY, Gateway
from tests.canary.rollout.test_run import as_before
from tests.commands import lives, run_here

Make = Callable[..., Gateway]
SWITCHED = CONFIG.replace("'memory-lancedb'", f"'{ENTRY}'").encode()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "home" / "openclaw.json"
    file.parent.mkdir()
    file.write_bytes(CONFIG.encode())
    return file


def left(config: Path, restart: str = "true") -> tuple[State, Journal]:
    """Leave what a canary leaves that is killed in its window."""
    change, out, state = slot_change(config, ENTRY), config.parent.parent / "out", State(config)
    out.mkdir(exist_ok=True)
    journal = begin(change, restart=restart, check=None, timeout=5.0, out=out, receipt=out / "canary.json")
    # A process that is certain to have ended.
    journal = replace(journal, step=WINDOW, process="1 another-boot 1")
    state.write(journal)
    state.prepare(change)
    config.write_bytes(change.switched)
    return state, journal


def task_of(journal: Journal, terminal: int | None = None) -> Task:
    # No process has the id 0, so its parent has ended.
    return Task(journal.config, str(journal.token), 0, journal.out, keep_edits=False, terminal=terminal)


@pytest.mark.process
def test_guard_waits_for_a_lock_that_is_released_after_the_pipe(config: Path) -> None:
    state, journal = left(config)
    guard = subprocess.Popen(guard_command(task_of(journal)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with only_writer(state.folder):
        assert guard.stdin is not None
        guard.stdin.close()
        while "begins to roll back" not in (state.guard_said() or ""):
            assert guard.poll() is None
            time.sleep(0.01)
        # It has begun, and has not got the lock.
        assert config.read_bytes() == SWITCHED
        assert guard.poll() is None
    assert guard.wait() == 0
    assert config.read_bytes() == CONFIG.encode()
    assert not state.folder.exists()
    said = (Path(journal.out) / "guard.log").read_text("utf-8").splitlines()
    assert said[0].endswith("waits for the end of canary 0")
    assert said[-1].endswith(f"put back {config} and restarted the gateway")
    receipt = json.loads((Path(journal.out) / "canary.json").read_text("utf-8"))
    assert (receipt["status"], receipt["rolled_back"], receipt["stuck"]) == ("error", True, None)
    assert receipt["problem"] == "ended early, in step 'window'"


@pytest.mark.process
def test_lock_is_tried_until_a_rollback_may_have_ended(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is that of the test: the holder releases the lock long after the grace of a canary that runs."""
    state, journal = left(config)
    clock = [0.0]
    holder = only_writer(state.folder)
    holder.__enter__()

    def sleep(seconds: float) -> None:
        clock[0] += 20.0 * seconds
        if clock[0] > 3 * journal.timeout:
            holder.__exit__(None, None, None)
            clock[0] = -1e9

    monkeypatch.setattr(journal_module.time, "sleep", sleep)
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: clock[0])
    told: list[str] = []
    assert recover(config, tell=told.append) is not None
    assert told[0] == f"wait: another process rolls back {config}"
    assert config.read_bytes() == CONFIG.encode()


def test_lock_that_is_never_released_is_an_error_with_the_command(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, journal = left(config)
    clock = [0.0]
    monkeypatch.setattr(journal_module.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + 20 * seconds))
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: clock[0])
    with only_writer(state.folder), pytest.raises(InUse, match="another process has held it for 80 s") as raised:
        recover(config, only=journal.token)
    assert state.command in str(raised.value)
    assert clock[0] < 4 * journal.timeout + 62


def test_guard_leaves_the_canary_of_somebody_else_alone(config: Path) -> None:
    state, journal = left(config)
    assert recover(config, only="another") is None
    assert state.read() == journal
    assert config.read_bytes() == SWITCHED


def test_canary_that_runs_is_named_at_once(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "GRACE", 0.0)
    state, journal = left(config)
    state.write(replace(journal, process=identity(os.getpid())))
    with only_writer(state.folder):
        done = run_here("canary", "recover", config, "--write")
        assert (done.returncode, f"a canary is going on (process {os.getpid()})" in done.stderr) == (4, True)
        words = ["canary", "run", config, "--slot", ENTRY, "--restart", "true", "--log", config, "--write"]
        done = run_here(*words)
        assert (done.returncode, f"is going on: kill {os.getpid()} ends it" in done.stderr) == (2, True)


@pytest.mark.process
def test_failure_of_a_guard_is_seen_wherever_the_operator_looks(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(guard_module, "PAUSES", (0.0,))
    state, journal = left(config, restart="echo no service manager; exit 5")
    reader, terminal = os.pipe()
    task = task_of(journal, terminal)
    with pytest.raises(SystemExit):
        _recover(task, Record(task))
    os.close(terminal)
    with os.fdopen(reader, encoding="utf-8") as file:
        said = file.read()
    why = "the restart command ended with exit code 5: no service manager; the configuration is as before, but the"
    assert said.startswith(f"lab canary guard: canary 0 ended early. NOT ROLLED BACK: {why}")
    assert state.command in said
    assert said.count("\n") == 1
    for log in (state.guard_log, tmp_path / "out" / "guard.log"):
        lines = log.read_text("utf-8").splitlines()
        # It tried twice.
        assert sum("; tries again in 0 s" in line for line in lines) == 1
        assert f"FAILED: {why}" in lines[-1]
    receipt = json.loads((tmp_path / "out" / "canary.json").read_text("utf-8"))
    assert receipt["rolled_back"] is False
    assert receipt["stuck"].startswith(why)
    looked = run_here("canary", "recover", config)
    assert looked.returncode == 1
    assert "and its guard failed at 20" in " ".join(looked.stdout.split())
    common = [config, "--restart", "true", "--log", config, "--write", "--out", tmp_path / "again"]
    for words in (["run", *common, "--slot", "memory-core"], ["watch", *common]):
        done = run_here("canary", *words)
        assert done.returncode == 2
        assert "did not end, and its guard failed at 20" in done.stderr
        assert state.command in done.stderr
    state.write(replace(state.read() or journal, restart="true"))
    done = run_here("canary", "recover", config, "--write")
    assert done.returncode == 0, done.stderr
    assert f"the guard of this canary: {lines[-1].partition(' ')[0]} FAILED: {why}" in done.stderr
    receipt = json.loads((tmp_path / "out" / "canary.json").read_text("utf-8"))
    assert (receipt["rolled_back"], receipt["stuck"]) == (True, None)


def test_guard_that_was_killed_in_its_rollback_is_seen(config: Path) -> None:
    state, journal = left(config)
    assert "no guard rolled it back" in state.how(journal, held=False)
    state.guard_log.write_text("2026-01-02T03:04:05Z guard 7: begins to roll back\n", "utf-8")
    assert "its guard was killed after 2026-01-02T03:04:05Z, while it rolled back" in state.how(journal, held=False)
    assert "another process is rolling it back" in state.how(journal, held=True)


@pytest.mark.process
def test_guard_that_does_not_start_switches_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = [sys.executable, "-c", "raise ImportError('no module named lab')"]
    monkeypatch.setattr(guard_module, "guard_command", lambda _: broken)
    words = ["canary", "run", config, "--slot", ENTRY, "--restart", "true", "--log", tmp_path / "x.log", "--write"]
    done = run_here(*words, "--out", tmp_path / "out")
    assert done.returncode == 4
    assert "the guard did not start: it ended with exit code 1 (ImportError: no module named lab)" in done.stderr
    assert "nothing was switched; --no-guard runs the canary without one" in done.stderr
    assert config.read_bytes() == CONFIG.encode()
    assert not State(config).folder.exists()
    # The same command can be repeated.
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_guard_that_is_killed_is_replaced_and_keeps_edits(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    words = gateway.words("--write", "--out", tmp_path / "out", "--keep-edits")
    words[words.index("--recalls") + 1] = "100000"
    said = tmp_path / "said"
    with said.open("wb") as file:
        canary = subprocess.Popen([sys.executable, "-m", "lab", *words], stdout=file, stderr=subprocess.STDOUT)

    def wait(pattern: str) -> int:
        while not (found := re.findall(pattern, said.read_text("utf-8"))):
            assert canary.poll() is None, said.read_text("utf-8")
            time.sleep(0.02)
        return int(found[-1])

    first = wait(rf"guard: process (\d+) rolls back if this one is killed; .*: {re.escape(gateway.state.command)}\n")
    os.kill(first, signal.SIGKILL)
    second = wait(r"WARNING: the guard was killed by signal 9 at \S+; another one, process (\d+), was started")
    wait(r"wait: a decision, (\d+) recalls or ")
    assert gateway.config.read_bytes() == SWITCHED
    with gateway.config.open("ab") as edited:
        edited.write(b"// mine\n")
    canary.kill()
    canary.wait()
    while lives(second):
        time.sleep(0.05)
    assert gateway.config.read_bytes() == CONFIG.encode() + b"// mine\n"
    assert gateway.running()["slot"] == "memory-lancedb"
    assert not gateway.state.folder.exists()
    # The terminal got it from the guard.
    assert said.read_text("utf-8").endswith(f"put back {gateway.config} and restarted the gateway\n")


@pytest.mark.process
def test_guard_that_dies_again_and_again_is_given_up_with_the_command(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, journal = left(config)
    script = "import os, sys; os.write(1, b'ready\\n'); sys.exit(3)"
    monkeypatch.setattr(guard_module, "guard_command", lambda _: [sys.executable, "-c", script])
    told, notes = list[str](), list[str]()
    with guard_module.guarded(state, journal, tell=told.append, note=notes.append):
        while not any("there is no other" in note for note in notes):
            time.sleep(0.01)
    assert len(notes) == guard_module.MOST
    assert notes[0].startswith("the guard ended with exit code 3 at ")
    assert notes[-1].endswith(f"if this process is killed now, roll back with: {state.command}")
    assert told[1:] == [f"WARNING: {note}" for note in notes]


def test_receipt_of_a_killed_canary_has_the_fields_of_every_receipt(config: Path, tmp_path: Path) -> None:
    _, journal = left(config)
    config.write_bytes(CONFIG.encode())
    plan = Plan(slot_change(config, ENTRY), tmp_path / "log", "true", read_policy("stage-b"), tmp_path / "out")
    assert list(receipt_of(journal)) == list(Outcome("now").as_json(plan))


def test_journal_of_an_older_version_is_read(config: Path) -> None:
    state, journal = left(config)
    data = json.loads(state.journal.read_text("utf-8"))
    for name in ("token", "process", "folder", "receipt"):
        del data[name]
    state.journal.write_text(json.dumps(data), "utf-8")
    assert state.read() == replace(journal, token=None, process=None, folder=None, receipt=None)


@pytest.mark.process
def test_restart_after_a_kill_runs_where_the_canary_ran(config: Path, tmp_path: Path) -> None:
    state, journal = left(config, restart="./restart.sh")
    (folder := tmp_path / "ops").mkdir()
    (folder / "restart.sh").write_text("#!/bin/sh\ntouch restarted\n", "utf-8")
    (folder / "restart.sh").chmod(0o755)
    state.write(replace(journal, folder=str(folder)))
    assert recover(config) is not None
    assert (folder / "restarted").exists()


@pytest.mark.slow
def test_commands_inherit_no_lock_no_pipe_and_no_ignored_signal(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway()
    seen = tmp_path / "seen.txt"
    look = f"ls -l /proc/self/fd >>{seen}; grep SigIgn /proc/self/status >>{seen}"
    words = gateway.words("--write", "--out", tmp_path / "out", "--golden", look)
    words[words.index("--restart") + 1] = f"{look}; {gateway.restart}"
    done = run_here(*words)
    assert done.returncode == 0, done.stderr
    lines = seen.read_text("utf-8").splitlines()
    ignored = [int(line.split()[1], 16) for line in lines if line.startswith("SigIgn")]
    # Switched, judged, and rolled back.
    assert len(ignored) == 3
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert not any(mask >> (number - 1) & 1 for mask in ignored)
    assert not [line for line in lines if "pipe:" in line or ".canary" in line]


@pytest.mark.slow
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), BrokenPipeError(), ValueError("closed file")])
def test_terminal_that_was_closed_does_not_end_the_rollback(
    make_gateway: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def closed(text: str) -> None:
        raise error

    gateway = make_gateway()
    monkeypatch.setattr(command, "announce", closed)
    done = run_here(*gateway.words("--write", "--out", tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert as_before(gateway)


@pytest.mark.process
def test_process_that_got_the_id_of_a_restart_is_not_ended(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    number, boot, start = identity(other.pid).split()
    for known in (f"{number} another-boot {start}", f"{number} {boot} 1"):
        (tmp_path / "restarting").write_text(known, "ascii")
        assert not is_running(known)
        await_orphan(tmp_path / "restarting", 0.0)
        assert other.poll() is None
    (tmp_path / "restarting").write_text(f"{number} {boot} {start}", "ascii")
    await_orphan(tmp_path / "restarting", 0.0)
    assert other.wait() == -signal.SIGKILL
    # A zombie is no process that runs.
    assert not is_running(f"{number} {boot} {start}")


@pytest.mark.process
def test_restart_begins_only_after_it_was_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.canary.rollout import commands

    noted = tmp_path / "restarting"
    ended = run_command(f"cat {noted}; echo; read -r line || echo no input", 5.0, process_file=noted)
    assert (ended.code, ended.last) == (0, "no input")
    known = noted.read_text("ascii").split()
    assert len(known) == 3

    def killed(process: subprocess.Popen[bytes], process_file: Path) -> None:
        assert process.stdin is not None
        process.stdin.close()

    monkeypatch.setattr(commands, "_begin", killed)
    assert run_command(f"touch {tmp_path}/begun", 5.0, process_file=noted).code == 1
    assert not (tmp_path / "begun").exists()
