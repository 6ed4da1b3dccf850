"""Run a command for the preflight (E-91), with limits on its time and its output."""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from lab.memory.tools.preflight import Ran

# What is read of each of the two outputs.
MAX_OUTPUT_BYTES = 1 << 20
TIMED_OUT, TOO_MUCH = "ETIMEDOUT", "ERR_CHILD_PROCESS_STDIO_MAXBUFFER"


def run_command(argv: Sequence[str], timeout_ms: int) -> Ran:
    """Run a command without a shell and return what it did. It and its children are killed at the time limit.

    A command that prints more than 1 MiB is killed as well. Nothing is raised for a command that cannot be started.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator configures the command
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # A ValueError is a null character in the command.
        number = (error.errno if isinstance(error, OSError) else None) or errno.EINVAL
        why = f"the command cannot be started: {os.strerror(number)}"
        return Ran(False, None, error_code=errno.errorcode.get(number, str(number)), error_message=why)
    end = time.monotonic() + timeout_ms / 1000
    with process:
        output, failure = _read(process, end)
        if failure is None:
            try:
                process.wait(timeout=max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                failure = TIMED_OUT
        if failure is not None:
            _kill(process)
        code = process.wait()
    stdout, stderr = (part.decode("utf-8", "replace") for part in output)
    if failure is not None:
        why = "took too long" if failure == TIMED_OUT else f"printed more than {MAX_OUTPUT_BYTES} bytes"
        return Ran(False, None, stdout, stderr, failure, f"the command {why} and was stopped (limit {timeout_ms} ms)")
    if code < 0:
        return Ran(False, None, stdout, stderr, signal.Signals(-code).name, "the command was killed by a signal")
    ended = None if code == 0 else f"the command ended with exit code {code}"
    return Ran(code == 0, code, stdout, stderr, None, ended)


def _read(process: subprocess.Popen[bytes], end: float) -> tuple[tuple[bytes, bytes], str | None]:
    """Return both outputs, and the limit that was exceeded, if any."""
    parts: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ)
                parts[stream.fileno()] = bytearray()
        failure = None
        while selector.get_map() and failure is None:
            rest = end - time.monotonic()
            ready = selector.select(rest) if rest > 0 else []
            if not ready:
                failure = TIMED_OUT
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                parts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(parts[key.fd]) > MAX_OUTPUT_BYTES:
                    failure = TOO_MUCH
    stdout, stderr = (bytes(part) for part in parts.values())
    return (stdout, stderr), failure


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
