"""The history of nightly runs: every measure of every arm, in one Parquet file per nightly run and set.

A repeated nightly run replaces its own file, so it is never counted twice. Files are written atomically, so two nightly
runs may write to one store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.columns import numbers, strings
from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest, file_name, remove_leftovers
from lab.base.shape import to_json
from lab.compare.statistics import clustered
from lab.compare.steps import Step, steps
from lab.measures.score import headlines
from lab.runs.directory import RunDirectory
from lab.runs.scores import Scores
from lab.runs.tables import read_table, write_table

KIND, VERSION = "lab.trend", "1"
# Larger than any mean of a measure, and than a chart can show.
MOST = 1e15


class Point(NamedTuple):
    """One measure of one arm in one nightly run.

    ``primary`` marks the measures declared beforehand. The fields from ``lab`` on could explain a changed value.
    """

    date: str
    plan: str
    set: str
    arm: str
    measure: str
    primary: bool
    mean: float
    n: int
    conversations: int
    standard_error: float | None
    verdict: str
    lab: str
    commit: str | None
    code: str | None
    versions: str
    arm_key: str
    comparable_key: str


class Series(NamedTuple):
    """One measure of one arm of one set of one plan over the nightly runs, with its steps.

    ``set`` is the name of the set, with that of the plan before it if several plans have a set of that name.
    """

    set: str
    arm: str
    measure: str
    points: tuple[Point, ...]
    steps: tuple[Step, ...]


_KINDS = {"primary": "int8", "mean": "float64", "n": "int32", "conversations": "int32", "standard_error": "float64"}


def points_of(run: RunDirectory, scores: Scores, *, date: str, plan: str, name: str, verdict: str) -> list[Point]:
    """Return the points that a run adds to the history: means, with standard errors clustered by conversation."""
    resolved, environment = run.manifest.resolved, run.manifest.environment
    first = headlines(run.cutoff)
    components = {"embedder": resolved.embedder_model, **environment.packages}
    versions = "; ".join(f"{package} {version or 'none'}" for package, version in components.items())
    arm_keys = {arm.name: digest(to_json(arm)) for arm in resolved.arms}
    points = []
    for arm in run.arms:
        for measure, (_, conversations, values) in scores.of_arm(arm).items():
            groups: dict[str, list[float]] = {}
            for conversation, value in zip(conversations, values, strict=True):
                groups.setdefault(conversation, []).append(value)
            estimate = clustered(groups)
            points.append(
                Point(
                    date,
                    plan,
                    name,
                    arm,
                    measure,
                    measure in first,
                    estimate.mean,
                    len(values),
                    len(groups),
                    estimate.standard_error,
                    verdict,
                    resolved.lab,
                    environment.commit,
                    environment.code,
                    versions,
                    arm_keys[arm],
                    run.manifest.comparable_key,
                )
            )
    return points


def append(store: Path, points: Sequence[Point]) -> Path:
    """Add one set of a nightly run to the store, or replace its earlier result; return the file."""
    import pyarrow as pa

    first = points[0]
    path = store / f"{first.date}-{file_name(f'{first.plan}-{first.set}')}.parquet"
    remove_leftovers(store)
    columns = dict(zip(Point._fields, zip(*points, strict=True), strict=True))
    table = pa.table(
        {name: numbers(values, _KINDS[name]) if name in _KINDS else strings(values) for name, values in columns.items()}
    )
    write_table(table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION}), path)
    return path


def read_store(store: Path) -> list[Point]:
    """Return every point of a store, by nightly run.

    Raises :class:`UnusableInput` for an empty store, and :class:`CannotMeasure` for a mean that no measure can have.
    """
    files = sorted(store.glob("*.parquet"))
    if not files:
        raise UnusableInput(f"{store}: holds no nightly runs; `lab nightly run` writes them")
    points = []
    for file in files:
        for row in read_table(file, Point._fields).to_pylist():
            if not all(abs(row[name]) <= MOST for name in ("mean", "standard_error") if row[name] is not None):
                raise CannotMeasure(f"{file}: damaged (impossible mean or standard error of {row['measure']})")
            points.append(Point(**row | {"primary": bool(row["primary"])}))
    return points


def history(
    points: Sequence[Point], *, measures: Sequence[str] = (), arms: Sequence[str] = (), sets: Sequence[str] = ()
) -> list[Series]:
    """Return the selected series, each with its steps; the default measures are the primary ones.

    Raises :class:`UnusableInput` for a measure, an arm or a set that the history does not have.
    """
    for field, selected in (("measure", measures), ("arm", arms), ("set", sets)):
        known = sorted({getattr(point, field) for point in points})
        for name in selected:
            if name not in known:
                raise UnusableInput(f"no {field} {name!r} in this history; it has: {', '.join(known)}")
    # A measure that is primary in one nightly run is shown for all.
    shown = set(measures) or {point.measure for point in points if point.primary}
    groups: dict[tuple[str, str, str, str], list[Point]] = {}
    plans: dict[str, set[str]] = {}
    for point in points:
        plans.setdefault(point.set, set()).add(point.plan)
        if point.measure in shown and (not arms or point.arm in arms) and (not sets or point.set in sets):
            groups.setdefault((point.plan, point.set, point.arm, point.measure), []).append(point)
    series = []
    for (plan, bare, arm, measure), members in groups.items():
        name = bare if len(plans[bare]) == 1 else f"{plan}/{bare}"
        kept = sorted((point for point in members if math.isfinite(point.mean)), key=lambda point: point.date)
        # The history holds only results that a second replay reproduced, so values are exact.
        found = steps([point.mean for point in kept], exact=True)
        series.append(Series(name, arm, measure, tuple(kept), tuple(found)))
    return series


def step_record(series: Series, step: Step) -> dict[str, Any]:
    """Return a step as plain values, with the nightly runs on both sides and what changed between them."""
    last, first = series.points[step.at - 1], series.points[step.at]
    return {
        "set": series.set,
        "arm": series.arm,
        "measure": series.measure,
        "last": last.date,
        "first": first.date,
        "before": step.before,
        "after": step.after,
        "moved": moved_between(last, first),
    }


def moved_between(last: Point, first: Point) -> list[str]:
    """Return what differs between two nightly runs of an arm that could explain another value."""
    changes = [
        f"{name} {_short(old)} -> {_short(new)}"
        for name, old, new in (
            ("lab", last.lab, first.lab),
            ("commit", last.commit, first.commit),
            ("code", last.code, first.code),
        )
        if old != new
    ]
    versions = zip(last.versions.split("; "), first.versions.split("; "), strict=False)
    changes += [f"{old} -> {new}" for old, new in versions if old != new]
    if last.arm_key != first.arm_key:
        changes.append("the arm's configuration")
    if last.comparable_key != first.comparable_key:
        changes.append("recordings, gold or labels")
    return changes


def _short(value: str | None) -> str:
    return "none" if value is None else value[:12]
