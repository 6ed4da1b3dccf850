"""The history of nightly runs: what every measure of every arm was, a Parquet file a nightly run and set.

A nightly run that is repeated replaces its own file, so that the history never counts it twice. Files are whole or
absent, so that two nightly runs may write one store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.columns import numbers, strings
from lab.compare.statistics import clustered
from lab.compare.steps import Step, steps
from lab.errors import CannotMeasure, UnusableInput
from lab.files import digest, remove_leftovers
from lab.measures.score import headlines
from lab.runs.directory import RunDirectory, file_name
from lab.runs.records import to_json
from lab.runs.scores import Scores
from lab.runs.tables import read_table, write_table

KIND, VERSION = "lab.trend", "1"
# What no mean of a measure comes near to, and no chart can be drawn of.
MOST = 1e15


class Point(NamedTuple):
    """One measure of one arm on one nightly run.

    ``primary`` are the measures that were declared beforehand. From ``lab`` on: what could explain another value.
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
    """One measure of one arm of one set of one plan over the nightly runs, and where it stepped.

    ``set`` is the name of the set, with that of the plan before it where several plans have one of that name.
    """

    set: str
    arm: str
    measure: str
    points: tuple[Point, ...]
    steps: tuple[Step, ...]


_KINDS = {"primary": "int8", "mean": "float64", "n": "int32", "conversations": "int32", "standard_error": "float64"}


def points_of(run: RunDirectory, scores: Scores, *, date: str, plan: str, name: str, verdict: str) -> list[Point]:
    """What a nightly run's run adds to the history: means over all places, with errors clustered by conversation."""
    resolved, environment = run.manifest.resolved, run.manifest.environment
    first = headlines(run.cutoff)
    known = {"embedder": resolved.embedder_model, **environment.packages}
    versions = "; ".join(f"{package} {found or 'none'}" for package, found in known.items())
    arm_keys = {arm.name: digest(to_json(arm)) for arm in resolved.arms}
    found = []
    for arm in run.arms:
        for measure, (_, conversations, values) in scores.of_arm(arm).items():
            groups: dict[str, list[float]] = {}
            for conversation, value in zip(conversations, values, strict=True):
                groups.setdefault(conversation, []).append(value)
            estimate = clustered(groups)
            found.append(
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
    return found


def append(store: Path, points: Sequence[Point]) -> Path:
    """Add one nightly run of one set to the store, or replace what that nightly run had; return the file."""
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
    """Every point of a store, night by night; :class:`UnusableInput` where there is none.

    Raises :class:`CannotMeasure` for a mean that none of the lab's measures can have.
    """
    files = sorted(store.glob("*.parquet"))
    if not files:
        raise UnusableInput(f"{store}: holds no nightly runs; `lab nightly` writes them")
    found = []
    for file in files:
        for row in read_table(file, Point._fields).to_pylist():
            if not all(abs(row[name]) <= MOST for name in ("mean", "standard_error") if row[name] is not None):
                raise CannotMeasure(f"{file}: damaged (a mean or an error of {row['measure']} is no such number)")
            found.append(Point(**row | {"primary": bool(row["primary"])}))
    return found


def history(
    points: Sequence[Point], *, measures: Sequence[str] = (), arms: Sequence[str] = (), sets: Sequence[str] = ()
) -> list[Series]:
    """The series that were asked for (of measures the primary ones by default), each with its steps.

    Raises :class:`UnusableInput` for a measure, an arm or a set that the history does not have.
    """
    for what, wanted in (("measure", measures), ("arm", arms), ("set", sets)):
        known = sorted({getattr(point, what) for point in points})
        for one in wanted:
            if one not in known:
                raise UnusableInput(f"no {what} {one!r} in this history; it has: {', '.join(known)}")
    # A measure that is primary on one nightly run is shown on all.
    shown = set(measures) or {point.measure for point in points if point.primary}
    found: dict[tuple[str, str, str, str], list[Point]] = {}
    plans: dict[str, set[str]] = {}
    for point in points:
        plans.setdefault(point.set, set()).add(point.plan)
        if point.measure in shown and (not arms or point.arm in arms) and (not sets or point.set in sets):
            found.setdefault((point.plan, point.set, point.arm, point.measure), []).append(point)
    series = []
    for (plan, bare, arm, measure), own in found.items():
        name = bare if len(plans[bare]) == 1 else f"{plan}/{bare}"
        own = sorted(own, key=lambda point: point.date)
        kept = [point for point in own if math.isfinite(point.mean)]
        # A nightly run is kept where its replay reproduced itself alone.
        series.append(Series(name, arm, measure, tuple(kept), tuple(steps([one.mean for one in kept], exact=True))))
    return series


def told_step(series: Series, step: Step) -> dict[str, Any]:
    """A step with the nightly runs on either side of it, and what moved between them."""
    last, first = series.points[step.at - 1], series.points[step.at]
    return {
        "set": series.set,
        "arm": series.arm,
        "measure": series.measure,
        "last": last.date,
        "first": first.date,
        "before": step.before,
        "after": step.after,
        "moved": _moved(last._asdict(), first._asdict()),
    }


def _moved(last: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    told = [
        f"{name} {_short(last[name])} -> {_short(first[name])}"
        for name in ("lab", "commit", "code")
        if last[name] != first[name]
    ]
    now = first["versions"].split("; ")
    told += [f"{one} -> {two}" for one, two in zip(last["versions"].split("; "), now, strict=False) if one != two]
    if last["arm_key"] != first["arm_key"]:
        told.append("the arm's configuration")
    if last["comparable_key"] != first["comparable_key"]:
        told.append("recordings, gold or labels")
    return told


def _short(value: str | None) -> str:
    return "none" if value is None else value[:12]
