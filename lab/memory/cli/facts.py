"""``lab memory facts``: what is true of a subject now, since when, and on what evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.cli.options import Write
from lab.cli.output import Json, emit, emit_change, emit_folded, emit_json, emit_table, emit_unless_written
from lab.memory.cli import facts_read
from lab.memory.cli.facts_read import HERE, Facts, Ledger, Root, Subject

if TYPE_CHECKING:
    from lab.memory.facts.model import Fact

Given = Annotated[list[str] | None, typer.Option("--source", help="Evidence: obs:N, ep:ID or doc:PATH. Repeatable.")]
Act = Annotated[
    str,
    typer.Option(
        "--assertion", metavar="KIND:REF", help="Where this decision is recorded, such as note:review or obs:7."
    ),
]
By = Annotated[str, typer.Option("--by", help="The person or program that makes the change.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    facts = typer.Typer(
        no_args_is_help=True,
        help="Keep facts with their dates and evidence. Facts are asserted in an append-only file; the current facts "
        "are derived from it. Commands that change a file need --write.",
    )
    facts.command("assert")(assert_)
    facts.command("import")(import_)
    facts.command("invalidate")(invalidate)
    facts_read.add_to(facts)
    facts.command("propose")(propose)
    facts.command("rebuild")(rebuild)
    app.add_typer(facts, name="facts")


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
    as_json: Json = False,
) -> None:
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
    if as_json:
        emit_change("memory facts assert", facts, done.receipt(), write=write)
        return
    if done.renewed:
        emit_folded(f"{done.renewed[0]} was asserted before; it is renewed, with its sources as they are now.")
    elif done.retracted:
        emit_folded(f"{done.retracted[0]} was retracted and stays so; to assert it again, give another --assertion.")
        return
    elif done.before:
        emit(f"{done.before[0]} was asserted before; nothing changes.")
        return
    if done.facts:
        _emit_asserted(done.facts[0])
    emit_unless_written(write)


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
    as_json: Json = False,
) -> None:
    """Assert many facts, such as reviewed proposals.

    If one is refused, none is written. Facts that are already in the file are renewed if their sources have changed,
    and otherwise left alone.
    """
    from lab.memory.facts.asserting import assert_facts, claims_in
    from lab.memory.facts.sources import Sources

    done = assert_facts(facts, claims_in(claims), Sources(ledger, root), now=datetime.now(UTC), by=by, write=write)
    if as_json:
        emit_change("memory facts import", facts, done.receipt(), write=write)
        return
    renewed = f", of which {len(done.renewed)} renewed" if done.renewed else ""
    renewed += f"; {len(done.retracted)} were retracted and stay so" if done.retracted else ""
    asserted = "asserted" if write else "to assert"
    emit(f"{counted(len(done.facts), 'fact')} {asserted}, {len(done.before)} before{renewed}.")
    emit_unless_written(write)


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
    as_json: Json = False,
) -> None:
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
    if as_json:
        emit_change("memory facts invalidate", facts, receipt, write=write)
        return
    emit(f"{fact}: {receipt['status']}" + ("." if retract else f" at {receipt['at']}."))
    if receipt["restored"]:
        emit_folded(f"Nothing supersedes {', '.join(receipt['restored'])} any more.")
    emit_unless_written(write)


def propose(
    text: Annotated[Path, typer.Argument(metavar="TEXT", help="A text; with --golden, JSON Lines with texts.")],
    sources: Given = None,
    golden: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure against these triples (JSON Lines) instead.")
    ] = None,
    most: Annotated[int, typer.Option("--max-proposals", min=1, help="Maximum number of proposals per text.")] = 20,
    as_json: Json = False,
) -> None:
    """Propose facts from the triples in a text.

    A triple is a line such as "entity:gateway uses lancedb". Proposals are for review and are never written. With
    --golden, print precision and recall.
    """
    from lab.base.files import read_text
    from lab.memory.facts.asserting import measure
    from lab.memory.facts.asserting import propose as run

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
    """Compare the view with the assertions, and rebuild it.

    The view has the name of FACTS with .view before the extension. It is for other programs: the lab itself reads the
    assertions.
    """
    from lab.memory.facts.store import rebuild as run

    receipt = run(facts, write=write)
    if as_json:
        emit_change("memory facts rebuild", Path(receipt["view"]), receipt, write=write)
        return
    said = {"same": "is what the assertions give", "differs": "differs from the assertions", "missing": "is missing"}
    emit(f"{receipt['view']} {said[receipt['status']]} ({counted(receipt['count'], 'fact')}).")
    if receipt["cut_bytes"]:
        emit_folded(f"Bytes of an incomplete last line, which the next assertion replaces: {receipt['cut_bytes']}.")
    if receipt["writes_performed"]:
        emit("It was rebuilt.")
    else:
        emit_unless_written(receipt["status"] == "same")


def _times(fact: Fact) -> str:
    return f"from {fact.valid_from}" + (f" until {fact.valid_to}" if fact.valid_to else "")
