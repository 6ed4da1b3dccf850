"""Send one request to an endpoint, without redirects, retries or logging.

The API key is sent in one header and never appears in a message.
"""

from __future__ import annotations

import http.client
import io
import ssl
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import (
    AbstractHTTPHandler,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# The limit of a response in bytes; 256 vectors of 4,096 numbers take about 25 MB as JSON.
MOST_BYTES = 64_000_000
_PIECE = 1 << 16
# The header of gzip or of zlib, whichever the data has.
_ANY_HEADER = 32 + zlib.MAX_WBITS


class Answer(NamedTuple):
    """The response of an endpoint. ``retry_after`` is in seconds, or None."""

    status: int
    body: bytes
    retry_after: float | None


class NoAnswer(Exception):
    """There was no complete response; the message says why.

    ``final``: a retry would not help. ``late``: the request timed out.
    """

    def __init__(self, why: str, *, final: bool = False, late: bool = False) -> None:
        super().__init__(why)
        self.final, self.late = final, late


class _NoRedirect(HTTPRedirectHandler):
    """Return redirects as responses, because the key must only be sent to the given address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Do not follow the redirect."""


class _Timed(io.RawIOBase):
    """What a socket receives until ``end``, in seconds of the monotonic clock; then :class:`TimeoutError`."""

    def __init__(self, raw: io.RawIOBase, sock: Any, end: float) -> None:
        self._raw, self._sock, self._end = raw, sock, end

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Receive what comes next."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close the socket as well."""
        self._raw.close()
        super().close()


class _Ending(AbstractHTTPHandler):
    """Let the status, the headers and the body of a response come until ``end`` alone."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def do_open(self, http_class: Any, req: Request, **arguments: Any) -> http.client.HTTPResponse:
        """Open a connection whose response is read by :class:`_Timed`."""
        response: http.client.HTTPResponse = super().do_open(partial(self._connection, http_class), req, **arguments)
        return response

    def _connection(self, http_class: Any, *words: Any, **arguments: Any) -> Any:
        connection = http_class(*words, **arguments)
        connection.response_class = self._response
        return connection

    def _response(self, sock: Any, *words: Any, **arguments: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *words, **arguments)
        raw: Any = response.fp.detach()
        response.fp = io.BufferedReader(_Timed(raw, sock, self._end))
        return response


class _Http(_Ending, HTTPHandler):
    """For http."""


class _Https(_Ending, HTTPSHandler):
    """For https."""


def post(url: str, payload: bytes, headers: Mapping[str, str], seconds: float, *, in_total: bool = False) -> Answer:
    """Send ``payload`` as JSON and return the complete response, whatever its status.

    ``seconds`` limits each wait for the network, then the reading of the body; ``in_total`` all of these. Proxies of
    the environment are used only for https, where they cannot see the content. Raises :class:`NoAnswer`.
    """
    request = Request(url, payload, {"Content-Type": "application/json", "User-Agent": "recall-lab", **headers})  # noqa: S310 - the scheme was checked
    return _send(request, seconds, in_total=in_total)


def get(url: str, headers: Mapping[str, str], seconds: float) -> Answer:
    """Get an address; limits and errors are those of :func:`post`."""
    return _send(Request(url, headers={"User-Agent": "recall-lab", **headers}), seconds)  # noqa: S310 - as in post


def _send(request: Request, seconds: float, *, in_total: bool = False) -> Answer:
    end = time.monotonic() + seconds
    timed = (_Http(end), _Https(end)) if in_total else ()
    opener = build_opener(ProxyHandler(None if request.type == "https" else {}), _NoRedirect(), *timed)
    try:
        try:
            response = opener.open(request, timeout=seconds)
        except HTTPError as error:
            response = error
        with response:
            body = _body(response, end if in_total else time.monotonic() + seconds)
            return Answer(response.status or 0, body, _seconds(response.headers.get("Retry-After")))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _no_answer(error) from None


def _body(response: Any, end: float) -> bytes:
    """Return the body, within the limits of time and size."""
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise _too_large()
        if time.monotonic() > end:
            raise TimeoutError
    if response.length:
        raise http.client.IncompleteRead(b"")
    return _decoded(b"".join(pieces), response.headers.get("Content-Encoding", ""))


def _decoded(body: bytes, encoding: str) -> bytes:
    """Return a body without its content encoding, which some proxies add unrequested."""
    for name in reversed([part.strip().lower() for part in encoding.split(",")]):
        if name in ("gzip", "x-gzip", "deflate"):
            # "deflate" is with the header of zlib or, by an old mistake of servers, without it.
            body = _inflated(body, -zlib.MAX_WBITS if name == "deflate" and body[:1] != b"\x78" else _ANY_HEADER)
        elif name not in ("", "identity"):
            raise NoAnswer(
                "uses a content encoding that was not requested, and is neither gzip nor deflate", final=True
            )
    return body


def _inflated(body: bytes, window: int) -> bytes:
    """Return decompressed bytes, within the limit of size."""
    whole = b""
    try:
        while body:
            stream = zlib.decompressobj(window)
            whole += stream.decompress(body, MOST_BYTES + 1 - len(whole))
            if len(whole) > MOST_BYTES:
                raise _too_large()
            if not stream.eof:
                raise NoAnswer("the response was truncated")
            # A file of gzip may have several parts.
            body = stream.unused_data
    except zlib.error:
        raise NoAnswer("its content encoding cannot be decoded", final=True) from None
    return whole


def _too_large() -> NoAnswer:
    return NoAnswer(f"returned more than {MOST_BYTES / 1e6:.0f} MB", final=True)


def _no_answer(error: BaseException) -> NoAnswer:
    """Return the reason for a missing response in our own words, because a library's message may quote the request."""
    inner = error.reason if isinstance(error, URLError) and isinstance(error.reason, BaseException) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return NoAnswer(f"its certificate is not trusted ({inner.verify_message})", final=True)
    if isinstance(inner, TimeoutError):
        return NoAnswer("no answer in time", late=True)
    if isinstance(inner, http.client.IncompleteRead):
        return NoAnswer("the response was truncated")
    if isinstance(inner, OSError) and inner.strerror:
        return NoAnswer(f"cannot be reached ({inner.strerror})")
    return NoAnswer(f"cannot be reached ({type(inner).__name__})")


def _seconds(value: str | None) -> float | None:
    """Return a Retry-After header (a number or a date) in seconds, or None."""
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
