"""How soon ``lab canary watch`` sees that the engine of a real gateway does not work (docs/canary-watch.md).

    python -m tests.peers.live_watch FOLDER --openclaw NODE_MODULES --engine FOLDER [--case NAME]... [--port 18931]

FOLDER gets a home with a gateway, a stand-in for the model and for the provider of embeddings, and a watch for each
case; after a case, what was broken is mended. ``--openclaw`` is a folder ``node_modules`` with the packages
``openclaw`` and ``node``; ``--engine`` is ``extensions/openclaw-mem-engine`` of the plugin with its packages. The
gateway serves turns of users; after ``--before`` of them something is broken, and turns go on until the watch ends.
Nothing leaves this machine.

Each case prints the turns, recalls and seconds from the break to the alarm, and what the watch says.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ENTRY, TOKEN, DIMENSIONS = "openclaw-mem-engine", "stub-token", 1536
# Seconds in which a gateway must be up, and a watch must have ended after the last turn.
PATIENCE, AFTER, ANSWER = 900.0, 60.0, 900.0
PRELOAD = """const send = globalThis.fetch, from = "https://api.openai.com";
globalThis.fetch = (to, more) => {
  const url = typeof to === "string" ? to : String(to?.url ?? to);
  return send(url.startsWith(from) ? process.env.STUB + url.slice(from.length) : to, more);
};
"""
DOCS = """#!/bin/sh
echo '{"results": []}'
"""
FACTS = (
    "fire the kiln at noon",
    "take the ferry from pier nine",
    "hang the violin in the hall",
    "plant moss in the shade",
)
ASKED = (
    "When do I fire the kiln?",
    "Where is the ferry from?",
    "Where does the violin hang?",
    "Where can I plant moss?",
)


class Stubs:
    """A model that acknowledges what was said, and embeddings by words.

    ``fault`` breaks the embeddings, ``delay`` makes them late by so many seconds.
    """

    def __init__(self, port: int) -> None:
        self.fault: str | None = None
        self.delay = 0.0
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the message that answers a request, and the usage that is reported with it, if any."""
        return {"role": "assistant", "content": "Understood."}, None

    def events(self, request: dict[str, Any]) -> str:
        """Return the events that answer a request of Anthropic's interface."""
        raise NotImplementedError

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stubs = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                if self.path.endswith("/embeddings"):
                    time.sleep(stubs.delay)
                    if stubs.fault == "down":
                        return self._send(503, b'{"error": {"message": "down"}}')
                    size = 8 if stubs.fault == "dimensions" else DIMENSIONS
                    given = request["input"]
                    texts = given if isinstance(given, list) else [given]
                    vectors = [{"index": at, "embedding": _vector(text, size)} for at, text in enumerate(texts)]
                    return self._send(200, json.dumps({"data": vectors, "model": request["model"]}).encode())
                if self.path.endswith("/messages"):
                    return self._send(200, stubs.events(request).encode(), "text/event-stream")
                message, usage = stubs.answer(request)
                answer: dict[str, Any] = {"id": "c", "created": 1, "model": "stub-chat"}
                answer |= {"usage": usage} if usage else {}
                ends = "tool_calls" if message.get("tool_calls") else "stop"
                if not request.get("stream"):
                    choices: list[dict[str, Any]] = [{"index": 0, "finish_reason": ends, "message": message}]
                    return self._send(200, json.dumps(answer | {"choices": choices}).encode())
                parts = [(message, None), ({}, ends)]
                lines = []
                for delta, reason in parts:
                    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
                    chunk = answer | {"object": "chat.completion.chunk", "choices": choices}
                    lines.append(f"data: {json.dumps(chunk)}\n\n")
                return self._send(200, ("".join(lines) + "data: [DONE]\n\n").encode(), "text/event-stream")

            def do_GET(self) -> None:
                self._send(200, b'{"object": "list", "data": [{"id": "stub-chat", "object": "model"}]}')

            def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Suppress logging."""

        return Handler


def _vector(text: str, size: int) -> list[float]:
    vector = [0.0] * size
    for word in text.lower().split():
        digest = sha256(word.encode()).digest()
        for at in range(4):
            vector[int.from_bytes(digest[4 * at : 4 * at + 4]) % size] += 1.0 if digest[20 + at] & 1 else -1.0
    length = sum(value * value for value in vector) ** 0.5 or 1.0
    return [value / length for value in vector]


class Home:
    """A home with its gateway, and stand-ins of the class ``stand_in``."""

    stand_in = Stubs

    def __init__(self, folder: Path, packages: Path, engine: Path, port: int) -> None:
        self.folder, self.port, self.packages = folder, port, packages
        self.state, self.engine, self.programs = folder / "state", folder / "engine", folder / "programs"
        for place in (self.state, self.programs, folder / "home", folder / "workspace"):
            place.mkdir(parents=True)
        # A copy, because a case breaks it.
        shutil.copytree(engine, self.engine, ignore=shutil.ignore_patterns("node_modules"))
        (self.engine / "node_modules").symlink_to((engine / "node_modules").resolve())
        docs = self.programs / "openclaw-mem"
        docs.write_text(DOCS, "utf-8")
        docs.chmod(0o755)
        (folder / "preload.mjs").write_text(PRELOAD, "utf-8")
        self.stubs = self.stand_in(port + 1)
        self.config = self.state / "openclaw.json"
        self.config.write_text(json.dumps(self._settings(), indent=2), "utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def _settings(self) -> dict[str, Any]:
        model = {"id": "stub-chat", "name": "Stub", "reasoning": False, "input": ["text"], "contextWindow": 128000}
        model |= {"maxTokens": 4096, "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)}
        provider = {"baseUrl": f"{self.stubs.url}/v1", "apiKey": "stub", "api": "openai-completions", "models": [model]}
        engine = {
            "embedding": {"apiKey": "stub", "model": "text-embedding-3-small"},
            "dbPath": str(self.state / "memory" / "lancedb"),
            "autoRecall": {"enabled": True, "maxItems": 5, "selectionMode": "tier_quota_v1"},
            "autoCapture": {"enabled": True},
            "receipts": {"enabled": True, "verbosity": "low", "maxItems": 3},
            # Always consulted, because there are never so many memories.
            "docsColdLane": {"enabled": True, "ingestOnStart": False, "minHotItems": 5, "sourceRoots": []},
        }
        entry = {"enabled": True, "hooks": {"allowConversationAccess": True}, "config": engine}
        http = {"endpoints": {"chatCompletions": {"enabled": True}}}
        auth = {"mode": "token", "token": TOKEN}
        workspace = str(self.folder / "workspace")
        agents = {"model": {"primary": "stub/stub-chat"}, "workspace": workspace, "skipBootstrap": True}
        return {
            "gateway": {"mode": "local", "bind": "loopback", "port": self.port, "auth": auth, "http": http},
            "models": {"mode": "merge", "providers": {"stub": provider}},
            "agents": {"defaults": agents},
            "logging": {"level": "info", "file": str(self.state / "gateway.log")},
            "plugins": {
                "load": {"paths": [str(self.engine)]},
                "slots": {"memory": ENTRY},
                "entries": {ENTRY: entry},
            },
        }

    def start(self) -> float:
        """Start the gateway and wait until it is ready; return the seconds."""
        begun = time.monotonic()
        node = self.packages / "node" / "bin" / "node"
        env = {
            "PATH": f"{self.programs}:{node.parent}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "OPENCLAW_STATE_DIR": str(self.state),
            "OPENCLAW_CONFIG_PATH": str(self.config),
            "OPENAI_API_KEY": "stub",
            "STUB": self.stubs.url,
            "NODE_OPTIONS": f"--import={self.folder / 'preload.mjs'}",
        }
        with (self.folder / "console.txt").open("ab") as console:
            self._process = subprocess.Popen(
                [str(node), str(self.packages / "openclaw" / "openclaw.mjs"), "gateway", "run"],
                env=env,
                cwd=self.folder,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while True:
            if time.monotonic() - begun > PATIENCE or self._process.poll() is not None:
                raise RuntimeError(f"the gateway does not start: {self.folder / 'console.txt'}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2):
                    return time.monotonic() - begun
            except OSError:
                time.sleep(0.5)

    @property
    def process(self) -> int:
        """The id of the gateway's process."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End the gateway."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None

    def close(self) -> None:
        """End everything."""
        self.stop()
        self.stubs.close()

    def say(self, text: str, session: str) -> None:
        """Send a user's turn and wait for its end."""
        body = {"model": "openclaw", "messages": [{"role": "user", "content": text}]}
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        headers["x-openclaw-session-key"] = f"agent:main:{session}"
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=ANSWER) as answer:
            answer.read()

    def turns(self, numbers: Iterator[int]) -> Iterator[int]:
        """Send turns in three sessions."""
        for number in numbers:
            self.say(f"{ASKED[number % len(ASKED)]} I wonder, for the {number}th time.", f"room{number % 3}")
            yield number


@contextmanager
def provider_down(home: Home) -> Iterator[None]:
    """The provider of embeddings answers 503."""
    home.stubs.fault = "down"
    yield
    home.stubs.fault = None


@contextmanager
def vector_lane_dead(home: Home) -> Iterator[None]:
    """The provider gives vectors of another length, so that the vector lane raises at every search."""
    home.stubs.fault = "dimensions"
    yield
    home.stubs.fault = None


@contextmanager
def docs_lane_dead(home: Home) -> Iterator[None]:
    """The program that searches documents is gone."""
    program = home.programs / "openclaw-mem"
    program.rename(program.with_name("away"))
    yield
    program.with_name("away").rename(program)


@contextmanager
def store_gone(home: Home) -> Iterator[None]:
    """The table's files are gone under the gateway."""
    store = home.state / "memory" / "lancedb"
    store.rename(store.with_name("lancedb-away"))
    yield
    shutil.rmtree(store, ignore_errors=True)
    store.with_name("lancedb-away").rename(store)


@contextmanager
def plugin_dead(home: Home) -> Iterator[None]:
    """The plugin cannot be loaded any more, and the gateway goes on without it after a restart."""
    file = home.engine / "index.ts"
    sound = file.read_bytes()
    file.write_text("throw new Error('broken by an update');\n", "utf-8")
    home.stop()
    home.start()
    yield
    file.write_bytes(sound)


CASES: dict[str, Callable[[Home], AbstractContextManager[None]]] = {
    "provider": provider_down,
    "vector": vector_lane_dead,
    "docs": docs_lane_dead,
    "store": store_gone,
    "plugin": plugin_dead,
}


@contextmanager
def watching(home: Home, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a watch without --write until the end of the block."""
    words = ["canary", "watch", str(home.config), "--restart", "true", "--out", str(out), "--no-guard"]
    with (out.parent / f"{out.name}.txt").open("wb") as said:
        process = subprocess.Popen([sys.executable, "-m", "lab", *words], stdout=said, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + 60
            while not (out / "watch.json").exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the watch does not start: {out}.txt")
                time.sleep(0.2)
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def run_case(name: str, home: Home, before: int, most: int) -> dict[str, Any]:
    """Return the figures of a case, on a gateway that runs."""
    out = home.folder / f"watch-{name}"
    with watching(home, out) as process:
        for _ in home.turns(iter(range(before))):
            pass
        # What is learned before the break must be on the disk.
        time.sleep(3)
        seen = json.loads((out / "state.json").read_text("utf-8"))["watched"]["canary"]["counts"]
        with CASES[name](home):
            broken, turns = time.monotonic(), 0
            for _ in home.turns(iter(range(before, before + most))):
                turns += 1
                if process.poll() is not None:
                    break
            until = time.monotonic() + AFTER
            while process.poll() is None and time.monotonic() < until:
                time.sleep(0.2)
            seconds, code = time.monotonic() - broken, process.poll()
    receipt = json.loads((out / "watch.json").read_text("utf-8"))
    return {
        "case": name,
        "alarm": receipt["alarm"]["figure"] if receipt["alarm"] else None,
        "exit_code": code,
        "recalls_before": seen.get("receipts", 0),
        "turns_to_alarm": turns,
        "recalls_to_alarm": receipt["seen"] - seen.get("receipts", 0),
        "seconds_to_alarm": round(seconds, 1),
        "why": receipt["alarm"]["why"] if receipt["alarm"] else None,
        "causes": receipt["causes"],
        "counts": receipt["counts"],
        "learned": receipt["baseline"],
        "learning": receipt["learning"],
        "warnings": receipt["warnings"],
    }


def parser_of(usage: str | None) -> argparse.ArgumentParser:
    """Return the parser of a trial beside a gateway, which leaves none behind if it is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--openclaw", type=Path, required=True)
    parser.add_argument("--engine", type=Path, required=True)
    return parser


def main() -> None:
    """Run the cases beside one gateway, and print a line of JSON for each."""
    parser = parser_of(__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--port", type=int, default=18931)
    parser.add_argument("--before", type=int, default=20)
    parser.add_argument("--most", type=int, default=60)
    given = parser.parse_args()
    home = Home(given.folder, given.openclaw.resolve(), given.engine.resolve(), given.port)
    try:
        print(json.dumps({"start_seconds": round(home.start(), 1)}), flush=True)
        for fact in FACTS:
            home.say(f"I decided to {fact} this year. Please remember that.", "first")
        # The plugin last: the gateway is restarted for it.
        for name in given.case or CASES:
            print(json.dumps(run_case(name, home, given.before, given.most)), flush=True)
    finally:
        home.close()


if __name__ == "__main__":
    main()
