"""``lab gate``: judge a run by a policy; list policies and print schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import LabError, UnusableInput
from lab.base.formatting import choices, counted
from lab.base.set_registry import recordings_at
from lab.cli import completion, options
from lab.cli.errata import verdict_beside
from lab.cli.output import announce, emit, emit_folded, emit_indented, emit_table, report_to_ci
from lab.cli.results import Result
from lab.cli.verdict_tables import emit_verdict

if TYPE_CHECKING:
    from lab.gate.verify import Verified

KEPT = ("keep", "pass", "fail")


def policies(
    show: Annotated[
        str | None,
        typer.Option(autocompletion=completion.policies, help="Print this policy as TOML, to copy and edit."),
    ] = None,
) -> Result:
    """List the shipped policies."""
    from lab.base.files import read_text
    from lab.gate.shipped import SHIPPED, shipped_heads, shipped_policies

    if show is not None:
        if show not in shipped_policies():
            raise UnusableInput(f"--show: unknown policy {show!r}; {choices(show, shipped_policies())}")
        found = {"policy": show, "text": read_text(SHIPPED / f"{show}.toml")}
        return Result(found, lambda found: emit(found["text"].rstrip("\n")))
    heads = ["policy", "what passing means"]
    return Result(
        shipped_heads(),
        lambda rows: emit_table(heads, [[row["policy"], row["about"]] for row in rows], left=2),
        lambda rows: {"policies": rows},
    )


def schema(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="verdict or policy.")],
) -> Result:
    """Print the JSON Schema (2020-12) of verdict.json or of a policy."""
    from lab.gate.schema import SCHEMAS

    if what not in SCHEMAS:
        raise UnusableInput(f"{what!r}: unknown schema; {choices(what, SCHEMAS)}")
    return Result(SCHEMAS[what](), emit_indented)


def _distinguished(given: Sequence[Path]) -> tuple[Path | None, Path | None]:
    """Return the run directory and the audit among the given paths; raise :class:`UnusableInput` for two of a kind."""
    from lab.base.set_registry import SHIPPED
    from lab.runs.directory import AUDIT, MANIFEST

    found: dict[str, Path] = {}
    for path in given:
        if not path.exists() and not str(path).startswith(SHIPPED):
            raise UnusableInput(f"{path}: no such run directory or audit")
        if (path / AUDIT).is_file() and not (path / MANIFEST).is_file():
            raise UnusableInput(f"{path}: is not a run directory; to judge the audit in it, name {path / AUDIT}")
        kind = "audit" if path.exists() and not path.is_dir() else "run"
        if kind in found:
            option = "--control shows another beside it" if kind == "audit" else "--against compares it with another"
            raise UnusableInput(f"{found[kind]} and {path}: one {kind} is judged; {option}")
        found[kind] = path
    return found.get("run"), found.get("audit")


def judge(
    given: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR|AUDIT",
            help="A run directory, the file of lab canary audit --out, or both, as the policy needs.",
        ),
    ] = None,
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.policies,
            help="A shipped policy (see lab gate policies), or a TOML file. "
            "[default: stage-b with AUDIT, else rollout]",
        ),
    ] = None,
    candidate: Annotated[
        str | None, typer.Option(metavar="ARM", help="Judge this arm. [default: that of the policy]")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="ARM", help="Compare it with this arm. [default: that of the policy]")
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option(
            metavar="AUDIT2",
            help="Another audit to show beside AUDIT on canary.html: of the window before, or of a gateway that was "
            "not switched. What it breaks as well is not caused by the switch; what recalls take is compared.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="DIR2", help="Compare the candidate with the arm of the same name in this run."),
    ] = None,
    errata: options.Errata = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the verdict files. [default: DIR, else the folder of AUDIT]")
    ] = None,
    inconclusive_as: Annotated[
        str,
        typer.Option("--inconclusive-as", help="Exit code of an inconclusive verdict: keep (3), pass (0) or fail (1)."),
    ] = "keep",
) -> Result:
    """Judge a run, an audit of live receipts, or both, by a policy.

    Exit codes: 0 pass, 1 fail, 2 unusable policy or input, 3 inconclusive, 4 could not measure. Writes verdict.json,
    verdict.xml (JUnit) and verdict.prom (OpenMetrics), with AUDIT also canary.html, and a GitHub step summary if
    GITHUB_STEP_SUMMARY is set. If nothing can be measured (exit code 4), an earlier verdict there is removed. If a
    folder shares its name with a command below, write ./NAME.
    """
    from lab.gate.line import INCONCLUSIVE
    from lab.gate.outputs import policy_of, remove_verdict, write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.receipts import read_audit, undone
    from lab.gate.verdict import EXIT, Verdict
    from lab.gate.verdict import judge as judge_by
    from lab.replay.command import arguments
    from lab.report.build import worse_turn
    from lab.report.canary import write_page
    from lab.runs.directory import RunDirectory, open_run

    if inconclusive_as not in KEPT:
        raise UnusableInput(f"--inconclusive-as: unknown value {inconclusive_as!r}; {choices(inconclusive_as, KEPT)}")
    run, receipts = _distinguished(given or ())
    if control and not receipts:
        raise UnusableInput("--control: there is no audit to show it beside; add AUDIT")
    audit = read_audit(receipts) if receipts else None
    beside = read_audit(control) if control else None
    chosen = read_policy(policy or ("stage-b" if receipts else "rollout"))
    if (candidate or baseline) and run is None:
        raise UnusableInput("--candidate, --baseline: are arms of a run; add DIR")
    if baseline and against:
        raise UnusableInput("--baseline: with --against, the candidate is compared with the arm of its name in DIR2")
    folder = out or run or (receipts.parent if receipts else Path())
    try:
        judged = open_run(run) if run else None
        if judged:
            chosen = chosen.of_pair(candidate, baseline, judged.arms)
        other = open_run(against) if against else None

        def judge_run(run: RunDirectory | None) -> Verdict:
            return judge_by(
                chosen,
                run,
                against=other,
                audit=audit,
                audit_file=receipts,
                control=beside,
                control_file=control,
                turns=True,
            )

        verdict = judge_run(judged)
    except UnusableInput:
        raise
    except LabError:
        # A program that reads the file and ignores the exit code must not find an earlier verdict.
        remove_verdict(folder)
        raise
    if receipts:
        verdict = replace(verdict, undone=undone(receipts.parent))
    if run and not against and any(rule.kind == "exact" for rule in chosen.rules):
        announce(
            f"policy {chosen.label} is meant for --against DIR2; without it {chosen.candidate} is compared with "
            f"{chosen.baseline}, another arm of the same run"
        )
    beside_errata = verdict_beside(judged, verdict, judge_run, errata)
    before = policy_of(folder)
    files = write_verdict(verdict, folder)
    # An edited policy is the same one to its author.
    if before is not None and before.partition(" (")[0] != verdict.policy.partition(" (")[0]:
        announce(f"{folder}: replaced the verdict of policy {before}; give --out to keep both")
    if audit is not None:
        files.append(write_page(verdict, audit, folder, beside))
    report_to_ci([verdict])
    status = inconclusive_as if verdict.status == INCONCLUSIVE and inconclusive_as != "keep" else verdict.status
    if status != verdict.status:
        announce(
            f"exit code {EXIT[status]} instead of {verdict.exit_code}: the verdict is inconclusive, "
            f"and --inconclusive-as {inconclusive_as} was given"
        )

    def show(verdict: Verdict) -> None:
        asked = arguments(judged.manifest) if judged else None
        turn = worse_turn(judged, verdict) if judged else None
        emit_verdict(verdict, asked, {"DIR": run, "DIR2": against, "AUDIT": receipts, "AUDIT2": control}, turn)
        beside_errata.show()
        emit_folded(f"{files[0]}, {', '.join(file.name for file in files[1:])}")

    return Result(
        verdict, show, lambda verdict: verdict.as_json() | beside_errata.value, error=typer.Exit(EXIT[status])
    )


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The verdict.json of lab gate.")],
    *,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Its run. [default: the folder of FILE, else where the run was]")
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="PATH", parser=recordings_at, help="The recordings. [default: where the run found them]"),
    ] = None,
    no_replay: Annotated[
        bool, typer.Option("--no-replay", help="Judge the run again, and do not replay its recordings.")
    ] = False,
    jobs: options.Jobs = 1,
) -> Result:
    """Check a verdict against its run, and name what differs.

    Exit codes: 0 no difference, 1 differences, 2 unusable or missing input. Without the recordings, the replay is left
    out, which is said. It finds inconsistency, not intent.
    """
    from lab.gate.verify import verify as verified

    if no_replay and recordings:
        raise UnusableInput("--recordings: cannot be used with --no-replay; leave out one of them")
    found = verified(file, run, recordings, replay=not no_replay, jobs=jobs, announce=announce)

    def show(found: Verified) -> None:
        count = len(found.differences)
        emit(f"{found.file}: {counted(count, 'difference') if count else 'no difference'}")
        for text in found.differences:
            emit(f"  {text}")
        for title, texts in (("environment", found.environment), ("left out", found.left_out)):
            for text in texts:
                emit(f"{title}: {text}")
        compared = [counted(number, what.removesuffix("s")) for what, number in found.compared.items()]
        emit(f"compared: {', '.join(compared) or 'nothing'}")
        emit_folded(f"This does not show: {'; '.join(found.does_not_show)}.")

    return Result(found, show, error=typer.Exit(1) if found.differences else None)
