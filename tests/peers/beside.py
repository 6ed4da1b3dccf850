"""Run turns through the live plugin and through profile ``upstream``, and compare them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from families import SETTINGS, START, Family
from needs import find_sidecar
from plugin import MODEL, Plugin, Provider

from lab.embedding.server import EmbeddingServer

MOST = 300
TABLE = "db"
PATH_IN_LOG = re.compile('"sqlitePath":"[^"]*",')
LINE = re.compile(r"^\d+\. \[(?P<category>[^|\]]*)\|(?P<label>[^\]]*)\] (?P<text>.*)$")


class Answer(NamedTuple):
    """One side of a turn: the ids in the block, its text (as a hash), the receipt and the rest of the log.

    ``receipt`` is the JSON text as it was logged.
    """

    ids: list[str]
    block: str
    receipt: str
    log: list[str]


class Compared(NamedTuple):
    """A family under one configuration: the turns, the equal turns, and the first different one.

    ``what`` is compared, ``injected`` how many memories were injected, stored, or known at the end.
    """

    family: str
    settings: str
    turns: int
    equal: int
    injected: int
    first: str
    what: str = "turns"


def compare(
    node: str, folder: Path, family: Family, place: Path, names: Iterable[str] = SETTINGS
) -> Iterator[Compared]:
    """Run every turn of a family under each configuration on both sides, in the folder ``place``.

    The table is filled once, and so is the index of documents; each configuration has a copy of them, for it may write
    into them. Raises :class:`needs.Missing` if there are documents and no sidecar to index them.
    """
    provider = Provider()
    server = EmbeddingServer(provider, MODEL)
    # The plugin starts the sidecar as a program on its path.
    env = {"OPENCLAW_MEM_OPENAI_BASE_URL": server.url}
    given = dict(family.settings)
    if family.documents:
        env["PATH"] = f"{find_sidecar().parent}{os.pathsep}{os.environ['PATH']}"
        given["docsColdLane"] |= {"sourceRoots": [str(_written(place / "handbook", family.documents))]}
    try:
        with Plugin(node, settings_of(folder, given), place / "filled", server, env) as plugin:
            _fill(plugin, provider, family)
        for name in names:
            settings, own = SETTINGS[name] | given, place / name
            shutil.copytree(place / "filled", own / "live")
            with Plugin(node, settings_of(folder, settings), own / "live", server, env) as plugin:
                live = list(_live(plugin, provider, family))
            yield _compared(family, name, live, _lab(family, settings, plugin.home / TABLE, server, own))
    finally:
        server.close()


def settings_of(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the host is told of a plugin and its configuration."""
    own: dict[str, Any] = {"embedding": settings.get("embedding", {}) | {"model": MODEL}, "dbPath": f"{{home}}/{TABLE}"}
    if "docsColdLane" in settings:
        own["docsColdLane"] = settings["docsColdLane"] | {"sqlitePath": "{home}/docs.sqlite"}
    config = {"config": settings | own, "keys": [{"at": "embedding.apiKey"}]}
    return {"plugin": str(folder), "processes": "docsColdLane" in settings} | config


def _written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8", newline="")
    return folder


def _compared(family: Family, name: str, live: list[Answer], own: list[Answer]) -> Compared:
    if len(own) != len(live):
        raise RuntimeError(f"{family.name}, {name}: {len(live)} turns of the plugin and {len(own)} of the lab")
    differing = [at for at, (one, other) in enumerate(zip(live, own, strict=True)) if one != other]
    first = _told(family, differing[0], live, own) if differing else ""
    injected = sum(len(one.ids) for one in live)
    return Compared(family.name, name, len(live), len(live) - len(differing), injected, first)


def _fill(plugin: Plugin, provider: Provider, family: Family) -> None:
    """Write the family's rows."""
    provider.refused = family.refused
    file = plugin.home / "rows.json"
    for rows in family.batches:
        file.write_text(json.dumps(rows), "utf-8")
        told = plugin.tool("memory_import", START, inPath=str(file), format="json", dedupe="none")
        if told["imported"] != len(rows):
            raise RuntimeError(f"{family.name}: {told['imported']} of {len(rows)} rows were imported: {told}")
    provider.refused = frozenset()
    if family.documents:
        told = plugin.tool("memory_docs_ingest", START)
        if not told["receipt"]["ok"] or not told["receipt"]["chunks_total"]:
            raise RuntimeError(f"{family.name}: the documents were not indexed: {told}")
    if family.raw:
        _append(plugin.home / TABLE, family.raw)


def _append(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Add rows to the plugin's table as they are, a missing vector as zeros."""
    import lancedb

    table = lancedb.connect(folder).open_table("memories")
    width = table.schema.field("vector").type.list_size
    table.add(
        [dict.fromkeys(table.schema.names) | row | {"vector": row.get("vector") or [0.0] * width} for row in rows]
    )


def _live(plugin: Plugin, provider: Provider, family: Family) -> Iterator[Answer]:
    """Return the plugin's results."""
    known = [row for rows in family.batches for row in rows] + family.raw
    for at, prompt in enumerate(family.prompts):
        now = family.start + (at + 1) * family.between
        provider.down = at in family.down
        if at in family.stored:
            row = family.stored[at]
            given = {name: row[name] for name in ("text", "category", "importance", "scope") if row[name] is not None}
            known.append(given | {"id": plugin.tool("memory_store", now - 1, **given)["id"]})
        asked = {"turn": f"t{at}", "text": prompt, "scope": None, "scoping": "tags", "session": f"turn-{at}"}
        given = plugin.ask("recall", now_ms=now, probe=False, **asked)
        log = [PATH_IN_LOG.sub("", line.partition(" ")[2]) for line in given["log"]]
        yield Answer(_ids(given["context"], known), _hash(given["context"]), given.get("receipt_text", "{}"), log)
    provider.down = False


def _ids(block: str, known: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the memories whose complete lines a block holds, identified by text and category."""
    from lab.systems.openclaw.recall.block import escape

    # The lab's items are memories, which blank rows are not.
    by_line = {
        (row["category"], escape(row["text"].strip())): row["id"] for row in reversed(known) if row["text"].strip()
    }
    found = (LINE.match(line) for line in block.split("\n"))
    ids = (by_line.get((one["category"], one["text"])) for one in found if one)
    return [identity for identity in ids if identity]


def _lab(family: Family, settings: dict[str, Any], table: Path, server: EmbeddingServer, place: Path) -> list[Answer]:
    """Return the results of ``lab replay`` on a recording with the plugin's table, vectors and provider."""
    from lab.replay.run import run_replay
    from lab.runs.request import ReplayRequest
    from lab.runs.tables import read_table

    recording, arm = place / "turns.jsonl", place / "settings.json"
    recording.write_text("".join(json.dumps(line) + "\n" for line in _recording(family)), "utf-8")
    arm.write_text(json.dumps(settings), "utf-8")
    asked = ReplayRequest(
        str(recording),
        "lab",
        (f"engine={arm}",),
        memories_from=str(table),
        profile="upstream",
        scope="tags",
        recall_turns="user",
        labels="recorded",
        embedder=f"openai:{MODEL}@{server.url}",
        vectors="stored",
        faults=tuple(f"embedder_down=peers/s/t{at}" for at in sorted(family.down)),
    )
    run = run_replay(asked, place / "run", use_cache=False).run
    (conversation,) = run.done()
    rows = read_table(run.receipts(conversation)).to_pylist()
    return [
        Answer(
            row["item_id"][: row["injected"]],
            row["block"],
            row["receipt"],
            list(row["log"]),
        )
        for row in sorted(rows, key=lambda row: row["seq"])
    ]


def _recording(family: Family) -> Iterator[dict[str, Any]]:
    from datetime import UTC, datetime

    def iso(at: int) -> str:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")

    yield {"kind": "recording", "schema": "lab.recording.v1", "conversation": "peers", "language": "en"}
    yield {"kind": "session", "session": "s", "time": iso(family.start + family.between)}
    for at, prompt in enumerate(family.prompts):
        time = iso(family.start + (at + 1) * family.between)
        yield {"kind": "turn", "turn": f"t{at}", "role": "user", "text": prompt, "time": time}


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _told(family: Family, at: int, live: list[Answer], own: list[Answer]) -> str:
    one, other = live[at], own[at]
    parts = [f"turn {at}, {family.prompts[at]!r}"]
    names = ("ids", "block", "log")
    differing = [name for name in names if getattr(one, name) != getattr(other, name)]
    parts += [f"{name}: plugin {getattr(one, name)}, lab {getattr(other, name)}" for name in differing]
    if one.receipt != other.receipt:
        theirs, ours = json.loads(one.receipt), json.loads(other.receipt)
        keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
        parts += [f"receipt {key}: plugin {theirs.get(key)}, lab {ours.get(key)}" for key in keys]
        if not keys:
            parts.append(f"receipt, equal but for its text: plugin {one.receipt}, lab {other.receipt}")
    # The log and the receipt are long, so only the first difference is shown.
    return "; ".join(part if len(part) <= MOST else part[:MOST] + "…" for part in parts)
