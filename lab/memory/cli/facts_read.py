"""``lab memory facts current``, ``timeline``, ``lint`` and ``pack``: read facts, and check them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.output import Json, announce_folded, emit, emit_json, emit_table
from lab.memory.cli.ledger_read import Profile, is_upstream

if TYPE_CHECKING:
    from lab.memory.facts.model import Fact
    from lab.memory.facts.view import Current

Facts = Annotated[
    Path, typer.Argument(metavar="FACTS", help="The facts: an append-only file of assertions (JSON Lines).")
]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="A name, or a reference such as entity:gateway.")]
Ledger = Annotated[Path | None, typer.Option(help="The ledger with the sources obs:N and ep:ID.")]
Root = Annotated[
    Path,
    typer.Option(help="The base folder of relative source paths.", callback=lambda root: folder(root, "--root")),
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="Show what held at this time (ISO 8601). [default: now]")
]
Stale = Annotated[
    bool, typer.Option("--include-stale", help="Include facts with changed, missing or quarantined sources.")
]
HERE = Path()


def folder(root: Path, option: str) -> Path:
    """Return the folder of an option; raise :class:`UnusableInput` if there is none.

    Otherwise the sources of all facts would seem to be gone.
    """
    if not root.is_dir():
        raise UnusableInput(f"{option} {root}: {'is a file; give its folder' if root.is_file() else 'no such folder'}")
    return root


def add_to(facts: typer.Typer) -> None:
    """Register the commands."""
    for command in (current, timeline, lint, pack):
        facts.command(command.__name__)(command)


def current(
    facts: Facts,
    subject: Subject,
    as_of: AsOf = None,
    include_stale: Stale = False,
    ledger: Ledger = None,
    root: Root = HERE,
    profile: Profile = "seed",
    as_json: Json = False,
) -> None:
    """Show the facts of a subject that hold now, or at a given time.

    Facts whose sources changed, vanished or are quarantined are left out.
    """
    from lab.memory.facts.model import SCHEMA, fact_json

    reference, time, found = _current(facts, subject, as_of, include_stale, ledger, root, profile)
    if as_json:
        emit_json(
            {
                "kind": "openclaw-mem.graph.fact.current.v0",
                "schema": SCHEMA,
                "subject": reference,
                "as_of": time,
                "include_stale": include_stale,
                "count": len(found.facts),
                "facts": [fact_json(fact, status) for fact, status in found.facts],
                "excluded": [
                    {"fact_id": one.fact, "reason": one.reason, "status": one.status} for one in found.excluded
                ],
            }
        )
        return
    _emit_facts(found.facts)
    emit(f"{counted(len(found.facts), 'fact')} of {reference} as of {time}.")
    reasons = sorted({one.reason for one in found.excluded})
    if reasons:
        counts = [f"{reason} {sum(one.reason == reason for one in found.excluded)}" for reason in reasons]
        emit(f"Left out: {', '.join(counts)}.")
    _emit_unchecked((fact for fact, _ in found.facts), ledger)


def timeline(
    facts: Facts,
    subject: Subject,
    predicate: Annotated[str | None, typer.Option(help="Only facts with this predicate.")] = None,
    ledger: Ledger = None,
    root: Root = HERE,
    as_json: Json = False,
) -> None:
    """Show the history of a subject: all its facts.

    Facts are ordered by predicate, then by start.
    """
    from lab.memory.facts.model import SCHEMA, entity, fact_json, predicate_named
    from lab.memory.facts.sources import Sources
    from lab.memory.facts.view import status_of

    reference, named = entity(subject), predicate_named(predicate) if predicate else None
    events = _of(facts, reference, named)
    places = Sources(ledger, root)
    places.resolve(source for fact in events for source in fact.sources)
    shown = [(fact, status_of(fact, places)) for fact in events]
    if as_json:
        emit_json(
            {
                "kind": "openclaw-mem.graph.fact.timeline.v0",
                "schema": SCHEMA,
                "subject": reference,
                "predicate": named,
                "count": len(shown),
                "events": [fact_json(fact, status) for fact, status in shown],
            }
        )
        return
    _emit_facts(shown)
    emit(f"{counted(len(shown), 'fact')} of {reference}.")
    _emit_unchecked(events, ledger)


def lint(
    facts: Facts, ledger: Ledger = None, root: Root = HERE, profile: Profile = "seed", as_json: Json = False
) -> None:
    """Check all facts: shape, evidence, supersession and conflicts.

    The exit code is 1 if there is an error. A source that changed since the assertion is a warning.
    """
    from lab.memory.facts.sources import Sources
    from lab.memory.facts.store import read
    from lab.memory.facts.view import CODES, View, receipt
    from lab.memory.facts.view import lint as run

    view = View(read(facts).records)
    issues = run(view, Sources(ledger, root), upstream=is_upstream(profile))
    result = receipt(view, issues)
    if as_json:
        emit_json(result)
    else:
        if issues:
            emit_table(
                ["fact", "", "code", "that is"],
                [[one.fact, one.severity, one.code, CODES[one.code]] for one in issues],
                left=4,
            )
        counts = result["counts"]
        errors, warnings = counted(counts["errors"], "error"), counted(counts["warnings"], "warning")
        emit(f"{counted(len(view), 'fact')}: {errors}, {warnings}.")
        _emit_unchecked(view, ledger)
    if not result["ok"]:
        raise CheckFailed(
            f"{facts}: {counted(result['counts']['errors'], 'error')}; lab memory facts lint --json has details"
        )


def pack(
    facts: Facts,
    subject: Subject,
    budget: Annotated[int, typer.Option("--budget-tokens", min=1, help="Maximum number of tokens.")] = 1200,
    most: Annotated[int, typer.Option("--max-items", min=1, help="Maximum number of facts.")] = 20,
    as_of: AsOf = None,
    include_stale: Stale = False,
    ledger: Ledger = None,
    root: Root = HERE,
    profile: Profile = "seed",
    as_json: Json = False,
) -> None:
    """Pack the current facts of a subject into a cited text.

    The highest confidence comes first. The first fact is always there, even if it alone exceeds the budget.
    """
    from lab.memory.facts.pack import pack as run

    reference, time, found = _current(facts, subject, as_of, include_stale, ledger, root, profile)
    packed = run(reference, found, as_of=time, budget=budget, most=most, upstream=is_upstream(profile))
    if as_json:
        emit_json(packed)
    else:
        emit(packed["bundle_text"].rstrip("\n"))


def _current(
    facts: Path,
    subject: str,
    as_of: str | None,
    include_stale: bool,
    ledger: Path | None,
    root: Path,
    profile: str,
) -> tuple[str, str, Current]:
    """Return the reference of a subject, the time, and what holds then."""
    from lab.memory.facts.model import entity, utc
    from lab.memory.facts.sources import Sources
    from lab.memory.facts.view import current as run
    from lab.memory.ledger.ledger import stamp

    reference, time = entity(subject), utc(as_of, "--as-of") if as_of else stamp(datetime.now(UTC))
    events, upstream = _of(facts, reference), is_upstream(profile)
    return reference, time, run(events, time, Sources(ledger, root), include_stale=include_stale, upstream=upstream)


def _of(facts: Path, subject: str, predicate: str | None = None) -> list[Fact]:
    """Return the facts of a subject; if the file has none, name a similar subject."""
    from lab.memory.facts.store import read
    from lab.memory.facts.view import View

    view = View(read(facts).records)
    if not view.of(subject):
        names = {fact.subject.removeprefix("entity:"): fact.subject for fact in view}
        for near in difflib.get_close_matches(subject.removeprefix("entity:"), names, 1, 0.6):
            announce_folded(f"note: {facts} has no fact of {subject}; did you mean {names[near]}?")
    return view.of(subject, predicate)


def _emit_facts(shown: Sequence[tuple[Fact, str]]) -> None:
    from lab.memory.facts.pack import value_text

    if shown:
        emit_table(
            ["fact", "predicate", "object", "from", "until", "status", "sources"],
            [_cells(fact, status, value_text(fact)) for fact, status in shown],
            left=7,
        )


def _cells(fact: Fact, status: str, value: str) -> list[Any]:
    sources = ", ".join(source.ref for source in fact.sources)
    return [fact.id, fact.predicate, value, _day(fact.valid_from), _day(fact.valid_to or "-"), status, sources]


def _day(time: str) -> str:
    """Return a time without its midnight."""
    return time.removesuffix("T00:00:00Z")


def _emit_unchecked(facts: Iterable[Fact], ledger: Path | None) -> None:
    """Say that sources in a ledger could not be looked up, if there are some and no ledger was given."""
    if ledger is None and any(fact.needs_ledger for fact in facts):
        emit("Sources in a ledger were not checked; give --ledger.")
