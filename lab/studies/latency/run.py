"""Run a latency measurement into a folder, cell by cell, and resume it.

A cell is one process and one file of samples, written atomically. ``latency.json`` is made from these files.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_type_hints

from lab.base.errors import CannotMeasure, LabError, UnusableInput, describe_unexpected
from lab.base.files import alive, digest, dump_json, read_json, remove_leftovers, write_atomically
from lab.base.formatting import Announce, silent
from lab.base.processes import worker_pool
from lab.base.progress import Progress
from lab.base.shape import field, to_json
from lab.replay.sources import open_sources, prepare
from lab.runs.resume import environment, made_on, require_same_arguments
from lab.runs.tables import read_table, write_points
from lab.studies.latency.bench import Sample
from lab.studies.latency.request import Cell, LatencyPlan, LatencyRequest, plan_latency
from lab.studies.latency.work import Job, Measured, measure, measure_cold

KIND, VERSION = "lab.studies.latency", 1
# Differs from the kind of a replay's timings, which have other columns (:mod:`lab.runs.tables`).
SAMPLES = f"{KIND}.samples"


@dataclass(frozen=True, slots=True)
class Folder:
    """A measurement on disk."""

    path: Path
    manifest: dict[str, Any]

    def samples(self, cell: Cell) -> Path:
        """Return the path for a cell's samples."""
        return self.path / "samples" / f"{cell.name}.parquet"


def run_latency(asked: LatencyRequest, out: Path, *, announce: Announce = silent) -> tuple[Folder, list[Measured]]:
    """Measure into ``out``, or resume there; return all cells in order.

    ``announce`` must be picklable.
    """
    measurement = plan_latency(asked)
    folder = create_or_resume(out, measurement)
    missing = [cell for cell in measurement.cells if not folder.samples(cell).is_file()]
    if missing:
        prepare(measurement.plan, measurement.plan.recordings, open_sources(measurement.plan), announce)
    for cell in missing:
        work = out / f"work-{os.getpid()}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            write_cell(_measured(Job(measurement, cell, work, announce)), folder.samples(cell))
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder, [read_cell(folder.samples(cell)) for cell in measurement.cells]


def create_or_resume(path: Path, measurement: LatencyPlan) -> Folder:
    """Create the folder for these arguments, or open an existing one with the same arguments.

    Raises :class:`lab.base.errors.OtherArguments` naming what differs, and :class:`UnusableInput` for a folder that
    holds something else.
    """
    roots = ("lab.studies.latency.run", *measurement.plan.code_roots())
    resolved = measurement.resolved() | made_on(*roots)
    manifest_path = path / "manifest.json"
    for folder in (path, path / "samples", path / "figures"):
        remove_leftovers(folder)
    for left in path.glob("work-*"):
        owner = left.name.removeprefix("work-")
        if owner.isdigit() and not alive(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    if manifest_path.exists():
        manifest = read_json(manifest_path)
        if not isinstance(manifest, dict) or manifest.get("kind") != KIND or manifest.get("schema_version") != VERSION:
            raise UnusableInput(f"{path}: not a latency measurement of this version; choose another --out")
        kept = field(manifest, "resolved", dict, str(manifest_path))
        require_same_arguments(path, kept, resolved, "remove the folder")
        return Folder(path, manifest)
    if path.exists() and (not path.is_dir() or any(not child.name.endswith(".part") for child in path.iterdir())):
        raise UnusableInput(f"{path}: exists and holds something else; choose another --out")
    manifest = {
        "kind": KIND,
        "schema_version": VERSION,
        "run_key": digest(resolved),
        "asked": asdict(measurement.asked),
        "resolved": resolved,
        "environment": to_json(environment(*roots)) | {"cores": os.cpu_count()},
    }
    write_atomically(manifest_path, dump_json(manifest))
    return Folder(path, manifest)


def write_cell(measured: Measured, path: Path) -> None:
    """Write a cell's samples and facts in one file."""
    numbers = [name for name, kind in get_type_hints(Sample).items() if kind is int]
    about = {"kind": SAMPLES, "schema_version": str(VERSION), "about": json.dumps(measured.about)}
    write_points(Sample, measured.samples, path, wide=numbers, **about)


def read_cell(path: Path) -> Measured:
    """Read a cell; raise :class:`CannotMeasure` for a damaged file."""
    table = read_table(path)
    about = (table.schema.metadata or {}).get(b"about")
    if about is None or table.column_names != list(Sample._fields):
        raise CannotMeasure(f"{path}: not a file of samples; delete it and run the same command again")
    return Measured([Sample(**row) for row in table.to_pylist()], json.loads(about))


def _measured(job: Job) -> Measured:
    """Measure a cell with its cold turns, arms interleaved as in warm turns."""
    samples, about = _apart(measure, job)
    asked = job.measurement.asked
    if job.cell.kind != "size" or "lancedb" not in asked.stores or not asked.cold:
        return Measured(samples, about)
    # A system's own table cannot be reopened in another process.
    arms = [number for number, arm in enumerate(job.measurement.plan.arms) if arm.name not in about["alone"]]
    residents: list[dict[str, Any]] = []
    progress = Progress(asked.cold)
    for turn in range(asked.cold):
        job.announce(progress.begin(f"{job.cell.value} memories: fresh processes of each arm"))
        for arm in arms if turn % 2 == 0 else reversed(arms):
            cold, noted = _apart(measure_cold, job, arm, turn)
            samples += cold
            residents.append({"arm": job.measurement.plan.arms[arm].name, **noted["resident"]})
        progress.next("")
    return Measured(samples, about | {"cold": residents})


def _apart(work: Callable[..., Measured], job: Job, *others: int) -> Measured:
    """Run a function in a fresh process."""
    with worker_pool(1) as pool:
        try:
            return pool.submit(work, job, *others).result()
        except BrokenProcessPool:
            raise CannotMeasure(
                f"{job.cell.name}: its process was killed, perhaps out of memory; finished cells are kept, "
                "run the same command again to resume"
            ) from None
        except LabError:
            raise
        except Exception as error:
            # Any exception, such as a full disk, must leave the finished cells usable.
            raise CannotMeasure(
                f"{job.cell.name}: {describe_unexpected(error)}; finished cells are kept, run the same command again"
            ) from error
