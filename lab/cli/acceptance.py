"""``lab acceptance``: judge the acceptance criteria of the design documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UnusableInput
from lab.cli import options
from lab.cli.output import announce, emit, emit_folded, emit_table, emit_trial
from lab.cli.replay_options import LABELLED, takes_replay_options
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest
    from lab.studies.acceptance.verdict import Acceptance


@takes_replay_options(
    *(*LABELLED, "memories", "memories_from", "haystack", "haystack_from", "max_items", "config", "embedder"),
    arms=("tier_first_v1",),
    fixed=True,
    runs="as it is",
)
def acceptance(
    request: ReplayRequest,
    *,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            help="The arm to judge, or NAME=FILE. Repeat for more. [default: tier_quota_v1, seed_full]",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for the runs and the verdict. Required for a set. [default: DIR/acceptance]"
        ),
    ] = None,
    screen: Annotated[
        int | None,
        typer.Option("--screen", min=1, help="Rows of a screen of 80 columns, for criterion 5. [default: 24]"),
    ] = None,
    readings: Annotated[
        bool, typer.Option("--readings", help="Also judge every candidate under the four readings of the quotas.")
    ] = False,
    floor_from: Annotated[
        str | None,
        typer.Option(
            "--floor-from",
            metavar="SET[:FORMAT]",
            help="Calibrate the floor of --readings on this set, which is not judged. [default: shipped:operators; for "
            "that set, the floor of RealMem]",
        ),
    ] = None,
    jobs: options.Jobs = 1,
) -> Result:
    """Judge the acceptance criteria of the design documents.

    They are the five criteria of seed 000 and milestone M1 of seed 001. PATH is a set, of which everything needed is
    replayed twice: as recorded, and with a large must share; or a run directory that has the arms. Each criterion is
    pass, fail or inconclusive, with numbers and what would settle it. Writes verdict.json, verdict.xml (JUnit) and
    acceptance.html. Exit codes: 0 pass, 1 fail, 2 unusable input, 3 inconclusive, 4 could not measure.
    """
    from lab.report.acceptance import write_page
    from lab.runs.directory import open_run
    from lab.studies.acceptance.arms import CANDIDATES
    from lab.studies.acceptance.verdict import accept_run, accept_set, write_files

    if floor_from is not None and not readings:
        raise UnusableInput("--floor-from: calibrates the floor of --readings; add --readings")
    candidates = tuple(candidate or CANDIDATES)
    path = Path(request.path)
    if options.is_run(path):
        folder = out or path / "acceptance"
        verdict = accept_run(
            open_run(path), candidates=candidates, screen=screen, readings=readings, floor_from=floor_from
        )
    else:
        if out is None:
            raise UnusableInput("--out: is required for a set; it is the folder for the runs and the verdict")
        folder = out
        verdict = accept_set(
            request,
            out,
            candidates=candidates,
            screen=screen,
            readings=readings,
            floor_from=floor_from,
            jobs=jobs,
            announce=announce,
        )
    files = [*write_files(verdict, folder), write_page(verdict, folder)]
    return Result(verdict, lambda verdict: _show(verdict, files), error=typer.Exit(verdict.exit_code))


def _show(verdict: Acceptance, files: list[Path]) -> None:
    from lab.studies.acceptance.verdict import HEADERS, headline, readings_table, shown_status

    emit_trial(verdict.trial)
    emit_folded(headline(verdict))
    emit_folded(verdict.about)
    if verdict.floor:
        emit_folded(f"floor {verdict.floor.value:g}: {verdict.floor.origin}")
        emit()
        emit_table(HEADERS, readings_table(verdict), left=2)
    arm = None
    for result in verdict.results:
        if result.arm != arm:
            arm = result.arm
            emit()
            reading = verdict.readings.get(arm)
            emit_folded(arm + (f" ({reading}: reported, does not decide)" if reading else ""))
        emit_folded(f"{shown_status(result):<15}{result.criterion}. {result.title}")
        emit_folded(result.reason, indent="    ")
        if result.settles:
            emit_folded(f"What would settle it: {result.settles}.", indent="    ")
    emit()
    emit(", ".join([str(files[0]), *(file.name for file in files[1:])]))
