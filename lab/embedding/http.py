"""One POST of JSON to an endpoint, with nothing around it: no redirect is followed, nothing is retried or logged.

The key goes into one header of one request, and into no message.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

# Bytes. 256 vectors of 4,096 numbers as JSON come to some 25 MB.
MOST_BYTES = 64_000_000
_PIECE = 1 << 16


class Answer(NamedTuple):
    """What an endpoint answered. ``retry_after`` is in seconds; None where it names none."""

    status: int
    body: bytes
    retry_after: float | None


class NoAnswer(Exception):
    """There was no whole answer; the text says why.

    ``final``: asking again would change nothing. ``late``: the time was up.
    """

    def __init__(self, why: str, *, final: bool = False, late: bool = False) -> None:
        super().__init__(why)
        self.final, self.late = final, late


class _NoRedirect(HTTPRedirectHandler):
    """Leave a redirect as the answer that it is: the key is for one address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing."""


def post(url: str, payload: bytes, headers: Mapping[str, str], seconds: float) -> Answer:
    """Send ``payload`` as JSON and return the whole answer, whatever its status.

    ``seconds`` bound each wait for the network, and the reading of the body. Proxies of the environment are used for
    https alone, where they see nothing of what is sent. Raises :class:`NoAnswer`.
    """
    request = Request(url, payload, {"Content-Type": "application/json", "User-Agent": "recall-lab", **headers})  # noqa: S310 - the scheme was checked
    opener = build_opener(ProxyHandler(None if request.type == "https" else {}), _NoRedirect())
    try:
        try:
            found = opener.open(request, timeout=seconds)
        except HTTPError as error:
            found = error
        with found:
            return Answer(found.status or 0, _body(found, seconds), _seconds(found.headers.get("Retry-After")))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _no_answer(error) from None


def _body(found: Any, seconds: float) -> bytes:
    """All of a body, within the time and size that it may have."""
    until = time.monotonic() + seconds
    pieces: list[bytes] = []
    size = 0
    while piece := found.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise NoAnswer(f"answers with more than {MOST_BYTES / 1e6:.0f} MB", final=True)
        if time.monotonic() > until:
            raise TimeoutError
    if found.length:
        raise http.client.IncompleteRead(b"")
    return b"".join(pieces)


def _no_answer(error: BaseException) -> NoAnswer:
    """Why there is no answer, in words of ours: a library's may quote what was sent."""
    inner = error.reason if isinstance(error, URLError) and isinstance(error.reason, BaseException) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return NoAnswer(f"its certificate is not trusted ({inner.verify_message})", final=True)
    if isinstance(inner, TimeoutError):
        return NoAnswer("no answer in time", late=True)
    if isinstance(inner, http.client.IncompleteRead):
        return NoAnswer("the answer was cut off")
    if isinstance(inner, OSError) and inner.strerror:
        return NoAnswer(f"cannot be reached ({inner.strerror})")
    return NoAnswer(f"cannot be reached ({type(inner).__name__})")


def _seconds(value: str | None) -> float | None:
    """A Retry-After header in seconds: a number, or a date; None for anything else."""
    if value is None:
        return None
    try:
        return max(0.0, float(value)) if value.strip().isdecimal() else _until(value)
    except (ValueError, OverflowError):
        return None


def _until(date: str) -> float:
    then = parsedate_to_datetime(date)
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
