"""What mends each failure of a host, for the line on the terminal (docs/external.md has the whole table)."""

from __future__ import annotations

import re

_FAILURE = re.compile(r"(?P<kind>\w+)(?: in (?P<op>\w+))?(?: at (?P<place>.*))?", re.ASCII | re.DOTALL)
_ANSWERS = "give nothing but one JSON object as an answer; logs belong on standard error"
_KEY = "name the variable with its key under key_env in the arm's file"
_FIELDS = "compare the answer with the fields in lab/systems/external/protocol.py"
_ONCE = "answer each request once, in order, with its id"
_WRITES = "write only if hello says writes, and never in a probe"
REMEDIES: dict[str, str] = {
    "timed_out": "make it faster, or raise timeouts.{op} in the arm's file",
    "died": "`lab cache answers --stderr {arm}` shows what it wrote to standard error",
    "not_json": _ANSWERS,
    "not_utf8": _ANSWERS,
    "no_answer_object": _ANSWERS,
    "bad_answer": _FIELDS,
    "line_too_long": "answer with less",
    "unknown_id": _ONCE,
    "answered_twice": _ONCE,
    "unknown_field": _FIELDS,
    "bad_result": _FIELDS,
    "other_identity": "do not change the host during a run",
    "no_answer": "start the endpoint, or correct the address",
    "http_401": _KEY,
    "http_403": _KEY,
    "not_repeatable": 'make it deterministic, or say "probes": "same" in hello',
    "host_error": "see the log of the host",
    "unknown_item": "return keys that were given, or ids from ids and created",
    "item_not_there": "return no memory that is not born yet or forgotten",
    "item_twice": "return each item once",
    "too_many_items": "return at most at_most items",
    "injected_out_of_range": "return as many items as injected says",
    "nothing_injected": "return the injected text in context",
    "captured_what_was_given": _WRITES,
    "trace_of_a_probe": _WRITES,
    "created_twice": "create each id once",
    "updated_unknown": "update only what was created",
    "deleted_unknown": "delete only what was created",
}


def remedy(failure: str, arm: str) -> str:
    """Return what mends a failure of an arm, such as ``timed_out in recall at 10 s``; empty if that is unknown."""
    match = _FAILURE.fullmatch(failure)
    kind = match["kind"] if match else ""
    text = REMEDIES.get(kind, "see the log of the endpoint" if re.fullmatch(r"http_\d{3}", kind) else "")
    return text.format(op=(match and match["op"]) or "recall", arm=arm)
