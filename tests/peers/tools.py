"""Calls of the plugin's memory tools beside the lab's: results, texts, logs, files, and the rows that are left."""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from beside import TABLE, Compared, settings_of
from families import CATEGORIES, DAY, START, Draw
from plugin import MODEL, Plugin, Provider

from lab.base.errors import UnusableInput
from lab.embedding.server import EmbeddingServer
from lab.memory.table.lance_table import LanceTable
from lab.memory.tools.context import ToolContext
from lab.memory.tools.importing import memory_import
from lab.memory.tools.listing import memory_export, memory_list, memory_stats
from lab.memory.tools.session import Session
from lab.memory.tools.store import memory_forget, memory_store
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.recall_tool import agent_recall, clamp_limit

NAME = "memory tools"
# Calls under each configuration.
CALLS = 100
# The places and the times that differ between any two calls.
APART = ("latencyMs", "dbPath", "path", "source", "gbrainMirror")
DIGITS = 6
TOOLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalize": {
        "scopePolicy": {"validationMode": "normalize", "fallbackScopes": ["team-oak"], "maxScopeLength": 8},
        "receipts": {"verbosity": "high", "maxItems": 10},
    },
    "unscoped": {"scopePolicy": {"enabled": False}, "receipts": {"enabled": False}},
}
SCOPES = (None, None, "team-oak", "Team Oak", "Bad Scope!", "--", "", "empty-room")
LIMITS = (None, None, 1, 3, 0, -2, 2.7, 9999)
SECRETS = ("password: hunter2", "sk-" + "FAKE" * 6, "Authorization: Bearer " + "FAKE" * 5, "AKIA" + "FAKE" * 4)


class Told(NamedTuple):
    """What a call gave: its details, its text, its log, and the file that it wrote; of a refusal, nothing but that."""

    details: Any
    text: str = ""
    log: list[str] | None = None
    file: str = ""


REFUSED = Told("refused")


class Lab:
    """The memory tools of the lab on a copy of the plugin's table, with its clock and ids."""

    def __init__(self, settings: dict[str, Any], folder: Path, provider: Provider) -> None:
        self.now, self._ids, self._provider = START, count(), provider
        self._table = LanceTable(folder)
        config = resolve(settings, "upstream")
        clock_and_ids = (lambda: self.now, self._new_id)
        self._context = ToolContext(
            self._table, config, *clock_and_ids, self._embed, provider.dimension, str(folder), "memories", MODEL
        )

    def close(self) -> None:
        """Close the table."""
        self._table.close()

    def _new_id(self) -> str:
        """Return the next id of the host, which draws them from its seed."""
        digest = bytearray(hashlib.sha1(f"0 peers {next(self._ids)}".encode(), usedforsecurity=False).digest()[:16])
        return str(uuid.UUID(bytes=bytes(digest), version=4))

    def _embed(self, texts: Any) -> Any:
        self._provider.prepare(texts)
        return self._provider.of(texts).tolist()

    def call(self, name: str, given: dict[str, Any]) -> Told:
        """Call a tool with the plugin's parameters."""
        context, scope = self._context, given.get("scope")
        shown = {key: given.get(key) for key in ("scope", "category", "limit")}
        try:
            if name == "memory_recall":
                return self._recalled(given["query"], given.get("limit"), scope)
            if name == "memory_forget":
                result = memory_forget(context, memory_id=given.get("memoryId"), query=given.get("query"))
            elif name == "memory_store":
                category = given.get("category", "other")
                result = memory_store(
                    context, given["text"], importance=given.get("importance"), category=category, scope=scope
                )
            elif name == "memory_list":
                result = memory_list(context, **shown)
            elif name == "memory_stats":
                result = memory_stats(context, scope=scope, category=given.get("category"))
            elif name == "memory_export":
                path = Path(given["outPath"])
                result = memory_export(
                    context, path, file_format=given.get("format"), redact=given.get("redact", True), **shown
                )
            else:
                result = memory_import(
                    context,
                    Path(given["inPath"]),
                    file_format=given.get("format"),
                    dedupe=given.get("dedupe"),
                    dry_run=given.get("dryRun", False),
                    validate_only=given.get("validateOnly", False),
                    scope=scope,
                    limit=given.get("limit"),
                )
        except UnusableInput:
            return REFUSED
        return _told(result.details, result.text, list(result.log), given)

    def _recalled(self, query: str, limit: Any, scope: str | None) -> Told:
        session = Session(self._table, self._context, _Asked(self._provider))
        most = clamp_limit(5 if limit is None else limit)
        with session.memories(query) as memories:
            found = agent_recall(query, self._context.config, memories, limit=most, scope=scope)
        receipt = found.receipt | self._context.backend | {"model": MODEL}
        return _told(found.details | {"receipt": receipt}, found.text, list(found.log), {})


class _Asked:
    """The provider as an embedder."""

    def __init__(self, provider: Provider) -> None:
        self._provider, self.dimension = provider, provider.dimension

    def encode(self, texts: Any, role: Any = None) -> Any:
        """Return the vectors of texts."""
        del role
        return self._provider.of(texts)


def compare_tools(node: str, folder: Path, seed: int, place: Path) -> Iterator[Compared]:
    """Yield the comparison of a hundred calls under each configuration."""
    for name, settings in TOOLS.items():
        provider, draw, own = Provider(), Draw(f"tools {name}", seed), place / name
        server = EmbeddingServer(provider, MODEL)
        try:
            with Plugin(node, settings_of(folder, settings), own, server) as plugin:
                yield _compared(name, settings, draw, provider, plugin, own)
        finally:
            server.close()


def _compared(
    name: str, settings: dict[str, Any], draw: Draw, provider: Provider, plugin: Plugin, place: Path
) -> Compared:
    rows = [row for row in draw.rows(60, lambda: _text(draw)) if row]
    file = place / "rows.json"
    file.write_text(json.dumps(rows), "utf-8")
    provider.refused = frozenset(row["text"] for row in rows[::7])
    plugin.tool("memory_import", START, inPath=str(file), format="json", dedupe="none")
    provider.refused = frozenset()
    shutil.copytree(place / TABLE, place / "own")
    lab, known, first, equal = Lab(settings, place / "own", provider), [row["id"] for row in rows], "", 0
    for at in range(CALLS):
        tool, given = _call(draw, known, place, at)
        provider.down = draw.random.random() < 0.1
        lab.now = START + at * DAY // 7
        live = _live(plugin, tool, lab.now, given)
        own = lab.call(tool, given)
        if live == own:
            equal += 1
        elif not first:
            first = f"call {at}, {tool} {given}: plugin {live}, lab {own}"
        if isinstance(live.details, dict) and live.details.get("id"):
            known.append(live.details["id"])
    lab.close()
    pairs = zip_longest(_rows(place / TABLE), _rows(place / "own"))
    if not first and (odd := [pair for pair in pairs if pair[0] != pair[1]]):
        first, equal = f"rows: plugin {odd[0][0]}, lab {odd[0][1]}", equal - 1
    return Compared(NAME, name, CALLS, equal, len(known), first, "tool calls")


def _live(plugin: Plugin, tool: str, now: int, given: dict[str, Any]) -> Told:
    answer = plugin.answer("tool", name=tool, now_ms=now, params=given, whole=True)
    if not answer["ok"]:
        return REFUSED
    told = answer["result"]
    return _told(told["details"], told["text"], [line for _, line in told["log"]], given)


def _told(details: Any, text: str, log: list[str], given: dict[str, Any]) -> Told:
    path = Path(given.get("outPath", ""))
    written = path.read_text("utf-8") if given.get("outPath") and path.is_file() else ""
    if written:
        path.unlink()
    return Told(_plain(details), text, log, written)


def _plain(value: Any) -> Any:
    """Return a value without what differs between any two calls, and with floats that LanceDB can vouch for."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in APART}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def _rows(folder: Path) -> list[dict[str, Any]]:
    import lancedb

    names = ("id", "text", "createdAt", "category", "importance", "importance_label", "scope", "trust_tier", "vector")
    rows = lancedb.connect(folder).open_table("memories").to_arrow().to_pylist()
    return [{name: row[name] for name in names} for row in rows]


def _text(draw: Draw) -> str:
    kind = draw.random.random()
    text = draw.chinese() if kind < 0.2 else draw.text(60 if kind < 0.3 else 0)
    return f"{text} {draw.random.choice(SECRETS)}" if kind > 0.85 else text


def _call(draw: Draw, known: list[str], place: Path, at: int) -> tuple[str, dict[str, Any]]:
    """Return a tool and its parameters."""
    choice = draw.random.choice
    tool = choice(("memory_recall",) * 3 + ("memory_store",) * 3 + ("memory_forget",) * 2 + ("memory_list",) * 2)
    tool = choice((tool, tool, tool, "memory_stats", "memory_export", "memory_import"))
    some = {"scope": choice(SCOPES), "category": choice((None, *CATEGORIES)), "limit": choice(LIMITS)}
    filters = {key: value for key, value in some.items() if value is not None}
    if tool == "memory_recall":
        filters.pop("category", None)
        return tool, {"query": choice((_text(draw), _text(draw), f"[SCOPE: team-oak] {_text(draw)}", "  "))} | filters
    if tool == "memory_store":
        filters.pop("limit", None)
        score = choice((None, 0.9, 0.6, 0.2, 0, 1))
        return tool, {"text": _text(draw)} | filters | ({} if score is None else {"importance": score})
    if tool == "memory_forget":
        ids = (choice(known), choice(known), str(uuid.UUID(int=at)), "not-a-uuid", "__schema__")
        return tool, choice(({"memoryId": choice(ids)}, {"query": _text(draw)}, {}))
    if tool == "memory_stats":
        filters.pop("limit", None)
    if tool == "memory_export":
        more = choice(({}, {"redact": False}, {"format": "json"}))
        return tool, {"outPath": str(place / f"out{at}.{choice(('json', 'jsonl'))}")} | filters | more
    if tool == "memory_import":
        filters.pop("category", None)
        # Without a comparison, an id is stored twice; of two such rows, the plugin recalls the one that it finds first.
        more = choice(({}, {"dryRun": True}, {"validateOnly": True}, {"dedupe": "id"}, {"dedupe": "odd"}))
        return tool, {"inPath": str(_file(draw, known, place, at))} | filters | more
    return tool, filters


def _file(draw: Draw, known: list[str], place: Path, at: int) -> Path:
    """Write a file to import: an array, an object, or lines, with odd records among them."""
    choice, records = draw.random.choice, []
    for row in draw.rows(draw.random.randint(0, 5), lambda: _text(draw)):
        odd = choice(
            (
                {},
                {},
                {"id": choice(known)},
                {"text": " "},
                {"createdAt": choice((None, 0, "soon", 1e18, -5, "2026-01-02T03:04:05Z"))},
                {"importance": choice(("0.9", None, 7, "high"))},
                {"importance_label": choice(("must_remember", "high", "odd", None))},
                {"scope": choice(("Bad Scope!", None, "", 5))},
                {"category": choice(("FACT", "odd", None))},
                {"trust_tier": choice(("trusted", "", None))},
            )
        )
        records.append(row | odd)
    if records and draw.random.random() < 0.2:
        records.insert(draw.random.randrange(len(records)), choice((None, 5, "text", [], {})))
    kind = choice(("json", "items", "jsonl", "jsonl"))
    path = place / f"in{at}.{'jsonl' if kind == 'jsonl' else 'json'}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(record) + choice(("\n", "\n\n")) for record in records), "utf-8")
    else:
        path.write_text(json.dumps({"items": records} if kind == "items" else records), "utf-8")
    return path
