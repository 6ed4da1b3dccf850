"""``lab receipts audit``: what the logs of a live engine tell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table
from lab.errors import CheckFailed
from lab.formatting import counted

SHOWN = 20
# The figures that Stage B is judged by, under the names that a policy has for them, each with what it stands on.
FIGURES = (
    ("damage.rate", "damaged lines", "damage.of"),
    ("errors.rate", "recalls that failed", "errors.attempts"),
    ("skips.rate", "skipped", "recalls.receipts"),
    ("recalls.empty_rate", "answered with nothing", "recalls.answered"),
    ("recalls.items_mean", "items a recall", "recalls.answered"),
    ("policy_tier.other.count", "of no policy tier", "recalls.answered"),
    ("must.share", "must among items", "scope.items"),
    ("must.highest_window", "highest of windows", "must.windows"),
    ("tiers.nice.final_share", "nice among items", "scope.items"),
    ("repeat.rate", "RepeatRate", "repeat.turns"),
    ("repeat.longest_streak", "one id in a row", "recalls.answered"),
    ("repeat.distinct_share", "different ids", "repeat.distinct_over"),
    ("stale.rate", "stale answers", "stale.recalls"),
    ("stale.vec_rate", "stale vectors", "stale.vec_recalls"),
    ("stale.worst_window", "stale at worst", "stale.recalls"),
    ("stale.vec_worst_window", "stale vectors at worst", "stale.vec_recalls"),
    ("pairs.injected_rate", "injected twice", "recalls.answered"),
    ("lanes.without_fts_share", "no text lane", "lanes.with_hits"),
    ("lanes.without_vec_share", "no vector lane", "lanes.with_hits"),
    ("lanes.worst_window_without_fts", "no text lane at worst", "lanes.with_hits"),
    ("lanes.worst_window_without_vec", "no vector lane at worst", "lanes.with_hits"),
    ("provider.rate", "prompts without vector", "recalls.answered"),
    ("provider.worst_window", "the same at worst", "recalls.answered"),
    ("lanes.fts_share", "found by words", "lanes.items"),
    ("lanes.vec_share", "found by vectors", "lanes.items"),
    ("lanes.neither_share", "found by neither", "lanes.items"),
    ("lanes.listed_share", "in a lane's list", "lanes.items"),
    ("quota.must_max_reached", "mustMax reached", "quota.recalls"),
    ("quota.must_max_exceeded", "mustMax exceeded", "quota.recalls"),
    ("quota.nice_floor_met", "nice floor met", "quota.nice_there"),
    ("quota.wildcard_rate", "wildcard used", "quota.recalls"),
    ("quota.overrun_rate", "quota not kept", "quota.recalls"),
    ("limits.items_most", "items at most", "recalls.answered"),
    ("limits.uneven_rate", "limit not kept", "recalls.answered"),
    ("limits.listed_over", "lists too long", "recalls.answered"),
    ("scope.fallback_consulted_rate", "fallback consulted", "recalls.answered"),
    ("scope.outside_share", "items of other scopes", "scope.items"),
    ("scope.unexplained", "no fallback explains", "scope.items"),
    ("budget.truncated_rate", "cut to the budget", "budget.recalls"),
    ("budget.over", "over the budget", "budget.recalls"),
    ("budget.cut_rate", "cut inside a memory", "budget.recalls"),
    ("budget.bare_rate", "without any memory", "budget.recalls"),
)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
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
    """Check every receipt in the logs of a live engine. Adds up what receipts alone can tell.

    Lines of others are passed over. Nothing but counts, shares and places comes out, never a text of a memory.
    """
    from lab.canary.audit import audit as read
    from lab.canary.audit import nothing_found, require_replaceable
    from lab.files import dump_json, write_atomically

    if out is not None:
        require_replaceable(out, logs)
    found = read(logs, listed=listed, tell=announce)
    if out is not None:
        write_atomically(out, dump_json(found))
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
        raise CheckFailed(f"{', '.join(logs)}: {counted(damaged, 'damaged line')}")


def _show(found: dict[str, Any], out: Path | None) -> None:
    from lab.canary.notes import notes

    recalls, damage = found["recalls"], found["damage"]
    emit(
        f"{counted(found['lines'], 'line')} of {counted(len(found['files']), 'log')}, "
        f"{counted(recalls['receipts'], 'sound receipt')} of recall"
    )
    if found["first_time"]:
        emit(f"{found['first_time']} to {found['last_time']}")
    emit()
    emit_table(["figure", "what it is", "value", "of"], _cells(found), left=2)
    emit()
    for what, key in (("selection", "selection_mode"), ("policy tier", "policy_tier"), ("rejected", "rejected")):
        emit_folded(f"{what}: " + _counts({name: one["count"] for name, one in found[key].items()}))
    for note in notes(found):
        emit_folded(f"note: {note}")
    emit_folded("damaged lines: " + _counts(damage["by_kind"]))
    for place in damage["listed"]:
        emit(f"damaged: {place['file']}:{place['line']}: {place['what']}")
    if damage["lines"] > len(damage["listed"]):
        emit(f"… and {damage['lines'] - len(damage['listed'])} more (--listed N names N)")
    if out is not None:
        emit(f"written: {out}")


def _cells(found: dict[str, Any]) -> list[list[Any]]:
    return [[path, what, _at(found, path), _at(found, of)] for path, what, of in FIGURES]


def _at(found: dict[str, Any], path: str | None) -> Any:
    value: Any = found
    for part in path.split(".") if path else ():
        value = value[part]
    return value if path else None


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "none"
