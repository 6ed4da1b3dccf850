"""``--errata`` and ``lab golden errata``: figures beside those of a corrected golden set, and the check of errata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.base.set_registry import golden_beside, recordings_at
from lab.cli import options, replay_options
from lab.cli.output import emit, emit_folded, emit_table
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.compare.paired import Comparison
    from lab.gate.verdict import Verdict
    from lab.measures.corrected import Corrected
    from lab.report.sections import Table
    from lab.runs.directory import RunDirectory


class Beside(NamedTuple):
    """What errata change, as JSON, and what prints it."""

    value: dict[str, Any]
    show: Callable[[], None]


NOTHING = Beside({}, lambda: None)


def scores_beside(run: RunDirectory, file: Path | None) -> Beside:
    """Return the scores of a run with errata beside those as it was judged; nothing without a file."""
    if file is None:
        return NOTHING
    from lab.measures.corrected import with_errata
    from lab.report.errata import means_table, summaries

    found = with_errata(run, file)
    before, after = summaries(found)
    return _beside(found, means_table(found, before, after), {"arms": after["arms"]})


def comparison_beside(run: RunDirectory, before: Comparison, file: Path | None) -> Beside:
    """Return a comparison with errata beside the one as judged; nothing without a file."""
    if file is None:
        return NOTHING
    from lab.compare.paired import compare_arms
    from lab.measures.corrected import with_errata
    from lab.report.errata import differences_table

    if any(":" in arm for arm in (before.baseline, before.candidate)):
        raise UnusableInput("--errata: compares two arms of one run")
    found = with_errata(run, file)
    measured = [one.measure for one in before.differences]
    primary = [name for name in before.primary if name in measured]
    after = compare_arms(found.right, before.baseline, before.candidate, primary=primary)
    return _beside(found, differences_table(before, after), {"comparison": after.as_json()})


def verdict_beside(
    run: RunDirectory | None, verdict: Verdict, judged: Callable[[RunDirectory], Verdict], file: Path | None
) -> Beside:
    """Return a verdict with errata beside the one as judged, by the same inputs; nothing without a file."""
    if file is None:
        return NOTHING
    from lab.measures.corrected import with_errata
    from lab.report.sections import Table

    if run is None or verdict.against:
        raise UnusableInput("--errata: judges two arms of one run; give DIR, and no --against")
    found = with_errata(run, file)
    after = judged(found.right)
    right = {line.name: line for line in after.lines}
    both = [(line, right[line.name]) for line in verdict.lines if line.name in right]
    changed = [(before, now) for before, now in both if before.status != now.status]
    rows = [[before.name, before.word, now.word] for before, now in changed]
    table = Table("With errata", ("rule", "as judged", "with errata"), rows)
    same = "as well" if after.status == verdict.status else f"instead of {verdict.status.upper()}"
    value = {"status": after.status, "changed": [now.name for _, now in changed]}
    return _beside(found, table, value, f"With these errata the verdict is {after.status.upper()} {same}.")


def _beside(found: Corrected, table: Table, value: dict[str, Any], last: str | None = None) -> Beside:
    from lab.report.errata import ceiling_sentence, sentence

    def show() -> None:
        emit()
        emit_folded(sentence(found))
        if table.rows:
            emit_table(table.headers, table.rows)
        emit_folded(last or ceiling_sentence(found))

    return Beside({"errata": found.as_json() | value}, show)


def errata(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Errata, or errors.json of the audit of LoCoMo.")],
    recordings: Annotated[
        Path, typer.Option("--recordings", metavar="PATH", parser=recordings_at, help="The recordings of the set.")
    ],
    format: options.FormatOf = "lab",  # noqa: A002 - the name of the option
    memories: replay_options.Memories = None,
    out: Annotated[Path | None, typer.Option(help="Write them in the project's form to this new file.")] = None,
) -> Result:
    """Check errata of a golden set.

    Shows their kinds, and which conversations they reach.
    """
    from lab.base.files import dump_json
    from lab.golden.errata import read_errata
    from lab.golden.files import read_golden, write_new
    from lab.recordings.model import keys_of
    from lab.recordings.readers import read_library

    library = read_library(recordings, format, memories=memories)
    golden = library.golden
    if not golden.probes and (beside := golden_beside(recordings)):
        golden = read_golden(beside)
    found = read_errata(file, keys_of(library.recordings), golden)
    reach = found.reach(golden)
    if out is not None:
        write_new(out, b"".join(dump_json(line, indent=None) for line in found.lines(golden)))
    value: dict[str, Any] = {
        "errata": len(found.entries),
        "corrected": len(found.corrections),
        "elsewhere": found.elsewhere,
    }
    value |= {"kinds": found.kinds(), "conversations": reach, "out": str(out) if out else None}

    def show(_: object) -> None:
        emit_folded(
            f"{counted(len(found.entries), 'entry')}; {len(found.corrections)} change what is relevant; "
            f"{found.elsewhere} are of questions that this set lacks."
        )
        emit_table(("kind", "errata"), [[kind.replace("_", " "), count] for kind, count in found.kinds().items()])
        emit_table(("conversation", "errata"), [[name, count] for name, count in reach.items()])
        if out is not None:
            emit(str(out))

    return Result(value, show)
