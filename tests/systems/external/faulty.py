"""A host for tests that keeps to the protocol, but for one fault at its second recall, or at start.

    python faulty.py FAULT [ARGUMENT]

With the variable FAULTY_IN, only in the conversation of that name.

It recalls every memory that it was given, in order. It is written against the protocol alone and shares no code with
the lab's own host, so that the two check each other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else "none"
ARGUMENT = sys.argv[2] if len(sys.argv) > 2 else ""
HELLO: dict[str, Any] = {
    "protocol": 1,
    "name": "faulty",
    "version": "1.0",
    "writes": False,
    "cutoff": 6,
    "probes": "same",
    "stateful": False,
}
kept: dict[str, str] = {}
recalls = 0
is_here = True


def say(data: bytes) -> None:
    os.write(1, data)


def dumped(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def right(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    result: dict[str, Any] = {}
    if request["op"] == "hello":
        result = {**HELLO, **(json.loads(ARGUMENT) if FAULT == "hello" else {})}
    elif request["op"] == "remember":
        kept.update((memory["key"], memory["text"]) for memory in request["memories"])
    elif request["op"] == "forget":
        for key in request["keys"]:
            del kept[key]
    elif request["op"] == "recall":
        items = [{"id": key, "text": text} for key, text in kept.items()]
        result = {
            "status": "ok" if items else "skipped",
            "items": items,
            "context": "\n".join(kept.values()),
            "receipt": {"kept": len(items), "why": "because bread is dark"},
        }
    return {"id": request["id"], "ok": True, "result": result}


def with_result(request: dict[str, Any], **changes: Any) -> bytes:
    answer = right(request)
    return dumped({**answer, "result": {**answer["result"], **changes}})


def named(request: dict[str, Any], key: str) -> bytes:
    return with_result(request, items=[{"id": key, "text": "x"}], context="x")


def endless() -> None:
    while True:
        say(b"x" * 65536)


def write_all(data: bytes) -> None:
    """Write more than a pipe holds."""
    while data:
        data = data[os.write(1, data) :]


def failed(request: dict[str, Any], kind: str) -> bytes:
    return dumped({"id": request["id"], "ok": False, "error": {"kind": kind, "message": "rye bread is dark"}})


Answer = Callable[[dict[str, Any]], object]
FAULTS: dict[str, Answer] = {
    "rubbish": lambda request: say(b"DEBUG rye bread\n" + dumped(right(request))),
    "blank": lambda request: say(b"\n" + dumped(right(request))),
    "half": lambda request: say(dumped(right(request))[:20] + b"\n"),
    "half_and_dies": lambda request: (say(dumped(right(request))[:20]), os._exit(3)),
    "silent": lambda _: time.sleep(60),
    "late": lambda request: (time.sleep(1.5), say(dumped(right(request)))),
    "dies": lambda _: os._exit(3),
    "killed": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "closes": lambda _: (os.close(1), time.sleep(60)),
    "twice": lambda request: say(dumped(right(request)) * 2),
    "other_id": lambda request: say(dumped({**right(request), "id": request["id"] + 1000})),
    "text_id": lambda request: say(dumped({**right(request), "id": str(request["id"])})),
    "earlier_id": lambda request: say(dumped({**right(request), "id": request["id"] - 1})),
    "unborn": lambda request: say(named(request, ARGUMENT)),
    "unknown": lambda request: say(named(request, "rye bread")),
    "item_twice": lambda request: say(with_result(request, items=right(request)["result"]["items"] * 2)),
    "unlisted": lambda request: say(with_result(request, items=right(request)["result"]["items"][:1])),
    "too_many_injected": lambda request: say(with_result(request, injected=99)),
    "no_context": lambda request: say(with_result(request, context="")),
    "huge": lambda request: write_all(with_result(request, context="x" * 17_000_000)),
    "endless": lambda _: endless(),
    "latin": lambda request: say(dumped(right(request)).replace(b"true", b'true, "x": "\xff"')),
    "null": lambda _: say(b"null\n"),
    "nan": lambda request: say(with_result(request, items=[{"id": "a", "score": float("nan")}])),
    "deep": lambda request: say(b"[" * 60_000 + b"\n"),
    "field": lambda request: say(with_result(request, itmes=[])),
    "type": lambda request: say(with_result(request, items="rye bread")),
    "status": lambda request: say(with_result(request, status="failed")),
    "envelope": lambda request: say(dumped({**right(request), "logs": []})),
    "error": lambda request: say(failed(request, "WrongDimension")),
    "error_with_text": lambda request: say(failed(request, "rye bread is dark")),
    "unsupported": lambda request: say(failed(request, "unsupported")),
    "degraded": lambda request: say(with_result(request, status="degraded", reason="embedder_down")),
    "surrogate": lambda request: say(with_result(request, items=[], context="cut \ud83d")),
    "unwritten": lambda request: say(with_result(request, context="2 notes exist")),
    "stderr": lambda request: (os.write(2, b"rye bread\n" * 500_000), say(dumped(right(request)))),
    "writes": lambda request: say(with_result(request, writes={"created": [{"id": "n", "text": "x", "sources": []}]})),
}


def fork_children() -> None:
    """Start a child in the group, and one that left it and its session; write their ids to the file ARGUMENT."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    near = subprocess.Popen(sleep)
    program = (
        "import os, subprocess, sys\n"
        "print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=2, stdin=0).pid)\n"
    )
    far = subprocess.run([sys.executable, "-c", program, *sleep], stdout=subprocess.PIPE, text=True, check=True)
    with open(ARGUMENT, "a", encoding="utf-8") as file:
        file.write(f"{near.pid} {far.stdout.strip()} {os.getpid()}\n")


def main() -> None:
    global is_here, recalls
    if FAULT == "dies_at_start":
        print("ModuleNotFoundError: No module named 'bread'", file=sys.stderr)
        os._exit(1)
    if FAULT in ("forks", "ignores_close"):
        fork_children()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        recalls += request["op"] == "recall"
        if request["op"] == "hello":
            is_here = os.environ.get("FAULTY_IN") in (None, request["conversation"])
        if FAULT == "rubbish_at_start":
            say(b"Welcome!\n")
        if FAULT == "ignores_close" and request["op"] == "close":
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            while True:
                time.sleep(1)
        if request["op"] == "recall" and recalls == 2 and FAULT in FAULTS and is_here:
            FAULTS[FAULT](request)
        else:
            say(dumped(right(request)))
        if request["op"] == "close":
            break


if __name__ == "__main__":
    main()
