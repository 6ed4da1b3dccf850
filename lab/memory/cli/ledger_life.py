"""``lab memory ledger lifecycle``, ``used`` and ``decay``: states, uses and soft archival of observations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.formatting import counted
from lab.cli.options import Write, in_utc
from lab.cli.output import (
    Json,
    counting,
    emit,
    emit_change,
    emit_counts,
    emit_folded,
    emit_table,
    emit_unless_written,
)
from lab.memory.cli.ledger_read import Ids, Ledger, is_upstream

At = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"], callback=in_utc, help="The time (UTC). [default: now]"),
]
# Rows of a table that are printed; --json has all.
SHOWN = 20


def add_to(ledger: typer.Typer) -> None:
    """Register the commands."""
    ledger.command("lifecycle")(lifecycle)
    ledger.command("used")(used)
    ledger.command("decay")(decay)


def lifecycle(
    ledger: Ledger,
    ids: Ids,
    to: Annotated[
        str, typer.Option("--to", help="captured, categorized, active, consolidated, stale or soft-archived.")
    ],
    reason: Annotated[str, typer.Option(help="Why, as a short code without texts of memories.")],
    actor: Annotated[str, typer.Option(help="Name of the person or program that does it.")] = "operator",
    at: At = None,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Archive observations softly, or revive them.

    A soft-archived observation is not found by searches and is never deleted. States change only along the allowed
    transitions; if one observation may not, none changes.
    """
    from lab.memory.ledger.use import move

    done = move(ledger, ids, to, reason=reason, actor=actor, write=write, now=at)
    if as_json:
        receipt = {"transitions": done.receipts, "changed_meanwhile": done.changed_meanwhile}
        emit_change("memory ledger lifecycle", ledger, receipt, write=write)
    else:
        emit_table(
            ["observation", "from", "to", "changed"],
            [
                [one["observation_id"], one["from"], one["to"], "yes" if one["changed"] else "no"]
                for one in done.receipts
            ],
            left=4,
        )
        emit_unless_written(write)
    if done.changed_meanwhile:
        ids_ = ", ".join(map(str, done.changed_meanwhile))
        raise CannotMeasure(f"{ledger}: another program changed {ids_} meanwhile; run the command again")


def used(
    ledger: Ledger,
    ids: Ids,
    retrieved: Annotated[
        bool, typer.Option("--retrieved", help="They were candidates only, not part of the final context.")
    ] = False,
    at: At = None,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Record that observations were part of a context.

    Sets last_used_at and counts the use, which delays decay; with --retrieved only last_retrieved_at. State and trust
    stay as they are. At most 64 observations at once.
    """
    from lab.memory.ledger.use import MOST_REFS, use

    if len(set(ids)) > MOST_REFS:
        raise UnusableInput(f"{len(set(ids))} observations at once; one context cites at most {MOST_REFS}")
    receipt = use(ledger, [f"obs:{number}" for number in ids], included=not retrieved, write=write, now=at)
    if as_json:
        emit_change("memory ledger used", ledger, receipt, write=write)
    else:
        refreshed, missing = (receipt["selection"][f"{name}_record_refs"] for name in ("refreshed", "missing"))
        emit(f"{counted(len(refreshed), 'observation')} {'refreshed' if write else 'to refresh'}.")
        if missing:
            emit_folded(f"Not in the ledger: {', '.join(missing)}.")
        emit_unless_written(write)


def decay(
    ledger: Ledger,
    p1_days: Annotated[int, typer.Option("--p1", min=1, help="Days without use after which P1 is archived.")] = 90,
    p2_days: Annotated[int, typer.Option("--p2", min=1, help="Days without use after which P2 is archived.")] = 30,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Look at this many newest observations. [default: all; upstream 1000]")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Only observations of this scope.")] = None,
    at: At = None,
    profile: Annotated[str, typer.Option(help="seed, or upstream to recommend as the public sidecar does.")] = "seed",
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Archive observations softly that were not used for long.

    P0 is never archived, P1 after 90 days without use, P2 after 30. P0 is must_remember, or what lifecycle.priority
    names; P1 are preferences, decisions, facts, learnings, plans and entities; all others are P2. An archived
    observation is revived by lab memory ledger lifecycle --to active.
    """
    from lab.memory.ledger.use import decay as run

    upstream = is_upstream(profile)
    done = run(
        ledger,
        days={"P1": p1_days, "P2": p2_days},
        limit=limit or (1000 if upstream else None),
        scope=scope,
        upstream=upstream,
        write=write,
        now=at,
        announce=counting("observation"),
    )
    receipt = done.receipt()
    if as_json:
        items = [
            {"recordRef": f"obs:{one.row.id}", "priority": one.priority, "unused_days": one.days}
            | {"last_used_at": one.last_used_at}
            for one in done.unused
        ]
        emit_change("memory ledger decay", ledger, {**receipt, "items": items}, write=write)
        return
    _show(receipt, write)
    if done.unused:
        emit_table(
            ["observation", "priority", "kind", "days without use"],
            [[one.row.id, one.priority, one.row.kind or "-", one.days] for one in done.unused[:SHOWN]],
            left=3,
        )
    if len(done.unused) > SHOWN:
        emit(f"… and {len(done.unused) - SHOWN} more; --json lists all.")
    emit_unless_written(write)


def _show(receipt: dict[str, Any], write: bool) -> None:
    emit_folded(
        f"{counted(receipt['count'], 'observation')} {'archived' if write else 'to archive'}; "
        f"P0, which is never archived: {receipt['protected_p0']}."
    )
    for name in ("priority", "importance", "trust"):
        counts = ", ".join(f"{key} {count}" for key, count in receipt[f"by_{name}"].items() if count)
        if counts:
            emit_folded(f"By {name}: {counts}.")
    emit_counts(
        receipt,
        ("without_time", "Left alone, because their time cannot be read"),
        ("unreadable", "Left alone, because their detail is no JSON object"),
        ("changed_meanwhile", "Changed by another program meanwhile; run the command again for these"),
    )
