"""How requests reach a host, and one instance of it: the requests of one conversation in order, or of one probe.

A host is a child process, with requests on stdin, answers on stdout and stderr kept apart (EX-2, EX-7, EX-8), or is
behind one URL, where a request is the body of a POST and its answer that of a 200 (EX-3, EX-10). A session gives its
requests numbers and checks the answers (EX-12, EX-14).
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lab.systems.external.protocol import MOST_BYTES, HostFailed, body_of, request_line, result_of


class EndpointChannel:
    """One instance of a host behind ``url``. The key is read from the variable ``key_env`` and sent in one header."""

    def __init__(self, url: str, key_env: str | None) -> None:
        self._url, self._key_env = url, key_env

    def ask(self, line: bytes, seconds: float, op: str) -> bytes:
        """Send a line and return the body of the response. Raises :class:`HostFailed`, which never quotes a body."""
        # Most sessions are of processes, and few runs have any.
        from lab.embedding.http import NoAnswer, post

        key = os.environ.get(self._key_env, "") if self._key_env else ""
        try:
            answer = post(self._url, line, {"Authorization": f"Bearer {key}"} if key else {}, seconds, in_total=True)
        except NoAnswer as error:
            if error.late:
                raise HostFailed("timed_out", f"{seconds:g} s", op) from None
            raise HostFailed("no_answer", str(error), op) from None
        if answer.status != 200:
            raise HostFailed(f"http_{answer.status}", "", op)
        if len(answer.body) > MOST_BYTES:
            raise HostFailed("line_too_long", f"{MOST_BYTES} bytes", op)
        return answer.body.strip()

    def close(self, seconds: float) -> None:
        """Do nothing: the endpoint belongs to others."""

    def errors(self) -> str:
        """Return nothing: an endpoint has no stderr here."""
        return ""


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


Channel = EndpointChannel | ProcessChannel


class Request(NamedTuple):
    """An operation and its fields; ``body`` is their JSON."""

    op: str
    fields: Mapping[str, Any]
    body: bytes

    @classmethod
    def of(cls, op: str, fields: Mapping[str, Any]) -> Request:
        """Return a request with its JSON."""
        return cls(op, fields, body_of(fields))


class Session:
    """A host that answers one request after the other."""

    def __init__(self, channel: Channel, timeouts: Mapping[str, float]) -> None:
        self.channel = channel
        self._timeouts = timeouts
        self._instance = secrets.token_hex(8)
        self._number = 0

    def ask(self, request: Request) -> tuple[dict[str, Any], int]:
        """Return the checked result, and the time to the answer in nanoseconds. Raises :class:`HostFailed`."""
        self._number += 1
        op = request.op
        line = request_line(self._number, self._instance, op, request.body)
        started = time.perf_counter_ns()
        answer = self.channel.ask(line, self._timeouts[op], op)
        spent = time.perf_counter_ns() - started
        return result_of(answer, self._number, op), spent

    def close(self, *, politely: bool = True) -> None:
        """Send ``close`` unless the host has failed, and end it; what it does then affects no result."""
        try:
            if politely:
                self.ask(Request.of("close", {}))
        except HostFailed:
            politely = False
        finally:
            self.channel.close(self._timeouts["close"] if politely else 0.0)


class HostIds:
    """The ids that a host gives to the memories that it receives (EX-13)."""

    def __init__(self) -> None:
        self._keys: dict[str, list[str]] = {}
        self._texts: dict[str, str] = {}
        self._gone: set[str] = set()
        self.unkept: set[str] = set()

    def remember(self, texts: Mapping[str, str], ids: Mapping[str, str | None]) -> None:
        """Take the ids of memories, whose texts are given by key.

        Raises :class:`HostFailed` for an id of a memory that was not given.
        """
        if not ids.keys() <= texts.keys():
            raise HostFailed("bad_result", "ids", "remember")
        self._texts.update(texts)
        for key in texts:
            identity = ids.get(key, key)
            if identity is None:
                self.unkept.add(key)
            else:
                self._keys.setdefault(identity, []).append(key)

    def forget(self, keys: Iterable[str]) -> None:
        """Take back memories."""
        self._gone.update(keys)

    def key_of(self, identity: str, text: str | None = None) -> str:
        """Return the key that an id stands for, else the id itself.

        Of several that are still there, it is the one with this text, else the first.
        """
        keys = self._keys.get(identity)
        if not keys:
            return identity
        present = [key for key in keys if key not in self._gone] or keys
        return next((key for key in present if self._texts[key] == text), present[0])


class ProbeInstance:
    """A fresh instance that repeats the requests of a first one and then answers one probe (EX-15).

    Ids may differ between instances: the n-th memory that this one creates stands for the n-th of the first.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ids = HostIds()
        self._created: dict[str, str] = {}

    def follow(self, request: Request, expected: Mapping[str, Any] | None) -> None:
        """Repeat a request; ``expected`` is the first instance's result, None if it answered with an error.

        Raises :class:`HostFailed` with ``not_repeatable`` if this instance creates other memories.
        """
        try:
            result, _ = self._session.ask(request)
        except HostFailed as error:
            if error.kind == "host_error" and expected is None:
                return
            raise
        if expected is None:
            raise HostFailed("not_repeatable", "", request.op)
        if request.op == "remember":
            self._ids.remember({memory["key"]: memory["text"] for memory in request.fields["memories"]}, result["ids"])
        elif request.op == "forget":
            self._ids.forget(request.fields["keys"])
        here, there = _created(request.op, result), _created(request.op, expected)
        if [memory["text"] for memory in here] != [memory["text"] for memory in there]:
            raise HostFailed("not_repeatable", "", request.op)
        self._created.update(zip((memory["id"] for memory in here), (memory["id"] for memory in there), strict=True))

    def recall(self, request: Request) -> tuple[dict[str, Any], int]:
        """Return the answer to the probe in terms of the first instance, and its time."""
        result, spent = self._session.ask(request)
        items = [{**item, "id": self._named(item["id"], item.get("text"))} for item in result["items"]]
        return {**result, "items": items, "pinned": [self._named(identity) for identity in result["pinned"]]}, spent

    def _named(self, identity: str, text: str | None = None) -> str:
        return self._created.get(identity) or self._ids.key_of(identity, text)


def _created(op: str, result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    writes = result.get("writes") if op == "recall" else result
    return list((writes or {}).get("created", ()))
