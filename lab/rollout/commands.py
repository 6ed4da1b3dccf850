"""Run the operator's commands: the restart of the gateway, the check that it is up, the golden check (CN-6)."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from lab.errors import CannotMeasure

# Seconds between two checks, and bytes of output that are kept for a message.
PAUSE, KEPT = 0.5, 4096
# The shell's codes of a command that does not exist or is no program.
_NO_COMMAND = (126, 127)


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
    command: str, seconds: float, output: IO[bytes] | None = None, process_file: Path | None = None
) -> Ended:
    """Run a command of the shell in a session of its own; end all of it after so many seconds.

    A daemon that it leaves behind is not waited for, even if it holds the output open. Signals of this terminal do not
    reach it. ``output`` receives what it writes; else a temporary file, or nothing if the disk is full. The shell notes
    its process id in ``process_file`` before it begins, for :func:`await_orphan`.
    """
    if process_file is not None:
        # A full disk must not keep the command from running.
        command = f"{{ echo $$ >{shlex.quote(str(process_file))}; }} 2>/dev/null\n{command}"
    if output is not None:
        return _run(command, seconds, output)
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below; a full disk must not stop a rollback
    except OSError:
        return _run(command, seconds, None)
    with file:
        return _run(command, seconds, file)


def _run(command: str, seconds: float, file: IO[bytes] | None) -> Ended:
    # The command is the operator's own: the argument of an option, as in a crontab.
    process = subprocess.Popen(  # noqa: S603 - see above
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=file or subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        code: int | None = process.wait(seconds)
    except subprocess.TimeoutExpired:
        code = None
        end(process)
    except BaseException:
        end(process)
        raise
    return Ended(code, _last_line(file))


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with everything in its session, and wait for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def await_orphan(process_file: Path, seconds: float) -> None:
    """Wait for a restart command that outlived the canary that started it; end it after so many seconds.

    Otherwise it could start the gateway with the switched configuration after the rollback restarted it.
    """
    try:
        process = int(process_file.read_text("ascii"))
    except (OSError, ValueError):
        return
    last = time.monotonic() + seconds
    while _leads_a_session(process):
        if time.monotonic() > last:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process, signal.SIGKILL)
            return
        time.sleep(0.05)


def _leads_a_session(process: int) -> bool:
    """Return whether a process is running and leads a session, as every command that is started here does."""
    try:
        return os.getsid(process) == process
    except OSError:
        return False


def restart_gateway(command: str, check: str | None, seconds: float, process_file: Path) -> None:
    """Restart the gateway and wait until the check succeeds. Raises :class:`NoRestart`, which says why."""
    begun = time.monotonic()
    ended = run_command(command, seconds, process_file=process_file)
    with suppress(OSError):
        process_file.unlink()
    if ended.code != 0:
        missing = " (is the command spelt right?)" if ended.code in _NO_COMMAND else ""
        raise NoRestart(f"the restart command {ended.why(seconds)}{missing}")
    if check is None:
        return
    while True:
        left = seconds - (time.monotonic() - begun)
        ended = run_command(check, max(left, PAUSE))
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
