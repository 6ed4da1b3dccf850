"""Protocol 1 between the lab and an external system: the fields of every request and answer, and their checks.

The tables below are the protocol (EX-1): answers are checked against them, and docs/generate.py prints them. A request
is ``{"id", "instance", "op", …}``. An answer is ``{"id", "ok": true, "result"}``, or ``{"id", "ok": false, "error"}``.
:func:`remedy` says in one line what mends a failure; docs/external.md has the whole table.

A host may quote memories in its receipts, and a run holds no texts, so :func:`without_texts` leaves them out (EX-18).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from lab.base.files import sha256_bytes
from lab.base.regex import regex
from lab.systems.openclaw.capture.secrets import holds_secret

VERSION = 1
# Seconds that each operation may take (EX-6).
TIMEOUTS: dict[str, float] = {
    "hello": 60.0,
    "remember": 120.0,
    "forget": 30.0,
    "recall": 10.0,
    "observe": 30.0,
    "prove": 10.0,
    "close": 5.0,
}
# Operations that a host may leave out.
OPTIONAL_OPS = ("forget", "observe", "prove")
# The error of a host that does not know an operation.
UNSUPPORTED = "unsupported"
# The largest answer in bytes.
MOST_BYTES = 16_000_000
_NAME = regex(r"[A-Za-z0-9_.:-]{1,60}", re.ASCII)
# Ids, reasons, labels, versions and times: without spaces, and short.
_WORD = regex(r"[A-Za-z0-9_.:@/+#=-]{0,100}", re.ASCII)
_LONE_SURROGATE = regex("[\ud800-\udfff]")
REQUIRED = object()


class HostFailed(Exception):
    """A host broke the protocol, died or did not answer in time (EX-5).

    ``kind`` is an identifier, ``place`` says more, ``op`` is the operation. None of them quotes an answer.
    """

    def __init__(self, kind: str, place: str = "", op: str = "") -> None:
        super().__init__(kind)
        self.kind, self.place, self.op = kind, place, op

    def __str__(self) -> str:
        return f"{self.kind}{f' in {self.op}' if self.op else ''}{f' at {self.place}' if self.place else ''}"

    def __reduce__(self) -> tuple[type[HostFailed], tuple[str, str, str]]:
        """Pickle all three fields."""
        return HostFailed, (self.kind, self.place, self.op)


class Type(NamedTuple):
    """A type of the protocol: its name in the documentation, and whether a value is of it."""

    shown: str
    holds: Callable[[Any], bool]


class Field(NamedTuple):
    """A field of an answer. ``default`` is :data:`REQUIRED` if the field must be there; null counts as absent."""

    type: Type
    about: str
    default: object = REQUIRED


def _count(low: int) -> Type:
    return Type(f"integer, {low} or more", lambda value: type(value) is int and low <= value < 1 << 31)


def _one_of(*words: str) -> Type:
    return Type(" or ".join(f'"{word}"' for word in words), lambda value: isinstance(value, str) and value in words)


def _list_of(kind: Type) -> Type:
    return Type(f"list of {kind.shown}", lambda value: isinstance(value, list) and all(map(kind.holds, value)))


def _map_of(kind: Type) -> Type:
    return Type(
        f"object of {kind.shown}", lambda value: isinstance(value, dict) and all(map(kind.holds, value.values()))
    )


def _or_null(kind: Type) -> Type:
    return Type(f"{kind.shown} or null", lambda value: value is None or kind.holds(value))


def _record(name: str, fields: Mapping[str, Field]) -> Type:
    def holds(value: Any) -> bool:
        return isinstance(value, dict) and fault_in(value, fields) is None

    return Type(name, holds)


TEXT = Type("string", lambda value: isinstance(value, str))
FLAG = Type("boolean", lambda value: isinstance(value, bool))
REAL = Type("number", lambda value: type(value) in (int, float) and math.isfinite(value))
OBJECT = Type("object", lambda value: isinstance(value, dict))
ONE = Type(str(VERSION), lambda value: type(value) is int and value == VERSION)
RANK = _count(1)
NUMBER = _count(0)

ITEM = {
    "id": Field(TEXT, "key of a memory that was given, its own id for it, or the id of a memory that it created"),
    "text": Field(TEXT, "its text; by default the text that was given or created", None),
    "sources": Field(_list_of(TEXT), "keys of the turns or memories that it came from", None),
    "score": Field(REAL, "score, for information", 0.0),
    "tier": Field(TEXT, "tier that it was selected from", None),
    "label": Field(TEXT, "importance label", None),
    "scope": Field(TEXT, "scope", None),
    "fts_rank": Field(RANK, "rank in the search by words", None),
    "vec_rank": Field(RANK, "rank in the search by vectors", None),
    "decision": Field(TEXT, "why it was selected, as one word", None),
}
STORED = {
    "id": Field(TEXT, "own id of the memory"),
    "text": Field(TEXT, "its text"),
    "sources": Field(_list_of(TEXT), "keys of the turns or memories that it came from", ()),
}
WRITES = {
    "created": Field(_list_of(_record("stored", STORED)), "new memories", ()),
    "updated": Field(_list_of(_record("stored", STORED)), "memories with another text or other sources", ()),
    "deleted": Field(_list_of(TEXT), "own ids of removed memories", ()),
}
NOTED = {
    "receipt": Field(OBJECT, "why, without texts", None),
    "log": Field(_list_of(TEXT), "lines that it would have logged; kept in the cache only", ()),
}
ANSWERS: dict[str, dict[str, Field]] = {
    "hello": {
        "protocol": Field(ONE, "version of the protocol"),
        "name": Field(TEXT, "name of the system"),
        "version": Field(TEXT, "its version"),
        "writes": Field(FLAG, "whether it captures memories"),
        "cutoff": Field(RANK, "number of items that it intends to inject"),
        "at_most": Field(RANK, "largest number of items that it may inject; null: no limit", None),
        "depth": Field(RANK, "number of meaningful ranks; by default the cutoff", None),
        "stateful": Field(FLAG, "whether earlier queries change later answers", True),
        "observes": Field(FLAG, "whether it wants to see the turns; by default whether it writes", None),
        "probes": Field(_one_of("same", "fresh"), "whether a probe leaves no trace or needs a fresh instance", "fresh"),
        "config": Field(OBJECT, "its resolved configuration, without secrets", {}),
        "sources": Field(_map_of(TEXT), "sha256 of its source files, by name", {}),
        "needs": Field(_list_of(_one_of("embedder", "model")), "what it cannot work without", ()),
        "claims": Field(_list_of(TEXT), "proofs that it must give before it is scored", ()),
        "notes": Field(_list_of(TEXT), "remarks", ()),
    },
    "remember": {"ids": Field(_map_of(_or_null(TEXT)), "its own id by key; null: not kept; else the key itself", {})},
    "forget": {},
    "recall": {
        "status": Field(_one_of("ok", "skipped", "degraded"), "whether it chose silence, or lost a part", "ok"),
        "items": Field(_list_of(_record("item", ITEM)), "its ranking, best first", ()),
        "injected": Field(NUMBER, "how many of them are injected; by default all, or none if skipped", None),
        "context": Field(TEXT, "the exact text put before the prompt", ""),
        "pinned": Field(_list_of(TEXT), "ids of memories in the text besides the items", ()),
        "evicted": Field(NUMBER, "items dropped by a budget", None),
        "writes": Field(_record("writes", WRITES), "changes made by the recall itself", None),
        "reason": Field(TEXT, "why it was skipped or degraded, as one word", None),
        "receipt_text": Field(TEXT, "the receipt as the system writes it, in JSON without texts", None),
        **NOTED,
    },
    "observe": {**WRITES, **NOTED},
    "prove": {
        "hooks": Field(_map_of(NUMBER), "calls of its hooks by name", {}),
        "tools": Field(_map_of(NUMBER), "calls of its tools by name", {}),
        "stored": Field(NUMBER, "memories in its store", None),
        "embedded": Field(NUMBER, "texts that it had embedded", None),
        "embedder": Field(TEXT, "name of the embedder that it used", None),
        "lanes": Field(_map_of(NUMBER), "hits by search, such as fts and vec", {}),
        "model_calls": Field(NUMBER, "calls of a language model", None),
    },
    "close": {},
}
# The fields of every request, for the documentation.
REQUESTS: dict[str, dict[str, str]] = {
    "hello": {
        "protocol": "1",
        "lab": "string: version of the lab",
        "conversation": "string, or null for the request before a run that only identifies the host",
        "seed": "integer: seed of the run",
        "scoping": '"open", "given" or "tags": where scopes come from',
        "captures": "boolean: whether it may write",
        "replies": "boolean: whether the conversation has turns of an assistant",
        "home": "string: an empty folder of its own; null over HTTP",
        "embedder": "object {url, model, dimension} of an OpenAI-compatible endpoint, or null unless it needs one",
        "now_ms": "integer: time in the recording, in milliseconds since the epoch",
        "max_items": "integer or null: --max-items",
        "depth": "integer: --depth",
        "settings": "object: the settings of the arm's file",
    },
    "remember": {
        "now_ms": "integer: time in the recording",
        "memories": "list of {key, text, index_text, created_at, category, label, scope, trust, hard_rule}",
    },
    "forget": {"now_ms": "integer: time in the recording", "keys": "list of strings"},
    "recall": {
        "now_ms": "integer: time in the recording",
        "turn": "string: key of the turn or probe",
        "text": "string: what the user says",
        "scope": "string, or null: not enforced",
        "scoping": "as in hello",
        "session": "string, or null: none",
        "probe": "boolean: must leave no trace",
    },
    "observe": {
        "now_ms": "integer: time in the recording",
        "turn": "object {key, seq, session, role, text, speaker, scope, time_ms}",
    },
    "prove": {},
    "close": {},
}


def body_of(fields: Mapping[str, object]) -> bytes:
    """Return the fields of a request as JSON, which determines the answer; lone surrogates are sent as escapes."""
    return json.dumps(fields, separators=(",", ":")).encode()


def request_line(number: int, instance: str, op: str, body: bytes) -> bytes:
    """Return a request as one line, from the JSON of its fields."""
    return b'{"id":%d,"instance":"%s","op":"%s"' % (number, instance.encode(), op.encode()) + (
        b"}\n" if body == b"{}" else b"," + body[1:] + b"\n"
    )


def result_of(line: bytes, number: int, op: str) -> dict[str, Any]:
    """Return the checked result in the answer to request ``number``, with the defaults of absent fields (EX-4).

    Raises :class:`HostFailed` for anything that is no answer to this request.
    """
    answer = _decoded(line, op)
    identity = answer.get("id")
    if type(identity) is not int or identity != number:
        earlier = type(identity) is int and 0 < identity < number
        raise HostFailed("answered_twice" if earlier else "unknown_id", "", op)
    if answer.get("ok") is True and isinstance(answer.get("result"), dict) and answer.keys() == {"id", "ok", "result"}:
        return checked(answer["result"], op)
    if answer.get("ok") is False and isinstance(answer.get("error"), dict) and answer.keys() == {"id", "ok", "error"}:
        kind = answer["error"].get("kind")
        if kind == UNSUPPORTED and op in OPTIONAL_OPS:
            return checked({}, op)
        raise HostFailed("host_error", shown_name(kind), op)
    raise HostFailed("bad_answer", "", op)


def checked(result: dict[str, Any], op: str) -> dict[str, Any]:
    """Return a result with its defaults, without nulls. Raises :class:`HostFailed` for a wrong or unknown field."""
    fields = ANSWERS[op]
    fault = fault_in(result, fields)
    if fault is not None:
        kind, name = fault
        raise HostFailed(kind, shown_name(name), op)
    defaults = {name: field.default for name, field in fields.items() if field.default is not REQUIRED}
    return defaults | {name: value for name, value in result.items() if value is not None}


def fault_in(value: Mapping[str, Any], fields: Mapping[str, Field]) -> tuple[str, str] | None:
    """Return the kind and the field of the first fault of an object, or None."""
    for name, content in value.items():
        field = fields.get(name)
        if field is None:
            return "unknown_field", name
        if content is None and field.default is not REQUIRED:
            continue
        if not field.type.holds(content):
            return "bad_result", name
    missing = next((name for name, field in fields.items() if field.default is REQUIRED and name not in value), None)
    return None if missing is None else ("bad_result", missing)


def shown_name(name: object) -> str:
    """Return a name that a host chose, if it is short and has no spaces; else nothing, because it may be a text."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _decoded(line: bytes, op: str) -> dict[str, Any]:
    """Return the object in a line, with lone surrogates replaced as UTF-8 would."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise HostFailed("not_utf8", "", op) from None
    try:
        value = json.loads(text, parse_constant=_refused)
        if "\\ud" in text or "\\uD" in text:
            value = _encodable(value)
    except (ValueError, RecursionError):
        raise HostFailed("not_json", "", op) from None
    if not isinstance(value, dict):
        raise HostFailed("no_answer_object", "", op)
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(name)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("�", value)
    if isinstance(value, dict):
        return {_encodable(name): _encodable(content) for name, content in value.items()}
    return [_encodable(element) for element in value] if isinstance(value, list) else value


_FAILURE = regex(r"(?P<kind>\w+)(?: in (?P<op>\w+))?(?: at (?P<place>.*))?", re.ASCII | re.DOTALL)
_ONE_OBJECT = "give nothing but one JSON object as an answer; logs belong on standard error"
_KEY_ENV = "name the variable with its key under key_env in the arm's file"
_FIELDS = "compare the answer with the fields in lab/systems/external/protocol.py"
_ONCE = "answer each request once, in order, with its id"
_WRITES = "write only if hello says writes, and never in a probe"
REMEDIES: dict[str, str] = {
    "timed_out": "make it faster, or raise timeouts.{op} in the arm's file",
    "died": "`lab cache answers --stderr {arm}` shows what it wrote to standard error",
    "not_json": _ONE_OBJECT,
    "not_utf8": _ONE_OBJECT,
    "no_answer_object": _ONE_OBJECT,
    "bad_answer": _FIELDS,
    "line_too_long": "answer with less",
    "unknown_id": _ONCE,
    "answered_twice": _ONCE,
    "unknown_field": _FIELDS,
    "bad_result": _FIELDS,
    "other_identity": "do not change the host during a run",
    "no_answer": "start the endpoint, or correct the address",
    "http_401": _KEY_ENV,
    "http_403": _KEY_ENV,
    "not_repeatable": 'make it deterministic, or say "probes": "same" in hello',
    "host_error": "see the log of the host",
    "unknown_item": "return keys that were given, or ids from ids and created",
    "item_not_there": "return no memory that is not born yet or forgotten",
    "item_twice": "return each item once",
    "too_many_items": "return at most at_most items",
    "unlisted_memory": "return every memory of context among the injected items, or in pinned",
    "unwritten_item": "write every injected item into context, in any words",
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


def identity_in(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return who answers, from the checked result of hello (EX-16): its fields, with defaults resolved."""
    identity = {name: list(value) if isinstance(value, tuple) else value for name, value in result.items()}
    if identity["depth"] is None:
        identity["depth"] = identity["cutoff"]
    if identity["observes"] is None:
        identity["observes"] = identity["writes"]
    if not identity["stateful"]:
        identity["probes"] = "same"
    return identity


def word(text: str) -> str:
    """Return a text if it is a word that quotes nothing, else the beginning of its digest."""
    if _WORD.fullmatch(text) and not holds_secret(text):
        return text
    return f"sha256:{sha256_bytes(text.encode('utf-8', 'surrogatepass'))[:16]}"


def without_texts(value: Any) -> Any:
    """Return a JSON value with every string, names included, as by :func:`word`, and no number that is not finite."""
    if isinstance(value, str):
        return word(value)
    if isinstance(value, dict):
        return {word(name): without_texts(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [without_texts(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # Integers beyond 64 bits cannot be written into a receipt.
    return float(value) if type(value) is int and not -(1 << 63) <= value < 1 << 64 else value


def text_if_free(receipt: str | None) -> str | None:
    """Return a receipt as its system wrote it if it is JSON without texts, else None."""
    if receipt is None:
        return None
    try:
        value = json.loads(receipt)
        return receipt if isinstance(value, dict) and without_texts(value) == value else None
    except (ValueError, RecursionError):
        return None
