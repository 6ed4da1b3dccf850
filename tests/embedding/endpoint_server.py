"""An OpenAI-compatible server on loopback that serves an embedder and fails on request.

``POST /v1/embeddings`` returns vectors for any model name, as JSON numbers that give the same float32 bits as the
embedder. ``POST /faults`` takes a list of faults, one for each of the next requests, in order. ``GET /state`` returns
what was requested and resets the counts.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# By its name: tests replace ``time.sleep``.
from time import sleep
from typing import Any

from lab.embedding.embedder import Embedder


class Server(ThreadingHTTPServer):
    """State that all requests share."""

    daemon_threads = True

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.embedder, self.lock = embedder, threading.Lock()
        self.vectors: dict[str, list[float]] = {}
        self.faults: list[dict[str, Any]] = []
        self.state = self.fresh()

    def handle_error(self, *_: Any) -> None:
        """Ignore connections that a killed client left open: tests kill clients on purpose."""

    @staticmethod
    def fresh() -> dict[str, Any]:
        return {"requests": 0, "texts": 0, "largest": 0, "keys": [], "paths": [], "statuses": {}, "payload": {}}

    def embed(self, texts: list[str]) -> list[list[float]]:
        with self.lock:
            new = list(dict.fromkeys(text for text in texts if text not in self.vectors))
            if new:
                self.vectors |= dict(zip(new, self.embedder.encode(new).tolist(), strict=True))
            return [self.vectors[text] for text in texts]


class Handler(BaseHTTPRequestHandler):
    """Handles one request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        state, self.server.state = self.server.state, self.server.fresh()
        self.answer(200, json.dumps(state).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/faults":
            self.server.faults = body
            self.answer(200, b"{}")
            return
        with self.server.lock:
            fault = self.server.faults.pop(0) if self.server.faults else {}
            state = self.server.state
            state["requests"] += 1
            state["texts"] += len(body["input"])
            state["largest"] = max(state["largest"], len(body["input"]))
            state["keys"].append(self.headers.get("Authorization"))
            state["paths"].append(self.path)
            state["payload"] = {name: value for name, value in body.items() if name != "input"}
        if not self.path.endswith("/embeddings"):
            self.answer(404, b'{"error": "no such path"}')
            return
        self.embeddings(body["input"], fault)

    def embeddings(self, texts: list[str], fault: dict[str, Any]) -> None:
        sleep(fault.get("sleep", 0))
        if "raw" in fault:
            self.answer(fault.get("status", 200), fault["raw"].encode(), fault)
            return
        if "status" in fault:
            self.answer(fault["status"], b'{"error": {"message": "sent: %s"}}' % texts[0].encode()[:40], fault)
            return
        vectors = self.server.embed(texts)
        if "dimension" in fault:
            vectors = [row[: fault["dimension"]] for row in vectors]
        if "scale" in fault:
            vectors = [[value * fault["scale"] for value in row] for row in vectors]
        if "uneven" in fault:
            vectors[-1] = vectors[-1][:-1]
        if "first" in fault:
            vectors[0] = [float(fault["first"]) for _ in vectors[0]]
        rows = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(vectors)]
        rows = rows[::-1]  # the API does not guarantee an order
        if "short" in fault:
            rows = rows[1:]
        if "no_index" in fault:
            rows = [{"embedding": row["embedding"]} for row in rows]
        data = json.dumps({"object": "list", "data": rows, "model": "m"}).encode()
        if "cut" in fault:
            data = data[: len(data) // 2]
        self.answer(200, data, fault)

    def answer(self, status: int, body: bytes, fault: dict[str, Any] | None = None) -> None:
        fault = fault or {}
        statuses = self.server.state["statuses"]
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) + fault.get("missing", 0)))
        for name, value in fault.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True
