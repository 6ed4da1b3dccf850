"""A host behind one URL: every request is the body of a POST, every answer the body of a 200 (EX-3, EX-10)."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from lab.base.errors import UnusableInput
from lab.base.formatting import without_credentials
from lab.embedding.http import NoAnswer, is_loopback, post
from lab.systems.external.protocol import MOST_BYTES, HostFailed


class EndpointChannel:
    """One instance of a host behind ``url``. The key is read from the variable ``key_env`` and sent in one header."""

    def __init__(self, url: str, key_env: str | None) -> None:
        self._url, self._key_env = url, key_env

    def ask(self, line: bytes, seconds: float, op: str) -> bytes:
        """Send a line and return the body of the response. Raises :class:`HostFailed`, which never quotes a body."""
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


def checked_url(url: str, where: str, *, allow_remote: bool) -> str:
    """Return the URL of a host; raise :class:`UnusableInput` unless requests to it are allowed (EX-10)."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise UnusableInput(f"{where}: {without_credentials(url)!r} is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UnusableInput(f"{where}: {without_credentials(url)!r}: expected http://HOST:PORT/PATH or https://…")
    if without_credentials(url) != url or parts.username is not None or parts.password is not None:
        raise UnusableInput(
            f"{where}: {without_credentials(url)}: holds a password or a key; put it into an environment variable and "
            "name that: with key_env in the arm's file, keyEnv in lab.rerank, or --rerank-key-env"
        )
    if not (allow_remote or is_loopback(host)):
        raise UnusableInput(
            f"{where}: {host} is another machine, and texts would be sent there; allow it with --allow-remote, "
            "or in the arm's file if it has one"
        )
    return url
