"""``lab memory facts``: assert, check and show facts with their dates and evidence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.files import read_text
from lab.base.formatting import counted
from lab.cli.options import Write
from lab.cli.output import announce_folded, emit, emit_folded, emit_table
from lab.cli.results import Result, changed, command_name
from lab.memory.cli.ledger_read import Profile, is_upstream
from lab.memory.facts import asserting, store, view
from lab.memory.facts import pack as packing
from lab.memory.facts.model import SCHEMA, Fact, entity, fact_json, predicate_named, utc
from lab.memory.facts.sources import Sources
from lab.memory.ledger.ledger import stamp

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


@dataclass(frozen=True, slots=True)
class Places:
    """Where the sources of facts are."""

    ledger: Ledger = None
    root: Root = HERE

    def sources(self) -> Sources:
        """Return the places to look up sources."""
        return Sources(self.ledger, self.root)


@dataclass(frozen=True, slots=True)
class Then:
    """What held at a time, and where its sources are."""

    as_of: AsOf = None
    include_stale: Stale = False
    ledger: Ledger = None
    root: Root = HERE
    profile: Profile = "seed"

    def current(self, facts: Path, subject: str) -> tuple[str, str, view.Current]:
        """Return the reference of a subject, the time, and what holds then."""
        reference, time = entity(subject), utc(self.as_of, "--as-of") if self.as_of else stamp(datetime.now(UTC))
        events, sources = _of(facts, reference), Sources(self.ledger, self.root)
        upstream = is_upstream(self.profile)
        found = view.current(events, time, sources, include_stale=self.include_stale, upstream=upstream)
        if self.ledger is None and not upstream:
            # The view is never authoritative when its sources are missing (seed 003).
            shown = [(fact, "unchecked" if fact.needs_ledger else status) for fact, status in found.facts]
            found = found._replace(facts=shown)
        return reference, time, found


@dataclass(frozen=True, slots=True)
class Change(Places):
    """Who changes facts, and whether it is done."""

    by: By = "operator"
    write: Write = False

    def options(self) -> dict[str, Any]:
        """Return the keywords of the functions that change facts."""
        return {"now": datetime.now(UTC), "by": self.by, "write": self.write}


def current(facts: Facts, subject: Subject, then: Then) -> Result:
    """Show the facts of a subject that hold now, or at a given time.

    Facts whose sources changed, vanished or are quarantined are left out.
    """
    reference, time, found = then.current(facts, subject)

    def show(_: object) -> None:
        _emit_facts(found.facts)
        emit(f"{counted(len(found.facts), 'fact')} of {reference} as of {time}.")
        reasons = sorted({one.reason for one in found.excluded})
        if reasons:
            counts = [f"{reason} {sum(one.reason == reason for one in found.excluded)}" for reason in reasons]
            emit(f"Left out: {', '.join(counts)}.")
        _emit_unchecked((fact for fact, _ in found.facts), then.ledger)

    return Result(
        {
            "kind": "openclaw-mem.graph.fact.current.v0",
            "schema": SCHEMA,
            "subject": reference,
            "as_of": time,
            "include_stale": then.include_stale,
            "count": len(found.facts),
            "facts": [fact_json(fact, status) for fact, status in found.facts],
            "excluded": [one._asdict() for one in found.excluded],
        },
        show,
    )


def timeline(
    facts: Facts,
    subject: Subject,
    predicate: Annotated[str | None, typer.Option(help="Only facts with this predicate.")] = None,
    *,
    places: Places,
) -> Result:
    """Show the history of a subject: all its facts.

    Facts are ordered by predicate, then by start.
    """
    reference, named = entity(subject), predicate_named(predicate) if predicate else None
    events = _of(facts, reference, named)
    sources = places.sources()
    sources.resolve(source for fact in events for source in fact.sources)
    shown = [(fact, view.status_of(fact, sources)) for fact in events]

    def show(_: object) -> None:
        _emit_facts(shown)
        emit(f"{counted(len(shown), 'fact')} of {reference}.")
        _emit_unchecked(events, places.ledger)

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


def lint(facts: Facts, places: Places, profile: Profile = "seed") -> Result:
    """Check all facts: shape, evidence, supersession and conflicts.

    The exit code is 1 if there is an error. A source that changed since the assertion is a warning.
    """
    known = view.View(store.read(facts).records)
    issues = view.lint(known, places.sources(), upstream=is_upstream(profile))
    result = view.receipt(known, issues)
    errors, warnings = (counted(result["counts"][f"{kind}s"], kind) for kind in ("error", "warning"))

    def show(_: object) -> None:
        if issues:
            emit_table(
                ["fact", "", "code", "that is"],
                [[one.fact, one.severity, one.code, view.CODES[one.code]] for one in issues],
                left=4,
            )
        emit(f"{counted(len(known), 'fact')}: {errors}, {warnings}.")
        _emit_unchecked(known, places.ledger)

    error = None if result["ok"] else CheckFailed(f"{facts}: {errors}; lab memory facts lint --json has details")
    return Result(result, show, error=error)


def pack(
    facts: Facts,
    subject: Subject,
    budget: Annotated[int, typer.Option("--budget-tokens", min=1, help="Maximum number of tokens.")] = 1200,
    most: Annotated[int, typer.Option("--max-items", min=1, help="Maximum number of facts.")] = 20,
    *,
    then: Then,
) -> Result:
    """Pack the current facts of a subject into a cited text.

    The highest confidence comes first. The first fact is always there, even if it alone exceeds the budget.
    """
    reference, time, found = then.current(facts, subject)
    packed = packing.pack(reference, found, as_of=time, budget=budget, most=most, upstream=is_upstream(then.profile))
    return Result(packed, lambda packed: emit(packed["bundle_text"].rstrip("\n")))


def _of(facts: Path, subject: str, predicate: str | None = None) -> list[Fact]:
    """Return the facts of a subject; if the file has none, name a similar subject."""
    known = view.View(store.read(facts).records)
    if not known.of(subject):
        names = {fact.subject.removeprefix("entity:"): fact.subject for fact in known}
        for near in difflib.get_close_matches(subject.removeprefix("entity:"), names, 1, 0.6):
            announce_folded(f"note: {facts} has no fact of {subject}; did you mean {names[near]}?")
    return known.of(subject, predicate)


def _emit_facts(shown: Sequence[tuple[Fact, str]]) -> None:
    rows = [
        [
            *(fact.id, fact.predicate, packing.value_text(fact)),
            *(time.removesuffix("T00:00:00Z") for time in (fact.valid_from, fact.valid_to or "-")),
            *(status, ", ".join(source.ref for source in fact.sources)),
        ]
        for fact, status in shown
    ]
    if rows:
        emit_table(["fact", "predicate", "object", "from", "until", "status", "sources"], rows, left=7)


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
    *,
    change: Change,
) -> Result:
    """Assert a fact with its evidence.

    Every source must exist and must not be quarantined. A subject has one status, configured_as, source_of_truth and
    retired_by at a time: name the old fact by --supersedes. A fact that is already in the file is renewed if its
    sources have changed, and otherwise left alone.
    """
    claim = asserting.Claim(
        subject, predicate, value, since, sources or (), assertion, kind, until, confidence, supersedes or (), label
    )
    done = asserting.assert_facts(facts, [claim], change.sources(), **change.options())
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
            fact = done.facts[0]
            until = f" until {fact.valid_to}" if fact.valid_to else ""
            emit_folded(
                f"{fact.id}: {fact.subject} {fact.predicate} = {packing.value_text(fact)}, from {fact.valid_from}"
                f"{until}, {fact.confidence}; {counted(len(fact.sources), 'source')} resolved, "
                f"{counted(len(fact.supersedes), 'fact')} superseded."
            )

    return changed("memory facts assert", facts, done.receipt(), show, write=change.write, due=not stays)


def import_(
    facts: Facts,
    claims: Annotated[
        Path, typer.Argument(metavar="CLAIMS", help="A file of facts to assert, one JSON object a line.")
    ],
    change: Change,
) -> Result:
    """Assert many facts, such as reviewed proposals.

    If one is refused, none is written. Facts that are already in the file are renewed if their sources have changed,
    and otherwise left alone.
    """
    done = asserting.assert_facts(facts, asserting.claims_in(claims), change.sources(), **change.options())

    def show(_: object) -> None:
        renewed = f", of which {len(done.renewed)} renewed" if done.renewed else ""
        renewed += f"; {len(done.retracted)} were retracted and stay so" if done.retracted else ""
        asserted = "asserted" if change.write else "to assert"
        emit(f"{counted(len(done.facts), 'fact')} {asserted}, {len(done.before)} before{renewed}.")

    return changed("memory facts import", facts, done.receipt(), show, write=change.write)


def invalidate(
    facts: Facts,
    fact: Annotated[str, typer.Argument(metavar="ID", help="The id of the fact.")],
    assertion: Act,
    sources: Given = None,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="When it ended. [default: now]")] = None,
    retract: Annotated[bool, typer.Option("--retract", help="Mark it as never true, instead of ending it.")] = False,
    *,
    change: Change,
) -> Result:
    """End a fact that has no successor, or retract it.

    Its assertion stays in the file.
    """
    if retract and at is not None:
        raise UnusableInput("--at says when the fact ended, and --retract that it never held; give one of them")
    about: dict[str, Any] = {"given": sources or (), "assertion": assertion, "at": at, "retract": retract}
    receipt = asserting.invalidate(facts, fact, change.sources(), **about, **change.options())

    def show(receipt: dict[str, Any]) -> None:
        emit(f"{fact}: {receipt['status']}" + ("." if retract else f" at {receipt['at']}."))
        if receipt["restored"]:
            emit_folded(f"Nothing supersedes {', '.join(receipt['restored'])} any more.")

    return changed("memory facts invalidate", facts, receipt, show, write=change.write)


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
    if golden is not None:
        return Result(asserting.measure(text, golden, most=most), _show_measured)
    return Result(asserting.propose(read_text(text), sources or (), most=most), _show_proposed)


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
    receipt = store.rebuild(facts, write=write)
    due = receipt["status"] != "same"
    return changed("memory facts rebuild", Path(receipt["view"]), receipt, _show_view, write=write, due=due)


def _show_view(receipt: dict[str, Any]) -> None:
    said = {"same": "is what the assertions give", "differs": "differs from the assertions", "missing": "is missing"}
    emit(f"{receipt['view']} {said[receipt['status']]} ({counted(receipt['count'], 'fact')}).")
    if receipt["cut_bytes"]:
        emit_folded(f"Bytes of an incomplete last line, which the next assertion replaces: {receipt['cut_bytes']}.")
    if receipt["writes_performed"]:
        emit("It was rebuilt.")


facts = typer.Typer(
    no_args_is_help=True,
    help="Keep facts with their dates and evidence. Facts are asserted in an append-only file; the current facts "
    "are derived from it. Commands that change a file need --write.",
)
for command in (assert_, import_, invalidate, current, timeline, lint, pack, propose, rebuild):
    facts.command(command_name(command))(command)
