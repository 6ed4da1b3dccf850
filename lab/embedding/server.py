"""An OpenAI-compatible embedding endpoint on loopback that answers with the lab's own vectors.

A memory system in another process embeds its texts here, so that it and the lab's systems use equal vectors (EX-25).
The process has one HTTP server, with a thread of its own, while at least one :class:`EmbeddingServer` is open. Each
counts the requests of one client: evidence that a system used the embedder that it was given.
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from lab.base.errors import LabError, UnusableInput
from lab.base.regex import regex
from lab.embedding.embedder import VectorsOf

if TYPE_CHECKING:
    import numpy as np

# Bytes of a request; more texts than this are refused.
MOST_BYTES = 64_000_000
# Seconds between two looks of the server's thread at whether it should end.
_LOOK = 0.02
_PATH = regex(r"/(?P<key>[0-9a-f]+)/v1/embeddings(?:\?.*)?")
# An injected fault -> status and message of the answer (lab.retrieval.faults).
_FAULTS = {
    "embedder_down": (503, "the provider is down"),
    "input_too_long": (400, "this model's maximum context length is exceeded; please reduce your input"),
}


class Answer(NamedTuple):
    """A status and a body."""

    status: int
    body: bytes


class EmbeddingServer:
    """The endpoint of one client: a base URL of its own, with counters.

    ``url`` ends in ``/v1``. Vectors have ``dimension`` numbers (None: the embedder's), or as many as the field
    ``dimensions`` of a request says: zeros at their end, which change neither a cosine nor a distance (EX-26). Every
    text is embedded as a document, because the protocol knows no roles. Raises :class:`UnusableInput` for a
    ``dimension`` below the embedder's.

    ``requests`` and ``texts`` count what was answered with vectors. ``faults`` are injected faults that the
    answers obey, such as ``embedder_down``. ``error`` is an error of the lab's embedder, if one occurred: what the
    client made of it is no measurement.
    """

    def __init__(self, source: VectorsOf, model: str, dimension: int | None = None) -> None:
        self.model, self.dimension = model, dimension or source.dimension
        _require_room(self.dimension, source.dimension)
        self.requests = self.texts = 0
        self.faults: frozenset[str] = frozenset()
        self.error: LabError | None = None
        self._source = source
        self._key = secrets.token_hex(8)
        self._closed = False
        port = _SERVER.open(self._key, self)
        self.url = f"http://127.0.0.1:{port}/{self._key}/v1"

    def close(self) -> None:
        """Stop answering. The last one that closes ends the server."""
        if not self._closed:
            self._closed = True
            _SERVER.close(self._key)

    def answer(self, body: bytes) -> Answer:
        """Return the answer to the body of one request for embeddings."""
        for fault, (status, message) in _FAULTS.items():
            if fault in self.faults:
                return _refusal(status, message)
        try:
            # Not orjson: a client may send half of a pair of surrogates, where it cut a text.
            request = json.loads(body.decode("utf-8", "surrogatepass"))
            texts, size, encode = _read(request, self.dimension)
            _require_room(size, self._source.dimension)
        except (ValueError, UnusableInput) as error:
            return _refusal(400, str(error))
        try:
            self._source.prepare(texts)
            vectors = _padded(self._source.of(texts), size)
        except LabError as error:
            self.error = error
            return _refusal(500, "the lab's embedder failed")
        self.requests += 1
        self.texts += len(texts)
        data = [{"object": "embedding", "index": at, "embedding": encode(row)} for at, row in enumerate(vectors)]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        value = {"object": "list", "data": data, "model": request.get("model", self.model), "usage": usage}
        return Answer(200, orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


class _Server:
    """The server of this process and the endpoints that are open on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._endpoints: dict[str, EmbeddingServer] = {}
        self._http: _Http | None = None
        self._thread: threading.Thread | None = None
        # One embedder at a time: a model and its cache are not made for several threads.
        self.embedding = threading.Lock()

    def open(self, key: str, endpoint: EmbeddingServer) -> int:
        """Add an endpoint and return the port."""
        with self._lock:
            if self._http is None:
                self._http = _Http()
                self._thread = threading.Thread(
                    target=self._http.serve_forever, args=(_LOOK,), name="embedding-server", daemon=True
                )
                self._thread.start()
            self._endpoints[key] = endpoint
            return self._http.server_port

    def close(self, key: str) -> None:
        """Remove an endpoint; end the server with the last one."""
        with self._lock:
            self._endpoints.pop(key, None)
            if self._endpoints or self._http is None or self._thread is None:
                return
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()
            self._http = self._thread = None

    def at(self, path: str) -> EmbeddingServer | None:
        """Return the endpoint of a request's path, or None."""
        parts = _PATH.fullmatch(path)
        return self._endpoints.get(parts["key"]) if parts else None


class _Http(ThreadingHTTPServer):
    """A server on a free port of loopback that can close the connections of its clients."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note the connection, and serve it in a thread."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""

    def server_close(self) -> None:
        """Close the server and every connection that a client kept."""
        super().server_close()
        for request in tuple(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection, which a client may keep for several requests."""

    protocol_version = "HTTP/1.1"
    # Headers and body are two small packets; the second must not wait for the client's acknowledgement of the first.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a request for embeddings."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True
            self._send(_refusal(413, f"expected a Content-Length of at most {MOST_BYTES}"))
            return
        body = self.rfile.read(int(length))
        endpoint = _SERVER.at(self.path)
        if endpoint is None:
            self._send(_refusal(404, "expected POST /KEY/v1/embeddings"))
            return
        with _SERVER.embedding:
            answer = endpoint.answer(body)
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library gives
        """Write no log: paths hold keys."""


def _read(request: Any, dimension: int) -> tuple[list[str], int, Callable[[np.ndarray], Any]]:
    """Return texts, dimension and the encoder of a vector that a request names. Raises ValueError."""
    if not isinstance(request, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - every bad request is one kind of error here
    texts = request.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("'input': expected a text or a list of texts")
    size = request.get("dimensions", dimension)
    if not isinstance(size, int) or size < 1:
        raise ValueError("'dimensions': expected a whole number")
    form = request.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise ValueError("'encoding_format': expected float or base64")
    return texts, size, _base64 if form == "base64" else _same


def _same(vector: np.ndarray) -> np.ndarray:
    return vector


def _base64(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _padded(vectors: np.ndarray, dimension: int) -> np.ndarray:
    """Return float32 ``[len(vectors), dimension]``, with zeros after the numbers of each vector."""
    import numpy as np

    return np.pad(vectors.astype(np.float32), ((0, 0), (0, dimension - vectors.shape[1])))


def _require_room(dimension: int, needed: int) -> None:
    if dimension < needed:
        raise UnusableInput(
            f"dimension {dimension}: the embedder's vectors have {needed} numbers; give {needed} or more"
        )


def _refusal(status: int, message: str) -> Answer:
    return Answer(status, orjson.dumps({"error": {"message": message, "type": "lab"}}))


_SERVER = _Server()
