"""The studies that make one table of points and one chart of them, and the end of every study."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from shlex import quote, split
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CannotMeasure
from lab.base.formatting import bracketed, counted, signed
from lab.cli import options
from lab.cli.output import announce, emit, emit_folded, emit_notes, emit_table, emit_trial
from lab.cli.replay_options import LABELLED, TURNS, takes_replay_options
from lab.cli.results import Result
from lab.cli.verdict_tables import WIDTH, emit_command
from lab.report.study import Part, Study

if TYPE_CHECKING:
    from lab.compare.arms import StepResult
    from lab.runs.request import ReplayRequest
    from lab.studies.points import Chosen
    from lab.studies.retention import Loss

IN_REACH = (
    "In reach: how many memories a probe could recall, on average. RepeatRate: – if no two turns of a conversation "
    "recall (--recall-turns all makes every turn recall). p50, p95: wall-clock time of a recall without embedding its "
    "prompt and without the first recall of each conversation; other load on the machine raises p95 most."
)
SCALED = ("tier_first_v1", "tier_quota_v1", "hybrid", "vector", "bm25", "random")


def finish(study: Study, out: Path, *, slides: bool = False) -> Result:
    """Write the page, and with ``slides`` the figures; return the study as a result."""
    from lab.report.study import write_study

    page, drawn = write_study(study, out, slides=slides)
    found = {**study.data, "page": str(page), "figures": [str(file) for file in drawn]}
    return Result(found, lambda _: conclude(study, page, drawn))


def conclude(study: Study, page: Path, drawn: Sequence[Path] = ()) -> None:
    """Print the tables of a study, where its page is, and what to run next."""
    emit_trial(list(study.trial))
    emit_notes(study.about)
    for part in study.parts:
        if part.lead:
            emit()
            emit_folded(part.lead)
        emit_table(list(part.headers), [list(row) for row in part.rows], left=part.left)
        emit_notes(part.notes)
    if len(study.parts) > 1 or any(part.lead for part in study.parts):
        emit()
    emit_notes(study.notes)
    emit(f"Page: {page}" + (f". Slides: {', '.join(map(str, drawn))}" if drawn else ""))
    if study.next and len(study.next) <= WIDTH:
        emit(f"Next: {study.next}")
    elif study.next:
        emit("Next:")
        emit_command(list(map(quote, split(study.next))))


@takes_replay_options(
    *LABELLED,
    "memories",
    "memories_from",
    "haystack",
    "haystack_from",
    "max_items",
    "config",
    "embedder",
    fixed=True,
    runs="as recordings",
)
def ablate(
    request: ReplayRequest,
    *,
    out: options.RunFolder,
    jobs: options.Jobs = 1,
    slides: options.Slides = False,
) -> Result:
    """Run the ablation from tier_first_v1 to the full engine.

    Shows what each step adds. All steps share one retrieval, so the ablation costs little more than one arm.
    """
    from dataclasses import replace

    from lab.compare.arms import ablation, measures_shown
    from lab.compare.comparable import equal_in, equal_notes
    from lab.compare.statistics import LEAST_CLUSTERS
    from lab.measures.score import score_and_write, summarise
    from lab.replay.run import run_replay
    from lab.report.figures_arms import ablation_chart
    from lab.runs.notes import config_notes, trial
    from lab.runs.scores import read_gold
    from lab.systems.openclaw.presets import ABLATION

    request = replace(request, arms=tuple(step.arm for step in ABLATION))
    outcome = run_replay(request, out, jobs=jobs, announce=announce)
    if outcome.failures:
        raise CannotMeasure(f"{counted(len(outcome.failures), 'conversation')} failed; see {out / 'failures.jsonl'}")
    run = outcome.run
    scores = score_and_write(run)
    summary = summarise(scores, read_gold(run), run.arms)
    equal = equal_in(run)
    steps = ablation(scores, summary["arms"], run.cutoff, equal)
    resolved = run.manifest.resolved
    notes, reasons = config_notes(resolved), trial(run.manifest)
    shown = measures_shown(run.cutoff)
    n = summary["arms"][steps[0].arm]["n"]
    about = [
        *(*run.manifest.notes, *notes, *equal_notes(resolved.equal_conversations)),
        (
            f"{counted(n, 'probe')} with gold in {counted(len(run.conversations), 'conversation')} of {request.shown}; "
            f"labels {resolved.labels.mode}, scope {resolved.scope}"
        ),
    ]
    if not n:
        about.append("No probe has gold, so hit rates are undefined. Give a golden set with --golden.")
    units = len({equal.get(name, name) for name in run.conversations})
    interval = "95 % interval" if units >= LEAST_CLUSTERS else f"no interval: {counted(units, 'conversation')}"
    first = list(shown)[:3]
    parts = [
        Part(
            "",
            ("arm", *shown.values()),
            [[step.arm, *step.means.values()] for step in steps],
            notes=[f"Columns: {', '.join(f'{short} {name}' for name, short in shown.items())}."],
        ),
        Part("what each step adds", ("arm", "adds"), [[step.arm, step.adds] for step in steps[1:]], 2),
        Part(
            f"change from the step before [{interval}]",
            ("arm", *(shown[name] for name in first)),
            [[step.arm, *(_change(step, name) for name in first)] for step in steps[1:]],
        ),
    ]
    data = {"run": str(out), "trial": list(reasons), "steps": [step.as_json() for step in steps]}
    data |= {"embedder": list(notes)} if notes else {}
    charts = {"ablation": ablation_chart(steps, run.cutoff)}
    explain = f"lab explain {quote(str(out))} TURN --arm ARM"
    return finish(Study("ablate", charts, parts, data, about, (), reasons, explain), out, slides=slides)


def _change(step: StepResult, name: str) -> str:
    change = step.changes.get(name)
    if change is None:
        return "–"
    return signed(change.estimate.mean) + bracketed(change.estimate.low, change.estimate.high)


@takes_replay_options("golden", "scope", "haystack", "haystack_from", "embedder", fixed=True, runs="as recordings")
def saturation(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for saturation.parquet and the page.")],
    seeds: Annotated[int, typer.Option(min=1, help="Number of label samples at each share.")] = 3,
    jobs: options.Jobs = 2,
    slides: options.Slides = False,
) -> Result:
    """Increase the must_remember share and chart every policy."""
    from lab.report.figures_studies import saturation_chart
    from lab.runs.tables import write_points
    from lab.studies.points import SATURATION, SaturationPoint, means
    from lab.studies.saturation import saturation as sweep

    options.require_no_run(out)
    points = sweep(request, seeds=seeds, jobs=jobs, announce=announce)
    write_points(SaturationPoint, points, out / SATURATION)
    headers = ("mode, must share", "arm", "must", "hit@6", "GoldNice@6", "RepeatRate")
    rows = [
        [name, arm, None if must is None else round(must), hit, nice, repeat]
        for (name, arm), (must, hit, nice, repeat) in means(points).items()
    ]
    data = {"points": [point._asdict() for point in points]}
    study = Study("saturation", {"saturation": saturation_chart(points)}, [Part("", headers, rows)], data)
    study = study._replace(next=f"lab study governance {request.recordings} --out DIR")
    return finish(study, out, slides=slides)


@takes_replay_options(
    *TURNS,
    "golden",
    "memories",
    "haystack",
    "haystack_from",
    "categories",
    "config",
    "embedder",
    fixed=True,
    runs="as recordings",
)
def governance(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for governance.parquet and the page.")],
    grader: Annotated[
        list[str] | None,
        typer.Option(
            help="heuristic-v1, the sidecar's grade of the text, or category, the importance that a capture of the "
            "memory's category gets. Repeat for more. [default: heuristic-v1]"
        ),
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(
            help="A score from which memories are must_remember. Repeat for more. [default: 1.00 to 0.30 in steps of "
            "0.05]"
        ),
    ] = None,
    nice_from: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="The score from which memories are nice_to_have; below, they are ignored."),
    ] = 0.5,
    jobs: options.Jobs = 2,
    slides: options.Slides = False,
) -> Result:
    """Move the grading thresholds and chart both policies.

    Every memory is graded. A lower threshold of must_remember gives more of them that label, until tier_first_v1
    injects nothing else: there, grading alone saturates recall.
    """
    from lab.report.figures_studies import governance_chart
    from lab.runs.tables import write_points
    from lab.studies.governance import STEPS
    from lab.studies.governance import governance as sweep
    from lab.studies.points import GovernancePoint, distinct, grading_finding

    options.require_no_run(out)
    graders = list(dict.fromkeys(grader or ["heuristic-v1"]))
    points = sweep(
        request,
        graders=graders,
        thresholds=threshold or STEPS,
        nice_from=nice_from,
        jobs=jobs,
        announce=announce,
    )
    write_points(GovernancePoint, points, out / "governance.parquet")
    headers = ("from", "arm", "must", "nice", "ignored", "hit@6", "repeat", "full")
    parts = [
        Part(
            f"{grading_finding(points, name)}.",
            headers,
            [
                [
                    "" if point.must_from is None else f"{point.must_from:.2f}",
                    point.arm,
                    *(point.must, point.nice, point.ignored, point.hit, point.repeat, point.full),
                ]
                for point in distinct(points, name)
            ],
            2,
        )
        for name in graders
    ]
    note = (
        "must, nice, ignored: shares of all memories; automatic recall never reads ignored ones. full: share of the "
        "recalls that inject must_remember memories alone. Thresholds that change no label are left out. The last rows "
        "ignore labels."
    )
    data = {"points": [point._asdict() for point in points]}
    study = Study("governance", {"governance": governance_chart(points)}, parts, data, notes=[note])
    study = study._replace(next=f"lab study sweep {request.recordings} --out DIR")
    return finish(study, out, slides=slides)


def retention(
    run: options.Run,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P1/P2",
            help="Days without use after which P1 and P2 are archived. Repeat for more. [default: 90/30]",
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--priority",
            help="label: must_remember is P0, nice_to_have P1, all others P2. kind: as the public sidecar, P1 for "
            "preferences, decisions, facts, entities and plans, else P2.",
        ),
    ] = "label",
    signal: Annotated[
        str, typer.Option("--used", help="What counts as a use: included (injected), retrieved (found), or none.")
    ] = "included",
    most_lost: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Search for the rule that loses less than this share.")
    ] = 0.01,
) -> Result:
    """Say what a retention rule would archive and lose.

    A memory is archived once it was not used for the days of its priority; P0 never is. Relevant memories of a probe
    that were archived by then are lost. Writes retention.parquet into DIR: when each memory was last retrieved and last
    included, and retention.html.
    """
    from lab.runs.directory import open_run
    from lab.runs.notes import trial
    from lab.studies.retention import (
        DEFAULT,
        FILE,
        P1_DAYS,
        P2_DAYS,
        largest,
        lives,
        losses,
        parse_rule,
        span_days,
        write_lives,
    )

    rules = [parse_rule(text) for text in rule or [str(DEFAULT)]]
    opened = open_run(run)
    found = lives(opened, by)
    lost = losses(found, rules, signal)
    best = largest(found, most_lost, signal)
    write_lives(found, run / FILE, rules[0], signal)
    reasons = trial(opened.manifest)
    days = span_days(found)
    parts = [
        Part(
            f"{arm}, rule {name}:",
            ("priority", "archived", "relevant lost", "pairs lost", "injected lost"),
            [
                [
                    one.priority,
                    _share(one.archived, one.memories),
                    _share(one.lost_memories, one.relevant_memories),
                    _share(one.lost, one.relevant),
                    _share(one.lost_found, one.found),
                ]
                for one in of_rule
            ],
        )
        for (arm, name), of_rule in groupby(lost, key=lambda one: (one.arm, one.rule))
    ]
    explained = (
        "relevant lost: memories that are relevant to a probe after the rule archived them. pairs: of a probe and a "
        "memory relevant to it; injected: those in which the arm injected the memory. Recalls without the archived "
        f"memories are not replayed: others would take their slots. The longest conversation has {days:.0f} days."
    )
    notes = [explained]
    shortest = min(*P1_DAYS, *P2_DAYS)
    if days < shortest:
        notes.append(f"Too short to judge a rule, so none is named: the shortest archives after {shortest} days.")
    else:
        notes += [_best(arm, one, most_lost) for arm, one in best.items()]
    notes.append(f"Every memory with its last use: {run / FILE}")
    data = {
        "run": str(run),
        "trial": list(reasons),
        "days": days,
        "priority": by,
        "used": signal,
        "rules": [_json(one) for one in lost],
        "most_lost": most_lost,
        "best": {arm: None if one is None else _json(one) for arm, one in best.items()},
    }
    return finish(Study("retention", {}, parts, data, (), notes, reasons, f"lab missed {quote(str(run))}"), run)


def _best(arm: str, loss: Loss | None, most_lost: float) -> str:
    if loss is None:
        return f"{arm}: no rule of the grid archives a memory and loses less than {most_lost:.1%}."
    return (
        f"{arm}: of the rules that lose less than {most_lost:.1%}, {loss.rule} archives most: "
        f"{_share(loss.archived, loss.memories)} memories, losing {_share(loss.lost, loss.relevant)} pairs."
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%} of {whole}" if whole else "-"


def _json(loss: Loss) -> dict[str, object]:
    return {
        **loss._asdict(),
        "rule": str(loss.rule),
        "archived_share": loss.archived_share,
        "lost_share": loss.lost_share,
    }


@takes_replay_options(
    *LABELLED,
    "profile",
    "memories",
    "haystack_from",
    "max_items",
    "config",
    "embedder",
    arms=SCALED,
    runs="as recordings",
)
def scale(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for a run of each size, the table and the page.")],
    haystack: Annotated[
        list[int] | None,
        typer.Option(
            "--haystack",
            min=0,
            help="A size to compare: number of memories of other conversations added to each conversation. Repeat for "
            "more. [default: 0, 25, 100, 400, 1600, 6400]",
        ),
    ] = None,
    jobs: options.Jobs = 1,
    slides: options.Slides = False,
) -> Result:
    """Replay with more and more memories and chart every arm.

    Shows hits, clean hits, repeats and the time of a turn at each size. Sizes for which the recordings have too few
    memories are not available, unless --haystack-from names other sets. Repeating the command continues.
    """
    from lab.report.figures_studies import scale_chart
    from lab.runs.notes import trial_line
    from lab.studies.scale import SIZES
    from lab.studies.scale import scale as measure

    options.require_no_run(out)
    result = measure(request, out, haystack or SIZES, jobs=jobs, announce=announce)
    source = f"recall lab: {request.format} recordings {Path(request.path).name}, {result.about}" + "".join(
        f"; {line}" for line in [trial_line(result.trial)] if line
    )
    k = result.cutoff
    table = Part(
        "",
        ("haystack", "arm", "in reach", f"hit@{k}", f"CleanHit@{k}", "RepeatRate", "p50 ms", "p95 ms"),
        [
            [point.memories, point.arm, None if point.in_reach is None else round(point.in_reach), *point[3:]]
            for point in result.points
        ],
    )
    study = Study(
        "scale",
        {"scale": scale_chart(result.points, k).of(source)},
        [table],
        result.as_json() | {"scale": str(out)},
        [result.about],
        (IN_REACH, *result.notes()),
        result.trial,
        f"lab report {quote(str(out / f'haystack-{result.points[-1].memories}'))}",
    )
    return finish(study, out, slides=slides)


@takes_replay_options(
    *LABELLED, "memories", "haystack", "haystack_from", "max_items", "config", arms=("hybrid",), runs="as recordings"
)
def silence(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for silence.parquet and the page.")],
    embedder: Annotated[
        list[str] | None,
        typer.Option(
            "--embedder", help="An embedder. Repeat for more. [default: that of the run, else all-MiniLM-L6-v2]"
        ),
    ] = None,
    cost: Annotated[
        float, typer.Option(min=0.0, help="How many false recalls a lost hit costs, both as shares of their probes.")
    ] = 1.0,
    loss: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Largest loss of hit rate of the second threshold.")
    ] = 0.02,
    slides: options.Slides = False,
) -> Result:
    """Show what a silence threshold saves and what it costs.

    Each signal has its curve over all thresholds and its AUROC. Two thresholds are chosen on one half of the
    conversations, by --cost and by --loss, and evaluated on the other half.
    """
    from dataclasses import replace

    from lab.base.shape import to_json
    from lab.replay.plan import make_plan
    from lab.report.figures_studies import silence_chart
    from lab.retrieval.silence import ABOUT
    from lab.runs.manifest import NO_HAYSTACK, resolved_of
    from lab.runs.notes import trial_of_replay
    from lab.runs.tables import write_points
    from lab.studies.points import SILENCE, SilencePoint
    from lab.studies.silence import Terms, chosen, curves
    from lab.studies.silence_replay import collect

    options.require_no_run(out)
    points, rows = [], []
    about, reasons = "", dict[str, None]()
    terms = Terms(cost, loss)
    for name in embedder or [request.embedder]:
        plan = make_plan(replace(request, embedder=name))
        answers = collect(plan.request, announce, plan)
        resolved = resolved_of(plan.resolved())
        about = (
            f"{Path(request.path).name}: {counted(len(plan.recordings), 'conversation')}, labels {resolved.labels}, "
            f"{resolved.haystack or NO_HAYSTACK}"
        )
        reasons |= dict.fromkeys(trial_of_replay(resolved, to_json(plan.request)))
        points += curves(answers, name)
        rows += chosen(answers, name, terms, request.seed)
    write_points(SilencePoint, points, out / SILENCE)
    headers = ("signal", "AUROC", "rule", "silent below", "FalseRecall", "hit")
    groups: dict[tuple[str, str, str, int, int], list[Chosen]] = {}
    for row in rows:
        key = row.embedder, row.language, row.arm, row.with_gold, row.without_gold
        groups.setdefault(key, []).append(row)
    parts = [
        Part(
            f"{arm}, language {language}, {name}: {counted(with_gold, 'probe')} with gold, {without} that need nothing",
            headers,
            [
                [
                    row.signal,
                    row.auroc,
                    row.rule,
                    f"{row.threshold:.3f}",
                    f"{row.false_recall[0]:.3f} → {row.false_recall[1]:.3f}",
                    f"{row.hit[0]:.3f} → {row.hit[1]:.3f}",
                ]
                for row in of_part
            ],
        )
        for (name, language, arm, with_gold, without), of_part in groups.items()
    ]
    about_thresholds = (
        "AUROC: how often the signal is higher at a probe with gold than at one that needs nothing (.5 is chance). "
        f"Thresholds are chosen on one half of the conversations: cost, the lowest sum of FalseRecall and {cost:g} "
        f"times the lost hit rate; loss, the lowest FalseRecall that loses at most {loss:g}. FalseRecall and hit: "
        "without and with the threshold, on the other half."
    )
    notes = (f"Signals: {'; '.join(f'{name}, {what}' for name, what in ABOUT.items())}.", about_thresholds)
    data = {
        "about": about,
        "trial": list(reasons),
        "cost": cost,
        "loss": loss,
        "chosen": [row._asdict() for row in rows],
        "points": [point._asdict() for point in points],
    }
    chart = silence_chart(points, rows).of(f"recall lab: {about}")
    study = Study("silence", {"silence": chart}, parts, data, [about], notes, list(reasons))
    study = study._replace(next=f"lab study sweep {request.recordings} --grid FILE --out DIR")
    return finish(study, out, slides=slides)
