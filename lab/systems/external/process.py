"""A host as a child process: requests on stdin, answers on stdout, stderr kept apart (EX-2, EX-7, EX-8)."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lab.systems.external.protocol import MOST_BYTES, HostFailed

KEEPER = Path(__file__).with_name("keeper.py")
# Variables that every host receives, if they are set; others must be named (EX-9).
PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "NODE_PATH")
# Variables with a fixed value: hash order is part of what a Python system computes, and nothing is sent home.
FIXED = {"PYTHONHASHSEED": "0", "DO_NOT_TRACK": "1"}
# How much of stderr is kept.
MOST_STDERR = 64_000
_PIECE = 1 << 16
# Seconds that the keeper may take to kill everything.
_PATIENCE = 5.0


def environment(home: Path, names: Sequence[str], outer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a host (EX-9): the allowed variables of ``outer``, those of ``names``, and its home."""
    homes = dict.fromkeys(("HOME", "TMPDIR", "TMP", "TEMP"), str(home))
    passed = {name: outer[name] for name in (*PASSED, *names) if name in outer}
    return {**homes, **FIXED, **passed}


class ProcessChannel:
    """One running host. All its processes end with it, and with the lab.

    It uses no thread: while a request is sent and its answer awaited, both pipes and stderr are served together.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        theirs, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user gave the command
                [sys.executable, "-I", "-S", str(KEEPER), str(theirs), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                pass_fds=(theirs,),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            os.close(self._lifeline)
            raise HostFailed("died", error.strerror or "") from None
        finally:
            os.close(theirs)
        self._selector = selectors.DefaultSelector()
        self._handles: dict[str, int] = {}
        for name in ("stdin", "stdout", "stderr"):
            pipe = getattr(self._process, name)
            os.set_blocking(pipe.fileno(), False)
            self._handles[name] = pipe.fileno()
        for name in ("stdout", "stderr"):
            self._selector.register(self._handles[name], selectors.EVENT_READ, name)
        self._received = bytearray()
        # How far the received bytes have no end of a line.
        self._searched = 0
        self._errors: deque[bytes] = deque()
        self._is_open = True

    def ask(self, line: bytes, seconds: float, op: str) -> bytes:
        """Send a line and return the next line of stdout. Raises :class:`HostFailed`.

        The next line is the answer if the host keeps to the protocol; lines that it wrote before are found here too.
        """
        until = time.monotonic() + seconds
        left = memoryview(line)
        self._selector.register(self._handles["stdin"], selectors.EVENT_WRITE, "stdin")
        writes = True
        try:
            while True:
                # What came before the request was sent is taken after it, so that a breach does not depend on timing.
                if (answer := None if left else self._next_line()) is not None:
                    return answer
                remaining = until - time.monotonic()
                if remaining <= 0:
                    raise HostFailed("timed_out", f"{seconds:g} s", op)
                for key, _ in self._selector.select(remaining):
                    if key.data == "stdin":
                        left = self._send(left)
                        if not left:
                            self._selector.unregister(key.fd)
                            writes = False
                    elif key.data == "stderr":
                        self._keep_errors()
                    elif not self._receive():
                        self._keep_errors()
                        raise HostFailed("died", self._end(until), op)
                self._require_room(op)
        finally:
            if writes:
                self._selector.unregister(self._handles["stdin"])

    def close(self, seconds: float) -> None:
        """Close stdin, wait for the host to end, and kill all that is left of it."""
        if not self._is_open:
            return
        self._is_open = False
        self._selector.close()
        for name in ("stdin", "stdout"):
            getattr(self._process, name).close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        os.close(self._lifeline)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._keep_errors()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def errors(self) -> str:
        """Return the end of what it wrote to stderr. It may quote texts, so it is for the cache only."""
        return b"".join(self._errors)[-MOST_STDERR:].decode(errors="replace")

    def _next_line(self) -> bytes | None:
        """Remove and return the first complete line received, or None."""
        end = self._received.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._received)
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        return line

    def _send(self, left: memoryview) -> memoryview:
        try:
            return left[os.write(self._handles["stdin"], left[:_PIECE]) :]
        except BlockingIOError:
            return left
        except OSError:
            # It has closed stdin; what it still says on stdout tells why.
            return left[len(left) :]

    def _receive(self) -> bool:
        """Read what there is on stdout; return False at its end."""
        try:
            piece = os.read(self._handles["stdout"], _PIECE)
        except BlockingIOError:
            return True
        self._received += piece
        return bool(piece)

    def _require_room(self, op: str) -> None:
        if len(self._received) > MOST_BYTES:
            raise HostFailed("line_too_long", f"{MOST_BYTES} bytes", op)

    def _keep_errors(self) -> None:
        with suppress(OSError, ValueError):
            while piece := os.read(self._handles["stderr"], _PIECE):
                self._errors.append(piece)
                while len(self._errors) > 1 and sum(map(len, self._errors)) - len(self._errors[0]) >= MOST_STDERR:
                    self._errors.popleft()
            with suppress(KeyError):
                self._selector.unregister(self._handles["stderr"])

    def _end(self, until: float) -> str:
        """Return how the host ended, after its stdout has."""
        try:
            code = self._process.wait(max(0.1, min(1.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            return "stdout closed"
        half = "; half a line" if self._received else ""
        return (f"signal {-code}" if code < 0 else f"exit {code}") + half
