"""``lab facts``: what is true of a subject now, since when, and by which evidence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.ledger_read import Profile, is_upstream
from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table
from lab.errors import CheckFailed, UnusableInput
from lab.formatting import counted

if TYPE_CHECKING:
    from lab.systems.facts.model import Fact
    from lab.systems.facts.view import Current

Facts = Annotated[Path, typer.Argument(metavar="FACTS", help="The file of assertions: JSON Lines that only grow.")]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="A name, or a reference such as entity:gateway.")]
Ledger = Annotated[Path | None, typer.Option(help="The ledger that has the sources obs:N and ep:ID.")]
Root = Annotated[Path, typer.Option(help="The folder that relative paths of sources start from.")]
Given = Annotated[list[str] | None, typer.Option("--source", help="Evidence: obs:N, ep:ID or doc:PATH. Repeatable.")]
Act = Annotated[str, typer.Option("--assertion", metavar="KIND:REF", help="Where this act is recorded.")]
By = Annotated[str, typer.Option("--by", help="Who.")]
AsOf = Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="ISO 8601. [default: now]")]
Stale = Annotated[bool, typer.Option("--include-stale", help="Facts with changed or missing sources as well.")]
Write = Annotated[bool, typer.Option("--write", help="Do it. Without this option, only say what would be done.")]
DRY_RUN = "Nothing was written; add --write to do it."
HERE = Path()


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    facts = typer.Typer(
        no_args_is_help=True,
        help="Keep facts with their time and evidence. Assertions are a file that only grows; what holds is derived "
        "from it. Commands that change a file need --write.",
    )
    for command in (assert_, import_, invalidate, current, timeline, lint, pack, propose, rebuild):
        facts.command(command.__name__.rstrip("_"))(command)
    app.add_typer(facts, name="facts")


def assert_(
    facts: Facts,
    subject: Subject,
    predicate: Annotated[str, typer.Argument(metavar="PREDICATE", help="Such as status, uses or decision.")],
    value: Annotated[str, typer.Argument(metavar="OBJECT", help="The value.")],
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="Since when it holds (ISO 8601).")],
    assertion: Act,
    sources: Given = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="When it ends. [default: open]")] = None,
    kind: Annotated[str, typer.Option("--type", help="literal, entity_ref or json.")] = "literal",
    confidence: Annotated[
        str, typer.Option(help="low, source_capped, corroborated or operator_asserted.")
    ] = "source_capped",
    supersedes: Annotated[
        list[str] | None, typer.Option("--supersedes", metavar="ID", help="A fact that it replaces. Repeatable.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="A name of the subject to show.")] = None,
    by: By = "operator",
    ledger: Ledger = None,
    root: Root = HERE,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Assert a fact with its evidence.

    Every source must exist and not be quarantined. A subject has one status, configured_as, source_of_truth and
    retired_by at a time: name the fact that a new one supersedes. A fact that is there is not added again.
    """
    from lab.systems.facts.asserting import Claim, assert_facts
    from lab.systems.facts.sources import Sources

    claim = Claim(
        subject, predicate, value, since, sources or (), assertion, kind, until, confidence, supersedes or (), label
    )
    done = assert_facts(facts, [claim], Sources(ledger, root), now=datetime.now(UTC), by=by, write=write)
    if as_json:
        emit_json(done.receipt())
        return
    if done.before:
        emit(f"{done.before[0]} was asserted before; nothing changes.")
        return
    fact = done.facts[0]
    emit_folded(
        f"{fact.id}: {fact.subject} {fact.predicate}, {_times(fact)}, {fact.confidence}; "
        f"{counted(len(fact.sources), 'source')} resolved, {counted(len(fact.supersedes), 'fact')} superseded."
    )
    if not write:
        emit(DRY_RUN)


def import_(
    facts: Facts,
    claims: Annotated[Path, typer.Argument(metavar="CLAIMS", help="Facts to assert, one JSON object a line.")],
    by: By = "operator",
    ledger: Ledger = None,
    root: Root = HERE,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Assert many facts, such as proposals that were reviewed.

    If one is refused, none is written. Facts that are there are not added again, so a killed command is repeated.
    """
    from lab.systems.facts.asserting import assert_facts
    from lab.systems.facts.importing import claims_in
    from lab.systems.facts.sources import Sources

    done = assert_facts(facts, claims_in(claims), Sources(ledger, root), now=datetime.now(UTC), by=by, write=write)
    if as_json:
        emit_json(done.receipt())
        return
    emit(f"{counted(len(done.facts), 'fact')} {'asserted' if write else 'to assert'}, {len(done.before)} before.")
    if not write:
        emit(DRY_RUN)


def invalidate(
    facts: Facts,
    fact: Annotated[str, typer.Argument(metavar="ID", help="The id of the fact.")],
    assertion: Act,
    sources: Given = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="When it ended. [default: now]")] = None,
    retract: Annotated[bool, typer.Option("--retract", help="It never held.")] = False,
    by: By = "operator",
    ledger: Ledger = None,
    root: Root = HERE,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """End a fact that no other one supersedes, or retract it.

    Its assertion stays in the file.
    """
    from lab.systems.facts.asserting import invalidate as run
    from lab.systems.facts.sources import Sources

    if retract and at is not None:
        raise UnusableInput("--at says when the fact ended, and --retract that it never held; give one of them")
    receipt = run(
        facts,
        fact,
        Sources(ledger, root),
        given=sources or (),
        assertion=assertion,
        at=at,
        retract=retract,
        now=datetime.now(UTC),
        by=by,
        write=write,
    )
    if as_json:
        emit_json(receipt)
        return
    emit(f"{fact}: {receipt['status']}" + ("." if retract else f" at {receipt['at']}."))
    if not write:
        emit(DRY_RUN)


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
    """Show what holds of a subject, now or at a time.

    A fact whose sources changed, vanished or are quarantined does not count.
    """
    from lab.systems.facts.model import SCHEMA, fact_json

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
    """Show all facts of a subject, the earliest of each predicate first."""
    from lab.systems.facts.model import SCHEMA, entity, fact_json
    from lab.systems.facts.predicates import predicate_named
    from lab.systems.facts.sources import Sources
    from lab.systems.facts.store import read
    from lab.systems.facts.view import View, status_of

    reference, named = entity(subject), predicate_named(predicate) if predicate else None
    events = View(read(facts).records).of(reference, named)
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

    Exit code 1 if there is an error. A source that changed since the assertion is a warning.
    """
    from lab.systems.facts.lint import CODES, receipt
    from lab.systems.facts.lint import lint as run
    from lab.systems.facts.sources import Sources
    from lab.systems.facts.store import read
    from lab.systems.facts.view import View

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
        emit(f"{counted(len(view), 'fact')}: {counts['errors']} errors, {counts['warnings']} warnings.")
        _emit_unchecked(view, ledger)
    if not result["ok"]:
        raise CheckFailed(f"{facts}: {counted(result['counts']['errors'], 'error')}; lab facts lint --json has details")


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
    """Pack what holds of a subject into a text with citations.

    The highest confidence comes first. The first fact is always there, even if it alone exceeds the budget.
    """
    from lab.systems.facts.pack import pack as run

    reference, time, found = _current(facts, subject, as_of, include_stale, ledger, root, profile)
    packed = run(reference, found, as_of=time, budget=budget, most=most)
    if as_json:
        emit_json(packed)
    else:
        emit(packed["bundle_text"].rstrip("\n"))


def propose(
    text: Annotated[Path, typer.Argument(metavar="TEXT", help="A text; with --golden, JSON Lines with texts.")],
    sources: Given = None,
    golden: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure against these triples (JSON Lines) instead.")
    ] = None,
    most: Annotated[int, typer.Option("--max-proposals", min=1, help="Maximum number of proposals a text.")] = 20,
    as_json: Json = False,
) -> None:
    """Propose facts from lines such as "entity:gateway uses lancedb".

    Proposals are for review and are never written. With --golden, print precision and recall.
    """
    from lab.files import read_text
    from lab.systems.facts.proposals import measure
    from lab.systems.facts.proposals import propose as run

    if golden is not None:
        result = measure(text, golden, most=most)
        if as_json:
            emit_json(result)
        else:
            counts = result["counts"]
            emit(
                f"{counts['proposed']} proposed, {counts['golden']} expected, {counts['truePositive']} both: "
                f"precision {result['precision']:.2f}, recall {result['recall']:.2f}."
            )
        return
    result = run(read_text(text), sources or (), most=most)
    if as_json:
        emit_json(result)
        return
    if result["proposals"]:
        emit_table(
            ["subject", "predicate", "type", "object"],
            [
                [one["subject"]["ref"], one["predicate"], one["object"]["type"], one["object"]["value"]]
                for one in result["proposals"]
            ],
            left=4,
        )
    emit(f"{counted(result['proposal_count'], 'proposal')} to review. Nothing was written.")


def rebuild(facts: Facts, write: Write = False, as_json: Json = False) -> None:
    """Rebuild the view from the assertions, and say whether it was the same.

    The view is FACTS with .view before its ending. It is for other programs: the lab reads the assertions.
    """
    from lab.systems.facts.rebuild import rebuild as run

    receipt = run(facts, write=write)
    if as_json:
        emit_json(receipt)
        return
    said = {"same": "is what the assertions give", "differs": "differs from the assertions", "missing": "is missing"}
    emit(f"{receipt['view']} {said[receipt['status']]} ({counted(receipt['count'], 'fact')}).")
    if receipt["cut_bytes"]:
        emit_folded(f"Bytes of an incomplete last line, which the next assertion replaces: {receipt['cut_bytes']}.")
    if receipt["writes_performed"]:
        emit("It was rebuilt.")
    elif receipt["status"] != "same":
        emit(DRY_RUN)


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
    from lab.systems.facts.model import entity, utc
    from lab.systems.facts.sources import Sources
    from lab.systems.facts.store import read
    from lab.systems.facts.view import View
    from lab.systems.facts.view import current as run
    from lab.systems.sidecar.ledger_times import stamp

    reference, time = entity(subject), utc(as_of, "--as-of") if as_of else stamp(datetime.now(UTC))
    events = View(read(facts).records).of(reference)
    upstream = is_upstream(profile)
    return reference, time, run(events, time, Sources(ledger, root), include_stale=include_stale, upstream=upstream)


def _times(fact: Fact) -> str:
    return f"from {fact.valid_from}" + (f" until {fact.valid_to}" if fact.valid_to else "")


def _emit_facts(shown: Sequence[tuple[Fact, str]]) -> None:
    from lab.systems.facts.pack import value_text

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


def _emit_unchecked(facts: Any, ledger: Path | None) -> None:
    """Say that sources in a ledger could not be looked up, if there are some and no ledger was given."""
    if ledger is None and any(source.ref.startswith(("obs:", "ep:")) for fact in facts for source in fact.sources):
        emit("Sources in a ledger were not checked; give --ledger.")
