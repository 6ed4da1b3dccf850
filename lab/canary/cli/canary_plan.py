"""``lab canary plan``: the jobs of Stage A and Stage C for a scheduler."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lab.cli.output import Json, announce, emit, emit_json

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
    as_json: Json = False,
) -> None:
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
    if as_json:
        emit_json(
            {
                "stage": stage,
                "jobs": [asdict(job) for job in jobs],
                "overlaps": [overlap._asdict() for overlap in overlaps(jobs)],
                "remarks": remarks(jobs),
                "files": files,
            }
        )
        return
    for remark in remarks(jobs):
        announce(remark)
    for name, text in files.items():
        if out is not None:
            write_atomically(out / name, text.encode())
            emit(f"{out / name}")
        else:
            emit(f"# ── {name} ──" if len(files) > 1 else text.rstrip("\n"))
            if len(files) > 1:
                emit(text)


def _tilde(path: Path) -> str:
    """Return a path as a word of the shell; a ``~`` at its beginning stays outside of the quotes."""
    parts = path.parts
    if parts[:1] != ("~",):
        return quote(str(path))
    return f"~/{quote('/'.join(parts[1:]))}" if parts[1:] else "~"
