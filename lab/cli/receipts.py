"""``lab receipts audit``: what the logs of a live engine tell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table
from lab.errors import CheckFailed

SHOWN = 20


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    receipts = typer.Typer(no_args_is_help=True, help="Receipts of a live engine: audit its logs.")
    receipts.command("audit")(audit)
    app.add_typer(receipts, name="receipts")


def audit(
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG", help="Gateway logs, packed with gzip or not; - for stdin.")
    ],
    out: Annotated[Path | None, typer.Option(help="Write the audit to this file, for a gate to read.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if a line is damaged.")] = False,
    listed: Annotated[int, typer.Option(min=0, help="Damaged lines to name; all are counted.")] = SHOWN,
    as_json: Json = False,
) -> None:
    """Check every receipt in the logs of a live engine, and add up what receipts alone can tell.

    Lines of others are passed over. Nothing but counts, shares and places comes out, never a text of a memory.
    """
    from lab.audit.audit import audit as read
    from lab.audit.audit import nothing_found, require_replaceable
    from lab.files import dump_json, write_whole

    if out is not None:
        require_replaceable(out, logs)
    found = read(logs, listed=listed, tell=announce)
    if out is not None:
        write_whole(out, dump_json(found))
    silent = nothing_found(found)
    if as_json:
        emit_json(found)
    elif silent is None:
        _show(found, out)
    if silent and strict:
        raise CheckFailed(f"{', '.join(logs)}: {silent}")
    if silent:
        announce(silent) if as_json else emit_folded(silent)
        if out is not None and not as_json:
            emit(f"written: {out}")
    damaged = found["damage"]["lines"]
    if strict and damaged:
        raise CheckFailed(f"{', '.join(logs)}: {damaged} damaged lines")


def _show(found: dict[str, Any], out: Path | None) -> None:
    recalls, damage = found["recalls"], found["damage"]
    emit(f"{found['lines']} lines of {len(found['files'])} logs, {recalls['receipts']} sound receipts of recall")
    if found["first_time"]:
        emit(f"{found['first_time']} to {found['last_time']}")
    emit()
    emit_table(["what", "value", "of"], [[what, value, whole] for what, value, whole in _rows(found)], whole_keys=True)
    emit()
    for what, key in (("selection", "selection_mode"), ("policy tier", "policy_tier"), ("rejected", "rejected")):
        emit_folded(f"{what}: " + _counts({name: one["count"] for name, one in found[key].items()}))
    emit_folded("damaged lines: " + _counts(damage["by_kind"]))
    for place in damage["listed"]:
        emit(f"damaged: {place['file']}:{place['line']}: {place['what']}")
    if damage["lines"] > len(damage["listed"]):
        emit(f"… and {damage['lines'] - len(damage['listed'])} more (--listed N names N)")
    if out is not None:
        emit(f"written: {out}")


def _rows(found: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The figures that Stage B is judged by, each with how many it stands on."""
    recalls, quota, tiers, scope = found["recalls"], found["quota"], found["tiers"], found["scope"]
    answered = recalls["answered"]
    return [
        ("damaged lines", found["damage"]["rate"], found["damage"]["of"]),
        ("recalls that failed", found["errors"]["rate"], found["errors"]["attempts"]),
        ("skipped", found["skips"]["rate"], recalls["receipts"]),
        ("answered with nothing", recalls["empty_rate"], answered),
        ("items a recall", recalls["items_mean"], answered),
        ("must among items", found["must"]["share"], sum(one["final"] for one in tiers.values())),
        (f"  highest of {found['must']['window']} recalls", found["must"]["highest_window"], found["must"]["windows"]),
        ("nice among items", tiers["nice"]["final_share"], sum(one["final"] for one in tiers.values())),
        ("RepeatRate", found["repeat"]["rate"], found["repeat"]["turns"]),
        ("found by words", found["lanes"]["fts_share"], found["lanes"]["items"]),
        ("found by vectors", found["lanes"]["vec_share"], found["lanes"]["items"]),
        ("found by neither", found["lanes"]["neither_share"], found["lanes"]["items"]),
        ("mustMax reached", quota["must_max_reached"], quota["recalls"]),
        ("nice floor met", quota["nice_floor_met"], quota["nice_there"]),
        ("wildcard used", quota["wildcard_rate"], quota["recalls"]),
        ("fallback consulted", scope["fallback_consulted_rate"], answered),
        ("items of other scopes", scope["outside_share"], scope["items"]),
        ("  that no fallback explains", scope["unexplained_share"], scope["items"]),
        ("cut to the budget", found["budget"]["truncated_rate"], found["budget"]["recalls"]),
    ]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "none"
