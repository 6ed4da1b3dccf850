"""``lab golden``: pool, judge, check, compare and split golden sets, and measure the agreement of judges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.base.set_registry import golden_at, recordings_at
from lab.cli import options, replay_options
from lab.cli.errata import errata
from lab.cli.golden_answers import answers
from lab.cli.golden_judge import judge
from lab.cli.golden_tables import emit_agreement, emit_differences, emit_run
from lab.cli.output import announce, emit, emit_folded, emit_list, emit_table
from lab.cli.replay_options import takes_replay_options
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.compare.agreement import Agreements
    from lab.golden.lint import Lint
    from lab.golden.model import Aside, GoldenSet
    from lab.recordings.model import Recording
    from lab.runs.request import ReplayRequest

RecordingsOf = Annotated[
    Path | None,
    typer.Option(
        "--recordings",
        metavar="PATH",
        parser=recordings_at,
        help="The recordings. [default: datasets/NAME beside golden/NAME]",
    ),
]
FirstSet = Annotated[Path, typer.Argument(metavar="A", parser=golden_at, help="A golden set.")]
OWN_FORMAT = "lab"
# Up to this many judgements without a reason are listed one by one.
FEW = 3
COUNTS = ("probes", "with_gold", "captures")


@takes_replay_options(
    *("memories", "memories_from", "source", "haystack", "haystack_from", "scope", "seed", "embedder", "vectors"),
    "origin",
    default_arms="hybrid, vector, bm25, recency, tier_first_v1, tier_quota_v1",
)
def pool(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option(help="The pool to write: POOL.jsonl.")],
    depth: Annotated[int, typer.Option(help="Number of memories to pool from each arm's ranking.")] = 6,
    turns: Annotated[
        int | None, typer.Option(help="Number of user turns to pool, sampled by hash. [default: 30]")
    ] = None,
    turn: Annotated[list[str] | None, typer.Option("--turn", help="Pool this user turn. Repeat for more.")] = None,
    every: Annotated[int | None, typer.Option(help="Pool every N-th user turn of each conversation.")] = None,
    probes_of: Annotated[
        Path | None,
        typer.Option(metavar="PATH", parser=golden_at, help="Pool the turns of this golden set, for a second judge."),
    ] = None,
    unjudged: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", parser=golden_at, help="Leave out the memories that this golden set already judges."
        ),
    ] = None,
    captures: Annotated[
        bool, typer.Option("--captures", help="Pool the candidates of every turn, to judge what should be kept.")
    ] = False,
) -> Result:
    """Pool the memories that several arms recall, to be judged."""
    from lab.golden.files import read_golden, write_new
    from lab.golden.judging import aside, judged_keys
    from lab.recordings.readers import not_among
    from lab.replay.pool import Chosen, NothingToPool, make_capture_pool, make_pool

    not_among(Path(request.path), request.format, out)
    again = [probe.turn for probe in read_golden(probes_of).probes if probe.turn] if probes_of else []
    chosen = Chosen((*(turn or ()), *again), every, turns)
    if captures and (any(chosen) or unjudged or request.arms):
        raise UnusableInput("--captures pools every candidate of every turn; give no arms, turns or --unjudged")
    try:
        pooled = make_capture_pool(request) if captures else make_pool(request, depth, chosen, announce)
    except NothingToPool as error:
        raise UnusableInput(f"{error}; a smaller --depth pools turns with fewer") from None
    if unjudged:
        pooled = pooled.without(judged_keys(read_golden(unjudged), aside(unjudged)), unjudged)
    write_new(out, pooled.as_bytes())
    items = sum(len(pooled_turn.items) for pooled_turn in pooled.turns)
    conversations = len({pooled_turn.turn.split("/")[0] for pooled_turn in pooled.turns})
    found: dict[str, Any] = {"pool": str(out), "turns": len(pooled.turns)}
    found |= {"conversations": conversations, "items": items}
    return Result(
        found,
        lambda found: emit_folded(
            f"{found['pool']}: {counted(found['turns'], 'turn')} of {counted(found['conversations'], 'conversation')}, "
            f"{counted(found['items'], 'memory')} to judge. "
            f"Next: lab golden judge {found['pool']} --out GOLD.jsonl"
        ),
    )


def lint(
    path: options.GoldenSet,
    recordings: RecordingsOf = None,
    format: options.FormatOf = OWN_FORMAT,  # noqa: A002 - the name of the option
    memories: replay_options.Memories = None,
    memories_from: replay_options.MemoriesFrom = None,
    haystack: replay_options.Haystack = None,
    haystack_from: replay_options.HaystackFrom = None,
    run: Annotated[Path | None, typer.Option(help="A run: show the share of its returned memories judged.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="With --candidate: two arms of --run to measure power with.")
    ] = None,
    candidate: Annotated[str | None, typer.Option(help="The other arm.")] = None,
) -> Result:
    """Check a golden set for errors, and show its statistical power.

    Finds unknown keys, contradictions, leaks, duplicates and unjudged memories.
    """
    from lab.base.set_registry import datasets_beside
    from lab.compare.statistics import LEAST_CLUSTERS, power
    from lab.golden.files import read_golden
    from lab.golden.judging import aside
    from lab.golden.lint import WITHOUT_REASON
    from lab.golden.lint import lint as check
    from lab.golden.model import is_added, marks
    from lab.recordings.model import equal_conversations

    if (baseline is None) != (candidate is None) or (baseline is not None and run is None):
        raise UnusableInput("--baseline and --candidate name two arms of --run; give all three")
    golden = read_golden(path)
    beside = aside(path)
    read = _recordings(path, recordings, format, memories, memories_from)
    if any(is_added(key) for probe in golden.probes for key in marks(probe)):
        read = _with_haystack(read, recordings or datasets_beside(path), haystack, haystack_from or ())
    complete = (recordings or datasets_beside(path)).is_dir()
    report = check(golden, read, beside, equal_conversations(read), complete=complete)
    design = power(golden)
    run_facts = _run_facts(golden, beside, run, baseline, candidate) if run else {}

    def show(report: Lint) -> None:
        judged = f"{report.relevant} relevant, {report.forbidden} misleading, {report.refused} irrelevant"
        judged += f", {report.unjudged} unjudged" if report.unjudged else ""
        emit_folded(f"{counted(report.probes, 'probe')}, {report.silent} of them need nothing; judgements: {judged}")
        if report.captures:
            emit_folded(f"captures: {', '.join(f'{count} {name}' for name, count in report.captures.items())}")
        if report.conditions:
            emit_folded(
                f"planted conditions: {', '.join(f'{name} {count}' for name, count in report.conditions.items())}"
            )
        if design.detectable:
            effects = ", ".join(
                f"{share:.0%}: {f'±{least:.3f}' if least <= 1 else 'none'}"
                for share, least in design.detectable.items()
            )
            emit_folded(
                f"power: {counted(design.probes, 'probe')} with gold in "
                f"{counted(design.conversations, 'conversation')}; minimum detectable effect on a hit rate (80 % "
                f"power), by the share of probes whose hit changes: {effects}"
            )
        elif design.probes:
            emit(f"power: none below {LEAST_CLUSTERS} conversations; judge turns of more conversations")
        emit_run(run_facts)
        unexplained = [line for line in report.warnings if WITHOUT_REASON in line]
        few = len(unexplained) <= FEW
        emit_list("warning", [line for line in report.warnings if few or line not in unexplained])
        if not few:
            emit_folded(f"warning: {len(unexplained)} judgements give no reason (--json lists them; key n adds one)")
        emit_list("error", report.errors)

    return Result(
        report,
        show,
        lambda report: report.as_json() | {"power": design.as_json()} | run_facts,
        error=CheckFailed(f"{path}: {counted(len(report.errors), 'error')}") if report.errors else None,
    )


def _run_facts(
    golden: GoldenSet, beside: Aside, path: Path, baseline: str | None, candidate: str | None
) -> dict[str, Any]:
    """Return Judged@k of a run, and the minimum detectable effect of a comparison of two of its arms."""
    from lab.compare.paired import compare_arms
    from lab.golden.judging import judged_keys
    from lab.measures.judged import judged_shares
    from lab.runs.directory import open_run

    run = open_run(path)
    judged = judged_keys(golden, beside)
    with_gold = {probe.id for probe in golden.probes if probe.relevant}
    facts: dict[str, Any] = {"judged": [share._asdict() for share in judged_shares(run, judged, with_gold, run.cutoff)]}
    if baseline and candidate:
        comparison = compare_arms(run, baseline, candidate)
        measure = f"Success@{comparison.cutoff}"
        hits = next((line for line in comparison.differences if line.measure == measure), None)
        if hits is None:
            raise UnusableInput(f"{path}: has no {measure} of both arms to measure power with")
        facts["measured"] = {
            "measure": hits.measure,
            "probes": hits.n,
            "conversations": hits.conversations,
            "changed": (hits.wins + hits.losses) / hits.n,
            "design_effect": hits.estimate.design_effect,
            "detectable": hits.estimate.detectable,
        }
    return facts


def diff(
    before: FirstSet,
    after: Annotated[Path, typer.Argument(metavar="B", parser=golden_at, help="Another.")],
) -> Result:
    """List the differences between two golden sets. Exit code 1 if there are any."""
    from lab.golden.files import read_golden
    from lab.golden.model import differences as compare_sets

    differences = compare_sets(read_golden(before), read_golden(after))
    # A difference is a result, not an error, so no message.
    return Result(differences, emit_differences, error=typer.Exit(CheckFailed.exit_code) if differences else None)


def split(
    path: options.GoldenSet,
    out: Annotated[Path, typer.Option(help="The folder to create, with one file for each part.")],
    share: Annotated[float, typer.Option(help="Share of the conversations that go to dev.jsonl.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Seed of the hash that orders conversations.")] = 0,
    by: Annotated[
        str | None, typer.Option(metavar="SLICE", help="One file for each value of a slice instead, such as family.")
    ] = None,
) -> Result:
    """Split a golden set by conversation, or by a slice.

    Tune on dev.jsonl, and use test.jsonl once, at the end.
    """
    from lab.base.files import file_names
    from lab.golden.files import golden_bytes, read_golden, write_new_folder
    from lab.golden.model import split as split_set
    from lab.golden.model import split_by

    golden = read_golden(path)
    if by:
        by_value = split_by(golden, by)
        names = file_names(by_value)
        parts = {names[value]: part for value, part in by_value.items()}
    else:
        parts = dict(zip(("dev", "test"), split_set(golden, share, seed), strict=True))
    write_new_folder(out, {f"{name}.jsonl": golden_bytes(part.judged) for name, part in parts.items()})
    counts: dict[str, dict[str, Any]] = {}
    for name, part in parts.items():
        conversations = sorted({probe.conversation for probe in part.judged})
        numbers = (len(part.probes), sum(bool(probe.relevant) for probe in part.probes), len(part.captures))
        counts[name] = {"conversations": conversations} | dict(zip(COUNTS, numbers, strict=True))
    heads = ["file", "conversations", "probes", "with gold", "captures"]
    return Result(
        counts,
        lambda counts: emit_table(
            heads,
            [
                [f"{name}.jsonl", len(part["conversations"]), *(part[count] for count in COUNTS)]
                for name, part in counts.items()
            ],
        ),
    )


def agree(
    first: FirstSet,
    second: Annotated[Path, typer.Argument(metavar="B", parser=golden_at, help="The same probes by another judge.")],
    third: Annotated[Path | None, typer.Argument(metavar="[C]", parser=golden_at, help="By a third judge.")] = None,
    recordings: RecordingsOf = None,
    format: options.FormatOf = OWN_FORMAT,  # noqa: A002 - the name of the option
    memories: replay_options.Memories = None,
    memories_from: replay_options.MemoriesFrom = None,
    pool: Annotated[
        Path | None, typer.Option(help="Count only the memories of this pool, not all that are visible at a turn.")
    ] = None,
) -> Result:
    """Measure the agreement of two or three judges (Cohen's kappa).

    Shown in total and by type of probe, with the pairs on which they differ.
    """
    from itertools import combinations

    from lab.compare.agreement import agree as measure_agreement
    from lab.golden.files import read_golden
    from lab.golden.pool import read_pool

    pooled = {turn.turn: turn.keys for turn in read_pool(pool).turns} if pool else None
    by_name = (
        {}
        if pool
        else {
            recording.conversation: recording
            for recording in _recordings(first, recordings, format, memories, memories_from)
        }
    )
    sets = {str(path): read_golden(path) for path in (first, second, third) if path}
    if len(sets) < 2 + (third is not None):
        raise UnusableInput("the same golden set was given twice; give the sets of different judges")
    agreements = {(a, b): measure_agreement(sets[a], sets[b], by_name, pooled) for a, b in combinations(sets, 2)}
    universe = f"the memories of {pool}" if pool else "all memories visible at a turn, in its scope or global"

    def show(agreements: dict[tuple[str, str], Agreements]) -> None:
        for (a, b), agreement in agreements.items():
            emit(f"{a} and {b}")
            emit_agreement(agreement, universe)
            emit()

    return Result(
        agreements,
        show,
        lambda agreements: [{"first": a, "second": b} | one.as_json() for (a, b), one in agreements.items()],
    )


def _recordings(
    golden: Path, recordings: Path | None, format_name: str, memories: str | None, memories_from: str | None
) -> tuple[Recording, ...]:
    """Return the recordings that a golden set judges, without the probes they contain."""
    from lab.base.set_registry import datasets_beside
    from lab.recordings.readers import read_library
    from lab.replay.memories_from import read_stored, with_stored
    from lab.replay.pool import unjudged

    try:
        library = unjudged(read_library(recordings or datasets_beside(golden), format_name, memories=memories))
    except UnusableInput as error:
        if recordings and format_name == OWN_FORMAT:
            raise UnusableInput(f"{error}; if the recordings are not in the lab's format, give --format") from None
        raise
    return (with_stored(library, read_stored(memories_from)) if memories_from else library).recordings


def _with_haystack(
    recordings: tuple[Recording, ...], path: Path, number: int | None, sets: Sequence[str]
) -> tuple[Recording, ...]:
    """Return the recordings with a haystack: the one given, or the default of these recordings."""
    from lab.replay.haystack import default_haystack, own_supplies, read_supplies, with_haystack

    number = default_haystack(path) if number is None else number
    if not number:
        return recordings
    others, _ = read_supplies(sets, path)
    return with_haystack(recordings, [*own_supplies(recordings, path), *others], number, 0, path)[0]


# Of ``lab golden``.
golden = (pool, judge, lint, diff, split, agree, errata, answers)
