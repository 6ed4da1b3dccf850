"""``lab memory facts``: assert, check and show facts with their dates and evidence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.options import Write
from lab.cli.output import announce_folded, emit, emit_folded, emit_table
from lab.cli.results import Result, changed, command_name
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
Given = Annotated[list[str] | None, typer.Option("--source", help="Evidence: obs:N, ep:ID or doc:PATH. Repeatable.")]
Act = Annotated[
    str,
    typer.Option(
        "--assertion", metavar="KIND:REF", help="Where this decision is recorded, such as note:review or obs:7."
    ),
]
By = Annotated[str, typer.Option("--by", help="The person or program that makes the change.")]


def folder(root: Path, option: str) -> Path:
    """Return the folder of an option; raise :class:`UnusableInput` if there is none.

    Otherwise the sources of all facts would seem to be gone.
    """
    if not root.is_dir():
        raise UnusableInput(f"{option} {root}: {'is a file; give its folder' if root.is_file() else 'no such folder'}")
    return root


def current(
    facts: Facts,
    subject: Subject,
    as_of: AsOf = None,
    include_stale: Stale = False,
    ledger: Ledger = None,
    root: Root = HERE,
    profile: Profile = "seed",
) -> Result:
    """Show the facts of a subject that hold now, or at a given time.

    Facts whose sources changed, vanished or are quarantined are left out.
    """
    from lab.memory.facts.model import SCHEMA, fact_json

    reference, time, found = _current(facts, subject, as_of, include_stale, ledger, root, profile)

    def show(_: object) -> None:
        _emit_facts(found.facts)
        emit(f"{counted(len(found.facts), 'fact')} of {reference} as of {time}.")
        reasons = sorted({one.reason for one in found.excluded})
        if reasons:
            counts = [f"{reason} {sum(one.reason == reason for one in found.excluded)}" for reason in reasons]
            emit(f"Left out: {', '.join(counts)}.")
        _emit_unchecked((fact for fact, _ in found.facts), ledger)

    return Result(
        {
            "kind": "openclaw-mem.graph.fact.current.v0",
            "schema": SCHEMA,
            "subject": reference,
            "as_of": time,
            "include_stale": include_stale,
            "count": len(found.facts),
            "facts": [fact_json(fact, status) for fact, status in found.facts],
            "excluded": [{"fact_id": one.fact, "reason": one.reason, "status": one.status} for one in found.excluded],
        },
        show,
    )


def timeline(
    facts: Facts,
    subject: Subject,
    predicate: Annotated[str | None, typer.Option(help="Only facts with this predicate.")] = None,
    ledger: Ledger = None,
    root: Root = HERE,
) -> Result:
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

    def show(_: object) -> None:
        _emit_facts(shown)
        emit(f"{counted(len(shown), 'fact')} of {reference}.")
        _emit_unchecked(events, ledger)

    return Result(
        {
            "kind": "openclaw-mem.graph.fact.timeline.v0",
            "schema": SCHEMA,
            "subject": reference,
            "predicate": named,
            "count": len(shown),
            "events": [fact_json(fact, status) for fact, status in shown],
        },
        show,
    )


def lint(facts: Facts, ledger: Ledger = None, root: Root = HERE, profile: Profile = "seed") -> Result:
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
    errors, warnings = (counted(result["counts"][f"{kind}s"], kind) for kind in ("error", "warning"))

    def show(_: object) -> None:
        if issues:
            emit_table(
                ["fact", "", "code", "that is"],
                [[one.fact, one.severity, one.code, CODES[one.code]] for one in issues],
                left=4,
            )
        emit(f"{counted(len(view), 'fact')}: {errors}, {warnings}.")
        _emit_unchecked(view, ledger)

    error = None if result["ok"] else CheckFailed(f"{facts}: {errors}; lab memory facts lint --json has details")
    return Result(result, show, error=error)


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
) -> Result:
    """Pack the current facts of a subject into a cited text.

    The highest confidence comes first. The first fact is always there, even if it alone exceeds the budget.
    """
    from lab.memory.facts.pack import pack as run

    reference, time, found = _current(facts, subject, as_of, include_stale, ledger, root, profile)
    packed = run(reference, found, as_of=time, budget=budget, most=most, upstream=is_upstream(profile))
    return Result(packed, lambda packed: emit(packed["bundle_text"].rstrip("\n")))


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


def assert_(
    facts: Facts,
    subject: Subject,
    predicate: Annotated[
        str, typer.Argument(metavar="PREDICATE", help="The predicate, such as status, uses or decision.")
    ],
    value: Annotated[str, typer.Argument(metavar="OBJECT", help="The value.")],
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="When it begins to hold (ISO 8601).")],
    assertion: Act,
    sources: Given = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="When it ends. [default: open]")] = None,
    kind: Annotated[str, typer.Option("--type", help="literal, entity_ref or json.")] = "literal",
    confidence: Annotated[
        str, typer.Option(help="low, source_capped, corroborated or operator_asserted. The sources limit it.")
    ] = "source_capped",
    supersedes: Annotated[
        list[str] | None, typer.Option("--supersedes", metavar="ID", help="A fact that it replaces. Repeatable.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="A name to show for the subject.")] = None,
    by: By = "operator",
    ledger: Ledger = None,
    root: Root = HERE,
    write: Write = False,
) -> Result:
    """Assert a fact with its evidence.

    Every source must exist and must not be quarantined. A subject has one status, configured_as, source_of_truth and
    retired_by at a time: name the old fact by --supersedes. A fact that is already in the file is renewed if its
    sources have changed, and otherwise left alone.
    """
    from lab.memory.facts.asserting import Claim, assert_facts
    from lab.memory.facts.sources import Sources

    claim = Claim(
        subject, predicate, value, since, sources or (), assertion, kind, until, confidence, supersedes or (), label
    )
    done = assert_facts(facts, [claim], Sources(ledger, root), now=datetime.now(UTC), by=by, write=write)

    stays = not done.renewed and bool(done.retracted or done.before)

    def show(_: object) -> None:
        if done.renewed:
            emit_folded(f"{done.renewed[0]} was asserted before; it is renewed, with its sources as they are now.")
        elif done.retracted:
            again = "to assert it again, give another --assertion"
            emit_folded(f"{done.retracted[0]} was retracted and stays so; {again}.")
        elif done.before:
            emit(f"{done.before[0]} was asserted before; nothing changes.")
        if done.facts and not stays:
            _emit_asserted(done.facts[0])

    return changed("memory facts assert", facts, done.receipt(), show, write=write, due=not stays)


def _emit_asserted(fact: Fact) -> None:
    from lab.memory.facts.pack import value_text

    emit_folded(
        f"{fact.id}: {fact.subject} {fact.predicate} = {value_text(fact)}, {_times(fact)}, {fact.confidence}; "
        f"{counted(len(fact.sources), 'source')} resolved, {counted(len(fact.supersedes), 'fact')} superseded."
    )


def import_(
    facts: Facts,
    claims: Annotated[
        Path, typer.Argument(metavar="CLAIMS", help="A file of facts to assert, one JSON object a line.")
    ],
    by: By = "operator",
    ledger: Ledger = None,
    root: Root = HERE,
    write: Write = False,
) -> Result:
    """Assert many facts, such as reviewed proposals.

    If one is refused, none is written. Facts that are already in the file are renewed if their sources have changed,
    and otherwise left alone.
    """
    from lab.memory.facts.asserting import assert_facts, claims_in
    from lab.memory.facts.sources import Sources

    done = assert_facts(facts, claims_in(claims), Sources(ledger, root), now=datetime.now(UTC), by=by, write=write)

    def show(_: object) -> None:
        renewed = f", of which {len(done.renewed)} renewed" if done.renewed else ""
        renewed += f"; {len(done.retracted)} were retracted and stay so" if done.retracted else ""
        asserted = "asserted" if write else "to assert"
        emit(f"{counted(len(done.facts), 'fact')} {asserted}, {len(done.before)} before{renewed}.")

    return changed("memory facts import", facts, done.receipt(), show, write=write)


def invalidate(
    facts: Facts,
    fact: Annotated[str, typer.Argument(metavar="ID", help="The id of the fact.")],
    assertion: Act,
    sources: Given = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="When it ended. [default: now]")] = None,
    retract: Annotated[bool, typer.Option("--retract", help="Mark it as never true, instead of ending it.")] = False,
    by: By = "operator",
    ledger: Ledger = None,
    root: Root = HERE,
    write: Write = False,
) -> Result:
    """End a fact that has no successor, or retract it.

    Its assertion stays in the file.
    """
    from lab.memory.facts.asserting import invalidate as run
    from lab.memory.facts.sources import Sources

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

    def show(receipt: dict[str, Any]) -> None:
        emit(f"{fact}: {receipt['status']}" + ("." if retract else f" at {receipt['at']}."))
        if receipt["restored"]:
            emit_folded(f"Nothing supersedes {', '.join(receipt['restored'])} any more.")

    return changed("memory facts invalidate", facts, receipt, show, write=write)


def propose(
    text: Annotated[Path, typer.Argument(metavar="TEXT", help="A text; with --golden, JSON Lines with texts.")],
    sources: Given = None,
    golden: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure against these triples (JSON Lines) instead.")
    ] = None,
    most: Annotated[int, typer.Option("--max-proposals", min=1, help="Maximum number of proposals per text.")] = 20,
) -> Result:
    """Propose facts from the triples in a text.

    A triple is a line such as "entity:gateway uses lancedb". Proposals are for review and are never written. With
    --golden, print precision and recall.
    """
    from lab.base.files import read_text
    from lab.memory.facts.asserting import measure
    from lab.memory.facts.asserting import propose as run

    if golden is not None:
        return Result(measure(text, golden, most=most), _show_measured)
    return Result(run(read_text(text), sources or (), most=most), _show_proposed)


def _show_measured(result: dict[str, Any]) -> None:
    counts = result["counts"]
    emit(
        f"{counts['proposed']} proposed, {counts['golden']} expected, {counts['truePositive']} both: "
        f"precision {result['precision']:.2f}, recall {result['recall']:.2f}."
    )


def _show_proposed(result: dict[str, Any]) -> None:
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


def rebuild(facts: Facts, write: Write = False) -> Result:
    """Compare the view with the assertions, and rebuild it.

    The view has the name of FACTS with .view before the extension. It is for other programs: the lab itself reads the
    assertions.
    """
    from lab.memory.facts.store import rebuild as run

    receipt = run(facts, write=write)
    due = receipt["status"] != "same"
    return changed("memory facts rebuild", Path(receipt["view"]), receipt, _show_view, write=write, due=due)


def _show_view(receipt: dict[str, Any]) -> None:
    said = {"same": "is what the assertions give", "differs": "differs from the assertions", "missing": "is missing"}
    emit(f"{receipt['view']} {said[receipt['status']]} ({counted(receipt['count'], 'fact')}).")
    if receipt["cut_bytes"]:
        emit_folded(f"Bytes of an incomplete last line, which the next assertion replaces: {receipt['cut_bytes']}.")
    if receipt["writes_performed"]:
        emit("It was rebuilt.")


def _times(fact: Fact) -> str:
    return f"from {fact.valid_from}" + (f" until {fact.valid_to}" if fact.valid_to else "")


facts = typer.Typer(
    no_args_is_help=True,
    help="Keep facts with their dates and evidence. Facts are asserted in an append-only file; the current facts "
    "are derived from it. Commands that change a file need --write.",
)
for command in (assert_, import_, invalidate, current, timeline, lint, pack, propose, rebuild):
    facts.command(command_name(command))(command)
