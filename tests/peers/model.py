"""A stand-in for a language model: it answers a request for facts with the messages themselves, word for word."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MESSAGES = re.compile(r"## New Messages\s*\n(.*?)(?:\n## |\Z)", re.DOTALL)
# Told to the model by the plugin itself.
_FRAME = "Current date: "


class StubModel:
    """OpenAI's chat completions on loopback. ``asked`` counts requests.

    mem0 asks for the facts in a conversation as JSON; every line of it is taken for one. ``seconds`` is how
    long an answer takes: mem0 stores after it has answered.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked, self.seconds = 0, seconds
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Return its base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.asked += 1
                threading.Event().wait(model.seconds)
                message = {"role": "assistant", "content": json.dumps({"memory": facts(request)})}
                answer = {"id": "stub", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Suppress logging."""

        return Handler


def facts(request: dict[str, Any]) -> list[dict[str, str]]:
    """Return the lines of the new messages that a request quotes."""
    text = str(request["messages"][-1]["content"])
    lines = [line.strip() for part in _MESSAGES.findall(text) for line in part.split("\n")]
    said = [line for line in lines if line and not line.startswith(_FRAME)]
    return [{"id": str(number), "text": line, "attributed_to": "user"} for number, line in enumerate(said)]
