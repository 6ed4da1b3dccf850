"""Sweeps of hundreds of configurations: each conversation is searched once, and every configuration selects.

The replay loop runs them (:mod:`lab.replay.loop`), so a configuration behaves as the same arm in a replay.

Results are written atomically by conversation and draw of labels, so an interrupted sweep resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.base.code import __version__
from lab.base.columns import numbers, numbers_of
from lab.base.errors import CannotMeasure, LabError, NotARun, UnusableInput, describe_unexpected
from lab.base.files import digest, dump_json, file_name, only_writer, read_json, remove_leftovers, write_atomically
from lab.base.formatting import free_of_credentials
from lab.base.processes import worker_pool
from lab.base.progress import Progress, beating
from lab.base.shape import expect, field
from lab.compare.comparable import equal_notes
from lab.recordings.model import EQUAL, Recording
from lab.replay.candidates import from_cached, read_cached, save_cached
from lab.replay.command import require_gold
from lab.replay.loop import replay
from lab.replay.plan import Plan, make_plan, with_options
from lab.replay.sources import Sources, open_sources, play_of, prepare, tools_of
from lab.runs.notes import other_embedders
from lab.runs.request import ReplayRequest
from lab.runs.resume import made_on, require_same_arguments
from lab.runs.tables import read_table, write_table
from lab.studies.draws import Draw, saturating
from lab.studies.sweep.grid import Grid, flat, knobs_of
from lab.studies.sweep.groups import MEASURES, Group, Tallies, Writer, grouped, seated, tally
from lab.systems.registry import info_of, make_arm

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KIND, VERSION = "lab.studies.sweep", 1
REFERENCE = "hybrid"
Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Swept:
    """The results: ``sums`` and ``counts`` are ``[conversations, draws, configurations + 1, measures]``.

    The last configuration is the reference, which ignores labels. ``copies`` are groups of equal conversations.
    """

    path: Path
    grid: Grid
    conversations: tuple[str, ...]
    draws: tuple[Draw, ...]
    sums: np.ndarray
    counts: np.ndarray
    copies: tuple[tuple[str, ...], ...] = ()

    def means(self) -> np.ndarray:
        """Return means over all conversations, ``[draws, configurations + 1, measures]``, NaN without a value."""
        return _ratio(self.sums.sum(0), self.counts.sum(0))

    def by_conversation(self) -> np.ndarray:
        """Return means by conversation, ``[conversations, draws, configurations + 1, measures]``."""
        return _ratio(self.sums, self.counts)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    import numpy as np

    result: np.ndarray = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return result


@dataclass(frozen=True)
class Job:
    """The input of a process that sweeps one conversation under one draw."""

    plan: Plan
    groups: tuple[Group, ...]
    recording: Recording
    draw: Draw
    part: Path

    @cached_property
    def drawn(self) -> Plan:
        """Return the plan with the labels of this draw."""
        return replace(self.plan, labels=self.draw.labels(self.plan.labels))


def sweep(
    asked: ReplayRequest,
    grid: Grid,
    out: Path,
    *,
    saturated: int = 0,
    jobs: int = 1,
    announce: Announce = lambda _: None,
) -> Swept:
    """Sweep a grid into ``out``, or resume a sweep there.

    With ``saturated``, sweep every must_remember share with that many draws each, instead of the requested labels.
    Raises :class:`UnusableInput` for recordings without gold, a configuration that the system rejects, and a folder
    that holds something else; :class:`lab.base.errors.InUse` while another process writes there.
    """
    plan = plan_sweep(asked, grid)
    draws = saturating(plan, saturated) if saturated else (Draw(),)
    with only_writer(out):
        open_folder(out, asked, grid, plan, draws)
        _sweep_into(out, plan, grid, draws, jobs, announce)
    return read_sweep(out)


def plan_sweep(asked: ReplayRequest, grid: Grid) -> Plan:
    """Return the plan of every configuration of a grid, followed by the reference."""
    if asked.source == "captured":
        raise UnusableInput("source captured: a sweep needs given memories; replay arms that capture")
    for path in grid.axes:
        # Recall reads only the lifetime of TODOs of this section.
        if path.startswith("autoCapture.") and path != "autoCapture.todoStaleTtlDays":
            raise UnusableInput(f"grid: {path}: a sweep replays given memories, so capture has no effect; remove it")
    if asked.faults:
        raise UnusableInput("--fault: a sweep does not simulate faults; replay the configuration with --fault")
    base = make_plan(replace(asked, arms=(REFERENCE,)))
    require_gold(base)
    specs = with_options(grid.specs(), asked)
    arms = tuple(map(make_arm, specs))
    infos = tuple(map(info_of, specs, arms))
    for spec, info in zip(specs, infos, strict=True):
        # Only the lab reads a grid, so knobs that it does not implement are errors.
        for path in info.missing:
            raise UnusableInput(f"{spec.where}: {path}: not implemented, so its value has no effect; remove it")
    return replace(base, specs=(*specs, *base.specs), arms=(*arms, *base.arms), infos=(*infos, *base.infos))


def _sweep_into(out: Path, plan: Plan, grid: Grid, draws: Sequence[Draw], jobs: int, announce: Announce) -> None:
    groups = grouped(plan.arms)
    waiting = [
        Job(plan, groups, recording, draw, part)
        for recording in plan.recordings
        for draw in draws
        if not (part := part_of(out, recording.conversation, draw)).is_file()
    ]
    total = len(plan.recordings) * len(draws)
    if waiting:
        recordings = {job.recording.conversation: job.recording for job in waiting}
        prepare(plan, list(recordings.values()), open_sources(plan), announce)
    progress = Progress(total, total - len(waiting))
    with beating(announce, "sweeping") as tell:
        for job in _each(waiting, jobs):
            draw_text = "" if job.draw.share is None else f", {job.draw.mode} {job.draw.share:.2f}"
            tell(progress.next(f"{job.recording.conversation}{draw_text}: {len(grid)} configurations"))


def part_of(out: Path, conversation: str, draw: Draw) -> Path:
    """Return the path for the results of one conversation under one draw."""
    drawn = "" if draw.share is None else f"~{draw.mode}-{draw.share:.2f}-{draw.seed}"
    return out / "parts" / f"{file_name(conversation)}{drawn}.parquet"


def _each(waiting: list[Job], jobs: int) -> Iterator[Job]:
    if jobs <= 1 or len(waiting) <= 1:
        sources: Sources | None = None
        for job in waiting:
            sources = sources or open_sources(job.plan)
            _run(job, sources)
            yield job
        return
    with worker_pool(min(jobs, len(waiting))) as pool:
        futures = [pool.submit(_run, job) for job in waiting]
        for job, future in zip(waiting, futures, strict=True):
            try:
                future.result()
            except BrokenProcessPool:
                raise CannotMeasure(
                    f"{job.recording.conversation}: its process was killed; run the same sweep again to resume"
                ) from None
            yield job


def _run(job: Job, sources: Sources | None = None) -> None:
    """Sweep one conversation under one draw, and write the result."""
    try:
        tallies = sweep_conversation(job.drawn, job.groups, job.recording, sources or open_sources(job.plan))
    except LabError:
        raise
    except Exception as error:  # report an unexpected exception in one line; finished results are kept
        raise CannotMeasure(f"{job.recording.conversation}: {describe_unexpected(error)}") from error
    write_table(_part_table(tallies), job.part)


def sweep_conversation(plan: Plan, groups: Sequence[Group], recording: Recording, sources: Sources) -> Tallies:
    """Return the tallies of every arm of a plan, in its order; raise :class:`CannotMeasure` if a recall fails."""
    import numpy as np

    kept = read_cached(plan, recording)
    tools = tools_of(
        plan, recording, sources, from_cached(kept, lambda retrieval: sources.retriever(retrieval, plan.request.store))
    )
    play = play_of(plan, recording, tools)
    books = seated(plan.arms, groups, play.memories)
    writer = Writer(books, play.memories)
    for answered in replay(play, [book.arm for book in books]):
        if answered.failure:
            raise CannotMeasure(f"{answered.point.key}: arm {answered.arm} failed: {answered.failure}")
        writer.take(answered)
    save_cached(plan, recording, kept)
    sums = np.zeros((len(plan.arms), len(MEASURES)))
    counts = np.zeros((len(plan.arms), len(MEASURES)), np.int64)
    for book in books:
        arms = list(book.indices)
        # All arms of a group have the same maxItems.
        found = tally(book.recalls, book.heard, play.memories, len(arms), plan.infos[arms[0]].cutoff, book.carried)
        sums[arms], counts[arms] = found
    return Tallies(sums, counts)


def _part_table(tallies: Tallies) -> pa.Table:
    import pyarrow as pa

    names = [f"{kind} {name}" for kind in ("sum", "count") for name in MEASURES]
    columns = [numbers(column, column.dtype) for column in (*tallies.sums.T, *tallies.counts.T)]
    table = pa.table(dict(zip(names, columns, strict=True)))
    return table.replace_schema_metadata({"kind": KIND, "schema_version": str(VERSION)})


def open_folder(out: Path, asked: ReplayRequest, grid: Grid, plan: Plan, draws: Sequence[Draw]) -> None:
    """Write the manifest of a new sweep, or check that an existing one has the same arguments."""
    resolved = plan.comparable() | {
        "lab": __version__,
        "profile": asked.profile,
        "embedder": plan.embedder.identity(),
        "draws": [list(draw) for draw in draws],
        # As a hash, because hundreds of configurations would bloat the manifest.
        "grid": digest([[info.name, info.system, info.version, info.config, info.inputs] for info in plan.infos]),
        # The embedders that the configurations name (:mod:`lab.replay.embedders`).
        "arms": [
            {"name": grid.arm, "embedder": embedder}
            for embedder in dict.fromkeys(info.embedder for info in plan.infos)
            if embedder
        ],
        **({"vectors": plan.vectors.sha256} if plan.vectors else {}),
        **made_on("lab.studies.sweep.sweep", *plan.code_roots()),
    }
    for folder in (out, out / "parts", out / "figures"):
        remove_leftovers(folder)
    path = out / "sweep.json"
    if path.exists():
        require_same_arguments(out, read_manifest(out)["resolved"], resolved, "remove the folder")
        return
    if out.exists() and (not out.is_dir() or any(not child.name.endswith(".part") for child in out.iterdir())):
        raise UnusableInput(f"{out}: exists and is not a sweep; choose another --out")
    manifest = {
        "kind": KIND,
        "schema_version": VERSION,
        "resolved": resolved,
        "asked": free_of_credentials(asdict(asked)),
        "grid": grid.describe(),
        "draws": [list(draw) for draw in draws],
        "conversations": [recording.conversation for recording in plan.recordings],
        "measures": list(MEASURES),
    }
    write_atomically(path, dump_json(manifest))


def read_manifest(out: Path) -> dict[str, Any]:
    """Return the manifest of a sweep; raise :class:`NotARun` if there is none."""
    path = out / "sweep.json"
    if not path.is_file():
        raise NotARun(f"{out}: not a sweep (no sweep.json)")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND or manifest.get("schema_version") != VERSION:
        raise NotARun(f"{path}: not a sweep manifest of this version; choose another --out")
    where = str(path)
    field(manifest, "resolved", dict, where)
    for name in field(manifest, "conversations", list, where):
        expect(name, str, f"{where}: conversations")
    for draw in field(manifest, "draws", list, where):
        match draw:
            case [str(), None | int() | float(), int()]:
                continue
        raise NotARun(f"{where}: draws: expected lists of a mode, a share and a seed; choose another --out")
    return manifest


def notes_of(out: Path) -> tuple[str, ...]:
    """Return one sentence for each group of copies, and each embedder that configurations name and was not used."""
    resolved = read_manifest(out)["resolved"]
    others = other_embedders(
        str(resolved["embedder"]["model"]), [(arm["name"], arm["embedder"]) for arm in resolved["arms"]]
    )
    return (*equal_notes(resolved.get(EQUAL)), *others)


def read_sweep(out: Path) -> Swept:
    """Return a finished sweep."""
    import numpy as np

    from lab.studies.sweep.grid import grid_of

    manifest = read_manifest(out)
    draws = tuple(Draw(*values) for values in manifest["draws"])
    conversations = tuple(manifest["conversations"])
    grid = grid_of(manifest.get("grid"), str(out))
    shape = (len(conversations), len(draws), len(grid) + 1, len(MEASURES))
    sums, counts = np.zeros(shape), np.zeros(shape, np.int64)
    for row, conversation in enumerate(conversations):
        for draw_index, draw in enumerate(draws):
            path = part_of(out, conversation, draw)
            if not path.is_file():
                raise UnusableInput(f"{out}: {path.name} is missing; run the same sweep again to finish it")
            table = read_table(path, [f"{what} {name}" for what in ("sum", "count") for name in MEASURES])
            kinds = {"sum": "double", "count": "int64"}
            is_valid = all(str(field.type) == kinds[field.name.split()[0]] for field in table.schema)
            if table.num_rows != len(grid) + 1 or not is_valid or any(column.null_count for column in table.columns):
                raise CannotMeasure(f"{path}: damaged; delete it and run the sweep again")
            for column, name in enumerate(MEASURES):
                sums[row, draw_index, :, column] = numbers_of(table[f"sum {name}"])
                counts[row, draw_index, :, column] = numbers_of(table[f"count {name}"])
    copies = tuple(map(tuple, manifest["resolved"].get(EQUAL, ())))
    return Swept(out, grid, conversations, draws, sums, counts, copies)


def knob_columns(grid: Grid) -> dict[str, list[Any]]:
    """Return the values of every knob by path, one per configuration; None if a configuration does not set it."""
    points = [flat(point) for point in grid.points()]
    return {path: [point.get(path) for point in points] for path in knobs_of(points)}
