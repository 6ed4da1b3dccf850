"""Host a Python object as an external memory system. This file needs nothing of the lab and may be copied.

    python -m lab.systems.external.host MODULE:FACTORY
    python host.py MODULE:FACTORY

``FACTORY(hello)`` returns an object with ``recall(request)``, which returns a list of items (dicts with ``id`` and
``text``) or a whole result. It may also have ``remember(memories)``, ``forget(keys)``, ``observe(turn)``, ``prove()``,
``close()``, and ``about``, a dict of fields for the answer to hello. What it prints goes to stderr.
"""

import hashlib
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

ARGUMENTS = {"remember": ("memories",), "forget": ("keys",), "observe": ("turn",), "prove": (), "close": ()}


def main(where: str) -> None:
    """Answer the requests on stdin until ``close`` or its end (EX-24)."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    sys.path.insert(0, str(Path.cwd()))
    module, _, factory = where.partition(":")
    make, system = getattr(importlib.import_module(module), factory), None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        answer = {"id": request["id"], "ok": True}
        try:
            system = make(request) if request["op"] == "hello" else system
            answer["result"] = result(system, request, sys.modules[module], factory)
        except Exception as error:
            traceback.print_exc()
            answer = {"id": request["id"], "ok": False, "error": {"kind": type(error).__name__}}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()
        if request["op"] == "close":
            break


def result(system: Any, request: dict[str, Any], module: Any, factory: str) -> dict[str, Any]:
    """Return the result of an operation; one that the object does not have does nothing."""
    op = request["op"]
    if op == "hello":
        source = Path(module.__file__)
        sources = {source.name: hashlib.sha256(source.read_bytes()).hexdigest()}
        known = {"protocol": 1, "name": factory, "version": "0", "cutoff": 6, "writes": hasattr(system, "observe")}
        return {**known, "sources": sources, **getattr(system, "about", {})}
    method = getattr(system, op, None)
    arguments = [request[name] for name in ARGUMENTS[op]] if op in ARGUMENTS else [request]
    value = method(*arguments) if method else None
    if op == "recall" and not isinstance(value, dict):
        items = list(value or ())
        context = "\n".join("- " + item["text"] for item in items)
        return {"status": "ok" if items else "skipped", "items": items, "context": context}
    return value or {}


if __name__ == "__main__":
    main(sys.argv[1])
