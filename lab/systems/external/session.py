"""One instance of a host: the requests of one conversation in order, or of one probe (EX-12, EX-14)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from lab.systems.external.protocol import HostFailed, body_of, request_line, result_of


class Channel(Protocol):
    """How requests reach a host."""

    def ask(self, line: bytes, seconds: float, op: str) -> bytes:
        """Send a request and return the line of the answer. Raises :class:`HostFailed`."""
        ...

    def close(self, seconds: float) -> None:
        """End the host."""
        ...

    def errors(self) -> str:
        """Return the end of its stderr."""
        ...


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
        """Ask the host to close unless it has failed, and end it; what it does then affects no result."""
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
        self._gone: set[str] = set()
        self.unkept: set[str] = set()

    def remember(self, keys: Collection[str], ids: Mapping[str, str | None]) -> None:
        """Take the ids of memories. Raises :class:`HostFailed` for an id of a memory that was not given."""
        if not ids.keys() <= {*keys}:
            raise HostFailed("bad_result", "ids", "remember")
        for key in keys:
            identity = ids.get(key, key)
            if identity is None:
                self.unkept.add(key)
            else:
                self._keys.setdefault(identity, []).append(key)

    def forget(self, keys: Iterable[str]) -> None:
        """Take back memories."""
        self._gone.update(keys)

    def key_of(self, identity: str) -> str:
        """Return the key that an id stands for: of several, the first that is still there; else the id itself."""
        keys = self._keys.get(identity)
        if not keys:
            return identity
        return next((key for key in keys if key not in self._gone), keys[0])


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
            self._ids.remember([memory["key"] for memory in request.fields["memories"]], result["ids"])
        elif request.op == "forget":
            self._ids.forget(request.fields["keys"])
        here, there = _created(request.op, result), _created(request.op, expected)
        if [memory["text"] for memory in here] != [memory["text"] for memory in there]:
            raise HostFailed("not_repeatable", "", request.op)
        self._created.update(zip((memory["id"] for memory in here), (memory["id"] for memory in there), strict=True))

    def recall(self, request: Request) -> tuple[dict[str, Any], int]:
        """Return the answer to the probe in terms of the first instance, and its time."""
        result, spent = self._session.ask(request)
        items = [{**item, "id": self._named(item["id"])} for item in result["items"]]
        return {**result, "items": items, "pinned": [self._named(identity) for identity in result["pinned"]]}, spent

    def _named(self, identity: str) -> str:
        return self._created.get(identity) or self._ids.key_of(identity)


def _created(op: str, result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    writes = result.get("writes") if op == "recall" else result
    return list((writes or {}).get("created", ()))
