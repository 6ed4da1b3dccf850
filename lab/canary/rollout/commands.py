"""Run the operator's commands: the restart of the gateway, the check that it is up, the golden check (CN-6).

While a rollback runs, a signal becomes an exception once, and a terminal that is gone is ignored.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.files import alive
from lab.base.formatting import Announce

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
# Seconds between two checks, and bytes of output that are kept for a message.
PAUSE, KEPT = 0.5, 4096
# The shell's codes of a command that does not exist or is no program.
_NO_COMMAND = (126, 127)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    # A second signal would end the rollback that follows the first one.
    _handle(_pass)
    raise KeyboardInterrupt(signal.Signals(number).name)


def _pass(number: int, frame: FrameType | None) -> None:
    """Do nothing. SIG_IGN would be inherited by the gateway that a restart command starts, which then ignores SIGTERM.

    A handler is set back to the default when a command is executed.
    """
    del number, frame


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt for the first signal that ends a command, ignore later ones; in the main thread alone."""
    with _handled(_interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore the signals that end a command, because a rollback that ends early is none; in the main thread alone."""
    with _handled(_pass):
        yield


def unfailing(tell: Announce) -> Announce:
    """Return a function that announces a text if that is possible.

    A terminal that was closed, or a reader of the output that ended, must not end a rollback.
    """

    def announce(text: str) -> None:
        with suppress(Exception):
            tell(text)

    return announce


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    before = _handle(handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _handle(handler: Any) -> dict[int, Any]:
    """Set the handler of signals; return the earlier handlers. A signal that is ignored stays so, as under nohup."""
    before: dict[int, Any] = {}
    for name in _ENDING:
        # AttributeError: a system without the signal. ValueError: not the main thread.
        with suppress(AttributeError, ValueError):
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    return before


class Ended(NamedTuple):
    """How a command ended: its exit code, None if it took too long, and the last line that it wrote."""

    code: int | None
    last: str

    def why(self, seconds: float) -> str:
        """Return how it failed, as the end of a sentence."""
        said = f": {self.last}" if self.last else ""
        if self.code is None:
            return f"took more than {seconds:g} s{said}"
        return f"ended with exit code {self.code}{said}"


class NoRestart(CannotMeasure):
    """The gateway could not be restarted."""


def run_command(
    command: str,
    seconds: float,
    output: IO[bytes] | None = None,
    process_file: Path | None = None,
    folder: str | None = None,
) -> Ended:
    """Run a command of the shell in a session of its own; end all of it after so many seconds.

    A daemon that it leaves behind is not waited for, even if it holds the output open. Signals of this terminal do not
    reach it. It inherits neither a lock nor a pipe of this process. ``output`` receives what it writes; else a
    temporary file, or nothing if the disk is full. It begins only after its identity was noted in ``process_file``, for
    :func:`await_orphan`. ``folder`` is where it runs, if that exists.
    """
    if output is not None:
        return _run(command, seconds, output, process_file, folder)
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below; a full disk must not stop a rollback
    except OSError:
        return _run(command, seconds, None, process_file, folder)
    with file:
        return _run(command, seconds, file, process_file, folder)


def _run(command: str, seconds: float, file: IO[bytes] | None, process_file: Path | None, folder: str | None) -> Ended:
    if process_file is not None:
        # If this process is killed before it noted the other one, the end of the input ends that.
        command = f"read -r _ || exit 1\nexec </dev/null\n{command}"
    # The command is the operator's own: the argument of an option, as in a crontab.
    process = subprocess.Popen(  # noqa: S603 - see above
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL if process_file is None else subprocess.PIPE,
        stdout=file or subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        cwd=folder if folder and Path(folder).is_dir() else None,
    )
    try:
        if process_file is not None:
            _begin(process, process_file)
        code: int | None = process.wait(seconds)
    except subprocess.TimeoutExpired:
        code = None
        end(process)
    except BaseException:
        end(process)
        raise
    return Ended(code, _last_line(file))


def _begin(process: subprocess.Popen[bytes], process_file: Path) -> None:
    """Note a shell that waits for a line, and give it the line."""
    # A full disk must not keep the command from running.
    with suppress(OSError):
        process_file.write_text(identity(process.pid), "ascii")
    if process.stdin is not None:
        with suppress(OSError):
            os.write(process.stdin.fileno(), b"\n")
        process.stdin.close()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with everything in its session, and wait for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def identity(process: int) -> str:
    """Return what names a process also after its id was given to another one: id, boot of the machine, time of start.

    The id alone where the system has no /proc, or no such process runs; a zombie does not.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        state, *fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return str(process)
    return f"{process} {boot} {fields[18].decode()}" if state not in (b"Z", b"X") else str(process)


def is_running(known: str) -> bool:
    """Return whether the process of an :func:`identity` is running."""
    number = known.partition(" ")[0]
    if not number.isdecimal():
        return False
    return identity(int(number)) == known if " " in known else alive(int(number))


def await_orphan(process_file: Path, seconds: float) -> None:
    """Wait for a restart command that outlived the canary that started it; end it after so many seconds.

    Otherwise it could start the gateway with the switched configuration after the rollback restarted it. It is ended
    only if it is certainly that command, and no other process that has got its id.
    """
    try:
        known = process_file.read_text("ascii").strip()
    except (OSError, ValueError):
        return
    last = time.monotonic() + seconds
    while is_running(known):
        if time.monotonic() > last:
            process = int(known.partition(" ")[0])
            with suppress(OSError):
                if " " in known and os.getsid(process) == process:
                    os.killpg(process, signal.SIGKILL)
            return
        time.sleep(0.05)


def restart_gateway(
    command: str, check: str | None, seconds: float, process_file: Path, folder: str | None = None
) -> None:
    """Restart the gateway and wait until the check succeeds. Raises :class:`NoRestart`, which says why."""
    begun = time.monotonic()
    ended = run_command(command, seconds, process_file=process_file, folder=folder)
    with suppress(OSError):
        process_file.unlink()
    if ended.code != 0:
        missing = " (is the command spelt right?)" if ended.code in _NO_COMMAND else ""
        raise NoRestart(f"the restart command {ended.why(seconds)}{missing}")
    if check is None:
        return
    while True:
        left = seconds - (time.monotonic() - begun)
        ended = run_command(check, max(left, PAUSE), folder=folder)
        if ended.code == 0:
            return
        if left <= PAUSE:
            raise NoRestart(f"the gateway was restarted, but the check {ended.why(seconds)}")
        time.sleep(PAUSE)


def _last_line(file: IO[bytes] | None) -> str:
    if file is None:
        return ""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - KEPT))
    lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
