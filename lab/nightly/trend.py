"""The history of nightly runs: every measure of every arm, in one Parquet file per nightly run and set.

A repeated nightly run replaces its own file, so it is never counted twice. Files are written atomically, so two nightly
runs may write to one store.

The page of a nightly run shows the ones before it, and what changed from each to the next (:class:`Past`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.columns import numbers, strings
from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import digest, file_name, read_json, remove_leftovers
from lab.base.formatting import choices
from lab.base.shape import to_json
from lab.compare.comparable import equal_in
from lab.compare.statistics import clustered
from lab.compare.steps import Step, steps
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE
from lab.measures.score import headlines
from lab.nightly.nightly_folder import KIND as NIGHTLY_RUN
from lab.nightly.nightly_folder import PAGE, RESULT
from lab.runs.directory import RunDirectory, open_run
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
    equal = equal_in(run)
    points = []
    for arm in run.arms:
        for measure, (_, conversations, values) in scores.of_arm(arm).items():
            groups: dict[str, list[float]] = {}
            for conversation, value in zip(conversations, values, strict=True):
                groups.setdefault(equal.get(conversation, conversation), []).append(value)
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
                raise UnusableInput(f"no {field} {name!r} in this history; {choices(name, known, 'it has')}")
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


# What a page shows of a long history: the last nightly runs.
SHOWN = 60


class PastRun(NamedTuple):
    """One nightly run of a plan.

    ``link`` is the path of its page from the folder of the page that shows it, ``failing`` are the rules that decided
    unless it passed, ``moved`` is what differs from the run before, ``steps`` are the indices of the steps that begin
    with it.
    """

    date: str
    status: str
    link: str | None
    commit: str | None
    failing: Sequence[str]
    moved: Sequence[str]
    steps: Sequence[int]


class Past(NamedTuple):
    """The history of a plan, oldest first: nightly runs, series of the primary measures, and their steps."""

    shown: Sequence[PastRun]
    series: Sequence[Series]
    steps: Sequence[dict[str, Any]]
    left_out: int = 0


def past_of(store: Path | None, plan: str, folder: Path, result: dict[str, Any] | None = None) -> Past:
    """Return the history of a plan, from the store and from the folders beside ``folder``.

    ``result`` is that of the nightly run in ``folder``, as in nightly.json. The store has the measures; an error has
    none, so it is found by its folder alone.
    """
    points = [point for point in _points(store) if point.plan == plan]
    series = history(points) if points else []
    steps = sorted(
        (step_record(line, step) for line in series for step in line.steps),
        key=lambda step: (step["first"], step["set"]),
    )
    by_date: dict[str, list[Point]] = {}
    for point in points:
        by_date.setdefault(point.date, []).append(point)
    folders = _folders(plan, folder)
    if result is not None:
        folders[result["date"]] = (folder.absolute(), result)
    shown: list[PastRun] = []
    before: list[Point] = []
    for date in sorted(by_date.keys() | folders.keys()):
        mine = by_date.get(date, [])
        status = min((point.verdict for point in mine), key=GRAVITY.index, default=ERROR)
        link, failing = None, []
        if date in folders:
            at, known = folders[date]
            link = Path(os.path.relpath(at / PAGE, folder)).as_posix()
            status, failing = known["status"], _failing(known)
        commit = next((point.commit for point in mine), None)
        begun = [number for number, step in enumerate(steps) if step["first"] == date]
        shown.append(PastRun(date, status, link, commit, failing, _moved(before, mine), begun))
        before = mine or before
    return Past(shown[-SHOWN:], series, steps, max(0, len(shown) - SHOWN))


def earlier_runs(
    folder: Path, plan: str, name: str, date: str, since: str | None
) -> Iterator[tuple[str, RunDirectory]]:
    """Yield the runs of a set in the nightly runs beside ``folder`` before a date, oldest first.

    Both the run of the set and the one of what its snapshot lacks, but none before ``since``, of a set with an error,
    or that cannot be read.
    """
    for day, (at, result) in sorted(_folders(plan, folder).items()):
        entry = next((entry for entry in result["sets"] if entry.get("name") == name), None)
        if not (since or "") <= day < date or entry is None or entry.get("status") == ERROR:
            continue
        for part in (("run",), ("since", "run")):
            with suppress(LabError):
                yield day, open_run(at.joinpath("sets", file_name(name), *part))


def _points(store: Path | None) -> list[Point]:
    try:
        return read_store(store) if store is not None else []
    except UnusableInput:
        return []


def _folders(plan: str, folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return the folder and result of every finished nightly run of a plan beside ``folder``, the last of each date."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(folder.absolute().parent.glob(f"*/{RESULT}"), key=lambda path: path.stat().st_mtime_ns):
        try:
            result = read_json(path)
        except UnusableInput:
            continue
        is_ours = isinstance(result, dict) and result.get("schema") == NIGHTLY_RUN and result.get("plan") == plan
        if is_ours and result.get("status") in GRAVITY and isinstance(result.get("date"), str):
            found[result["date"]] = (path.parent, result)
    return found


def _failing(result: dict[str, Any]) -> list[str]:
    """Return what decided a nightly run that did not pass, as ``SET: RULE``."""
    if result["status"] not in (ERROR, FAIL, INCONCLUSIVE):
        return []
    return [
        f"{part['name']}: {line['reason']}"
        for part in result["sets"]
        for line in part["verdict"]["lines"]
        if line["critical"] and line["status"] == result["status"]
    ]


def _moved(before: Iterable[Point], after: Iterable[Point]) -> list[str]:
    """Return what differs between two nightly runs, each difference once."""
    old = {(point.set, point.arm): point for point in before}
    changes: dict[str, None] = {}
    seen = set()
    for point in after:
        key = (point.set, point.arm)
        if key in old and key not in seen:
            seen.add(key)
            for change in moved_between(old[key], point):
                named = change if " -> " in change else f"{change} ({point.arm} in {point.set})"
                changes[named] = None
    return list(changes)
