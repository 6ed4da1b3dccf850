"""``lab memory pack``: build a small cited bundle for one query, from ledgers, episodes, facts and documents."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import LabError, UnusableInput
from lab.base.files import read_text
from lab.base.formatting import counted
from lab.base.token_estimate import tokens
from lab.cli.options import Write
from lab.cli.output import complain, emit, emit_folded, emit_table, emit_unless_written
from lab.cli.results import Result
from lab.memory.cli.facts import HERE
from lab.memory.cli.ledger_read import Profile, is_upstream
from lab.memory.ledger.use import MOST_REFS
from lab.memory.ledger.use import use as record
from lab.memory.pack import candidate as of
from lab.memory.pack import packer
from lab.memory.pack.packer import Pack, trace

if TYPE_CHECKING:
    from lab.memory.pack.sources import LedgerLane

# How the command takes each source (lab/memory/pack/sources.py).
OPTIONS = {
    "ledgers": "",
    "episodes": "--episodes",
    "facts": "--facts",
    "factsLedger": "--facts-ledger",
    "factsRoot": "--facts-root",
    "graph": "--graph",
    "documents": "--docs",
}


def _source(kind: str, about: str) -> Any:
    return typer.Option(metavar=kind, readable=False, help=about)


def pack(
    query: Annotated[
        str,
        typer.Option(help="The prompt or question to pack for. - reads it from standard input."),
    ],
    given: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE...",
            readable=False,
            help="SQLite files of ledgers (lab memory ledger), or LanceDB folders of memories.",
        ),
    ] = None,
    budget_tokens: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Maximum number of tokens of the bundle, citations included.")
    ] = 1200,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Maximum number of items.")] = 12,
    scope: Annotated[str | None, typer.Option(help="Only candidates of this scope. [default: all]")] = None,
    trust: Annotated[
        str | None,
        typer.Option(
            help="off, or exclude_quarantined_fail_open: leave out quarantined records. [default: "
            "exclude_quarantined_fail_open; off in profile upstream]"
        ),
    ] = None,
    no_dissent: Annotated[
        bool, typer.Option("--no-dissent", help="Reserve no slot for evidence that disagrees with the bundle.")
    ] = False,
    docs: Annotated[Path | None, _source("FOLDER", "Also search the Markdown and text files of a folder.")] = None,
    episodes: Annotated[
        Path | None, _source("LEDGER", "Also search the episodes in a ledger (lab memory episodes).")
    ] = None,
    facts: Annotated[Path | None, _source("FILE", "Also search the facts that hold now (lab memory facts).")] = None,
    facts_ledger: Annotated[
        Path | None, _source("LEDGER", "The ledger with the sources of --facts. [default: the only LEDGER]")
    ] = None,
    facts_root: Annotated[Path, _source("FOLDER", "The base folder of relative source paths in --facts.")] = HERE,
    graph: Annotated[Path | None, _source("FILE", "Also search an exported graph (lab memory graph export).")] = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="An endpoint that reorders the first candidates of each source (docs/rerank.md)."
        ),
    ] = None,
    rerank_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable with the key of that endpoint.")
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a reranker on another machine. Texts are sent to it.")
    ] = False,
    tail: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The last turns, oldest first: lines, or a JSON list of texts."),
    ] = None,
    tail_tokens: Annotated[
        int | None, typer.Option(min=0, help="Tokens reserved for --tail. [default: a quarter of the budget]")
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Include soft-archived observations.")] = False,
    now: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Pack as of this day (UTC). [default: now]"),
    ] = None,
    profile: Profile = "seed",
    use: Annotated[
        bool, typer.Option("--use", help="Record in the ledgers that the included observations were used.")
    ] = False,
    write: Write = False,
    with_trace: Annotated[bool, typer.Option("--trace", help="Show the reasons for each candidate.")] = False,
) -> Result:
    """Pack a small bundle with citations for a query.

    The bundle stays within the budget. Most items are whole texts. One that does not fit, or would take over half of
    the budget, is cut to its abstract. Part of a raw record is used only if it alone has a number or name of the query.
    --use changes a ledger, and only with --write. --rerank keeps its answers in the cache.
    """
    from lab import __version__
    from lab.memory.pack.sources import Sources, is_store

    ledgers = [path for path in given or () if not is_store(path)]
    _require("--tail", tail, {"--tail-tokens": tail_tokens is not None})
    _require("--rerank", rerank, {"--rerank-key-env": rerank_key_env, "--allow-remote": allow_remote})
    _require("--facts", facts, {"--facts-ledger": facts_ledger, "--facts-root": facts_root != HERE})
    _require("a ledger", ledgers, {"--use": use, "--archived": archived})
    _require("--use", use, {"--write": write})
    at = now.replace(tzinfo=UTC) if now else datetime.now(UTC)
    if query == "-":
        # A prompt can be longer than an argument may be. A broken character must not prevent a pack.
        query = sys.stdin.buffer.read().decode("utf-8", "replace") if sys.stdin else ""
    turns = _turns(tail)
    if tail_tokens is None:
        tail_tokens = budget_tokens // 4 if turns else 0
    settings = _settings(is_upstream(profile), limit, budget_tokens, trust, no_dissent, tail_tokens)
    stores = tuple(path for path in given or () if is_store(path))
    files = Sources(tuple(ledgers), stores, episodes, facts, facts_ledger, facts_root, graph, docs, archived)
    sources = files.checked(OPTIONS).ledger_lanes(upstream=settings.is_upstream)
    now_ms = int(at.timestamp() * 1000)
    with ExitStack() as opened:
        lanes = [*sources, *files.other_lanes(opened)]
        if not lanes:
            raise UnusableInput("nothing to pack from; give a ledger, --docs, --episodes, --facts or --graph")
        lanes = _reranked(lanes, rerank, rerank_key_env, allow_remote=allow_remote)
        started = time.perf_counter()
        founds = packer.gather(lanes, query, settings, scope=scope, now_ms=now_ms)
    searched = time.perf_counter()
    done = packer.pack(query, founds, settings, scope=scope, now_ms=now_ms, tail=turns)
    ended = time.perf_counter()
    uses = [receipt for lane in sources for receipt in _used(lane, done.refs, at, write=write)] if use else []
    refreshed = [ref for receipt in uses for ref in receipt["selection"]["refreshed_record_refs"]]
    timing = {"search": round((searched - started) * 1000, 3), "pack": round((ended - searched) * 1000, 3)}
    stamp = at.isoformat()
    explained = trace(done, stamp, version=f"recall-lab {__version__}", refreshed=refreshed, timing=timing)

    def show(done: Pack) -> None:
        _emit(done, explained if with_trace else None)
        if use:
            emit(f"{'Recorded' if write else 'To record'} as used: {counted(len(refreshed), 'observation')}.")
            emit_unless_written(write)

    def json(done: Pack) -> dict[str, Any]:
        return _payload(done, stamp) | {"lifecycle_write": uses} | ({"trace": explained} if with_trace else {})

    return Result(done, show, json)


def _settings(
    upstream: bool, limit: int, budget: int, trust: str | None, no_dissent: bool, tail_tokens: int
) -> of.Settings:
    base = of.upstream() if upstream else of.Settings()
    policy = trust or base.trust_policy
    if policy not in (of.OFF, of.EXCLUDE_QUARANTINED):
        raise UnusableInput(f"--trust {policy}: expected {of.OFF} or {of.EXCLUDE_QUARANTINED}")
    return replace(
        base,
        limit=limit,
        budget_tokens=budget,
        trust_policy=policy,
        tail=of.Tail(tokens=tail_tokens),
        dissent=base.dissent and not no_dissent,
    )


def _reranked(lanes: list[of.Lane], url: str | None, key_env: str | None, *, allow_remote: bool) -> list[of.Lane]:
    from lab.memory.pack.sources import RerankedLane
    from lab.systems.openclaw.config.settings import Rerank
    from lab.systems.rerank import checked

    if url is None:
        return lanes
    settings = checked(Rerank(url, key_env=key_env), "--rerank", allow_remote=allow_remote, live=True)
    return [RerankedLane(lane, settings) for lane in lanes]


def _turns(tail: Path | None) -> list[str]:
    """Return the turns of a file: a JSON list of texts, or lines. A broken character is no reason to pack nothing."""
    if tail is None:
        return []
    text = read_text(tail, errors="replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        return text.splitlines()
    if not all(isinstance(one, str) for one in value):
        raise UnusableInput(f"{tail}: expected lines, or a JSON list of texts")
    return value


def _require(needed: str, given: object, options: Mapping[str, object]) -> None:
    """Raise :class:`UnusableInput` for the first option that is used without what it needs."""
    for option, is_used in options.items():
        if is_used and not given:
            raise UnusableInput(f"{option} does nothing without {needed}; add it, or leave {option} out")


def _used(lane: LedgerLane, refs: Sequence[str], at: datetime, *, write: bool) -> list[dict[str, Any]]:
    """Record that observations of a ledger were used; return the receipts, each of as many as one may have."""
    own = [ref.removeprefix(lane.prefix) for ref in refs if ref.startswith(f"{lane.prefix}obs:")]
    return [
        _recorded(lane, own[start : start + MOST_REFS], at, write=write)
        for start in range(0, max(1, len(own)), MOST_REFS)
    ]


def _recorded(lane: LedgerLane, own: Sequence[str], at: datetime, *, write: bool) -> dict[str, Any]:
    """Record that observations of a ledger were used; return the receipt. A ledger that cannot be written is named."""
    try:
        receipt = record(lane.path, own, write=write, now=at)
    except LabError as error:
        complain(f"the use of {counted(len(own), 'observation')} was not recorded: {error}")
        receipt = record(lane.path, [], write=False, now=at)
        receipt |= {"status": "failed_open"}
        receipt["storage"]["error_code"] = type(error).__name__
    named = receipt["selection"]["refreshed_record_refs"]
    receipt["selection"]["refreshed_record_refs"] = [f"{lane.prefix}{ref}" for ref in named]
    return receipt


def _payload(done: Pack, stamp: str) -> dict[str, Any]:
    return {
        "bundle_text": done.bundle_text,
        "items": [
            {"recordRef": line.candidate.ref, "layer": line.layer, "summary": line.text, "kind": line.candidate.kind}
            for line in done.lines
        ],
        "citations": [{"recordRef": line.candidate.ref, "url": line.candidate.url} for line in done.lines],
        "context_pack": done.context_pack(stamp),
    }


def _emit(done: Pack, explained: dict[str, Any] | None) -> None:
    if done.lines:
        emit(done.bundle_text)
        emit()
    if explained is not None and explained["candidates"]:
        rows = [
            [one["id"], one["layer"] if one["decision"]["included"] else "-", ", ".join(one["decision"]["reason"])]
            for one in explained["candidates"]
        ]
        emit_table(["candidate", "layer", "reasons"], rows, left=3)
        emit()
    used, budget = tokens(done.bundle_text), done.settings.budget_tokens
    emit_folded(
        f"Packed {len(done.lines)} of {counted(len(done.decisions), 'candidate')}: {used:,} of {budget:,} tokens."
    )
    if done.reasons:
        emit(f"Reasons: {', '.join(done.reasons)}.")
    for found in done.founds:
        if found.reason:
            emit_folded(f"{found.lane}: {'searched' if found.searched else 'not searched'}; {found.reason}.")
