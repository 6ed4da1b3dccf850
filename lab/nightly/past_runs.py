"""The nightly runs before one, and what changed from each to the next, for its page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import LabError, UnusableInput
from lab.base.files import file_name, read_json
from lab.gate.line import ERROR, FAIL, GRAVITY, INCONCLUSIVE
from lab.nightly.nightly_folder import KIND, PAGE, RESULT
from lab.nightly.trend import Point, Series, history, moved_between, read_store, step_record
from lab.runs.directory import RunDirectory, open_run

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
        is_ours = isinstance(result, dict) and result.get("schema") == KIND and result.get("plan") == plan
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
