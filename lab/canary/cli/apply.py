"""``lab canary plan``, ``apply`` and ``rollback``: prepare a rollout. None of them changes a gateway."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.config_env import config_if_named
from lab.base.errors import CheckFailed, NotComparable
from lab.base.formatting import counted, sentence, together
from lab.cli.output import announce, emit, emit_folded, emit_indented, emit_notes, emit_table, emit_trial
from lab.cli.replay_options import TURNS, takes_replay_options
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.replay.rollback import Rollback
    from lab.runs.request import ReplayRequest

# Where an OpenClaw host has its configuration and memories, and the sidecar its ledger; the job capture writes the log.
HOME_FILES = ("openclaw.json", "memory/lancedb", "memory/openclaw-mem.sqlite", "memory/observations.jsonl")


def plan(
    home: Annotated[
        Path, typer.Argument(metavar="HOME", help="The folder of an OpenClaw host, as the host names it.")
    ] = Path("~/.openclaw"),
    *,
    stage: Annotated[
        str, typer.Option("--stage", help="A: grades are written back. C: the engine is live and watched.")
    ] = "A",
    form: Annotated[str, typer.Option("--as", metavar="FORM", help="cron, systemd or github.")] = "cron",
    at: Annotated[list[str] | None, typer.Option("--at", metavar="NAME=HH:MM", help="Move a job.")] = None,
    timezone: Annotated[str, typer.Option("--timezone", help="The time zone of the times.")] = "Asia/Taipei",
    folder: Annotated[str, typer.Option("--folder", help="The folder of the lab on the host.")] = "~/lab",
    restart: Annotated[
        str, typer.Option("--restart", help="The command that restarts the gateway.")
    ] = "systemctl --user restart openclaw-gateway",
    runner: Annotated[
        str, typer.Option("--runner", help="Labels of the host's runner of GitHub Actions.")
    ] = "self-hosted, openclaw",
    out: Annotated[Path | None, typer.Option("--out", help="A folder for the files. [default: print them]")] = None,
) -> Result:
    """Write the jobs of Stage A or Stage C.

    As lines of cron, units of systemd or a GitHub workflow, beside the nightly run of docs/recipes.md. Names the jobs
    that may run at once, and a time at which they do not. Prints the files, or writes them with --out; installs
    nothing.
    """
    from lab.base.files import write_atomically
    from lab.canary.rollout.jobs import Places, jobs_of, moved, overlaps, remarks, require_stage, written, zone_of

    stage = require_stage(stage)
    config, store, ledger, observations = (_tilde(home / name) for name in HOME_FILES)
    places = Places(config, store, ledger, observations, quote(restart), _tilde(home))
    jobs = moved(jobs_of(stage, places), at or ())
    files = written(form, jobs, folder=folder, zone=zone_of(timezone), stage=stage, config=config, runner=runner)
    if out is not None:
        for name, text in files.items():
            write_atomically(out / name, text.encode())

    def show(found: dict[str, Any]) -> None:
        for remark in found["remarks"]:
            announce(remark)
        for name, text in files.items():
            if out is not None:
                emit(f"{out / name}")
            else:
                emit(f"# ── {name} ──" if len(files) > 1 else text.rstrip("\n"))
                if len(files) > 1:
                    emit(text)

    return Result(
        {
            "stage": stage,
            "jobs": [asdict(job) for job in jobs],
            "overlaps": [overlap._asdict() for overlap in overlaps(jobs)],
            "remarks": remarks(jobs),
            "files": files,
        },
        show,
    )


def _tilde(path: Path) -> str:
    """Return a path as a word of the shell; a ``~`` at its beginning stays outside of the quotes."""
    parts = path.parts
    if parts[:1] != ("~",):
        return quote(str(path))
    return f"~/{quote('/'.join(parts[1:]))}" if parts[1:] else "~"


def apply(
    path: Annotated[
        Path, typer.Argument(metavar="VERDICT", help="A verdict.json, or its folder: a judged run, or a canary.")
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            callback=lambda given: config_if_named(given),
            help="The gateway's openclaw.json or its folder, to see the lines that change. [default: the one that "
            "OPENCLAW_CONFIG_PATH or OPENCLAW_STATE_DIR names]",
        ),
    ] = None,
) -> Result:
    """Print the configuration patch that follows from a verdict.

    After a pass: what was judged, as a JSON merge patch of openclaw.json and, with --config, as the edited lines.
    After anything else: how to set back what a canary switched, if the file still has it. Writes nothing. Exit codes
    are those of the verdict.
    """
    from lab.canary.rollout.change import resolved_host
    from lab.canary.rollout.run import applied, patch_of, verdict_at
    from lab.gate.outputs import headline

    verdict, folder = verdict_at(path)
    before = None
    if config is not None:
        before = resolved_host(config).value
    patch = patch_of(verdict, folder, before)
    edited = applied(config, patch) if config is not None else None

    def show(found: dict[str, Any]) -> None:
        emit_folded(headline(verdict))
        emit_folded(f"{patch.why[0].upper()}{patch.why[1:]}.")
        if patch.values:
            emit()
            emit_indented(found["patch"])
        if edited:
            emit()
            if edited.lines:
                emit(f"{config}, which is not changed by this command:")
            for line in edited.lines:
                emit(line)
            if edited.already:
                emit_folded(f"Set already: {together(edited.already)}.")
            for problem in edited.refused:
                emit_folded(f"warning: {problem}")

    return Result(
        {
            "status": verdict.status,
            "why": patch.why,
            "trial": list(verdict.trial),
            "patch": patch.merge_patch(),
            "lines": list(edited.lines) if edited else None,
            "already": list(edited.already) if edited else None,
            "refused": list(edited.refused) if edited else None,
        },
        show,
        error=typer.Exit(verdict.exit_code),
    )


@takes_replay_options(
    *("labels", "hard_rules", "categories", "seed", *TURNS),
    *("profile", "memories", "memories_from", "embedder", "vectors"),
    fixed=True,
)
def rollback(
    request: ReplayRequest,
    *,
    config: Annotated[
        Path, typer.Option("--config", help="Engine configuration (JSON or YAML) to switch.", show_default=False)
    ],
) -> Result:
    """Check that switching the policy back undoes the switch.

    Each conversation is replayed under --config with tier_first_v1 throughout, and
    with tier_quota_v1 in its middle third. After that third, every answer must be
    equal byte for byte: injected text, receipt, items and log. Exit code 1 if one
    differs, 3 if the switch changed nothing, so that there was nothing to undo. A
    complete openclaw.json that its host refuses is unusable.
    """
    from dataclasses import replace

    from lab.replay.rollback import PHASES
    from lab.replay.rollback import rollback as check

    result = check(replace(request, config=str(config)), announce=announce)

    def show(result: Rollback) -> None:
        emit_trial(result.trial)
        emit_notes(result.notes)
        policies = dict(zip(PHASES, ("tier_first_v1", "tier_quota_v1", "tier_first_v1"), strict=True))
        rows = [[phase, policies[phase], result.recalls[phase], result.differ[phase]] for phase in PHASES]
        emit_table(["phase", "policy", "recalls", "differ"], rows, left=2)
        emit()
        if result.short:
            emit_folded(f"Left out, with fewer than 3 recalls: {counted(result.short, 'conversation')}.")
        emit(f"{result.verdict.upper()}: autoRecall.selectionMode switched back to tier_first_v1")
        emit_folded(sentence(result.reason))

    codes = {"pass": 0, "fail": CheckFailed.exit_code}
    return Result(result, show, error=typer.Exit(codes.get(result.verdict, NotComparable.exit_code)))
