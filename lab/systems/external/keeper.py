"""Run one command, and end everything that it started when it ends or the lab does (EX-8).

    python -I -S keeper.py LIFELINE COMMAND…

The lab holds the other end of the pipe ``LIFELINE``. When it is closed, even because the lab was killed, or when the
command ends, all processes of the command are killed: its process group, and on Linux also those that left the group,
because the keeper adopts orphans. It imports nothing of the lab, so that it starts fast.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

_SET_CHILD_SUBREAPER = 36
# Seconds to wait for killed processes to disappear.
PATIENCE = 3.0


def main(lifeline: int, command: list[str]) -> None:
    """Run the command, then end as it ended: with its exit code, or by its signal."""
    _adopt_orphans()
    wake, waker = os.pipe()
    for handle in (wake, waker):
        os.set_blocking(handle, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    child = os.fork()
    if not child:
        _become(lifeline, command)
    with suppress(OSError):
        os.setpgid(child, child)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        # The pipes belong to the command: the lab must see their ends.
        os.dup2(nothing, standard)
    ended: dict[int, int] = {}
    while child not in ended:
        ready, _, _ = select.select([lifeline, wake], [], [])
        if lifeline in ready:
            break
        with suppress(BlockingIOError):
            os.read(wake, 4096)
        _reap(ended)
    _kill_all(child, ended)
    status = ended.get(child, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _become(lifeline: int, command: list[str]) -> None:
    """Replace this process with the command, in a process group of its own; exit with 127 if that is not possible."""
    try:
        os.setpgid(0, 0)
        os.close(lifeline)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 - no shell is meant
    except OSError as error:
        os.write(2, f"cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _adopt_orphans() -> None:
    """Become the parent of all orphaned descendants; only Linux can."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(ended: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            ended[process] = status


def _kill_all(child: int, ended: dict[int, int]) -> None:
    """Kill the process group of the command and all descendants, until none is left."""
    until = time.monotonic() + PATIENCE
    while True:
        with suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        for process in _descendants():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        _reap(ended)
        if (child in ended and not _descendants()) or time.monotonic() > until:
            return
        time.sleep(0.002)


def _descendants() -> list[int]:
    """Return all processes below this one, from /proc; empty where there is none."""
    parents: dict[int, int] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                    # The name of the command is in parentheses and may contain anything.
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    below = {os.getpid()}
    children: list[int] = []
    while more := [process for process, parent in parents.items() if parent in below and process not in below]:
        below.update(more)
        children += more
    return children


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
