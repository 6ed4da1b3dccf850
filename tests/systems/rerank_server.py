"""A reranker on this machine that scores by shared words, and the faults of others.

python -m tests.systems.rerank_server 8765
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tests import loopback
from tests.loopback import JsonHandler, Loopback

Results = list[dict[str, Any]]
Fault = Callable[["Handler", Results], None]
_WORD = re.compile(r"\w+")


def overlap(query: str, text: str) -> float:
    """The number of different words of the query in a text, less for a longer text."""
    words = _WORD.findall(text.lower())
    return len({*words} & {*_WORD.findall(query.lower())}) / math.sqrt(1 + len(words))


class Handler(JsonHandler):
    """Answers one request, or does what the server's fault does."""

    server: Server

    def do_POST(self) -> None:  # noqa: N802 - the server calls it by this name
        request = self.received()
        self.server.asked.append(request)
        self.server.keys.append(self.headers.get("Authorization"))
        results = [
            {"index": index, "relevance_score": overlap(request["query"], document)}
            for index, document in enumerate(request["documents"])
        ]
        results.sort(key=lambda result: -result["relevance_score"])
        if self.server.fault is not None:
            self.server.fault(self, results)
        else:
            self.say({"results": results})


class Server(Loopback):
    """A reranker, with the requests and the keys that it received."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(Handler, port, "/rerank")
        self.fault: Fault | None = None
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []


def serving() -> AbstractContextManager[Server]:
    """Serve in a thread."""
    return loopback.serving(Server())


def late(handler: Handler, results: Results) -> None:
    time.sleep(0.5)
    handler.say({"results": results})


def trickle(handler: Handler, results: Results) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(20):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def trickle_headers(handler: Handler, results: Results) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(60):
        handler.wfile.write(b"X-Header: one\r\n")
        time.sleep(0.05)


def says(change: Callable[[Results], object]) -> Fault:
    return lambda handler, results: handler.say(change(results))


def _first(results: Results, **fields: object) -> dict[str, Results]:
    return {"results": [{**results[0], **fields}, *results[1:]]}


FAULTS: dict[str, tuple[Fault, str]] = {
    "late": (late, "timed_out"),
    "trickle": (trickle, "timed_out"),
    "trickle of headers": (trickle_headers, "timed_out"),
    "500": (lambda handler, _: handler.say({"error": "rye bread"}, 500), "http_500"),
    "401": (lambda handler, _: handler.say({"error": "rye bread"}, 401), "http_401"),
    "redirect": (lambda handler, _: handler.say(b"", 307), "http_307"),
    "hangs up": (lambda handler, _: handler.connection.close(), "no_answer"),
    "HTML": (says(lambda _: b"<html>rye bread</html>"), "not_json"),
    "a list": (says(lambda results: results), "bad_answer"),
    "results of numbers": (says(lambda _: {"results": [1, 2]}), "bad_answer"),
    "another index": (says(lambda results: _first(results, index=99)), "unknown_index"),
    "a negative index": (says(lambda results: _first(results, index=-1)), "unknown_index"),
    "an index of text": (says(lambda results: _first(results, index="0")), "unknown_index"),
    "true for an index": (says(lambda results: _first(results, index=True)), "unknown_index"),
    "an index twice": (says(lambda results: _first(results, index=results[1]["index"])), "index_twice"),
    "one too few": (says(lambda results: {"results": results[1:]}), "too_few"),
    "none": (says(lambda _: {"results": []}), "too_few"),
    "NaN": (says(lambda results: _first(results, relevance_score=math.nan)), "score_not_finite"),
    "infinity": (says(lambda results: _first(results, relevance_score=math.inf)), "score_not_finite"),
    "a score of text": (says(lambda results: _first(results, relevance_score="1")), "score_not_finite"),
}


if __name__ == "__main__":
    Server(int(sys.argv[1])).serve_forever()
