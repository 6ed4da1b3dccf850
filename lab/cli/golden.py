"""``lab golden``: grow a golden set, check it, compare and split it, and say how far two judges agree."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli import options
from lab.cli.golden_tables import tell_agreement, tell_differences, tell_run
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_list, emit_table
from lab.cli.replay_options import asks
from lab.errors import CheckFailed, UnusableInput
from lab.formatting import counted
from lab.set_registry import golden_at, recordings_at

if TYPE_CHECKING:
    from lab.golden.model import GoldenSet
    from lab.golden.pool import Pool
    from lab.recordings.model import Recording
    from lab.replay.plan import ReplayRequest

RecordingsOf = Annotated[
    Path | None,
    typer.Option(
        "--recordings",
        metavar="PATH",
        parser=recordings_at,
        help="The recordings; by default those beside golden/, in datasets/.",
    ),
]
OWN = "lab"
FormatOf = Annotated[str, typer.Option("--format", help="Format of the recordings.")]
# So many judgements without a reason are named one by one.
FEW = 3


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    golden = typer.Typer(no_args_is_help=True, help="Golden sets: grow, check, compare and split them.")
    for command in (pool, judge, lint, diff, split, agree):
        golden.command(command.__name__)(command)
    app.add_typer(golden, name="golden")


@asks(
    *("memories", "memories_from", "source", "scope", "seed", "embedder", "vectors"),
    told="two lanes, both, recency, tiers",
)
def pool(
    asked: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option(help="The pool to write: POOL.jsonl.")],
    depth: Annotated[int, typer.Option(help="Places of each arm's ranking that are pooled.")] = 6,
    turns: Annotated[int | None, typer.Option(help="So many user turns, drawn by hash. [default: 30]")] = None,
    turn: Annotated[list[str] | None, typer.Option("--turn", help="This user turn. Repeat for more.")] = None,
    every: Annotated[int | None, typer.Option(help="Every N-th user turn of each conversation.")] = None,
    probes_of: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", parser=golden_at, help="The turns that this golden set judges: for a second judge."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Pool what several arms recall at some turns, to be judged."""
    from lab.golden.read import read_golden
    from lab.golden.write import write_new
    from lab.recordings.readers import not_among
    from lab.replay.pool import Chosen, make_pool

    not_among(Path(asked.path), asked.format, out)
    again = [probe.turn for probe in read_golden(probes_of).probes if probe.turn] if probes_of else []
    made = make_pool(asked, depth, Chosen((*(turn or ()), *again), every, turns), announce)
    write_new(out, made.as_bytes())
    items = sum(len(one.items) for one in made.turns)
    conversations = len({one.turn.split("/")[0] for one in made.turns})
    if as_json:
        emit_json({"pool": str(out), "turns": len(made.turns), "conversations": conversations, "items": items})
        return
    emit_folded(
        f"{out}: {counted(len(made.turns), 'turn')} of {counted(conversations, 'conversation')}, "
        f"{counted(items, 'memory')} to judge. "
        f"Next: lab golden judge {out} --out GOLD.jsonl"
    )


def judge(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="A pool, of lab golden pool.")],
    out: Annotated[Path, typer.Option(help="The golden set to write, or to go on with: GOLD.jsonl.")],
    judge: Annotated[
        str, typer.Option(help="Who judges: the work of one judge is not gone on with by another.")
    ] = "me",
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="PATH", parser=recordings_at, help="Where the pool's recordings are now, if they moved."),
    ] = None,
    memories_from: Annotated[Path | None, typer.Option(help="Where the pool's store is now, if it moved.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say how far it is as one JSON object, and judge nothing.")
    ] = False,
) -> None:
    """Judge a pool with the keyboard: grades, forbidden ones, notes. Everything is saved at once; ? shows the keys."""
    from lab.files import only_writer, remove_leftovers
    from lab.golden.judging import open_judging
    from lab.golden.pool import read_pool
    from lab.recordings.readers import not_among
    from lab.replay.pool import material

    made = read_pool(pool)
    not_among(recordings or Path(made.recordings), made.format, out)
    if as_json:
        emit_json(open_judging(made, out, judge).progress())
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UnusableInput("lab golden judge needs a terminal: keys come from it; --json says how far the judging is")
    found = material(made, recordings, memories_from)
    with only_writer(out.resolve().parent):
        from lab.cli.judge_desk import Desk
        from lab.cli.judge_screen import judge as at_terminal

        remove_leftovers(out.resolve().parent)
        judging = open_judging(made, out, judge)
        desk = Desk(judging, found)
        # Before the first key: what a kill left half done is mended, and a disk that is full is told of.
        judging.save()
        at_terminal(desk)
        told = judging.progress()
    emit_folded(
        f"{out}: {told['done']} of {told['turns']} turns done, {told['skipped']} skipped, {told['relevant']} relevant, "
        f"{counted(told['unjudged'], 'memory')} left unjudged. "
        + ("Run the same command to go on." if told["open"] else f"Next: {_next(made, out)}")
    )


def _next(pool: Pool, out: Path) -> str:
    where = ["--recordings", pool.recordings, "--format", pool.format]
    store = ["--memories-from", pool.memories_from] if pool.memories_from else []
    return join(["lab", "golden", "lint", str(out), *where, *store])


def lint(
    path: options.GoldenSet,
    recordings: RecordingsOf = None,
    format: FormatOf = OWN,  # noqa: A002 - the name of the option
    memories: options.Memories = None,
    memories_from: options.MemoriesFrom = None,
    run: Annotated[Path | None, typer.Option(help="A run: how much of what it returned was judged.")] = None,
    baseline: Annotated[str | None, typer.Option(help="With --candidate: two arms of --run, to measure power.")] = None,
    candidate: Annotated[str | None, typer.Option(help="The other arm.")] = None,
    as_json: Json = False,
) -> None:
    """Check a golden set, and say what it can detect. Dead keys, contradictions, leaks, doubles, what nobody judged."""
    from lab.compare.design import power
    from lab.golden.judging import aside
    from lab.golden.lint import WITHOUT_REASON
    from lab.golden.lint import lint as check
    from lab.golden.read import read_golden
    from lab.recordings.equal import equal_conversations

    if (baseline is None) != (candidate is None) or (baseline is not None and run is None):
        raise UnusableInput("--baseline and --candidate name two arms of --run: give all three")
    golden = read_golden(path)
    beside = aside(path)
    read = _recordings(path, recordings, format, memories, memories_from)
    found = check(golden, read, beside, equal_conversations(read))
    design = power(golden)
    told = _of_run(golden, beside.refused, run, baseline, candidate) if run else {}
    if as_json:
        emit_json(found.as_json() | {"power": design.as_json()} | told)
    else:
        judged = f"{found.relevant} relevant, {found.forbidden} forbidden, {found.refused} refused"
        judged += f", {found.unjudged} left without a grade" if found.unjudged else ""
        emit(f"{counted(found.probes, 'probe')}, {found.silent} of them need nothing; judgements: {judged}")
        if design.detectable:
            finds = ", ".join(
                f"{share:.0%}: {f'±{least:.3f}' if least <= 1 else 'none'}"
                for share, least in design.detectable.items()
            )
            emit_folded(
                f"power: {counted(design.probes, 'probe')} with gold in "
                f"{counted(design.conversations, 'conversation')}; the least difference of a hit rate found four times "
                f"in five, by the share of probes whose hit changes: {finds}"
            )
        elif design.probes:
            emit("power: one conversation says nothing about others; judge turns of more")
        tell_run(told)
        bare = [line for line in found.warnings if WITHOUT_REASON in line]
        emit_list("warning", [line for line in found.warnings if len(bare) <= FEW or line not in bare])
        if len(bare) > FEW:
            emit_folded(f"warning: {len(bare)} judgements give no reason (--json lists them; n notes one)")
        emit_list("error", found.errors)
    if found.errors:
        raise CheckFailed(f"{path}: {counted(len(found.errors), 'error')}")


def _of_run(
    golden: GoldenSet, zeros: dict[str, set[str]], path: Path, baseline: str | None, candidate: str | None
) -> dict[str, Any]:
    """Judged@k of a run, and what a comparison of two of its arms could have found."""
    from lab.compare.paired import compare_arms
    from lab.golden.changes import marks
    from lab.measures.judged import judged_shares
    from lab.runs.directory import open_run

    run = open_run(path)
    judged = {probe.id: {*marks(probe), *zeros.get(probe.id, ())} for probe in golden.probes}
    shares = judged_shares(run, judged, run.cutoff)
    told: dict[str, Any] = {"judged": [one._asdict() | {"share": one.share} for one in shares]}
    if baseline and candidate:
        found = compare_arms(run, baseline, candidate)
        hits = next((one for one in found.differences if one.measure == f"Success@{found.cutoff}"), None)
        if hits is None:
            raise UnusableInput(f"{path}: has no Success@{found.cutoff} of both arms to measure power with")
        told["measured"] = {
            "measure": hits.measure,
            "probes": hits.n,
            "conversations": hits.conversations,
            "changed": (hits.wins + hits.losses) / hits.n,
            "design_effect": hits.estimate.design_effect,
            "detectable": hits.estimate.detectable,
        }
    return told


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", parser=golden_at, help="A golden set.")],
    after: Annotated[Path, typer.Argument(metavar="B", parser=golden_at, help="Another.")],
    as_json: Json = False,
) -> None:
    """Tell what two golden sets judge differently: probes, grades, types. Exit code 1 if they do, else 0."""
    from lab.golden.changes import differences
    from lab.golden.read import read_golden

    found = differences(read_golden(before), read_golden(after))
    if as_json:
        emit_json(found.as_json())
    else:
        tell_differences(found)
    if found:
        # No failure: the answer to the question.
        raise typer.Exit(CheckFailed.exit_code)


def split(
    path: options.GoldenSet,
    out: Annotated[Path, typer.Option(help="The folder to make, with dev.jsonl and test.jsonl in it.")],
    share: Annotated[float, typer.Option(help="Share of the conversations that dev.jsonl gets.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Seed of the hash that orders conversations.")] = 0,
    as_json: Json = False,
) -> None:
    """Split a golden set in two, by conversation. dev.jsonl to try things on, test.jsonl to be looked at once."""
    from lab.golden.changes import split as split_set
    from lab.golden.read import read_golden
    from lab.golden.write import golden_bytes, write_new_folder

    halves = dict(zip(("dev", "test"), split_set(read_golden(path), share, seed), strict=True))
    write_new_folder(out, {f"{name}.jsonl": golden_bytes(half.probes) for name, half in halves.items()})
    told: dict[str, dict[str, Any]] = {}
    for name, half in halves.items():
        conversations = sorted({probe.conversation for probe in half.probes})
        gold = sum(bool(probe.relevant) for probe in half.probes)
        told[name] = {"conversations": conversations, "probes": len(half.probes), "with_gold": gold}
    if as_json:
        emit_json(told)
        return
    emit_table(
        ["file", "conversations", "probes", "with gold"],
        [[f"{name}.jsonl", len(one["conversations"]), one["probes"], one["with_gold"]] for name, one in told.items()],
    )


def agree(
    first: Annotated[Path, typer.Argument(metavar="A", parser=golden_at, help="A golden set.")],
    second: Annotated[Path, typer.Argument(metavar="B", parser=golden_at, help="The same probes by another judge.")],
    third: Annotated[Path | None, typer.Argument(metavar="[C]", parser=golden_at, help="By a third.")] = None,
    recordings: RecordingsOf = None,
    format: FormatOf = OWN,  # noqa: A002 - the name of the option
    memories: options.Memories = None,
    memories_from: options.MemoriesFrom = None,
    pool: Annotated[
        Path | None, typer.Option(help="Count the memories of this pool, not all that a turn can see.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell how far two judges agree, or three: Cohen's kappa. By type, and where they do not."""
    from itertools import combinations

    from lab.compare.agreement import agree as agree_on
    from lab.golden.pool import read_pool
    from lab.golden.read import read_golden

    pooled = {turn.turn: turn.keys for turn in read_pool(pool).turns} if pool else None
    by_name = (
        {}
        if pool
        else {one.conversation: one for one in _recordings(first, recordings, format, memories, memories_from)}
    )
    sets = {str(path): read_golden(path) for path in (first, second, third) if path}
    if len(sets) < 2 + (third is not None):
        raise UnusableInput("the same golden set twice: a judge agrees with itself")
    found = {(one, other): agree_on(sets[one], sets[other], by_name, pooled) for one, other in combinations(sets, 2)}
    if as_json:
        emit_json([{"first": one, "second": other} | told.as_json() for (one, other), told in found.items()])
        return
    universe = f"the memories of {pool}" if pool else "all memories that a turn can see, of its scope or global"
    for (one, other), told in found.items():
        emit(f"{one} and {other}")
        tell_agreement(told, universe)
        emit()


def _recordings(
    golden: Path, recordings: Path | None, format_name: str, memories: str | None, memories_from: Path | None
) -> tuple[Recording, ...]:
    """The recordings that a golden set judges, without probes of their own."""
    from lab.recordings.readers import read_library
    from lab.replay.memories_from import read_stored, with_stored
    from lab.replay.pool import unjudged
    from lab.set_registry import datasets_beside

    try:
        library = unjudged(read_library(recordings or datasets_beside(golden), format_name, memories=memories))
    except UnusableInput as error:
        if recordings and format_name == OWN:
            raise UnusableInput(f"{error}; recordings in another form than the lab's own need --format") from None
        raise
    return (with_stored(library, read_stored(memories_from)) if memories_from else library).recordings
