"""``lab init``: from the home of a live host to a verdict, in one command before judging and the same one after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_trial
from lab.errors import CannotMeasure, UnusableInput

if TYPE_CHECKING:
    from lab.gate.verdict import Verdict
    from lab.replay.plan import ReplayRequest
    from lab.runs.directory import RunDirectory

# Names of the arms: the host as it is, the other selection policy, and the control of the policy.
LIVE, NEW, CONTROL = "engine", "new", "hybrid"
POLICIES = ("tier_first_v1", "tier_quota_v1")
OUT = Path("reports/init")
# Turns in a pool, and memories of each arm at a turn.
TURNS, DEPTH = 30, 6


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("init")(init)


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="HOME", help="The folder of an OpenClaw host, such as ~/.openclaw.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for runs, pool and verdicts.")] = OUT,
    new: Annotated[
        Path | None,
        typer.Option(
            "--new", help="The configuration to judge. [default: the host's, with the other selection policy]"
        ),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option("--golden", help="Your judgements. [default: golden.jsonl in --out, once it is there]"),
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="The gateway's log. [default: logging.file of the configuration]")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Number of turns to pool for judging.")] = TURNS,
    embedder: options.Embedder = "all-MiniLM-L6-v2",
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Judge a change on the sessions of a live host.

    Reads the host's configuration, sessions, memories and log from HOME, and changes nothing there. Replays the host as
    it is beside the changed configuration and a control, pools turns to judge, judges the receipts in the log, and,
    once you have judged the pool, the change. Repeat the command after judging. Exit codes: 0 pass, 1 fail, 2 unusable
    input, 3 inconclusive, 4 could not measure.
    """
    from lab.cli.verdict_tables import emit_verdict
    from lab.gate.line import GRAVITY, INCONCLUSIVE
    from lab.gate.verdict import EXIT
    from lab.runs.trial import trial

    config = folder / "openclaw.json"
    value = _accepted(config)
    request = _request(folder, config, new or _with_other_policy(value, config, out), golden, out, embedder)
    run = _replayed(request, out, jobs)
    verdicts: dict[str, Verdict] = {}
    if (audited := _log(log, value, folder)) is not None and (live := _judge_log(audited, out / "live")) is not None:
        verdicts["live receipts"] = live
    pool = None
    if request.golden is not None:
        verdicts["change"] = _judge_change(run, out)
    else:
        pool = _pool(request, out, turns)
    page = _page(run)
    status = min([one.status for one in verdicts.values()] + ([INCONCLUSIVE] if pool else []), key=GRAVITY.index)
    judge = f"lab golden judge {pool} --out {out / 'golden.jsonl'}" if pool else None
    if as_json:
        emit_json(
            {
                "status": status,
                "run": str(run.path),
                "page": str(page),
                "pool": str(pool) if pool else None,
                "verdicts": {name: verdict.as_json() for name, verdict in verdicts.items()},
                "next": judge,
            }
        )
        raise typer.Exit(EXIT[status])
    emit_trial(trial(run.manifest))
    for name, verdict in verdicts.items():
        emit()
        emit(f"── {name} ──")
        emit_verdict(verdict)
    emit()
    emit(f"Open {page}")
    if judge:
        emit_folded("The change is not judged yet. Judge the pooled turns, then repeat this command:")
        emit(f"  {judge}")
    raise typer.Exit(EXIT[status])


def _accepted(config: Path) -> Any:
    """Return the value of a configuration that its host accepts."""
    from lab.canary.rollback import require_accepted
    from lab.systems.openclaw.config.file import read_value

    if not config.is_file():
        raise UnusableInput(f"{config.parent}: has no {config.name}; name the folder of an OpenClaw host")
    require_accepted(config)
    return read_value(config)


def _with_other_policy(value: Any, config: Path, out: Path) -> Path:
    """Write the engine's configuration with the other selection policy, without its key; return the file."""
    from copy import deepcopy

    from lab.files import dump_json, write_atomically
    from lab.systems.openclaw.config.file import locate
    from lab.systems.openclaw.config.missing import missing
    from lab.systems.openclaw.config.resolve import resolve

    section = locate(value, str(config)) or {}
    mode = resolve(section, "upstream", where=str(config), environ={}).auto_recall.selection_mode
    (other,) = (policy for policy in POLICIES if policy != mode)
    changed = deepcopy(section) | {"lab": {"arm": LIVE}}
    # A file for the lab alone has neither a key nor what the lab does not have.
    for path in ("embedding.apiKey", *missing(section)):
        _remove(changed, path.split("."))
    changed.setdefault("autoRecall", {})["selectionMode"] = other
    file = out / f"{other}.json"
    write_atomically(file, dump_json(changed), private=True)
    announce(f"the change: autoRecall.selectionMode {mode} -> {other} ({file})")
    return file


def _remove(value: Any, path: list[str]) -> None:
    for key in path[:-1]:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    if isinstance(value, dict):
        value.pop(path[-1], None)


def _request(folder: Path, config: Path, new: Path, golden: Path | None, out: Path, embedder: str) -> ReplayRequest:
    from lab.replay.plan import ReplayRequest

    stored = folder / "memory" / "lancedb"
    judged = golden or (out / "golden.jsonl" if (out / "golden.jsonl").is_file() else None)
    return ReplayRequest(
        str(folder),
        "openclaw",
        (f"{LIVE}={config}", f"{NEW}={new}", CONTROL),
        golden=str(judged) if judged else None,
        profile="upstream",
        scope="tags",
        memories_from=str(stored) if stored.is_dir() else None,
        embedder=embedder,
    )


def _replayed(request: ReplayRequest, out: Path, jobs: int) -> RunDirectory:
    """Replay into a folder of its own for these judgements, so that an earlier run stays as it was."""
    from lab.files import sha256_file
    from lab.measures.score import score_and_write
    from lab.replay.run import run_replay

    name = f"judged-{sha256_file(Path(request.golden))[:8]}" if request.golden else "run"
    outcome = run_replay(request, out / name, jobs=jobs, announce=announce)
    if outcome.failures or outcome.run.manifest.failed:
        raise CannotMeasure(f"{out / name}: recalls failed; see {out / name / 'failures.jsonl'}")
    score_and_write(outcome.run)
    return outcome.run


def _log(log: Path | None, value: Any, folder: Path) -> Path | None:
    """Return the gateway's log: the one given, or the one that the configuration names, if it is there."""
    if log is not None:
        return log
    named = value.get("logging", {}).get("file") if isinstance(value, dict) else None
    if not isinstance(named, str):
        return None
    file = Path(named)
    # ~/.openclaw is the home of the host, wherever it was copied to.
    file = folder.joinpath(*file.parts[2:]) if file.parts[:2] == ("~", ".openclaw") else file.expanduser()
    return file if file.is_file() else None


def _judge_log(log: Path, out: Path) -> Verdict | None:
    """Judge the receipts in a log; return None if it has none."""
    from lab.canary.audit import audit, nothing_found
    from lab.files import dump_json, write_atomically
    from lab.gate.outputs import write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.verdict import judge

    found = audit([str(log)], tell=announce)
    if nothing_found(found):
        announce(f"{log}: no receipts, so nothing was judged")
        return None
    write_atomically(out / "audit.json", dump_json(found))
    verdict = judge(read_policy("stage-b"), audit=found)
    write_verdict(verdict, out)
    return verdict


def _judge_change(run: RunDirectory, out: Path) -> Verdict:
    """Judge the changed configuration against the host's by the policy rollout, with these arms."""
    from lab.files import read_text, write_atomically
    from lab.gate.outputs import write_verdict
    from lab.gate.policy import SHIPPED, read_policy
    from lab.gate.verdict import judge

    text = read_text(SHIPPED / "rollout.toml")
    for role, before, arm in (("baseline", POLICIES[0], LIVE), ("candidate", POLICIES[1], NEW)):
        text = text.replace(f'\n{role} = "{before}"\n', f'\n{role} = "{arm}"\n')
    # At the number of items that the host injects.
    text = text.replace("@6", f"@{run.cutoff}")
    file = out / "policy.toml"
    write_atomically(file, text.encode())
    verdict = judge(read_policy(str(file)), run)
    write_verdict(verdict, run.path)
    return verdict


def _pool(request: ReplayRequest, out: Path, turns: int) -> Path:
    """Pool the turns to judge, unless that was done; return the file."""
    from dataclasses import replace

    from lab.golden.write import write_new
    from lab.replay.pool import Chosen, make_pool

    file = out / "pool.jsonl"
    if not file.exists():
        arms = (*request.arms, "vector", "bm25", "recency")
        pool = make_pool(replace(request, arms=arms), DEPTH, Chosen(number=turns), announce)
        write_new(file, pool.as_bytes())
    return file


def _page(run: RunDirectory) -> Path:
    from lab.report.build import build_report

    return build_report(run, LIVE, NEW)[0]
