"""How many recalls a second an external system can answer at most: a host that recalls nothing, over stdio and HTTP.

    python -m tests.trials.host_throughput [RECALLS] [ROUNDS]

It prints the best of the rounds, because a busy machine only makes a round slower. The time is that of
``ExternalSystem.recall``: the request, the answer and its checks, and the recording.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.systems.contract import Ask
from lab.systems.external.arm import ExternalArm, make
from lab.systems.spec import ArmSpec
from tests.playing import kit_for

MODULE = """
class Null:
    about = {"name": "null", "version": "1", "writes": False, "probes": "same"}
    def __init__(self, hello): pass
    def recall(self, request): return {"status": "skipped"}
"""
SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HELLO = {"protocol": 1, "name": "null", "version": "1", "writes": False, "cutoff": 6, "probes": "same"}

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = HELLO if request["op"] == "hello" else {"status": "skipped"} if request["op"] == "recall" else {}
        body = json.dumps({"id": request["id"], "ok": True, "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def recalls_a_second(arm: ExternalArm, recalls: int) -> float:
    kit = kit_for(arm, "what?")
    system = arm.open(kit)
    system.recall(Ask("first", "what?", 0))
    started = time.perf_counter()
    for number in range(recalls):
        recall = system.recall(Ask(f"c/s/{number}", "which bread did we order for breakfast last week?", number))
        if recall.status != "skipped":
            raise SystemExit(f"recall {number}: {recall.status}")
    spent = time.perf_counter() - started
    system.close()
    kit.close()
    return recalls / spent


def arm_of(config: dict[str, object]) -> ExternalArm:
    return make(ArmSpec("null", "external", config, "null"))


def main(recalls: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "null.py").write_text(MODULE, "utf-8")
        host = (
            f"import sys; sys.path.insert(0, {name!r}); from lab.systems.external.host import main; main('null:Null')"
        )
        server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().strip() if server.stdout else ""
            arms = {
                "stdio": arm_of({"exec": [sys.executable, "-c", host]}),
                "HTTP": arm_of({"url": f"http://127.0.0.1:{port}/"}),
            }
            best = {kind: max(recalls_a_second(arm, recalls) for _ in range(rounds)) for kind, arm in arms.items()}
        finally:
            server.kill()
            server.wait()
    for kind, rate in best.items():
        print(f"{kind}: {rate:,.0f} recalls a second, {1e6 / rate:,.0f} µs each (best of {rounds} times {recalls})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
