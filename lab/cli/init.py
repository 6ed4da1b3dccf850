"""``lab init``: from the home of a live host to a verdict, in one command before judging and the same one after."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.formatting import Announce, counted
from lab.base.progress import each_once
from lab.cli import options, replay_options
from lab.cli.baseline import today
from lab.cli.output import announce, emit, emit_folded, emit_notes, emit_suspects, emit_table, emit_trial, is_terminal
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.gate.verdict import Verdict
    from lab.host.home import Home
    from lab.host.snapshot import Snapshot
    from lab.replay.pool import Drawn
    from lab.replay.run import Outcome
    from lab.runs.directory import RunDirectory
    from lab.runs.request import ReplayRequest

OUT = Path("reports/init")
SNAPSHOTS, POOL, DRAW, PLAN, GOLDEN = "snapshots", "pool.jsonl", "draw.json", "plan.toml", "golden.jsonl"
NIGHTLY_POLICY, AUDIT = "nightly-policy.toml", "audit.json"
# Turns in a pool, and memories of each arm at a turn.
TURNS, DEPTH = 60, 6
# Names of the arms: the host as it is, the change, and the control of the policy.
LIVE, NEW, CONTROL = "engine", "new", "hybrid"
POLICIES = ("tier_first_v1", "tier_quota_v1")
PERSONS = ["person"]
# The share of the drawn turns that need a memory, for which the draw says what it can show as well.
THIRD = 1 / 3


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="HOME", help="The folder of an OpenClaw host, such as ~/.openclaw.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for snapshots, runs, pool and verdicts.")] = OUT,
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
    store: Annotated[
        Path | None, typer.Option("--store", help="The LanceDB folder. [default: dbPath of the configuration]")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="The gateway's log. [default: logging.file of the configuration]")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="The host's openclaw.json. [default: the one in HOME, else OPENCLAW_CONFIG_PATH]"
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Take a new snapshot, although --out has one of this home.")
    ] = False,
    turns: Annotated[int, typer.Option(min=1, help="Number of turns to pool for judging.")] = TURNS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw of these turns.")] = 0,
    origin: replay_options.Origins = PERSONS,
    embedder: replay_options.Embedder = "all-MiniLM-L6-v2",
    jobs: options.Jobs = 1,
    date: options.Day = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> Result:
    """Judge a change on the sessions of a live host.

    Lists the configuration, sessions, stores and logs in HOME, copies them to a frozen snapshot, and changes nothing
    there. Replays the host as it is beside the changed configuration and a control, draws turns to judge, judges the
    receipts in the log, and, once you have judged the pool, the change. Repeat the command after judging: it uses the
    same snapshot. Exit codes: 0 pass, 1 fail, 2 unusable input, 3 inconclusive, 4 could not measure.
    """
    from dataclasses import replace

    from lab.base.config_env import config_of
    from lab.base.shape import to_json
    from lab.gate.line import GRAVITY, INCONCLUSIVE
    from lab.gate.verdict import EXIT
    from lab.host.home import look
    from lab.recordings.origins import require_known
    from lab.replay.rollback import require_accepted

    require_known(origin)
    _require_files(new, golden, log)
    config = config or config_of(folder)
    if folder.is_dir() and config.is_file():
        require_accepted(config, folder)
    home = look(folder, store=store, log=log, config=config)

    def judged() -> Result:
        snapshot = _snapshot(home, out / SNAPSHOTS, date or today(), fresh=fresh)
        tell = each_once(announce)
        if home.off:
            tell(
                f"arm {LIVE} injects nothing, as this host does not run the engine; "
                f"arm {NEW} shows what it would inject"
            )
        request = _request(snapshot, new or with_other_policy(snapshot, out), golden, out, embedder, seed)
        request = replace(request, origin=tuple(origin))
        outcome = _replayed(request, out, snapshot, jobs, tell)
        run = outcome.run
        verdicts: dict[str, Verdict] = {}
        if snapshot.log is not None and (live := _judge_log(snapshot.log, out / "live")) is not None:
            verdicts["live receipts"] = live
        if request.golden is not None:
            verdicts["change"] = _judge_change(run, out)
        pool, drawn = (None, []) if request.golden is not None else _pool(request, out, turns, tell)
        page = _page(run)
        plan = _plan(home, snapshot, run, out)
        unjudged = [INCONCLUSIVE] if request.golden is None else []
        status = min([one.status for one in verdicts.values()] + unjudged, key=GRAVITY.index)
        found = {
            "status": status,
            "home": home.as_json(),
            "snapshot": snapshot.as_json(),
            "run": str(run.path),
            "origins": to_json(run.manifest.origins) if run.manifest.origins else None,
            "left_out": {skipped.what: skipped.count for skipped in outcome.passed},
            "page": str(page),
            "pool": str(pool) if pool else None,
            "draw": _draw(out) if pool else None,
            "drawn": drawn,
            "plan": str(plan),
            "verdicts": {name: verdict.as_json() for name, verdict in verdicts.items()},
            "next": f"lab golden judge {pool} --out {out / GOLDEN}" if pool else None,
        }

        def show(found: dict[str, Any]) -> None:
            named = {"DIR": run.path, "LOG": home.log, "AUDIT": out / "live" / AUDIT}
            show_outcome(outcome, snapshot, verdicts, page, plan, named)
            emit_notes(found["drawn"])
            if found["next"]:
                emit_folded("The change is not judged yet. Judge the pooled turns, then repeat this command:")
                emit(f"  {found['next']}")

        if browser:
            _open(page)
        return Result(found, show, error=typer.Exit(EXIT[status]))

    return Result(home, show_home, lambda _: None, then=judged)


def _require_files(new: Path | None, golden: Path | None, log: Path | None) -> None:
    """Raise :class:`UnusableInput` for a named file that cannot be used, before anything is copied."""
    from lab.systems.registry import parse_arms

    if log is not None and not log.is_file():
        raise UnusableInput(f"--log: {log}: no such file")
    if golden is not None and not golden.exists():
        raise UnusableInput(f"--golden: {golden}: no such file")
    if new is not None:
        parse_arms((f"{NEW}={new}",))


def _open(page: Path) -> None:
    import webbrowser

    if not is_terminal(sys.stdout) or not webbrowser.open(page.resolve().as_uri()):
        announce(f"no browser was opened: open {page}")


def _snapshot(home: Home, root: Path, date: str, *, fresh: bool) -> Snapshot:
    """Return the newest snapshot of a home, or a new one if there is none or with ``fresh``."""
    from lab.host.snapshot import open_snapshot, snapshots, take

    before: Snapshot | None = None
    for path in snapshots(root)[-1:]:
        try:
            before = open_snapshot(path)
        except UnusableInput as error:
            if not fresh:
                raise UnusableInput(f"{error}; --fresh takes a new one") from None
            # A new one must neither equal it nor have links to its files.
            announce(f"{error}; a new one is taken")
    if before is not None:
        if before.home != str(home.path.resolve()):
            raise UnusableInput(f"{root}: has snapshots of {before.home}; choose another --out for {home.path}")
        if not fresh:
            announce(f"{before.path}: this snapshot is used; --fresh takes a new one")
            if home.log is not None and before.log is None:
                announce(f"{home.log}: is not in this snapshot, so its receipts are not judged; --fresh takes it in")
            return before
    return take(home, root, date=date, created=date, like=before, announce=announce)


def _request(snapshot: Snapshot, new: Path, golden: Path | None, out: Path, embedder: str, seed: int) -> ReplayRequest:
    from lab.runs.request import ReplayRequest

    judged = golden or (out / GOLDEN if (out / GOLDEN).is_file() else None)
    return ReplayRequest(
        str(snapshot.path),
        "openclaw",
        (f"{LIVE}={snapshot.engine}", f"{NEW}={new}", f"{CONTROL}={control_of(snapshot, out)}"),
        golden=str(judged) if judged else None,
        profile="upstream",
        scope="tags",
        memories_from=str(snapshot.store) if snapshot.store else None,
        embedder=embedder,
        seed=seed,
    )


def _replayed(request: ReplayRequest, out: Path, snapshot: Snapshot, jobs: int, announce: Announce) -> Outcome:
    """Replay into a folder of its own for the snapshot and the judgements, so that an earlier run stays as it was."""
    from lab.base.files import sha256_file
    from lab.measures.score import score_and_write
    from lab.replay.run import run_replay

    judged = f"-{sha256_file(Path(request.golden))[:8]}" if request.golden else ""
    place = out / f"{'judged' if judged else 'run'}-{snapshot.path.name}{judged}"
    # The run before judging, whose pool was judged, and an earlier one of the same judgements.
    for before in (out / f"run-{snapshot.path.name}", place):
        _require_same_options(before, request, out)
    outcome = run_replay(request, place, jobs=jobs, announce=announce)
    if outcome.failures or outcome.run.manifest.failed:
        raise CannotMeasure(f"{place}: recalls failed; see {place / 'failures.jsonl'}")
    score_and_write(outcome.run)
    return outcome


def _require_same_options(place: Path, request: ReplayRequest, out: Path) -> None:
    """Raise :class:`UnusableInput` if the run there, and so the pool, has other origins or another embedder."""
    from lab.runs.directory import MANIFEST, open_run
    from lab.runs.request import ReplayRequest as Asked

    if not (place / MANIFEST).is_file():
        return
    before = Asked.of_manifest(open_run(place).manifest.asked)
    for option in ("origin", "embedder"):
        given = [getattr(one, option) for one in (before, request)]
        values = [[value] if isinstance(value, str) else sorted(value) for value in given]
        if values[0] != values[1]:
            then, now = (" ".join(f"--{option} {name}" for name in names) for names in values)
            raise UnusableInput(f"{out}: was made with {then}; give it again, or choose another --out for {now}")


def _judge_log(log: Path, out: Path) -> Verdict | None:
    """Judge the receipts in a log; return None if it has none."""
    from lab.base.files import dump_json, write_atomically
    from lab.canary.audit.audit import audit
    from lab.gate.outputs import write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.receipts import nothing_found, unreadable
    from lab.gate.verdict import judge
    from lab.runs.directory import AUDIT

    found = audit([str(log)], tell=announce)
    if nothing_found(found):
        announce(unreadable(found) or f"{log}: no receipts, so nothing was judged")
        return None
    # The receipts of the host as it is: there is nothing to roll back.
    found["switched"] = False
    write_atomically(out / AUDIT, dump_json(found))
    verdict = judge(read_policy("stage-b"), audit=found, audit_file=out / AUDIT)
    write_verdict(verdict, out)
    return verdict


def _judge_change(run: RunDirectory, out: Path) -> Verdict:
    """Judge the changed configuration against the host's by the policy rollout, with these arms."""
    from lab.base.files import write_atomically
    from lab.gate.outputs import write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.verdict import judge

    items = run.max_items
    text = _policy("rollout", min(items[LIVE], items[NEW]))
    for role, before, arm in (("baseline", POLICIES[0], LIVE), ("candidate", POLICIES[1], NEW)):
        text = text.replace(f'\n{role} = "{before}"\n', f'\n{role} = "{arm}"\n')
    file = out / "policy.toml"
    write_atomically(file, text.encode())
    verdict = judge(read_policy(str(file)), run)
    write_verdict(verdict, run.path)
    return verdict


def _policy(name: str, items: int) -> str:
    """Return the text of a shipped policy, at a number of items."""
    from lab.base.files import read_text
    from lab.gate.shipped import SHIPPED

    return read_text(SHIPPED / f"{name}.toml").replace("@6", f"@{items}")


def _pool(request: ReplayRequest, out: Path, turns: int, announce: Announce) -> tuple[Path | None, list[str]]:
    """Pool the turns to judge, unless that was done; return the file, and how they were drawn or why there is none."""
    from dataclasses import replace

    from lab.base.files import dump_json, write_atomically
    from lab.golden.files import write_new
    from lab.replay.pool import Chosen, NothingToPool, make_drawn_pool

    file = out / POOL
    if not file.exists():
        arms = (*request.arms, "vector", "bm25", "recency")
        try:
            pool, drawn = make_drawn_pool(replace(request, arms=arms), DEPTH, Chosen(number=turns), announce)
        except NothingToPool as error:
            why = "these sessions cannot be judged by memories yet; repeat this with --fresh later"
            return None, [f"The change is not judged: {error}: {why}"]
        write_atomically(out / DRAW, dump_json(draw_record(drawn, THIRD)))
        write_new(file, pool.as_bytes())
    return file, list(draw_sentences(_draw(out)))


def _draw(out: Path) -> Any:
    from lab.base.files import read_json

    return read_json(out / DRAW) if (out / DRAW).is_file() else None


def _plan(home: Home, snapshot: Snapshot, run: RunDirectory, out: Path) -> Path:
    """Write the plan of nightly runs over the snapshot and its policy, unless they were edited; return its path.

    Once there are judgements, the plan has them, and its policy requires what they measure, such as hit@k.
    """
    from lab.base.files import read_text, write_atomically

    file, policy = out / PLAN, out / NIGHTLY_POLICY
    judged = run.manifest.asked["golden"]
    golden = f"golden = {_quoted(Path(str(judged)).resolve())}" if judged else None
    before = read_text(file) if file.exists() else ""
    if before and snapshot.sha256 not in before:
        said = f'snapshot = "{SNAPSHOTS}/{snapshot.path.name}", sha256 = "{snapshot.sha256}"'
        announce(f"{file}: names another snapshot, and was left as it is; the new one: {said}")
    elif before in ("", _plan_text(home, snapshot, run, out, None)):
        write_atomically(file, _plan_text(home, snapshot, run, out, golden).encode())
    elif golden and golden not in before:
        announce(f"{file}: is not as this command writes it, and was left; to guard what you judged: {golden}")
    texts = [_nightly_policy(run, judged=is_judged) for is_judged in (False, True)]
    if not policy.exists() or (judged and read_text(policy) == texts[False]):
        write_atomically(policy, texts[bool(judged)].encode())
    return file


def _nightly_policy(run: RunDirectory, *, judged: bool) -> str:
    said = '# Without judgements, what changed is still compared exactly.\nunmeasured = "accept"\nabout = '
    policy = _policy("nightly", run.max_items[LIVE])
    return policy if judged else policy.replace("about = ", said, 1)


def _plan_text(home: Home, snapshot: Snapshot, run: RunDirectory, out: Path, golden: str | None) -> str:
    import json

    arms = (f"{LIVE}={home.config.absolute()}", f"{CONTROL}={(out / f'{CONTROL}.json').resolve()}")
    lines = [
        "# Nightly runs over a frozen snapshot: `lab nightly run --plan` with this file.",
        'name = "host"',
        'about = "the engine, as this host configures it, recalls in the conversations of the snapshot what it did"',
        f'policy = "{NIGHTLY_POLICY}"',
        "",
        "[[set]]",
        'name = "host"',
        f'snapshot = "{SNAPSHOTS}/{snapshot.path.name}"',
        f'sha256 = "{snapshot.sha256}"',
        f"home = {_quoted(home.path.resolve())}",
        f"arms = [{', '.join(map(_quoted, arms))}]",
        'profile = "upstream"',
        'scope = "tags"',
        f"embedder = {_quoted(run.manifest.asked['embedder'])}",
        f"origin = {json.dumps(run.manifest.asked['origin'])}",
        *([golden] if golden else []),
        '# Conversations that were added since are compared apart. They decide as well with: added = "judge"',
    ]
    return "\n".join(lines) + "\n"


def _quoted(value: object) -> str:
    """Return a TOML string; JSON's escapes are TOML's."""
    import json

    return json.dumps(str(value), ensure_ascii=False)


def _page(run: RunDirectory) -> Path:
    from lab.report.build import build_report

    return build_report(run, LIVE, NEW)[0]


def with_other_policy(snapshot: Snapshot, out: Path) -> Path:
    """Write the engine's configuration with the other selection policy, without its key; return the file."""
    from lab.base.files import dump_json, write_atomically
    from lab.systems.openclaw.config.file import locate, read_value
    from lab.systems.openclaw.config.resolve import resolve
    from lab.systems.openclaw.config.values import missing

    where = str(snapshot.engine)
    section = locate(read_value(snapshot.engine), where) or {}
    mode = resolve(section, "upstream", where=where, environ={}).auto_recall.selection_mode
    (other,) = (policy for policy in POLICIES if policy != mode)
    changed = deepcopy(section) | {"lab": {"arm": LIVE}}
    # A file for the lab alone has nothing that the lab does not have.
    for path in missing(section):
        _remove(changed, path.split("."))
    changed.setdefault("autoRecall", {})["selectionMode"] = other
    file = out / f"{other}.json"
    write_atomically(file, dump_json(changed), private=True)
    announce(f"the change: autoRecall.selectionMode {mode} -> {other} ({file})")
    return file


def control_of(snapshot: Snapshot, out: Path) -> Path:
    """Write a configuration of the control that injects as many items as the host; return the file.

    The measures count as many items as every arm injects, so a control with fewer would set their number.
    """
    from lab.base.files import dump_json, write_atomically
    from lab.systems.openclaw.config.file import locate, read_value
    from lab.systems.openclaw.config.resolve import resolve

    where = str(snapshot.engine)
    items = resolve(locate(read_value(snapshot.engine), where) or {}, "upstream", where=where, environ={}).max_items
    file = out / f"{CONTROL}.json"
    write_atomically(file, dump_json({"lab": {"arm": CONTROL}, "autoRecall": {"maxItems": items}}))
    return file


def _remove(value: Any, path: list[str]) -> None:
    for key in path[:-1]:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    if isinstance(value, dict):
        value.pop(path[-1], None)


def draw_record(drawn: Drawn, share: float) -> dict[str, Any]:
    """Return the draw as plain values, with the minimum detectable effects before anything is judged (IN-13).

    ``all`` assumes that every turn needs a memory, ``some`` that the first ``share`` of them does.
    """
    from lab.compare.statistics import power_of

    return drawn.as_json() | {
        "power": {
            "all": power_of(drawn.sizes()).as_json(),
            "some": power_of(drawn.sizes(share)).as_json(),
        }
    }


def draw_sentences(record: Any) -> Iterator[str]:
    """Yield how the turns were chosen and which difference they could show, in words."""
    if not isinstance(record, dict):
        return
    chosen = [name for name, (count, _) in record["conversations"].items() if count]
    yield (
        f"drawn to judge: {record['turns']} of {counted(record['eligible'], 'eligible user turn')}, from "
        f"{len(chosen)} of {counted(len(record['conversations']), 'conversation')}: one turn of each conversation in "
        f"every round, in the order of a hash (seed {record['seed']})"
    )
    reasons = [f"{count} {why}" for why, count in record["not_eligible"].items() if count]
    if reasons:
        yield f"user turns that were not eligible: {', '.join(reasons)}"
    most = record["power"]["all"]
    if not most["detectable"]:
        # Fewer turns show no more.
        yield (
            f"{counted(most['conversations'], 'conversation')} cannot show any difference, even if all of these turns "
            "need a memory; a test needs at least 6"
        )
        return
    for name, case in (("all", "if all of them need a memory"), ("some", "if only a third of them does")):
        power = record["power"][name]
        if not power["detectable"]:
            yield (
                f"{case}: {counted(power['conversations'], 'conversation')} cannot show any difference; a test needs "
                "at least 6"
            )
            continue
        effects = ", ".join(
            f"±{least:.2f} if {share} change" if least <= 1 else f"none if {share} change"
            for share, least in power["detectable"].items()
        )
        yield f"{case}: the smallest difference in hit rate that they show (80 % power): {effects}"


def show_home(home: Home) -> None:
    """Print what a home contains, what of it is used, and what is missing."""
    rows = [
        [part.what, part.where, f"damaged: {part.problem}" if part.problem else part.contains, _use(part.used)]
        for part in home.parts
    ]
    emit_table([str(home.path), "where", "contains", "used"], rows, left=4)
    for text in home.lacks:
        emit_folded(f"missing: {text}")
    for text in home.off:
        emit_folded(f"warning: {text}")
    emit()


def _use(used: bool) -> str:
    return "yes" if used else "no"


def show_outcome(
    outcome: Outcome,
    snapshot: Snapshot,
    verdicts: dict[str, Verdict],
    page: Path,
    plan: Path,
    named: Mapping[str, Path | None],
) -> None:
    """Print what was done; ``named`` are the paths for the names in commands."""
    from lab.cli.verdict_tables import emit_verdict
    from lab.host.home import in_bytes
    from lab.runs.notes import config_notes, trial

    run = outcome.run
    emit_trial(trial(run.manifest))
    if "change" not in verdicts:
        # The verdict has these notes as well.
        emit_notes(config_notes(run.manifest.resolved))
    recalls = sum(run.manifest.recall_points.values())
    emit(f"Snapshot {snapshot.path}: {counted(len(snapshot.files), 'file')}, {in_bytes(snapshot.size)}")
    emit(f"  sha256 {snapshot.sha256}")
    emit_folded(
        f"replayed: {counted(len(run.conversations), 'conversation')}, {counted(recalls, 'recall')} of each arm"
        + (f", {counted(snapshot.rows, 'memory')}" if snapshot.rows is not None else "")
    )
    _show_left_out(outcome, snapshot)
    for name, verdict in verdicts.items():
        emit()
        emit(f"── {name} ──")
        emit_verdict(verdict, named=named)
    emit()
    emit(f"Open {page}")
    emit(f"Daily: lab nightly run --plan {plan}")


def _show_left_out(outcome: Outcome, snapshot: Snapshot) -> None:
    """Print what was left out of the replay by kind and count: conversations, files, and entries of transcripts."""
    from lab.recordings.inventory import notable

    origins = outcome.run.manifest.origins
    out = origins.left_out if origins else {}
    rows: list[list[object]] = [[f"conversations of {name} (--origin {name})", count] for name, count in out.items()]
    rows += [[f"{name}: {why}", 1] for name, why in snapshot.left_out.items()]
    rows += [[f"{name}: bytes of a line that was being written", size] for name, size in snapshot.cut.items()]
    rows += [[skipped.what, skipped.count] for skipped in notable(outcome.passed)]
    # The table has the first note, if something was left out.
    for note in outcome.run.manifest.notes[bool(out) :]:
        emit_folded(note)
    if rows:
        emit()
        emit_table(["left out", "count"], rows)
    emit_suspects(outcome.suspects)
