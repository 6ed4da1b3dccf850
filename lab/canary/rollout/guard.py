"""Run a second process, the guard, which rolls a canary back if the canary's own process ends early (CN-7).

The guard imports little and has imported all of it before anything is switched, so nothing that happens to the disk, to
the packages or to the memory of the machine meanwhile keeps it from its work. This module is both sides: what the
canary does, and :func:`main`, which is the guard.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

from lab.base.errors import CannotMeasure, InUse, LabError, describe_unexpected
from lab.base.formatting import Announce, silent, without_credentials
from lab.canary.rollout.commands import undisturbed
from lab.canary.rollout.journal import FAILED, GRACE, GUARD_LOG, Journal, State, now
from lab.canary.rollout.recover import Edited, RolledBack, recover

# Seconds in which a guard must be ready on a busy machine; how often one that ended is replaced; and the seconds before
# a guard tries to roll back again.
READY, MOST, PAUSES = 60.0, 5, (2.0, 10.0, 30.0)
_READY = b"ready\n"


class NoGuard(CannotMeasure):
    """The guard did not start."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a guard must know: the configuration, the canary by token and process id, its folder, and how to roll back.

    ``terminal`` is an open file of the canary's terminal.
    """

    config: str
    token: str
    canary: int
    out: str
    keep_edits: bool
    terminal: int | None


class Guard:
    """The side of the canary: it starts the guard, replaces one that ends, and ends it."""

    def __init__(self, state: State, journal: Journal, *, keep_edits: bool, tell: Announce, note: Announce) -> None:
        self._state, self._tell, self._note = state, tell, note
        self._token, self._out, self._keep_edits = str(journal.token), Path(journal.out), keep_edits
        self._lock, self._over = threading.Lock(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._replace, name="guard", daemon=True)

    @property
    def process(self) -> int:
        """Return the process id of the guard."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start the guard, and wait until it is ready. Raises :class:`NoGuard`."""
        try:
            self._spawn()
        except BaseException:
            self._end()
            raise
        self._thread.start()

    def stop(self) -> None:
        """End the guard; it has nothing to do any more."""
        with self._lock:
            self._over.set()
        if self._process is not None:
            self._process.kill()
        if self._thread.ident is not None:
            self._thread.join()
        # Only now: the thread may read from a pipe of the guard.
        self._end()

    def _end(self) -> None:
        guard = self._process
        if guard is None:
            return
        guard.kill()
        guard.wait()
        for pipe in (guard.stdin, guard.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _spawn(self) -> None:
        try:
            terminal: int | None = os.dup(2)
        except OSError:
            terminal = None
        try:
            task = Task(str(self._state.config), self._token, os.getpid(), str(self._out), self._keep_edits, terminal)
            size = _size(self._out / GUARD_LOG)
            with _opened(self._out / GUARD_LOG) as log, self._lock:
                if self._over.is_set():
                    return
                self._process = guard = subprocess.Popen(  # noqa: S603 - this interpreter with fixed words
                    guard_command(task),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=() if terminal is None else (terminal,),
                )
        except OSError as error:
            raise NoGuard(f"the guard did not start: {error.strerror}") from None
        finally:
            if terminal is not None:
                os.close(terminal)
        if not (ready := _is_ready(guard)):
            late = ready is None
            with suppress(subprocess.TimeoutExpired):
                # Its pipe ends before the process does, which then says how.
                guard.wait(0.0 if late else GRACE)
            guard.kill()
            code = guard.wait()
            why = f"it was not ready within {READY:g} s" if late else f"it ended with exit code {code}"
            said = "" if late else _last_line(self._out / GUARD_LOG, size)
            raise NoGuard(f"the guard did not start: {why}{said and f' ({said})'}")

    def _replace(self) -> None:
        """Start another guard whenever one ends before it is to."""
        for number in range(1, MOST + 1):
            guard = self._process
            if guard is None:
                return
            code = guard.wait()
            with self._lock:
                if self._over.is_set():
                    return
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            why = f"the guard {how} at {now()}"
            failed = f"it was the guard number {MOST}" if number == MOST else self._another()
            if failed:
                if not self._over.is_set():
                    self._say(
                        f"{why}, and there is no other: {failed}; if this process is killed now, roll back with: "
                        f"{self._state.command}"
                    )
                return
            if not self._over.is_set():
                self._say(f"{why}; another one, process {self.process}, was started")

    def _another(self) -> str | None:
        """Start another guard; return why that failed, or None."""
        self._end()
        try:
            self._spawn()
        except NoGuard as error:
            return str(error)
        return None

    def _say(self, text: str) -> None:
        self._note(text)
        self._tell(f"WARNING: {text}")


@contextmanager
def guarded(
    state: State,
    journal: Journal,
    *,
    wanted: bool = True,
    required: bool = True,
    keep_edits: bool = False,
    tell: Announce = silent,
    note: Announce = silent,
) -> Iterator[None]:
    """Run a guard until the end of the block, or until an error that an operator must deal with.

    It is ready when the block begins. ``tell`` receives beforehand what to do if the guard is killed as well. A guard
    that ends meanwhile is replaced, and ``note`` receives that. After any other exception, such as a signal just before
    the rollback, the guard stays, and recovers when this process ends. Raises :class:`NoGuard` if it does not start,
    unless it is not ``required``.
    """
    if not wanted:
        tell(f"without a guard: if this process is killed, roll back with: {state.command}")
        yield
        return
    guard = Guard(state, journal, keep_edits=keep_edits, tell=tell, note=note)
    try:
        guard.start()
    except NoGuard as error:
        if required:
            raise
        note(str(error))
        tell(f"WARNING: {error}; if this process is killed, roll back with: {state.command}")
    else:
        tell(
            f"guard: process {guard.process} rolls back if this one is killed; if both are, or the power fails: "
            f"{state.command}"
        )
    try:
        yield
    except (LabError, OSError):
        guard.stop()
        raise
    guard.stop()


def guard_command(task: Task) -> list[str]:
    """Return the command of the guard, which finds the modules that this process has, wherever that was started."""
    start = f"import sys; sys.path[:] = {sys.path!r}; from lab.canary.rollout.guard import main; main()"
    return [sys.executable, "-P", "-c", start, json.dumps(asdict(task))]


def main() -> None:
    """Be the guard: wait for the end of standard input, which is that of the canary, then recover."""
    task = Task(**json.loads(sys.argv[1]))
    record = Record(task)
    with undisturbed():
        record.say(f"waits for the end of canary {task.canary}")
        with suppress(OSError):
            os.write(1, _READY)
        with suppress(ImportError):
            # Needed for a configuration that was edited; a package could be replaced while the canary runs.
            import_module("json5")
        while os.read(0, 4096):
            pass
        # Its pipes end before it has ended; its lock is released later still.
        while os.getppid() == task.canary:
            time.sleep(0.01)
        _recover(task, record)


class Record:
    """What a guard did, for the operator: lines in the canary's folder, beside the journal, and on its terminal."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._files = [Path(task.out) / GUARD_LOG]

    @contextmanager
    def beside(self, state: State) -> Iterator[None]:
        """Write beside the journal as well, after the canary has ended and until all is done."""
        self._files.append(state.guard_log)
        yield
        self._files.pop()

    def say(self, text: str) -> None:
        """Append a line with the time; a full disk or a folder that is gone does not matter."""
        said = " ".join(without_credentials(text).split())
        line = f"{now()} guard {os.getpid()}: {said}\n".encode("utf-8", "replace")
        for file in self._files:
            with suppress(OSError):
                handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(handle, line)
                finally:
                    os.close(handle)

    def tell(self, text: str) -> None:
        """Write a line to the terminal of the canary, if that takes it at once."""
        terminal = self._task.terminal
        with suppress(OSError, ValueError):
            if terminal is not None and select.select([], [terminal], [], 0.0)[1]:
                os.write(terminal, f"lab canary guard: {without_credentials(text)}\n".encode("utf-8", "replace"))


def _recover(task: Task, record: Record) -> None:
    """Roll back, and say what was done."""
    state = State(Path(task.config))
    if not state.folder.is_dir():
        record.say(f"canary {task.canary} ended; there is nothing to roll back")
        return
    with record.beside(state):
        record.say(f"canary {task.canary} ended; begins to roll back")
        done = _attempts(state, task, record)
    if done is None:
        record.say("there was nothing to roll back, or somebody else did it")
        return
    again = " and restarted the gateway" if done.restarted else ""
    record.say(f"put back {state.config}{again}")
    for text in done.notes:
        record.say(f"note: {text}")
    record.tell(f"canary {task.canary} ended early; put back {state.config}{again}")


def _attempts(state: State, task: Task, record: Record) -> RolledBack | None:
    """Roll back, with some more attempts if the gateway does not restart or the disk does not take a file."""
    for pause in (*PAUSES, None):
        try:
            return recover(state.config, keep_edits=task.keep_edits, tell=record.say, only=task.token)
        except Exception as error:
            if isinstance(error, InUse) and _is_anothers(state, task):
                return None
            is_known = isinstance(error, LabError | OSError)
            why = str(error) if is_known else describe_unexpected(error)
            if pause is None or not is_known or isinstance(error, Edited | InUse):
                record.say(f"{FAILED}{why}")
                first = "" if state.command in why else f"; first: {state.command}"
                record.tell(f"canary {task.canary} ended early. NOT ROLLED BACK: {why}{first}")
                # The traceback of a bug goes to the log.
                raise SystemExit(LabError.exit_code) if is_known else error from None
            record.say(f"{why}; tries again in {pause:g} s")
            time.sleep(pause)
    return None


def _is_anothers(state: State, task: Task) -> bool:
    """Return whether somebody recovered, and another canary is going on."""
    with suppress(LabError):
        journal = state.read()
        return journal is not None and journal.token not in (None, task.token)
    return False


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    """Open a file for what the interpreter of a guard prints, if it can be written."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        yield subprocess.DEVNULL
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _is_ready(guard: subprocess.Popen[bytes]) -> bool | None:
    """Return whether a guard says that it is ready; False if it ends before, None after :data:`READY` seconds."""
    last, said = time.monotonic() + READY, b""
    while guard.stdout is not None and said != _READY:
        if not select.select([guard.stdout], [], [], max(last - time.monotonic(), 0.0))[0]:
            return None
        part = os.read(guard.stdout.fileno(), len(_READY))
        if not part:
            return False
        said += part
    return True


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _last_line(file: Path, start: int) -> str:
    """Return the last line of a file after a position: the exception that ended an interpreter."""
    try:
        lines = file.read_bytes()[start:].decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
